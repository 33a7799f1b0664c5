//! Reading requests strictly: every complaint says which field, and what was meant.
use aconite_toxics::{SpecError, meant, plain_words};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{ControlError, Problem};

/// A request's body.
///
/// # Errors
/// 400 with the path of the field and, for a misspelt name, the nearest one.
pub(super) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would read an array as a struct's fields in order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::invalid("", "the body is not a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(complaint)?;
    json.end().map_err(|error| Problem::invalid("", error.to_string()))?;
    Ok(value)
}

/// A resource from JSON that has been read already, such as a configuration file's.
///
/// # Errors
/// With the path of the field and, for a misspelt name, the nearest one.
pub fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(complaint)
}

/// A request's body; an empty one counts as `{}`.
///
/// # Errors
/// As [`body`].
pub(super) fn optional_body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    body(if bytes.trim_ascii().is_empty() { b"{}" } else { bytes })
}

/// A request's query.
///
/// # Errors
/// 400 with the name of the parameter.
pub(super) fn query<T: DeserializeOwned>(query: Option<&str>) -> Result<T, Problem> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map_err(complaint)
}

/// A resource with a JSON merge patch (RFC 7396) applied.
///
/// # Errors
/// If what results is no such resource.
pub(super) fn merged<T: Serialize + DeserializeOwned>(
    resource: &T,
    patch: &Value,
) -> Result<T, ControlError> {
    let mut value =
        serde_json::to_value(resource).map_err(|error| ControlError::invalid("", error.to_string()))?;
    merge(&mut value, patch);
    read_value(value).map_err(|problem| SpecError::from(problem).into())
}

fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return value.clone_from(patch) };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = value.as_object_mut() else { return };
    for (key, change) in patch {
        if change.is_null() {
            fields.shift_remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), change);
        }
    }
}

fn complaint<E: std::fmt::Display>(error: serde_path_to_error::Error<E>) -> Problem {
    let path = error.path().to_string();
    let message = plain_words(error.into_inner().to_string());
    let hint = nearest(&message).or_else(|| lone_port(&path, &message));
    Problem { hint, ..Problem::invalid(if path == "." { "" } else { &path }, message) }
}

/// For a `listen` that is a port alone.
fn lone_port(path: &str, message: &str) -> Option<String> {
    let given = message.strip_prefix("invalid type: integer `")?.split('`').next()?;
    (path.rsplit('.').next() == Some("listen"))
        .then(|| format!("host and port, as text: `\"127.0.0.1:{given}\"`"))
}

/// The known name that is most like the unknown one that serde's message complains about.
pub(crate) fn nearest(message: &str) -> Option<String> {
    if !(message.starts_with("unknown field `") || message.starts_with("unknown variant `")) {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    Some(did_you_mean(meant(unknown, names)?))
}

/// The hint that names what was probably meant.
pub(crate) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Apply, ExchangeFilter, ProxySpec};

    #[test]
    fn complaints_name_the_field_and_the_nearest_name() {
        let problem = body::<Apply>(
            br#"{"proxies":[{"name":"a"},{"name":"b","toxics":[{"type":"latency","strem":"upstream"}]}]}"#,
        )
        .unwrap_err();
        assert_eq!(problem.path.as_deref(), Some("proxies[1].toxics[0].strem"));
        assert_eq!(problem.hint.as_deref(), Some("did you mean `stream`?"));
        let problem = body::<ProxySpec>(br#"{"name":1}"#).unwrap_err();
        assert_eq!(problem.path.as_deref(), Some("name"));
        let problem = body::<ProxySpec>(br#"{"protocol":"htp"}"#).unwrap_err();
        assert_eq!(problem.path.as_deref(), Some("protocol"));
        assert_eq!(problem.hint.as_deref(), Some("did you mean `http`?"));
        let problem = body::<ProxySpec>(br#"{"port":1}"#).unwrap_err();
        assert_eq!(problem.hint, None, "nothing is like it");
        let problem = query::<ExchangeFilter>(Some("statu=500")).unwrap_err();
        assert_eq!(problem.hint.as_deref(), Some("did you mean `status`?"));
        let problem = query::<ExchangeFilter>(Some("status=bad")).unwrap_err();
        assert_eq!(problem.path.as_deref(), Some("status"));
        assert_eq!(problem.message, "not a whole number from 0");
        let problem = query::<ExchangeFilter>(Some("status=99999")).unwrap_err();
        assert_eq!(problem.message, "too large a number");
        let problem = query::<ExchangeFilter>(Some("limit=")).unwrap_err();
        assert_eq!(problem.message, "not a whole number from 0");
        let problem = query::<crate::v1::presets::PresetFilter>(Some("dialect=klingon")).err().unwrap();
        assert!(
            problem.message.contains("klingon") && !problem.message.contains("number"),
            "{}",
            problem.message
        );
        let problem = body::<Apply>(br#"{"proxies":[{"name":"a","listen":8001}]}"#).unwrap_err();
        assert_eq!(problem.hint.as_deref(), Some("host and port, as text: `\"127.0.0.1:8001\"`"));
    }

    #[test]
    fn there_is_one_json_value_in_a_body() {
        for bad in ["", "{}{}", "{} x", "[]", "nul", "{\"name\":\"a\",\"name\":\"b\"}"] {
            assert!(body::<ProxySpec>(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(optional_body::<ProxySpec>(b" \n").is_ok());
    }

    /// The examples of RFC 7396, appendix A, that a resource can meet.
    #[test]
    fn patches_merge_as_rfc_7396_says() {
        for (original, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            let mut value = original.clone();
            merge(&mut value, &patch);
            assert_eq!(value, result, "{original} with {patch}");
        }
    }
}
