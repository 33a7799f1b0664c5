//! `embedContent` and `batchEmbedContents`.
use aconite_dialects::conversation::{Fields, parse};
use serde_json::json;

use super::refusal::Refusal;
use crate::sim::{
    reply::Reply,
    vectors::{embed, tokens},
};

const DIMENSIONS: u64 = 3_072;

pub(super) fn one(body: &[u8]) -> Result<Reply, Refusal> {
    let document = parse(body)?;
    let values = vector(&Fields::google(&document)?)?;
    Ok(Reply::generated(&json!({"embedding": {"values": values}})))
}

pub(super) fn many(body: &[u8]) -> Result<Reply, Refusal> {
    let document = parse(body)?;
    let requests = Fields::google(&document)?.objects("requests")?;
    let vectors = requests.iter().map(|request| Ok(json!({"values": vector(request)?})));
    let vectors = vectors.collect::<Result<Vec<_>, Refusal>>()?;
    Ok(Reply::generated(&json!({"embeddings": vectors})))
}

fn vector(request: &Fields<'_>) -> Result<Vec<f32>, Refusal> {
    let dimensions = request.integer("outputDimensionality", 1, DIMENSIONS)?.unwrap_or(DIMENSIONS);
    let mut words = Vec::new();
    for part in request.require("content")?.object()?.objects("parts")? {
        words.extend(tokens(&part.string("text")?.unwrap_or_default()));
    }
    Ok(embed(&words, DIMENSIONS as usize, dimensions as usize))
}
