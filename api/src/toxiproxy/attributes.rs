//! Attributes of toxics, as Toxiproxy reads and shows them.
use aconite_toxics::{Catalogue, SpecError, ToxicSpec};
use serde_json::{Map, Value};

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

/// Puts the given toxic's attributes over those of another. A whole number below its attribute's least value becomes that:
/// clients send it, and Toxiproxy refuses no value.
///
/// # Errors
/// If a type is unknown.
pub(super) fn merge(spec: &mut ToxicSpec, given: &ToxicSpec, catalogue: &Catalogue) -> Result<(), SpecError> {
    let given = catalogue.lenient(given)?.attributes;
    let schema = catalogue.definition(&spec.kind)?.schema();
    let least = |name: &str| schema.pointer(&format!("/properties/{name}/minimum")).and_then(Value::as_i64);
    for (name, value) in given {
        let raised = value.as_i64().zip(least(&name)).map(|(value, least)| value.max(least));
        spec.attributes.insert(name, raised.map_or(value, Value::from));
    }
    Ok(())
}
