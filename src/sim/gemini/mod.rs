//! Gemini's API: generateContent, streamGenerateContent, countTokens, embeddings, models.
mod embeddings;
mod models;
mod refusal;

use std::sync::Arc;

use aconite_dialects::conversation::{AnswerStart, Fields, GEMINI, parse};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderName, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    chat::{Speaker, count},
    provider::{Provider, Server},
    reply::Reply,
};

pub(super) static PROVIDER: Provider =
    Provider { name: "gemini", is_model: true, start: || Arc::new(Gemini) };

static CHAT: Speaker = Speaker {
    codec: GEMINI,
    head: |request, digest| AnswerStart {
        id: digest.id("", 22),
        model: request.model.clone(),
        ..AnswerStart::default()
    },
    call_id: |digest| digest.id("", 8),
    talks_first: false,
    stream_type: "text/event-stream",
};

#[derive(Debug)]
struct Gemini;

impl Server for Gemini {
    fn answer(&self, call: &Call, pace: &Pace) -> Reply {
        let reply = respond(call, pace).unwrap_or_else(Refusal::into_reply);
        let timing = format!("gfet4t7; dur={}", pace.ttft.as_millis());
        reply.with(HeaderName::from_static("server-timing"), timing)
    }

    fn refuse(&self, why: Unreadable) -> Reply {
        Refusal::unreadable(why).into_reply()
    }
}

/// `models/MODEL:VERB`, or `models/MODEL` and `models`, below a version.
fn respond(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let [_version, "models", rest @ ..] = &call.segments()[..] else { return Err(Refusal::unknown_route()) };
    let name = percent_decode_str(rest.first().copied().unwrap_or_default()).decode_utf8_lossy();
    let (model, verb) = name.rsplit_once(':').map_or((&*name, None), |(model, verb)| (model, Some(verb)));
    let expected = if verb.is_some() { Method::POST } else { Method::GET };
    if rest.len() > 1 || call.method != expected {
        return Err(Refusal::unknown_route());
    }
    if !call.has_header("x-goog-api-key") && !call.has_header("authorization") && !has_key(&call.query) {
        return Err(Refusal::no_key());
    }
    match verb {
        None if rest.is_empty() => Ok(models::list()),
        None => Ok(models::retrieve(model)),
        Some("generateContent" | "streamGenerateContent") => converse(call, pace),
        Some("countTokens") => {
            let tokens = count(&GEMINI.read_request(&call.path, &call.body)?);
            let details = json!([{"modality": "TEXT", "tokenCount": tokens}]);
            Ok(Reply::json(StatusCode::OK, &json!({"totalTokens": tokens, "promptTokensDetails": details})))
        }
        Some("embedContent") => embeddings::one(&call.body),
        Some("batchEmbedContents") => embeddings::many(&call.body),
        Some(_) => Err(Refusal::unknown_route()),
    }
}

fn has_key(query: &str) -> bool {
    query.split('&').any(|pair| pair.strip_prefix("key=").is_some_and(|key| !key.is_empty()))
}

fn converse(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    let request = GEMINI.read_request(&call.path, &call.body)?;
    let document = parse(&call.body)?;
    if let Some(config) = Fields::google(&document)?.object("generationConfig")? {
        config.number("temperature", 0, 2)?;
        config.number("topP", 0, 1)?;
        config.integer("candidateCount", 1, 8)?;
    }
    if call.query.split('&').any(|pair| pair == "alt=sse") {
        return Ok(CHAT.reply(&request, call.digest(), pace));
    }
    // Without `alt=sse` a stream is a JSON array, which comes piece by piece.
    let framed =
        CHAT.reply_framed(&request, call.digest(), pace, "application/json; charset=UTF-8", |nth, frame| {
            let mut bytes = BytesMut::with_capacity(frame.data.len() + 3);
            bytes.put_slice(if nth == 0 { b"[" } else { b",\r\n" });
            bytes.put_slice(frame.data.as_bytes());
            bytes.freeze()
        });
    Ok(framed.ended_by(Bytes::from_static(b"]")))
}
