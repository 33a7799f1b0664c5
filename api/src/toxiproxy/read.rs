//! Request bodies, read as Go's `encoding/json` reads them.
//!
//! Keys in any case, unknown ones ignored, `null` leaves what was there, the last of duplicate keys counts, only the
//! first JSON value is read. Whole numbers must be written as such. That is what Toxiproxy's clients have come to
//! rely on: .NET sends `Name`, Ruby `"enabled":null`, Java no content type that says JSON.
use serde_json::{Map, Value};

use super::error_response::ErrorResponse;

/// The first JSON value of a body.
///
/// # Errors
/// `bad request body: …`; for an empty body that ends in `EOF`.
pub(super) fn first_value(body: &[u8]) -> Result<Value, ErrorResponse> {
    let text = String::from_utf8_lossy(body);
    match serde_json::Deserializer::from_str(&text).into_iter().next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) if error.is_eof() => Err(ErrorResponse::bad_body("unexpected EOF")),
        Some(Err(error)) => Err(ErrorResponse::bad_body(error)),
        None => Err(ErrorResponse::bad_body("EOF")),
    }
}

/// The fields of a JSON object.
pub(super) struct Object(Map<String, Value>);

impl Object {
    /// An object, or `null` for an empty one.
    ///
    /// # Errors
    /// If it is anything else.
    pub(super) fn new(value: Value) -> Result<Self, ErrorResponse> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            Value::Null => Ok(Self(Map::new())),
            other => Err(mismatch(&other, "the body", "object")),
        }
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ErrorResponse> {
        self.read(key, "string", |value| value.as_str().map(str::to_owned))
    }

    /// A boolean.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ErrorResponse> {
        self.read(key, "bool", Value::as_bool)
    }

    /// A number that fits a 32-bit float.
    pub(super) fn float(&self, key: &str) -> Result<Option<f32>, ErrorResponse> {
        #[expect(clippy::cast_possible_truncation, reason = "toxicity is a 32-bit float in Toxiproxy")]
        let narrow = |wide: f64| Some(wide as f32).filter(|narrow| narrow.is_finite());
        self.read(key, "float32", |value| value.as_f64().and_then(narrow))
    }

    /// An object.
    pub(super) fn object(&self, key: &str) -> Result<Option<Map<String, Value>>, ErrorResponse> {
        self.read(key, "object", |value| value.as_object().cloned())
    }

    /// A list; anything else counts as none.
    pub(super) fn list(&self, key: &str) -> Vec<Value> {
        self.given(key).last().and_then(|(_, value)| value.as_array().cloned()).unwrap_or_default()
    }

    /// All fields that are not `null`, in order.
    fn given(&self, key: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter().filter(move |(name, value)| name.eq_ignore_ascii_case(key) && !value.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        kind: &str,
        decode: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, ErrorResponse> {
        self.given(key).try_fold(None, |_, (_, value)| {
            decode(value).map(Some).ok_or_else(|| mismatch(value, &format!("field {key}"), kind))
        })
    }
}

/// A value of the wrong type, in words like Go's.
pub(super) fn mismatch(value: &Value, place: &str, expected: &str) -> ErrorResponse {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) => format!("number {number}"),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    ErrorResponse::bad_body(format!("json: cannot unmarshal {found} into {place} of type {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str) -> Object {
        Object::new(first_value(json.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn only_the_first_value_is_read() {
        assert_eq!(first_value(b" {\"a\":1} trailing").unwrap(), serde_json::json!({"a": 1}));
        assert_eq!(first_value(b"{}{}").unwrap(), serde_json::json!({}));
    }

    #[test]
    fn keys_match_in_any_case_and_the_last_one_counts() {
        assert_eq!(object(r#"{"NAME":"a","name":"b"}"#).text("name").unwrap(), Some("b".to_owned()));
        assert_eq!(object(r#"{"name":"a","name":"b"}"#).text("name").unwrap(), Some("b".to_owned()));
    }

    #[test]
    fn null_is_as_good_as_absent() {
        assert_eq!(object(r#"{"enabled":null}"#).flag("enabled").unwrap(), None);
        assert_eq!(object("null").flag("enabled").unwrap(), None);
    }

    #[test]
    fn wrong_types_are_refused() {
        for (json, key) in [(r#"{"name":1}"#, "name"), (r#"{"name":["a"]}"#, "name")] {
            assert!(object(json).text(key).is_err(), "{json}");
        }
        assert!(object(r#"{"enabled":"true"}"#).flag("enabled").is_err());
        assert!(object(r#"{"toxicity":"1"}"#).float("toxicity").is_err());
        assert!(object(r#"{"toxicity":1e39}"#).float("toxicity").is_err());
        assert!(object(r#"{"attributes":[]}"#).object("attributes").is_err());
    }

    #[test]
    fn syntax_errors_end_like_go_s() {
        let message = |body: &[u8]| first_value(body).unwrap_err().message;
        assert_eq!(message(b""), "bad request body: EOF");
        assert_eq!(message(b"  \n"), "bad request body: EOF");
        assert_eq!(message(b"{\"a\":"), "bad request body: unexpected EOF");
        assert!(message(b"{bad json").starts_with("bad request body: "));
        assert!(message("\u{feff}{}".as_bytes()).starts_with("bad request body: "), "a byte order mark");
    }
}
