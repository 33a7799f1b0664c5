//! A toxic as configuration and the API write it.
use std::collections::BTreeMap;

use aconite_dialects::{Dialect, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Direction, Millis, objects, some_object};

/// A toxic on a proxy: the envelope that every type shares.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToxicSpec {
    /// Its name, unique on its proxy over both directions. Default: `TYPE_STREAM`.
    #[serde(default)]
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The direction that it acts on: `upstream` is client to server (the request), `downstream` server to client (the answer).
    #[serde(default)]
    pub stream: Direction,
    /// The share of connections (byte toxics) or exchanges (all others) that it strikes, 0 to 1. Default 1.
    #[serde(default = "always")]
    #[schemars(range(min = 0, max = 1))]
    pub toxicity: f32,
    /// The configuration of its type.
    #[serde(default)]
    pub attributes: Map<String, Value>,
    /// Which exchanges it strikes. Default: all.
    #[serde(
        default,
        rename = "match",
        deserialize_with = "some_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub matching: Option<Match>,
    /// How often it strikes. Default: always.
    #[serde(default, deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// When it strikes, counted from when it was added. Default: from now on, for ever.
    #[serde(default, deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Whether the answer says in `x-aconite-toxics` that it was tampered with. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub marker: bool,
    /// Whether it acts at all. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub enabled: bool,
}

impl ToxicSpec {
    /// A toxic with nothing but a type and attributes.
    pub fn new(kind: &str, attributes: Map<String, Value>) -> Self {
        Self {
            name: String::new(),
            kind: kind.to_owned(),
            stream: Direction::default(),
            toxicity: 1.0,
            attributes,
            matching: None,
            budget: None,
            window: None,
            marker: true,
            enabled: true,
        }
    }

    /// Fills in the default name.
    #[must_use]
    pub fn named(mut self) -> Self {
        if self.name.is_empty() {
            let stream = match self.stream {
                Direction::Upstream => "upstream",
                Direction::Downstream => "downstream",
            };
            self.name = format!("{}_{stream}", self.kind);
        }
        self
    }
}

/// Which exchanges a toxic strikes: all that is given must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct Match {
    /// The client's IP address, or a network that it is in, in CIDR notation (`10.0.0.0/8`). It is the address of the
    /// connection, not that of a header such as `Forwarded`. The only condition that byte toxics can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The request's method, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The request's host without port, as a glob (`*.openai.com`). Unicode names match their punycode form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The request's path without query, as a glob, compared percent-decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Request headers: name to glob; one of several values suffices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
    /// Whose protocol is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// What the request is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The model that the request asks for, as a glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The caller's scene, from the header `x-aconite-scene`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scene: Option<String>,
    /// The caller's test, from the header `x-aconite-test-id`. A byte toxic cannot see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_id: Option<String>,
    /// Whether the request asks for a streamed answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Conditions on the request's JSON body.
    #[serde(deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<BodyMatch>,
}

impl Match {
    /// Whether there is no condition on requests, so that it can be decided when a connection opens.
    pub fn needs_no_request(&self) -> bool {
        *self == Self { client: self.client.clone(), ..Self::default() }
    }
}

/// A condition on the request's JSON body. Of duplicate keys the last one counts.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct BodyMatch {
    /// Where to look: a JSONPath (RFC 9535). One of several places found suffices.
    pub path: String,
    /// The value that must stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// A regular expression that the text there must match somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
}

/// How often a toxic strikes. Counts what it would have struck: matching exchanges, or connections.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct Budget {
    /// Lets the first `skip` pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<u64>,
    /// Strikes so many times, then rests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Strikes the first of every so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Strikes at most so many at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u64>,
}

/// When a toxic strikes, counted from when it was added.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub struct Window {
    /// Rests for so long first. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Millis>,
    /// Then strikes for so long. Default: for ever.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Millis>,
}

fn always() -> f32 {
    1.0
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(value: &bool) -> bool {
    *value
}
