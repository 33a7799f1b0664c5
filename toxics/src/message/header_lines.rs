//! Header fields as configuration writes them.
use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Header fields: name to value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
#[schemars(inline)]
pub(super) struct HeaderLines(#[schemars(with = "BTreeMap<String, String>")] Vec<(HeaderName, HeaderValue)>);

impl HeaderLines {
    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Puts the fields in place of all of the same name. Whether there are any.
    pub(super) fn set(&self, headers: &mut HeaderMap) -> bool {
        for (name, value) in &self.0 {
            headers.insert(name, value.clone());
        }
        !self.0.is_empty()
    }

    /// Puts the fields beside those of the same name. Whether there are any.
    pub(super) fn add(&self, headers: &mut HeaderMap) -> bool {
        for (name, value) in &self.0 {
            headers.append(name, value.clone());
        }
        !self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for HeaderLines {
    type Error = String;

    fn try_from(lines: BTreeMap<String, String>) -> Result<Self, Self::Error> {
        let line = |(name, value): (String, String)| {
            let Name(name) = Name::try_from(name)?;
            // Not `from_str`, which refuses what is not ASCII.
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| format!("`{name}` has control characters in its value"))?;
            Ok((name, value))
        };
        lines.into_iter().map(line).collect::<Result<_, _>>().map(Self)
    }
}

impl From<HeaderLines> for BTreeMap<String, String> {
    fn from(HeaderLines(lines): HeaderLines) -> Self {
        let line = |(name, value): (HeaderName, HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        lines.into_iter().map(line).collect()
    }
}

/// A header field's name.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline)]
pub(super) struct Name(#[schemars(with = "String")] pub(super) HeaderName);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse().map(Self).map_err(|_| format!("`{name}` is not a name of a header field"))
    }
}

impl From<Name> for String {
    fn from(Name(name): Name) -> Self {
        name.to_string()
    }
}
