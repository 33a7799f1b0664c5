//! Ollama's own API: chat, embeddings, models. No key is asked for.
mod models;
mod refusal;

use std::sync::Arc;

use aconite_dialects::conversation::{AnswerStart, Fields, Kind, OLLAMA, parse};
use http::{Method, StatusCode};
use serde_json::json;

use self::refusal::Refusal;
use super::{
    address::Pace,
    call::{Call, Unreadable},
    chat::Speaker,
    provider::{Provider, Server},
    reply::Reply,
    vectors::{embed, tokens},
};

pub(super) static PROVIDER: Provider =
    Provider { name: "ollama", is_model: true, start: || Arc::new(Ollama) };

const VERSION: &str = "0.12.6";

/// When everything was created: a fixed moment (2026-01-01T00:00:00Z), so that answers do not change.
const CREATED: u64 = 1_767_225_600;

/// The length of a vector, as of `nomic-embed-text`.
const DIMENSIONS: u64 = 768;

static CHAT: Speaker = Speaker {
    codec: OLLAMA,
    head: |request, _| AnswerStart {
        model: request.model.clone(),
        created: Some(CREATED),
        ..AnswerStart::default()
    },
    call_id: |digest| digest.id("call_", 8),
    talks_first: false,
    stream_type: "application/x-ndjson",
};

#[derive(Debug)]
struct Ollama;

impl Server for Ollama {
    fn answer(&self, call: &Call, pace: &Pace) -> Reply {
        respond(call, pace).unwrap_or_else(Refusal::into_reply)
    }

    fn refuse(&self, why: Unreadable) -> Reply {
        Refusal::unreadable(why).into_reply()
    }
}

fn respond(call: &Call, pace: &Pace) -> Result<Reply, Refusal> {
    match (&call.method, &call.segments()[..]) {
        (&Method::GET | &Method::HEAD, [""]) => Ok(Reply::text(StatusCode::OK, "Ollama is running")),
        (&Method::GET, ["api", "version"]) => Ok(Reply::json(StatusCode::OK, &json!({"version": VERSION}))),
        (&Method::GET, ["api", "tags"]) => Ok(models::list()),
        (&Method::POST, ["api", "show"]) => models::show(&call.body),
        (&Method::POST, ["api", "chat"]) => {
            let request = OLLAMA.read_request(&call.path, &call.body)?;
            Ok(CHAT.reply(&request, call.digest(), pace))
        }
        (&Method::POST, ["api", "embed"]) => embeddings(&call.body),
        (_, ["api", "version" | "tags" | "show" | "chat" | "embed"]) => Err(Refusal::wrong_method()),
        _ => Err(Refusal::unknown_route()),
    }
}

fn embeddings(body: &[u8]) -> Result<Reply, Refusal> {
    let document = parse(body)?;
    let request = Fields::root(&document)?;
    let model = request.required_string("model")?;
    let dimensions = request.integer("dimensions", 1, DIMENSIONS)?.unwrap_or(DIMENSIONS);
    let texts = match request.require("input")? {
        input if input.kind() == Kind::String => vec![input.string()?.into_owned()],
        _ => request.strings("input")?,
    };
    let texts: Vec<_> = texts.iter().map(|text| tokens(text)).collect();
    let vectors: Vec<_> =
        texts.iter().map(|words| embed(words, DIMENSIONS as usize, dimensions as usize)).collect();
    let count: usize = texts.iter().map(Vec::len).sum();
    Ok(Reply::generated(&json!({"model": model, "embeddings": vectors, "prompt_eval_count": count})))
}
