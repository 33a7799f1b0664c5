//! OpenAI, whose API many serve.

use super::{OPENAI_SHAPED, Provider};
use crate::{
    Cause, Finish, Operation,
    dialect::{Claim, RequestLine},
    embeddings::{Vectors, list},
    json::{Node, Splices},
    outcome::Sign::{Text, Word},
};

mod failure;
mod stream;

pub(super) use stream::{ALL as STREAMS, CHAT, RESPONSES};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("openai"),
    hosts: &["api.openai.com", "*.api.openai.com"],
    path: |asked| operation(asked).into(),
    failure: failure::failure,
    signs: &[
        (Text("request too large for"), Cause::RequestTooLargeForLimit),
        (Word("requests"), Cause::RateLimitRequests),
        (Word("rate_limit_exceeded"), Cause::RateLimitTokens),
        (Text("request timed out"), Cause::Timeout),
    ],
    ..OPENAI_SHAPED
};

/// What a path of OpenAI's API is for, whatever stands before it.
pub(super) fn operation(asked: &RequestLine<'_>) -> Option<Operation> {
    let tail = asked.tail();
    if asked.is_get() {
        return (tail.1 == "models").then_some(Operation::Models);
    }
    match tail {
        ("chat", "completions") => Some(Operation::Chat),
        (_, "completions") => Some(Operation::Completions),
        (_, "responses") => Some(Operation::Responses),
        (_, "embeddings") => Some(Operation::Embeddings),
        // llama.cpp and text-embeddings-inference, natively.
        ("", "embedding" | "embed") => Some(Operation::Embeddings),
        ("audio", "transcriptions" | "translations") => Some(Operation::Transcription),
        ("audio", "speech") => Some(Operation::Speech),
        ("images", "generations" | "edits" | "variations") => Some(Operation::Images),
        _ => None,
    }
}

/// As [`operation`], for paths that only this provider has.
pub(super) fn claim(asked: &RequestLine<'_>, is_own: bool) -> Claim {
    operation(asked).filter(|_| is_own).into()
}

/// `data[].embedding`; and the native forms of two servers: `[[…]]` of text-embeddings-inference, a list of objects with
/// `embedding`, which can be nested, of llama.cpp.
pub(super) fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    let own = list(root.get("data")).filter_map(|item| item.get("embedding"));
    let native = list(Some(root)).flat_map(|item| {
        let embedding = item.get("embedding").or(Some(item));
        embedding.into_iter().chain(list(embedding))
    });
    Vectors::floats(own.chain(native)).into_iter().collect()
}

/// A response of the Responses API does not say why it is complete; one that is not says why. Its last event is then of
/// another type.
pub(super) fn incomplete(root: Node<'_>, finish: Finish) -> Splices {
    let mut splices = Splices::new();
    let reason = match finish {
        Finish::Length => "max_output_tokens",
        Finish::ContentFilter => "content_filter",
        _ => return splices,
    };
    let response = root.get("response").unwrap_or(root);
    let completed = response.get("status").filter(|status| status.raw() == b"\"completed\"");
    let (Some(status), Some(_)) = (completed, response.get("output")) else { return splices };
    let details = format!("{{\"reason\":\"{reason}\"}}");
    match response.get("incomplete_details") {
        Some(known) => {
            splices.replace(status.span(), "\"incomplete\"");
            splices.replace(known.span(), details);
        }
        None => {
            splices.replace(status.span(), format!("\"incomplete\",\"incomplete_details\":{details}"));
        }
    }
    if let Some(kind) = root.get("type").filter(|kind| kind.raw() == b"\"response.completed\"") {
        splices.replace(kind.span(), "\"response.incomplete\"");
    }
    splices
}
