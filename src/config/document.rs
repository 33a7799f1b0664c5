//! A YAML or JSON document that remembers where each value stands.
use std::fmt;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, MessageFormatter, Spanned, UserMessageFormatter};

/// A place in a file: line and column, both from 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FilePosition {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

impl From<Location> for FilePosition {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    place: FilePosition,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, FilePosition, Node)>),
}

/// Reads a document. What begins as JSON may be indented by tabs, which YAML does not allow.
///
/// # Errors
/// If it is neither YAML nor JSON, or has the same key twice.
pub(super) fn read(text: &str) -> Result<Node, (FilePosition, String)> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED, max_replay_stack_depth: 8 },
    };
    let json = text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
    // No string of JSON has a tab as it is, so no value changes.
    let text = if json { text.replace('\t', " ").into() } else { std::borrow::Cow::Borrowed(text) };
    serde_saphyr::from_str_with_options::<Option<Node>>(&text, options)
        .map(|node| node.unwrap_or(Node { place: START, content: Content::Map(Vec::new()) }))
        .map_err(|error| {
            let message = UserMessageFormatter.format_message(&error).into_owned();
            (error.location().map_or(START, FilePosition::from), message)
        })
}

/// Lists and maps inside each other: more than any configuration has, and few enough for a thread's stack of 2 MiB.
const MAX_DEPTH: usize = 24;

/// What aliases may repeat in all: a few lines of them could stand for billions of values.
const MAX_REPLAYED: usize = 10_000;

const START: FilePosition = FilePosition { line: 1, column: 1 };

impl Node {
    /// The value without its places.
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Map(fields) => Value::Object(
                fields.iter().map(|(key, _, node)| (key.clone(), node.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.content, Content::List(_))
    }

    /// Where the value at a path such as `proxies[0].toxics[1].type` begins, or its key; the nearest value around it
    /// if there is none.
    pub(super) fn find(&self, path: &str, key: bool) -> FilePosition {
        self.seek(path).map_or(self.place, |(at, node, rest)| match rest {
            "" if key => at,
            "" => node.place,
            rest => node.seek(rest).map_or(at, |_| node.find(rest, key)),
        })
    }

    /// The child that a path begins with, the place of its key, and the rest of the path. Keys may have dots themselves.
    fn seek<'a>(&self, path: &'a str) -> Option<(FilePosition, &Self, &'a str)> {
        match &self.content {
            Content::Scalar(_) => None,
            Content::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let node = items.get(index.parse::<usize>().ok()?)?;
                Some((node.place, node, rest.strip_prefix('.').unwrap_or(rest)))
            }
            Content::Map(fields) => fields
                .iter()
                .filter_map(|(key, place, node)| {
                    let rest = path.strip_prefix(key.as_str())?;
                    let rest =
                        if rest.is_empty() || rest.starts_with('[') { rest } else { rest.strip_prefix('.')? };
                    Some((*place, node, rest))
                })
                .min_by_key(|(_, _, rest)| rest.len()),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::deserialize(deserializer)?;
        Ok(Self { place: referenced.into(), content: value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> de::Visitor<'de> for AnyValue {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("expected a finite number"))?;
        Ok(Content::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Node>()? {
            fields.push((key.value, key.referenced.into(), value));
        }
        Ok(Content::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_out_as_yaml_1_2_has_them() {
        let read = |text: &str| read(text).unwrap().value();
        let yaml =
            "a: 5s\nb: 0.2\nc: [yes, true, ~]\nd: {e: '7', f: 7, g: -7}\nh: 18446744073709551615\ni:\n";
        let value = json!({
            "a": "5s", "b": 0.2, "c": ["yes", true, null], "d": {"e": "7", "f": 7, "g": -7}, "h": u64::MAX, "i": null
        });
        assert_eq!(read(yaml), value);
        assert_eq!(read("{\n\t\"a\": 1,\n\t\"b\": [\"x\\ty\"]\n}"), json!({"a": 1, "b": ["x\ty"]}));
        assert_eq!(read("\u{feff}[]"), json!([]));
        assert_eq!(read(""), json!({}));
        assert_eq!(read("# nothing yet\n"), json!({}));
    }

    #[test]
    fn every_value_and_every_key_has_a_place() {
        let node = read("proxies:\n  - name: a\n    map: {x.test: sim://a, x: 1}\n  - {name: b}\n").unwrap();
        let at = |path, key| {
            let FilePosition { line, column } = node.find(path, key);
            (line, column)
        };
        assert_eq!(at("proxies[0].name", false), (2, 11));
        assert_eq!(at("proxies[0].name", true), (2, 5));
        assert_eq!(at("proxies[0].map.x.test", false), (3, 19));
        assert_eq!(at("proxies[0].map.x", false), (3, 31));
        assert_eq!(at("proxies[1].name", false), (4, 12));
        // What is not there is looked for where it would be.
        assert_eq!(at("proxies[1].upstream", false), (4, 5));
        assert_eq!(at("proxies[1].toxics[0].type", false), (4, 5));
        assert_eq!(at("", false), (1, 1));
    }

    #[test]
    fn broken_documents_say_where_they_break() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1,\n", 1),
            ("a: 1\n b: 2\n", 2),
            ("a: &x [*x]", 1),
            ("{\"a\": .inf}", 1),
        ] {
            let (place, message) = read(text).unwrap_err();
            assert_eq!(place.line, line, "{text:?}: {message}");
            assert!(!message.contains(" line "), "{message}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let (this, last) = (format!("a{n}"), format!("*a{}", n - 1));
            bomb += &format!("{this}: &{this} [{}]\n", [last.as_str(); 9].join(","));
        }
        assert!(read(&bomb).is_err());
        assert!(read(&"[".repeat(10_000)).is_err());
        assert!(read(&"- ".repeat(10_000)).is_err());
        assert!(read(&"[".repeat(MAX_DEPTH + 1)).is_err());
        let deepest = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(read(&deepest).is_ok());
    }
}
