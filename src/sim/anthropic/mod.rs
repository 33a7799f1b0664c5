//! Anthropic's API: messages, token counts, models.
mod models;
mod refusal;

use std::sync::Arc;

use aconite_dialects::conversation::{ANTHROPIC, AnswerStart, Fields, parse};
use http::{HeaderName, Method, StatusCode, header::AUTHORIZATION};
use serde_json::json;

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    chat::{Speaker, check_choice, count},
    digest::Digest,
    provider::{Provider, Server},
    reply::Reply,
};

pub(super) static PROVIDER: Provider =
    Provider { name: "anthropic", is_model: true, start: || Arc::new(Anthropic) };

static MESSAGES: Speaker = Speaker {
    codec: ANTHROPIC,
    head: |request, digest| AnswerStart {
        id: digest.id("msg_01", 22),
        model: request.model.clone(),
        tier: Some("standard".to_owned()),
        ..AnswerStart::default()
    },
    call_id: |digest| digest.id("toolu_01", 22),
    talks_first: true,
    stream_type: "text/event-stream; charset=utf-8",
};

/// Requests and tokens per minute that the rate-limit headers speak of.
const LIMIT_REQUESTS: u64 = 4_000;
const LIMIT_INPUT_TOKENS: u64 = 2_000_000;
const LIMIT_OUTPUT_TOKENS: u64 = 400_000;
/// A fixed moment, so that answers do not change.
const RESET: &str = "2026-01-01T00:00:00Z";

#[derive(Debug)]
struct Anthropic;

impl Server for Anthropic {
    fn answer(&self, call: &Call, pace: &Pace) -> Reply {
        answer(call, pace)
    }

    fn refuse(&self, why: Unreadable) -> Reply {
        let request_id = Digest::of(b"unreadable").id("req_011C", 20);
        let reply = Refusal::unreadable(why).into_reply(&request_id);
        reply.with(HeaderName::from_static("request-id"), request_id)
    }
}

fn answer(call: &Call, pace: &Pace) -> Reply {
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
            let request = ANTHROPIC.read_request(&call.path, &call.body)?;
            Ok(Reply::json(StatusCode::OK, &json!({"input_tokens": count(&request)})))
        }
        _ => converse(call, pace),
    }
}

fn converse(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let request = ANTHROPIC.read_request(&call.path, &call.body)?;
    let document = parse(&call.body)?;
    let fields = Fields::root(&document)?;
    fields.require("max_tokens")?;
    fields.number("temperature", 0, 1)?;
    if let Some(choice) = fields.object("tool_choice")? {
        check_choice(&request, &choice, "name")?;
    }
    Ok(MESSAGES.reply(&request, call.digest(), pace))
}
