//! JSON values kept as their text.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};

use crate::json::Node;

/// A JSON value as text without white space. Numbers keep their spelling and objects the order of their members, which
/// a parsed value would not: `1e400` and 30-digit integers in a tool's arguments arrive as they were sent.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Reads JSON text. None if it is not JSON.
    pub fn parse(text: &str) -> Option<Self> {
        RawValue::from_string(compact(text)).ok().map(Self)
    }

    /// The value of a node of a document.
    pub fn of_node(node: Node<'_>) -> Self {
        Self::parse(&String::from_utf8_lossy(node.raw())).unwrap_or_else(|| Self::of(&node.to_value()))
    }

    /// Anything that can be printed as JSON. What cannot (maps whose keys are not strings) becomes `null`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self(RawValue::NULL.to_owned()), Self)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value, as well as `serde_json` can hold it.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or(Value::Null)
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The same JSON without the white space between its tokens.
fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let keep = |c: &char| {
        let is_kept = in_string || !matches!(c, ' ' | '\t' | '\n' | '\r');
        (in_string, escaped) = match c {
            '"' if !escaped => (!in_string, false),
            '\\' if in_string && !escaped => (true, true),
            _ => (in_string, false),
        };
        is_kept
    };
    text.chars().filter(keep).collect()
}

/// Builds a JSON object whose members stay in the order in which they are written. `"name"?: option` leaves the member
/// out if there is no value; `..fields` adds members from a list.
macro_rules! object {
    ($($rest:tt)*) => {{
        #[allow(unused_mut, reason = "an object may have no members")]
        let mut members = $crate::conversation::text::Members::default();
        $crate::conversation::text::members!(members $($rest)*);
        members.done()
    }};
}

macro_rules! members {
    ($members:ident) => {};
    ($members:ident $name:literal : $value:expr $(, $($rest:tt)*)?) => {
        $members.put($name, &$value);
        $($crate::conversation::text::members!($members $($rest)*);)?
    };
    ($members:ident $name:literal ? : $value:expr $(, $($rest:tt)*)?) => {
        if let Some(value) = &$value {
            $members.put($name, value);
        }
        $($crate::conversation::text::members!($members $($rest)*);)?
    };
    ($members:ident .. $list:expr $(, $($rest:tt)*)?) => {
        for (name, value) in $list {
            $members.put(name, &value);
        }
        $($crate::conversation::text::members!($members $($rest)*);)?
    };
}

pub(super) use {members, object};

/// The members of an object that is being built.
#[derive(Default)]
pub(super) struct Members(String);

impl Members {
    pub(super) fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&crate::json::quote(name));
        self.0.push(':');
        self.0.push_str(Json::of(value).text());
    }

    pub(super) fn done(mut self) -> Json {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        RawValue::from_string(self.0).map_or_else(|_| Json::of(&()), Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_order_and_escapes_stay_and_white_space_goes() {
        let text =
            "{ \"b\" : 123456789012345678901234567890 ,\n\t\"a\": [ 1e400 , \"x \\\" \\\\\" , \" \" ] }";
        let json = Json::parse(text).unwrap();
        assert_eq!(json.text(), r#"{"b":123456789012345678901234567890,"a":[1e400,"x \" \\"," "]}"#);
        assert_eq!(Json::of(&[&json, &json]).text(), format!("[{0},{0}]", json.text()));
        assert_eq!((Json::parse("{"), Json::parse("")), (None, None));
    }

    #[test]
    fn members_keep_their_order_and_may_be_left_out() {
        let inner = object! {"z": 1, "a"?: None::<u8>, "b"?: Some("x"), "n": None::<u8>};
        assert_eq!(inner.text(), r#"{"z":1,"b":"x","n":null}"#);
        let extra = [("c".to_owned(), Json::of(&2))];
        let outer =
            object! {"in": inner, ..extra.iter().map(|(name, value)| (name.as_str(), value)), "f": 0.7};
        assert_eq!(outer.text(), r#"{"in":{"z":1,"b":"x","n":null},"c":2,"f":0.7}"#);
        assert_eq!(object! {}.text(), "{}");
    }
}
