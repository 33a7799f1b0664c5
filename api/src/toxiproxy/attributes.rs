//! Attributes of toxics, as Toxiproxy reads and shows them.
use aconite_toxics::{Definition, ToxicSpec};
use serde_json::{Map, Value};

use super::{failure::Failure, read::mismatch};

/// Toxiproxy's own toxics and their attributes, in its order. All attributes are whole numbers.
const OWN: [(&str, &[&str]); 8] = [
    ("latency", &["latency", "jitter"]),
    ("bandwidth", &["rate"]),
    ("slow_close", &["delay"]),
    ("timeout", &["timeout"]),
    ("reset_peer", &["timeout"]),
    ("slicer", &["average_size", "size_variation", "delay"]),
    ("limit_data", &["bytes"]),
    ("noop", &[]),
];

/// Whether Toxiproxy has this type.
pub(super) fn is_own(kind: &str) -> bool {
    own(kind).is_some()
}

fn own(kind: &str) -> Option<&'static [&'static str]> {
    OWN.iter().find(|(name, _)| *name == kind).map(|(_, names)| *names)
}

/// A toxic's attributes as Toxiproxy shows them: of its own types, only what it knows itself.
pub(super) fn shown(toxic: &ToxicSpec) -> Map<String, Value> {
    let Some(names) = own(&toxic.kind) else { return toxic.attributes.clone() };
    let value = |name: &str| toxic.attributes.get(name).cloned().unwrap_or_else(|| 0.into());
    names.iter().map(|name| ((*name).to_owned(), value(name))).collect()
}

/// Puts given attributes over current ones. What is out of a toxic's range is moved to the nearest value within:
/// clients send it, and Toxiproxy refuses no value.
///
/// # Errors
/// If a value has the wrong type.
pub(super) fn merge(
    definition: &Definition,
    current: &mut Map<String, Value>,
    given: &Map<String, Value>,
) -> Result<(), Failure> {
    let schema = definition.schema();
    let Some(known) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (key, value) in given {
        let Some((name, property)) = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) else {
            continue;
        };
        if value.is_null() {
            continue;
        }
        let is_number = value.is_number() || is_own(definition.kind);
        let value =
            if is_number && is_integer(property) { within(property, name, value)? } else { value.clone() };
        current.insert(name.clone(), value);
    }
    Ok(())
}

fn is_integer(property: &Value) -> bool {
    match property.get("type") {
        Some(Value::String(kind)) => kind == "integer",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "integer"),
        _ => false,
    }
}

fn within(property: &Value, name: &str, value: &Value) -> Result<Value, Failure> {
    let number =
        value.as_i64().ok_or_else(|| mismatch(value, &format!("field attributes.{name}"), "int64"))?;
    let bound = |key| property.get(key).and_then(Value::as_i64);
    Ok(number.max(bound("minimum").unwrap_or(i64::MIN)).min(bound("maximum").unwrap_or(i64::MAX)).into())
}
