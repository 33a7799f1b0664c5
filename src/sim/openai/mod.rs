//! OpenAI's API: chat completions, responses, embeddings, models.
mod chat;
mod completion;
mod embeddings;
mod models;
mod refusal;
mod response;
mod responses;

use http::{HeaderName, Method, header::AUTHORIZATION};
use serde_json::Value;

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    reply::Reply,
};

/// When everything was created: a fixed moment (2026-01-01T00:00:00Z), so that answers do not change.
const CREATED: u64 = 1_767_225_600;

/// Requests and tokens per minute that the rate-limit headers speak of.
const LIMIT_REQUESTS: u64 = 10_000;
const LIMIT_TOKENS: u64 = 2_000_000;

pub(super) fn answer(call: &Call, pace: &Pace) -> Reply {
    let reply = respond(call, pace).unwrap_or_else(Refusal::into_reply);
    let spent = super::text::count(&String::from_utf8_lossy(&call.body));
    let remaining = LIMIT_TOKENS.saturating_sub(spent);
    let fixed: [(&'static str, String); 11] = [
        ("x-request-id", call.digest().hex("req_", 32)),
        ("openai-organization", "org-simulated".to_owned()),
        ("openai-project", "proj_simulated".to_owned()),
        ("openai-processing-ms", pace.ttft.as_millis().to_string()),
        ("openai-version", "2020-10-01".to_owned()),
        ("x-ratelimit-limit-requests", LIMIT_REQUESTS.to_string()),
        ("x-ratelimit-limit-tokens", LIMIT_TOKENS.to_string()),
        ("x-ratelimit-remaining-requests", (LIMIT_REQUESTS - 1).to_string()),
        ("x-ratelimit-remaining-tokens", remaining.to_string()),
        ("x-ratelimit-reset-requests", "6ms".to_owned()),
        ("x-ratelimit-reset-tokens", format!("{}ms", (LIMIT_TOKENS - remaining) * 60_000 / LIMIT_TOKENS)),
    ];
    fixed.into_iter().fold(reply, |reply, (name, value)| reply.with(HeaderName::from_static(name), value))
}

pub(super) fn refuse(why: Unreadable) -> Reply {
    Refusal::unreadable(why).into_reply()
}

fn respond(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let expected = match call.segments()[..] {
        ["v1", "chat", "completions"] | ["v1", "responses"] | ["v1", "embeddings"] => Method::POST,
        ["v1", "models"] | ["v1", "models", _] => Method::GET,
        _ => return Err(Refusal::unknown_route(call)),
    };
    if call.method != expected {
        return Err(Refusal::wrong_method(call, &expected));
    }
    if !call.has_header(AUTHORIZATION.as_str()) {
        return Err(Refusal::no_key());
    }
    match call.segments()[..] {
        ["v1", "models"] => Ok(models::list()),
        ["v1", "models", id] => Ok(models::retrieve(id)),
        ["v1", "embeddings"] => embeddings::answer(&body(call)?),
        ["v1", "responses"] => responses::answer(&body(call)?, call.digest(), pace),
        _ => chat::answer(&body(call)?, call.digest(), pace),
    }
}

fn body(call: &Call) -> Result<Value, Refusal> {
    serde_json::from_slice(&call.body).map_err(|_| Refusal::not_json())
}
