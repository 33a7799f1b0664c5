//! A value that fits a JSON Schema.
use serde_json::{Map, Value};

/// Values in one example, so that a schema that refers to itself many times over cannot grow without end.
const MOST_VALUES: usize = 500;
/// Nesting at which an example has no more than it must.
const DEEP: usize = 4;
const DEEPEST: usize = 24;
const LONGEST_STRING: usize = 1_000;
const LONGEST_ARRAY: u64 = 100;
static ANYTHING: Value = Value::Null;

/// A value for `schema`; a free string is `hint`. What the schema says beyond types, members, choices, lengths and
/// bounds is not looked at.
pub(super) fn example(schema: &Value, hint: &str) -> Value {
    Maker { root: schema, hint, left: MOST_VALUES }.value(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    hint: &'a str,
    left: usize,
}

impl<'a> Maker<'a> {
    fn value(&mut self, schema: &'a Value, depth: usize) -> Value {
        if self.left == 0 || depth > DEEPEST {
            return Value::Null;
        }
        self.left -= 1;
        if let Some(given) = given(schema) {
            return given.clone();
        }
        if let Some(target) = self.target(schema) {
            return self.value(target, depth + 1);
        }
        if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            return choices.first().map_or(Value::Null, |choice| self.value(choice, depth + 1));
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "string" => Value::String(self.string(schema)),
            "integer" => integer(schema).into(),
            "number" => bound(schema, "minimum").unwrap_or(1.5).into(),
            "boolean" => true.into(),
            _ => Value::Null,
        }
    }

    fn target(&self, schema: &Value) -> Option<&'a Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn object(&mut self, schema: &'a Value, depth: usize) -> Value {
        let parts = std::iter::once(schema)
            .chain(schema.get("allOf").and_then(Value::as_array).into_iter().flatten());
        let mut members = Map::new();
        for part in parts {
            let part = self.target(part).unwrap_or(part);
            let required = part.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            for (name, member) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let must = required.iter().any(|required| required == name);
                if self.left > 0 && (must || depth < DEEP) {
                    members.insert(name.clone(), self.value(member, depth + 1));
                }
            }
        }
        Value::Object(members)
    }

    fn array(&mut self, schema: &'a Value, depth: usize) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64);
        let length = least.unwrap_or_else(|| u64::from(depth < DEEP)).min(LONGEST_ARRAY);
        let item = schema.get("items").unwrap_or(&ANYTHING);
        (0..length).map(|_| self.value(item, depth + 1)).collect()
    }

    fn string(&self, schema: &Value) -> String {
        let length =
            |key| schema.get(key).and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
        let most = length("maxLength").unwrap_or(LONGEST_STRING);
        let least = length("minLength").unwrap_or(0).min(LONGEST_STRING).min(most);
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date") => "2026-01-01",
            Some("date-time") => "2026-01-01T00:00:00Z",
            Some("time") => "00:00:00Z",
            Some("duration") => "PT1S",
            Some("email") => "someone@example.com",
            Some("hostname") => "example.com",
            Some("ipv4") => "192.0.2.1",
            Some("ipv6") => "2001:db8::1",
            Some("uri" | "url") => "https://example.com/",
            Some("uuid") => "00000000-0000-4000-8000-000000000000",
            _ => self.hint.trim(),
        };
        let text: String = text.chars().take(most).collect();
        let missing = least.saturating_sub(text.chars().count());
        text + &"x".repeat(missing)
    }
}

/// A value that the schema itself gives.
fn given(schema: &Value) -> Option<&Value> {
    let first = |key| schema.get(key)?.as_array()?.first();
    schema
        .get("const")
        .or_else(|| first("enum"))
        .or_else(|| schema.get("default"))
        .or_else(|| first("examples"))
}

fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    };
    let implied = || match schema {
        Value::Object(schema) if schema.contains_key("properties") || schema.contains_key("allOf") => {
            "object"
        }
        Value::Object(schema) if schema.contains_key("items") => "array",
        _ => "string",
    };
    named.unwrap_or_else(implied)
}

fn integer(schema: &Value) -> i64 {
    let least = bound(schema, "minimum").or_else(|| Some(bound(schema, "exclusiveMinimum")? + 1.0));
    let most = bound(schema, "maximum").unwrap_or(f64::INFINITY);
    least.unwrap_or(1.0).ceil().min(most.floor()) as i64
}

fn bound(schema: &Value, key: &str) -> Option<f64> {
    schema.get(key).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn members_choices_and_bounds_are_kept() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 2},
                "exact": {"type": ["null", "boolean"]},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                "day": {"type": "string", "format": "date"},
                "code": {"type": "string", "minLength": 8, "maxLength": 8},
            },
            "$defs": {"tag": {"anyOf": [{"type": "number"}, {"type": "string"}]}},
        });
        let expected = json!({
            "city": "Oslo", "unit": "celsius", "days": 2, "exact": true, "tags": [1.5], "day": "2026-01-01",
            "code": "Osloxxxx",
        });
        assert_eq!(example(&schema, "Oslo"), expected);
    }

    #[test]
    fn a_schema_that_refers_to_itself_comes_to_an_end() {
        let node = json!({
            "type": "object",
            "properties": {"value": {"type": "integer"}, "left": {"$ref": "#"}, "children": {"type": "array", "items": {"$ref": "#"}}},
            "required": ["value", "children"],
        });
        let tree = example(&node, "");
        assert!(tree["left"]["left"]["children"].is_array());
        assert_eq!(example(&json!({"$ref": "#"}), ""), Value::Null);
        let wide = json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]});
        assert!(example(&wide, "").to_string().len() < 20_000);
    }

    proptest! {
        #[test]
        fn no_schema_is_too_odd(schema in super::super::tests::any_json()) {
            example(&schema, "hint");
        }
    }
}
