use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::Path;

/// One edit of a JSON document: an operation of JSON Patch, or a change of everything that a JSONPath selects.
///
/// With `op` it is the former, without it the latter.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Op {
    /// `{op, path, …}` as in RFC 6902.
    Patch(PatchOp),
    /// `{path, set|delete|type|null|truncate}`.
    Path(PathEdit),
}

impl<'de> Deserialize<'de> for Op {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not serde's `untagged`, whose errors say nothing but that neither form fits.
        let value = Value::deserialize(deserializer)?;
        let op = if value.get("op").is_some() {
            PatchOp::deserialize(value).map(Self::Patch)
        } else {
            PathEdit::deserialize(value).map(Self::Path)
        };
        op.map_err(de::Error::custom)
    }
}

/// An operation of JSON Patch (RFC 6902). Its paths are JSON Pointers (RFC 6901), such as `/choices/0/message`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum PatchOp {
    /// Adds a member or inserts an element; replaces a member that exists. `-` is the position after the last element.
    Add {
        /// Where.
        path: Pointer,
        /// What.
        value: Value,
    },
    /// Removes a value that must exist. If a name occurs several times, every occurrence is removed.
    Remove {
        /// Which.
        path: Pointer,
    },
    /// Replaces a value that must exist.
    Replace {
        /// Which.
        path: Pointer,
        /// By what.
        value: Value,
    },
    /// Moves a value; its bytes stay the same.
    Move {
        /// Where it is.
        from: Pointer,
        /// Where it goes.
        path: Pointer,
    },
    /// Copies a value; its bytes stay the same.
    Copy {
        /// Where it is.
        from: Pointer,
        /// Where it goes.
        path: Pointer,
    },
    /// Requires a value to exist and to equal this one. Otherwise none of the edits is applied.
    Test {
        /// Which.
        path: Pointer,
        /// What it must be.
        value: Value,
    },
}

/// A change of everything that a JSONPath selects. If it selects nothing, nothing changes and that is not an error.
///
/// Of a value and another within it only the outer one is changed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "RawChange", into = "RawChange")]
pub struct PathEdit {
    /// What to change.
    pub path: Path,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is replaced by this one.
    Set(Value),
    /// It goes, a member's name with it.
    Delete,
    /// It becomes a value of another type.
    Type(JsonType),
    /// It becomes `null`.
    Null,
    /// Only its first so many characters (strings) or elements (arrays) stay. Other values stay as they are.
    Truncate(usize),
}

/// A type of JSON values, to turn a value into.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    /// `null`.
    Null,
    /// `false` for `false`, `null`, `0`, `""`, `[]` and `{}`, else `true`.
    Boolean,
    /// The number that a string spells, 1 for `true`, else 0.
    Number,
    /// The JSON text of the value, as a string.
    String,
    /// An array with the value as its one element.
    Array,
    /// An object with the value as its one member, `value`.
    Object,
}

/// A change of everything that a JSONPath selects: exactly one of `set`, `delete`, `type`, `null`, `truncate`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, rename = "PathEdit")]
#[schemars(example = serde_json::json!({"path": "$.choices[0].message.content", "truncate": 20}))]
struct RawChange {
    /// A JSONPath (RFC 9535), such as `$.choices[*].message.content`.
    path: Path,
    /// Replaces the value with this one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    set: Option<Value>,
    /// `true`: removes the value, and the name of a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delete: Option<bool>,
    /// Converts it to another type: `"12"` instead of `12`, `[x]` instead of `x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r#type: Option<JsonType>,
    /// `true`: sets it to `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    null: Option<bool>,
    /// Keeps only this many characters of a string or elements of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    truncate: Option<usize>,
}

/// Tells `"set": null` from no `set` at all.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<RawChange> for PathEdit {
    type Error = &'static str;

    fn try_from(spelt: RawChange) -> Result<Self, Self::Error> {
        let RawChange { path, set, delete, r#type, null, truncate } = spelt;
        let changes = [
            set.map(Change::Set),
            delete.filter(|yes| *yes).map(|_| Change::Delete),
            r#type.map(Change::Type),
            null.filter(|yes| *yes).map(|_| Change::Null),
            truncate.map(Change::Truncate),
        ];
        let mut changes = changes.into_iter().flatten();
        match (changes.next(), changes.next()) {
            (Some(change), None) => Ok(Self { path, change }),
            _ => Err("expected exactly one of `set`, `delete`, `type`, `null`, `truncate` beside `path`"),
        }
    }
}

impl From<PathEdit> for RawChange {
    fn from(PathEdit { path, change }: PathEdit) -> Self {
        let none = Self { path, ..Self::default() };
        match change {
            Change::Set(value) => Self { set: Some(value), ..none },
            Change::Delete => Self { delete: Some(true), ..none },
            Change::Type(to) => Self { r#type: Some(to), ..none },
            Change::Null => Self { null: Some(true), ..none },
            Change::Truncate(keep) => Self { truncate: Some(keep), ..none },
        }
    }
}

/// A JSON Pointer (RFC 6901): empty for the whole document, else steps that each begin with `/`; `~1` stands for `/`
/// and `~0` for `~`.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer(String);

impl Pointer {
    /// Its steps, unescaped.
    pub(super) fn steps(&self) -> Vec<String> {
        self.0.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
    }

    /// Whether a value at this place has a value at the other place within it.
    pub(super) fn is_above(&self, other: &Self) -> bool {
        other.0.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Pointer {
    type Error = &'static str;

    fn try_from(pointer: String) -> Result<Self, Self::Error> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err("a JSON Pointer is empty or begins with `/`");
        }
        let well_escaped = |after: &str| after.starts_with(['0', '1']);
        if !pointer.split('~').skip(1).all(well_escaped) {
            return Err("in a JSON Pointer `~` is written `~0`, and `/` within a name `~1`");
        }
        Ok(Self(pointer))
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.0
    }
}
