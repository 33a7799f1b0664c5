//! Toxics that a request brings along in `x-aconite-toxic`, and their limits.
use std::{sync::Arc, time::Duration};

use aconite_toxics::{Catalogue, ConnectFault, Level, SpecError, ToxicSpec};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use crate::{
    http::{message::headers, proxy_error::ProxyError},
    plan::{Armed, Plan},
    site::Site,
};

/// The longest value of the header, in bytes.
const MAX_LENGTH: usize = 4 * 1024;
/// How deep names with dots may nest.
const MAX_DEPTH: usize = 8;
/// The longest list among the attributes, such as the `ops` of `edit`.
const MAX_ITEMS: usize = 16;
/// The longest time that an attribute may ask for.
const MAX_TIME: Duration = Duration::from_secs(60 * 60);

/// The toxic that a request brings along, where the proxy allows it: `x-aconite-toxic: fail; cause=rate_limit`.
///
/// A client must not reach further than the configuration, so the toxic cannot name an address, and what it may cost
/// is bounded.
///
/// # Errors
/// If the toxic is not valid, exceeds a limit, or cannot act on a single request.
pub(crate) fn toxic(site: &Site, headers: &HeaderMap, plan: &Plan) -> Result<Option<Arc<Armed>>, ProxyError> {
    if !site.spec.in_band || !plan.on {
        return Ok(None);
    }
    let mut values = headers.get_all(headers::IN_BAND).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let armed = match values.next() {
        Some(_) => Err("a request can bring only one toxic".to_owned()),
        None => read(value.as_bytes(), &site.catalogue),
    };
    armed.map(|armed| Some(Arc::new(armed))).map_err(|reason| {
        let text = format!("the header x-aconite-toxic: {reason}");
        ProxyError::new(StatusCode::BAD_REQUEST, "bad_toxic", text)
    })
}

fn read(value: &[u8], catalogue: &Catalogue) -> Result<Armed, String> {
    if value.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    let text = std::str::from_utf8(value).map_err(|_| "it is not plain text".to_owned())?;
    let mut parts = text.split(';').map(str::trim);
    let mut spec = ToxicSpec::new(parts.next().unwrap_or_default(), Map::new());
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once('=').ok_or_else(|| format!("`{part}` is not of the form name=value"))?;
        put(&mut spec.attributes, name.trim(), read_value(value.trim()), MAX_DEPTH)?;
    }
    let armed = Armed::new(&spec, catalogue).map_err(|SpecError { path, message, hint, .. }| {
        format!("{path}: {message}{}", hint.map_or_else(String::new, |hint| format!("; {hint}")))
    })?;
    check(&armed, catalogue)?;
    Ok(armed)
}

/// Puts a value where its name says; dots lead into objects, as on the command line.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value, depth: usize) -> Result<(), String> {
    let Some((outer, rest)) = name.split_once('.') else {
        fields.insert(name.to_owned(), value);
        return Ok(());
    };
    let depth = depth.checked_sub(1).ok_or_else(|| format!("more than {MAX_DEPTH} dots in one name"))?;
    let inner = fields.entry(outer).or_insert_with(|| Value::Object(Map::new()));
    let inner = inner.as_object_mut().ok_or_else(|| format!("`{outer}` has a value already"))?;
    put(inner, rest, value, depth)
}

/// JSON where it is JSON, else text.
fn read_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// What a toxic of the configuration may do, and one that a client brings may not.
fn check(armed: &Armed, catalogue: &Catalogue) -> Result<(), String> {
    let kind = &armed.spec.kind;
    if armed.level == Level::Bytes || armed.connect.is_some_and(|fault| !fault.is_of_upstream()) {
        return Err(format!("`{kind}` with these attributes acts on a whole connection, not on one request"));
    }
    if let Some(ConnectFault::StaleAddress(Some(_))) = armed.connect {
        let text = "`address` can only be set by the configuration or the admin API: leave it out";
        return Err(text.to_owned());
    }
    let schema = catalogue.definition(kind).map_err(|error| error.to_string())?.schema();
    for (name, value) in &armed.spec.attributes {
        let unit = schema.pointer(&format!("/properties/{name}/x-unit")).and_then(Value::as_str);
        let limit = match unit {
            Some("ms") => MAX_TIME.as_millis(),
            Some("us") => MAX_TIME.as_micros(),
            _ => u128::MAX,
        };
        if value.as_u64().is_some_and(|time| u128::from(time) > limit) {
            return Err(format!("`{name}`: at most 1h"));
        }
        if value.as_array().is_some_and(|items| items.len() > MAX_ITEMS) {
            return Err(format!("`{name}`: at most {MAX_ITEMS} items"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(value: &str) -> Option<String> {
        read(value.as_bytes(), &Catalogue::default()).err()
    }

    #[test]
    fn a_01_what_a_request_may_cost_is_bounded() {
        let ops = |count| {
            let op = r#"{"path":"$.a","set":1}"#;
            format!("edit; ops=[{}]", vec![op; count].join(","))
        };
        for allowed in ["delay; delay=1h", "hang; for=3600000", "cut; at.events=2", &ops(16)] {
            assert_eq!(refusal(allowed), None, "{allowed}");
        }
        let deep = format!("fail; status=500; body{}=1", ".a".repeat(9));
        let long = format!("fail; status=500; body={}", "x".repeat(MAX_LENGTH));
        for (refused, reason) in [
            ("delay; delay=3600001", "`delay`: at most 1h"),
            ("delay; delay=1s; jitter=2h", "`jitter`: at most 1h"),
            ("hang; for=1000h", "`for`: at most 1h"),
            ("slow_stream; between=2h", "`between`: at most 1h"),
            (&ops(17), "`ops`: at most 16 items"),
            (&deep, "more than 8 dots"),
            (&long, "longer than 4096 bytes"),
            ("connect; mode=stale_address; address=127.0.0.1", "`address` can only be set by"),
            ("connect; mode=stale_address; address=[::1]:80", "`address` can only be set by"),
        ] {
            let said = refusal(refused).unwrap_or_default();
            assert!(said.contains(reason), "{refused}: {said}");
        }
    }

    /// Whatever a client writes, and whatever the type, no toxic in band has an address or a time beyond the limit.
    #[test]
    fn a_01_every_time_of_every_toxic_has_a_limit() {
        for definition in Catalogue::default().definitions() {
            let schema = definition.schema();
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            for (name, _) in properties.iter().filter(|(_, property)| property.get("x-unit").is_some()) {
                let mut attributes = definition.example();
                attributes[name] = Value::from("2h");
                let spec = ToxicSpec::new(definition.kind, attributes.as_object().cloned().unwrap());
                let Ok(armed) = Armed::new(&spec, &Catalogue::default()) else { continue };
                assert!(check(&armed, &Catalogue::default()).is_err(), "{}: {name}", definition.kind);
            }
        }
    }
}
