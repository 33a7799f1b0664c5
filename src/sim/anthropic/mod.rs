//! Anthropic's API: messages, token counts, models.
mod message;
mod messages;
mod models;
mod refusal;

use http::{HeaderName, Method, StatusCode, header::AUTHORIZATION};
use serde_json::{Value, json};

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    reply::Reply,
};

/// Requests and tokens per minute that the rate-limit headers speak of.
const LIMIT_REQUESTS: u64 = 4_000;
const LIMIT_INPUT_TOKENS: u64 = 2_000_000;
const LIMIT_OUTPUT_TOKENS: u64 = 400_000;
/// A fixed moment, so that answers do not change.
const RESET: &str = "2026-01-01T00:00:00Z";

pub(super) fn answer(call: &Call, pace: &Pace) -> Reply {
    let request_id = call.digest().id("req_011C", 20);
    let reply = respond(call, pace).unwrap_or_else(|refusal| refusal.into_reply(&request_id));
    let mut reply = reply
        .with(HeaderName::from_static("request-id"), request_id)
        .with(HeaderName::from_static("anthropic-organization-id"), "00000000-0000-4000-8000-000000000000");
    let limits = [
        ("requests", LIMIT_REQUESTS, LIMIT_REQUESTS - 1),
        ("tokens", LIMIT_INPUT_TOKENS + LIMIT_OUTPUT_TOKENS, LIMIT_INPUT_TOKENS + LIMIT_OUTPUT_TOKENS),
        ("input-tokens", LIMIT_INPUT_TOKENS, LIMIT_INPUT_TOKENS),
        ("output-tokens", LIMIT_OUTPUT_TOKENS, LIMIT_OUTPUT_TOKENS),
    ];
    for (what, limit, remaining) in limits {
        for (which, value) in
            [("limit", limit.to_string()), ("remaining", remaining.to_string()), ("reset", RESET.to_owned())]
        {
            let name = HeaderName::try_from(format!("anthropic-ratelimit-{what}-{which}"));
            reply = name.into_iter().fold(reply, |reply, name| reply.with(name, &value));
        }
    }
    reply
}

pub(super) fn refuse(why: Unreadable) -> Reply {
    let request_id = super::digest::Digest::of(b"unreadable").id("req_011C", 20);
    let reply = Refusal::unreadable(why).into_reply(&request_id);
    reply.with(HeaderName::from_static("request-id"), request_id)
}

fn respond(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let expected = match call.segments()[..] {
        ["v1", "messages"] | ["v1", "messages", "count_tokens"] => Method::POST,
        ["v1", "models"] | ["v1", "models", _] => Method::GET,
        _ => return Err(Refusal::unknown_route()),
    };
    if call.method != expected {
        return Err(Refusal::wrong_method(&expected));
    }
    if !call.has_header("x-api-key") && !call.has_header(AUTHORIZATION.as_str()) {
        return Err(Refusal::no_key());
    }
    if !call.has_header("anthropic-version") {
        return Err(Refusal::bad("anthropic-version: header is required"));
    }
    match call.segments()[..] {
        ["v1", "models"] => Ok(models::list()),
        ["v1", "models", id] => Ok(models::retrieve(id)),
        ["v1", "messages", _] => {
            let tokens = messages::count(&body(call)?)?;
            Ok(Reply::json(StatusCode::OK, &json!({"input_tokens": tokens})))
        }
        _ => messages::answer(&body(call)?, call.digest(), pace),
    }
}

fn body(call: &Call) -> Result<Value, Refusal> {
    serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad(format!("The request body is not valid JSON: {error}")))
}
