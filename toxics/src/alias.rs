//! Scenario names: other names for toxics, with parameter names and defaults of their own.
//!
//! A chaos test that speaks of `TRUNCATED_RESPONSE` after 50 tokens can be
//! written down as it is.
use serde_json::{Map, Value, json};

use crate::ToxicSpec;

/// A scenario, and the toxic that plays it.
struct Alias {
    /// The name, accepted as a toxic's `type` in exactly this spelling.
    name: &'static str,
    /// The type of the toxic.
    kind: &'static str,
    parameters: &'static [Parameter],
}

/// The names of all scenarios.
pub fn scenarios() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().map(|alias| alias.name)
}

/// A parameter of a scenario, and the attribute that it sets.
struct Parameter {
    /// How it may be called, in lower case without `_` and `-`.
    names: &'static [&'static str],
    attribute: &'static str,
    /// Turns its value into the attribute's.
    convert: fn(Value) -> Value,
    /// The attribute's value if the parameter is left out.
    default: Option<fn() -> Value>,
}

impl Parameter {
    const fn new(names: &'static [&'static str], attribute: &'static str, default: fn() -> Value) -> Self {
        Self { names, attribute, convert: |value| value, default: Some(default) }
    }
}

const ALIASES: &[Alias] = &[
    Alias {
        name: "DELAY",
        kind: "delay",
        parameters: &[
            Parameter::new(&["delayms", "ms"], "delay", || json!(5_000)),
            Parameter {
                default: None,
                ..Parameter::new(&["jitterms", "offsetms"], "jitter", || Value::Null)
            },
        ],
    },
    Alias {
        name: "TIMEOUT",
        kind: "hang",
        parameters: &[Parameter::new(&["timeoutms", "holdms", "ms"], "for", || json!(60_000))],
    },
    Alias {
        name: "TOKEN_EXCEEDED",
        kind: "fail",
        parameters: &[Parameter::new(&["kind"], "cause", || json!("context_length"))],
    },
    Alias {
        name: "CONTENT_FILTERED",
        kind: "fail",
        parameters: &[Parameter::new(&["kind"], "cause", || json!("content_filter"))],
    },
    Alias {
        name: "TRUNCATED_RESPONSE",
        kind: "cut",
        parameters: &[
            Parameter {
                convert: |tokens| json!({"tokens": tokens}),
                ..Parameter::new(&["tokens", "aftertokens", "maxtokens", "n"], "at", || json!({"tokens": 50}))
            },
            Parameter::new(&["ending"], "how", || json!("clean")),
        ],
    },
    Alias {
        name: "GARBLED_RESPONSE",
        kind: "garble",
        parameters: &[Parameter::new(&["kind"], "how", || json!("not_json"))],
    },
    Alias {
        name: "EMPTY_RETRIEVAL",
        kind: "hits",
        parameters: &[Parameter::new(&[], "how", || json!("empty"))],
    },
    Alias {
        name: "SLOW_STREAMING",
        kind: "slow_stream",
        parameters: &[
            Parameter::new(&["firsttokenms", "firstms", "ttftms"], "first", || json!(3_000)),
            Parameter::new(&["betweentokensms", "betweenms", "mspertoken", "ms"], "between", || json!(1_000)),
        ],
    },
];

/// The type behind a name, which may be a type itself.
pub(crate) fn kind_of(name: &str) -> &str {
    find(name).map_or(name, |alias| alias.kind)
}

/// A spec in which a scenario's name and parameters are replaced by a type and its attributes.
///
/// An attribute of the type may be given instead of a parameter, and wins.
pub(crate) fn resolve(spec: &ToxicSpec) -> ToxicSpec {
    let Some(alias) = find(&spec.kind) else { return spec.clone() };
    let mut attributes = Map::new();
    let mut given = spec.attributes.clone();
    for parameter in alias.parameters {
        let called = |key: &String| parameter.names.contains(&plain(key).as_str());
        let named = given.keys().find(|key| called(key)).cloned();
        let value = named.and_then(|key| given.shift_remove(&key)).map(parameter.convert);
        if let Some(value) = value.or_else(|| parameter.default.map(|default| default())) {
            attributes.insert(parameter.attribute.to_owned(), value);
        }
    }
    attributes.extend(given);
    ToxicSpec { kind: alias.kind.to_owned(), attributes, ..spec.clone() }
}

/// The names of all scenarios.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALIASES.iter().map(|alias| alias.name)
}

fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// A parameter's name without what spellings differ in: `delay_ms`, `delayMs`.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str, parameters: &Value) -> (String, Value) {
        let spec = resolve(&ToxicSpec::new(name, parameters.as_object().cloned().unwrap()));
        (spec.kind, spec.attributes.into())
    }

    #[test]
    fn each_scenario_has_its_reference_figures() {
        let table = [
            ("DELAY", "delay", json!({"delay": 5_000})),
            ("TIMEOUT", "hang", json!({"for": 60_000})),
            ("TOKEN_EXCEEDED", "fail", json!({"cause": "context_length"})),
            ("CONTENT_FILTERED", "fail", json!({"cause": "content_filter"})),
            ("TRUNCATED_RESPONSE", "cut", json!({"at": {"tokens": 50}, "how": "clean"})),
            ("GARBLED_RESPONSE", "garble", json!({"how": "not_json"})),
            ("EMPTY_RETRIEVAL", "hits", json!({"how": "empty"})),
            ("SLOW_STREAMING", "slow_stream", json!({"first": 3_000, "between": 1_000})),
        ];
        assert_eq!(table.len(), ALIASES.len());
        for (name, kind, attributes) in table {
            assert_eq!(resolved(name, &json!({})), (kind.to_owned(), attributes), "{name}");
        }
    }

    #[test]
    fn parameters_may_be_spelt_in_several_ways() {
        for spelling in ["delay_ms", "delayMs", "DELAY-MS"] {
            assert_eq!(resolved("DELAY", &json!({spelling: 8_000})).1, json!({"delay": 8_000}));
        }
        assert_eq!(
            resolved("DELAY", &json!({"delay_ms": 3_000, "jitter_ms": 500})).1,
            json!({"delay": 3_000, "jitter": 500})
        );
        assert_eq!(
            resolved("TRUNCATED_RESPONSE", &json!({"after_tokens": 7, "ending": "rst"})).1,
            json!({"at": {"tokens": 7}, "how": "rst"})
        );
    }

    #[test]
    fn the_types_own_attributes_are_taken_too() {
        let (_, attributes) = resolved("TOKEN_EXCEEDED", &json!({"cause": "rate_limit", "retry_after": 2}));
        assert_eq!(attributes, json!({"cause": "rate_limit", "retry_after": 2}));
        let (_, attributes) = resolved("TRUNCATED_RESPONSE", &json!({"at": {"events": 3}}));
        assert_eq!(attributes, json!({"at": {"events": 3}, "how": "clean"}));
    }

    #[test]
    fn the_envelope_stays_and_types_are_left_alone() {
        let mut spec = ToxicSpec::new("TIMEOUT", Map::new());
        spec.toxicity = 0.3;
        assert_eq!(resolve(&spec).toxicity, 0.3);
        for kind in ["timeout", "Delay", "latency"] {
            let spec = ToxicSpec::new(kind, Map::new());
            assert_eq!(resolve(&spec), spec);
        }
    }
}
