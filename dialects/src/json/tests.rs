//! Documents read and changed in place.
use serde_json::Value;

use super::*;

mod cases;
mod edits;
mod properties;

fn ops(ops: Value) -> Vec<Op> {
    serde_json::from_value(ops).unwrap()
}

fn edit(body: &str, edits: Value) -> Result<Option<String>, EditError> {
    let edited = apply(body.as_bytes(), &ops(edits))?;
    Ok(edited.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

fn edited(body: &str, edits: Value) -> String {
    edit(body, edits).unwrap().unwrap_or_else(|| body.to_owned())
}

fn member(body: &[u8], name: &str) -> Option<Span> {
    let Ok([span]) = members(body, [name]) else { return None };
    span
}
