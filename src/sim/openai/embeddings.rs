//! `/v1/embeddings`: texts that share words point the same way.
use aconite_dialects::conversation::{Fields, Problem, parse};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::sim::{
    reply::Reply,
    vectors::{embed, tokens},
};

/// Tokens that one text may have, and all texts of a request together, and how many texts.
const MOST_TOKENS: u64 = 8_192;
const MOST_TOKENS_IN_ALL: u64 = 300_000;
const MOST_INPUTS: usize = 2_048;

#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Floats(Vec<f32>),
    /// Little-endian 32-bit floats.
    Base64(String),
}

pub(super) fn answer(body: &[u8]) -> Result<Reply, Refusal> {
    let document = parse(body)?;
    let request = Fields::root(&document)?;
    let model = request.required_string("model")?;
    let full = if model.contains("large") { 3_072 } else { 1_536 };
    let dimensions = request.integer("dimensions", 1, full)?.unwrap_or(full) as usize;
    let base64 = match request.string("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let problem = Problem::NotOneOf { possible: &["float", "base64"], got: other.to_owned() };
            return Err(request.error("encoding_format", problem).into());
        }
    };
    let inputs = inputs(&request.require("input")?.json().value())?;
    let count = checked_tokens(&inputs)?;
    let embed = |(index, input): (usize, &Vec<String>)| {
        let floats = embed(input, full as usize, dimensions);
        let embedding = if base64 { Vector::Base64(encode(&floats)) } else { Vector::Floats(floats) };
        Embedding { object: "embedding", index, embedding }
    };

    #[derive(Serialize)]
    struct List<'a> {
        object: &'static str,
        data: Vec<Embedding>,
        model: &'a str,
        usage: Value,
    }
    let data = inputs.iter().enumerate().map(embed).collect();
    let usage = json!({"prompt_tokens": count, "total_tokens": count});
    Ok(Reply::generated(&List { object: "list", data, model: &model, usage }))
}

/// Each text's tokens: of a text, of a list of texts, of a list of token numbers, or of a list of such lists.
fn inputs(input: &Value) -> Result<Vec<Vec<String>>, Refusal> {
    let invalid = || {
        let message = "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.";
        Refusal::bad(message, None, None)
    };
    let number = |token: &Value| token.as_u64().map(|token| token.to_string());
    let one = |item: &Value| match item {
        Value::String(text) => Some(tokens(text)),
        Value::Array(numbers) => numbers.iter().map(number).collect(),
        _ => None,
    };
    let inputs = match input {
        Value::Array(items) if items.first().is_some_and(Value::is_number) => {
            one(input).map(|tokens| vec![tokens])
        }
        Value::Array(items) => items.iter().map(one).collect(),
        Value::String(text) => Some(vec![tokens(text)]),
        _ => None,
    };
    let inputs = inputs.ok_or_else(invalid)?;
    let usable = (1..=MOST_INPUTS).contains(&inputs.len()) && inputs.iter().all(|tokens| !tokens.is_empty());
    usable.then_some(inputs).ok_or_else(invalid)
}

fn checked_tokens(inputs: &[Vec<String>]) -> Result<u64, Refusal> {
    let longest = inputs.iter().map(|tokens| tokens.len() as u64).max().unwrap_or(0);
    if longest > MOST_TOKENS {
        return Err(Refusal::bad(
            format!(
                "This model's maximum context length is {MOST_TOKENS} tokens, however you requested {longest} \
                 tokens ({longest} in your prompt; 0 for the completion). Please reduce your prompt; or \
                 completion length."
            ),
            None,
            None,
        ));
    }
    let all = inputs.iter().map(|tokens| tokens.len() as u64).sum();
    if all > MOST_TOKENS_IN_ALL {
        let message =
            format!("Invalid 'input': maximum request size is {MOST_TOKENS_IN_ALL} tokens per request.");
        return Err(Refusal::bad(message, Some("input"), Some("max_tokens_per_request")));
    }
    Ok(all)
}

fn encode(floats: &[f32]) -> String {
    STANDARD.encode(floats.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_little_endian_floats() {
        assert_eq!(encode(&[1.0, -2.0]), "AACAPwAAAMA=");
    }
}
