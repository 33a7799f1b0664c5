//! `/v1/embeddings`: texts that share words point the same way.
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::sim::{
    digest::Digest,
    fields::{Fields, Problem},
    reply::Reply,
    text,
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

pub(super) fn answer(body: &Value) -> Result<Reply, Refusal> {
    let request = Fields::root(body)?;
    let model = request.required_string("model")?;
    let full = if model.contains("large") { 3_072 } else { 1_536 };
    let dimensions = request.integer("dimensions", 1, full)?.unwrap_or(full) as usize;
    let base64 = match request.string("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let problem = Problem::NotOneOf { possible: &["float", "base64"], got: other.to_owned() };
            return Err(request.error("encoding_format", problem).into());
        }
    };
    let inputs = inputs(request.require("input")?)?;
    let tokens = checked_tokens(&inputs)?;
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
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Ok(Reply::generated(&List { object: "list", data, model, usage }))
}

/// Each text's tokens: of a text, of a list of texts, of a list of token numbers, or of a list of such lists.
fn inputs(input: &Value) -> Result<Vec<Vec<String>>, Refusal> {
    let invalid = || {
        let message = "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.";
        Refusal::bad(message, None, None)
    };
    let of_text =
        |text: &str| text::tokens(text).map(|token| token.trim().to_lowercase()).collect::<Vec<_>>();
    let number = |token: &Value| token.as_u64().map(|token| token.to_string());
    let one = |item: &Value| match item {
        Value::String(text) => Some(of_text(text)),
        Value::Array(tokens) => tokens.iter().map(number).collect(),
        _ => None,
    };
    let inputs = match input {
        Value::Array(items) if items.first().is_some_and(Value::is_number) => {
            one(input).map(|tokens| vec![tokens])
        }
        Value::Array(items) => items.iter().map(one).collect(),
        Value::String(text) => Some(vec![of_text(text)]),
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

/// A unit vector: the sum of a fixed random direction for each token. The first `dimensions` of `full` are kept.
fn embed(tokens: &[String], full: usize, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f32; dimensions];
    for token in tokens {
        let digest = Digest::of(token.as_bytes());
        // Punctuation says little about what a text is about.
        let weight = if token.chars().any(char::is_alphanumeric) { 1.0 } else { 0.1 };
        let signs =
            digest.numbers().take(full.div_ceil(64)).flat_map(|bits| (0..64).map(move |bit| bits >> bit & 1));
        for (value, sign) in sum.iter_mut().zip(signs) {
            *value += if sign == 1 { weight } else { -weight };
        }
    }
    let length = sum.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32;
    if length == 0.0 {
        sum[0] = 1.0;
        return sum;
    }
    sum.iter_mut().for_each(|value| *value /= length);
    sum
}

fn encode(floats: &[f32]) -> String {
    STANDARD.encode(floats.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(text: &str, dimensions: usize) -> Vec<f32> {
        embed(&inputs(&json!(text)).unwrap()[0], 1_536, dimensions)
    }

    fn cosine(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn shared_words_bring_texts_near() {
        let [cat, kitten, stock] = ["the cat sat on the mat", "a cat on a mat", "shares fell in Tokyo"]
            .map(|text| vector(text, 1_536));
        assert!(cosine(&cat, &kitten) > 0.35, "{}", cosine(&cat, &kitten));
        assert!(cosine(&cat, &stock).abs() < 0.2, "{}", cosine(&cat, &stock));
        let [question, about, other] = ["猫喜欢什么", "猫喜欢鱼", "股市下跌"].map(|text| vector(text, 1_536));
        assert!(cosine(&question, &about) > 0.5);
        assert!(cosine(&question, &other).abs() < 0.2);
    }

    #[test]
    fn every_vector_has_length_one() {
        for dimensions in [1, 2, 3, 256, 1_536] {
            for text in ["a", "a b", "...", " ", "the cat sat on the mat"] {
                let vector = vector(text, dimensions);
                assert_eq!(vector.len(), dimensions);
                assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-5, "{text} in {dimensions}");
            }
        }
    }

    #[test]
    fn base64_is_little_endian_floats() {
        assert_eq!(encode(&[1.0, -2.0]), "AACAPwAAAMA=");
    }
}
