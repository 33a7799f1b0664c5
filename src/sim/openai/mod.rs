//! OpenAI's API: chat completions, responses, embeddings, models.
mod embeddings;
mod models;
mod refusal;

use std::sync::Arc;

use aconite_dialects::conversation::{AnswerStart, Fields, OPENAI_CHAT, OPENAI_RESPONSES, Request, parse};
use http::{HeaderName, Method, header::AUTHORIZATION};

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    chat::{Speaker, check_choice},
    digest::Digest,
    provider::{Provider, Server},
    reply::Reply,
};

pub(super) static PROVIDER: Provider =
    Provider { name: "openai", is_model: true, start: || Arc::new(OpenAi) };

/// When everything was created: a fixed moment (2026-01-01T00:00:00Z), so that answers do not change.
const CREATED: u64 = 1_767_225_600;

/// Requests and tokens per minute that the rate-limit headers speak of.
const LIMIT_REQUESTS: u64 = 10_000;
const LIMIT_TOKENS: u64 = 2_000_000;

static CHAT: Speaker = Speaker {
    codec: OPENAI_CHAT,
    head: |request, digest| AnswerStart {
        id: digest.id("chatcmpl-", 29),
        fingerprint: Some(Digest::of(request.model.as_bytes()).hex("fp_", 10)),
        ..head(request)
    },
    call_id: |digest| digest.id("call_", 24),
    talks_first: false,
    stream_type: "text/event-stream; charset=utf-8",
};

static RESPONSES: Speaker = Speaker {
    codec: OPENAI_RESPONSES,
    head: |request, digest| AnswerStart { id: digest.hex("resp_", 48), ..head(request) },
    ..CHAT
};

fn head(request: &Request) -> AnswerStart {
    let (model, tier) = (request.model.clone(), Some("default".to_owned()));
    AnswerStart { model, tier, created: Some(CREATED), ..AnswerStart::default() }
}

#[derive(Debug)]
struct OpenAi;

impl Server for OpenAi {
    fn answer(&self, call: &Call, pace: &Pace) -> Reply {
        answer(call, pace)
    }

    fn refuse(&self, why: Unreadable) -> Reply {
        Refusal::unreadable(why).into_reply()
    }
}

fn answer(call: &Call, pace: &Pace) -> Reply {
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
        ["v1", "embeddings"] => embeddings::answer(&call.body),
        ["v1", "responses"] => converse(&RESPONSES, call, pace),
        _ => converse(&CHAT, call, pace),
    }
}

fn converse(speaker: &Speaker, call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let request = speaker.codec.read_request(&call.path, &call.body)?;
    let document = parse(&call.body)?;
    let fields = Fields::root(&document)?;
    fields.number("temperature", 0, 2)?;
    fields.number("top_p", 0, 1)?;
    fields.integer("n", 1, 128)?;
    check_choice(&request, &fields, "tool_choice")?;
    Ok(speaker.reply(&request, call.digest(), pace))
}
