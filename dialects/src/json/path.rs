use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSONPath (RFC 9535), such as `$.choices[*].message.content`.
///
/// At most 1,000 bytes long, with brackets nested at most 8 deep and at most 3 of `..` and filters. Within a filter `$`
/// may only be followed by names and indices. These bounds keep the work on a document in proportion to its size.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "String")]
pub struct Path(#[schemars(with = "String")] serde_json_path::JsonPath);

/// What may make a query long, read off a path.
#[derive(Debug, Default, Eq, PartialEq)]
struct Cost {
    /// How many `..` and filters there are: each looks at all that lies within a value.
    descents: u32,
    /// The product of the numbers of selectors in each bracket: one value may be selected that often.
    selectors: u64,
    depth: usize,
}

/// The query would take too many steps on this document.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the path takes more than {MAX_STEPS} steps on this document")]
pub struct TooComplex;

/// The most steps that a path may take on a document. A step takes a few dozen nanoseconds.
pub const MAX_STEPS: u64 = 4_000_000;

const MAX_LENGTH: usize = 1_000;
const MAX_DEPTH: usize = 8;
const MAX_DESCENTS: u32 = 3;

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        Self::parse(&path)
    }
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// If it is not a JSONPath (the message says where), or it could take too many steps.
    pub fn parse(path: &str) -> Result<Self, String> {
        if path.len() > MAX_LENGTH {
            return Err(format!(
                "a JSONPath is at most {MAX_LENGTH} bytes long, and this has {}",
                path.len()
            ));
        }
        let cost = Cost::of(path)?;
        if cost.depth > MAX_DEPTH {
            return Err(format!("`{path}` nests brackets more than {MAX_DEPTH} deep"));
        }
        if cost.descents > MAX_DESCENTS {
            return Err(format!(
                "`{path}` has {} of `..` and filters; at most {MAX_DESCENTS} are allowed, because each multiplies the work",
                cost.descents
            ));
        }
        serde_json_path::JsonPath::parse(path)
            .map(Self)
            .map_err(|error| format!("`{path}` is not a JSONPath: {error}"))
    }

    /// The values of a document that it selects, as `serde_json` holds them.
    ///
    /// # Errors
    /// If that could take more than [`MAX_STEPS`] steps.
    pub fn select<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, TooComplex> {
        let cost = Cost::of(&self.0.to_string()).map_err(|_| TooComplex)?;
        let steps = walk(value, 1, cost.descents).saturating_mul(cost.selectors);
        if steps > MAX_STEPS { Err(TooComplex) } else { Ok(self.0.query(value).all()) }
    }
}

/// How many steps it takes to come to every value on each way that so many descents allow.
fn walk(value: &Value, depth: u64, descents: u32) -> u64 {
    let within = |value| walk(value, depth + 1, descents);
    let own = depth.saturating_pow(descents);
    match value {
        Value::Array(items) => items.iter().map(within).fold(own, u64::saturating_add),
        Value::Object(members) => members.values().map(within).fold(own, u64::saturating_add),
        _ => own,
    }
}

impl Cost {
    /// Reads the text of a path, well-formed or not. Names in quotes are passed over.
    fn of(path: &str) -> Result<Self, String> {
        let mut cost = Self { selectors: 1, ..Self::default() };
        // The number of selectors of each bracket that is open; none for a parenthesis.
        let mut open: Vec<Option<u64>> = Vec::new();
        let mut rest = path;
        while let Some(first) = rest.chars().next() {
            let after = &rest[first.len_utf8()..];
            rest = match first {
                '"' | '\'' => behind_quote(after, first),
                '.' if after.starts_with('.') => {
                    cost.descents += 1;
                    &after[1..]
                }
                _ => after,
            };
            match first {
                '?' => cost.descents += 1,
                '[' => open.push(Some(1)),
                '(' => open.push(None),
                ',' => {
                    if let Some(Some(selectors)) = open.last_mut() {
                        *selectors += 1;
                    }
                }
                ']' | ')' => {
                    let selectors = open.pop().flatten().unwrap_or(1);
                    cost.selectors = cost.selectors.saturating_mul(selectors);
                }
                '$' if !open.is_empty() && !is_singular(rest) => {
                    return Err(format!(
                        "`{path}`: in a filter, `$` may only be followed by names and indices, because more would be looked up for every value"
                    ));
                }
                _ => {}
            }
            cost.depth = cost.depth.max(open.len());
        }
        Ok(cost)
    }
}

/// What follows the quoted text that has just begun.
fn behind_quote(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

/// Whether what follows a `$` selects one value at most.
fn is_singular(mut rest: &str) -> bool {
    loop {
        rest = rest.trim_start();
        if let Some(name) = rest.strip_prefix('.') {
            let end = name
                .find(|next: char| !(next.is_alphanumeric() || next == '_' || !next.is_ascii()))
                .unwrap_or(name.len());
            if end == 0 {
                return false;
            }
            rest = &name[end..];
        } else if let Some(inside) = rest.strip_prefix('[') {
            let inside = inside.trim_start();
            let behind = match inside.chars().next() {
                Some(quote @ ('"' | '\'')) => behind_quote(&inside[1..], quote),
                _ => inside.trim_start_matches(|next: char| next == '-' || next.is_ascii_digit()),
            };
            match behind.trim_start().strip_prefix(']') {
                Some(behind) if behind.len() < inside.len() => rest = behind,
                _ => return false,
            }
        } else {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    #[test]
    fn a_07_paths_that_multiply_the_work_are_refused_when_they_are_read() {
        for path in [
            "$..*..*..*..*",
            "$..a[?@..b].c[?@.d]",
            "$[?count($..*) > 1]",
            "$[?$[*] == 1]",
            "$[?@.a == $.b[?@.c]]",
            "$[?$.*]",
            &format!("${}", ".a".repeat(501)),
            &format!("$[?{}@.a{}]", "(".repeat(300), ")".repeat(300)),
        ] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
        for path in [
            "$",
            "$..content",
            "$.messages[?@.role == 'user'].content",
            "$.messages[?@.content == \"a..b..c..d $..* ?\"]",
            "$['$..*']..b",
            "$.a[?@.id == $.wanted['x y'][0]].c",
            "$[0,1,'a'][1:3]",
        ] {
            Path::parse(path).unwrap();
        }
    }

    fn nested(depth: usize, width: usize) -> Value {
        (0..depth).fold(json!([1]), |inner, _| Value::Array(vec![inner; width]))
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test measures time")]
    fn a_07_a_path_takes_no_more_steps_on_a_document_than_are_stated() {
        let deep = nested(120, 1);
        let bushy = nested(7, 5);
        let repeated = format!("$[{0}][{0}][{0}]", vec!["*"; 60].join(","));
        let long = vec![json!({"a": "b"}); 10_000];
        for (path, value) in [
            ("$..*..*..*", &deep),
            ("$..[?@..[0]]", &bushy),
            (repeated.as_str(), &bushy),
            ("$[?count(@..*) > 1]", &Value::Array(long)),
        ] {
            let began = Instant::now();
            let _ = Path::parse(path).unwrap().select(value);
            assert!(began.elapsed() < Duration::from_secs(5), "{path}: {:?}", began.elapsed());
        }
        assert_eq!(Path::parse(&repeated).unwrap().select(&bushy), Err(TooComplex));
        assert_eq!(Path::parse("$..*").unwrap().select(&deep).unwrap().len(), 121);
    }
}
