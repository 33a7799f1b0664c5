use http::{HeaderMap, HeaderName, request, response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::header_lines::{HeaderLines, Name};
use crate::{Decision, Dice, Direction, ExchangeFilter, Instance, Level, Moment, Scope, Toxic};

/// Changes header fields of the response, or with `stream: upstream` of the request.
///
/// `remove` is applied first, then `set`, then `add`. A name in `remove` or `set` matches all fields of that name, in
/// any case. Fields that frame the message (`content-length`, `transfer-encoding`, `connection` and similar) cannot be
/// changed: see `length_lie`.
///
/// openai-python and anthropic-python respect `retry-after-ms` before `retry-after`, and `x-should-retry: false` before
/// the status. Without its `content-type` an event stream is still read as one by the official SDKs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Headers {
    /// Fields that replace all fields of the same name.
    set: HeaderLines,
    /// Fields that are added to those of the same name.
    add: HeaderLines,
    /// Names of fields to remove.
    remove: Vec<Name>,
}

impl Toxic for Headers {
    const TYPE: &'static str = "headers";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        let config = serde_json::json!({
            "set": {"x-ratelimit-remaining-tokens": "0"},
            "remove": ["x-request-id"],
        });
        serde_json::from_value(config).expect("the names and values are valid")
    }

    fn check(&self) -> Result<(), String> {
        let names = self.set.names().chain(self.add.names()).chain(self.remove.iter().map(|Name(name)| name));
        for name in names {
            if FRAMING.contains(&name.as_str()) {
                return Err(format!("`{name}` frames the message and cannot be changed; see `length_lie`"));
            }
        }
        if *self == Self::default() {
            return Err("nothing is changed: give `set`, `add` or `remove`".to_owned());
        }
        Ok(())
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        Instance::Exchange(Box::new(Changing { config: self.clone(), direction: scope.direction }))
    }
}

/// Fields that belong to the connection (RFC 9110, section 7.6.1) or say where the message ends.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

struct Changing {
    config: Headers,
    direction: Direction,
}

impl Changing {
    fn change(&self, headers: &mut HeaderMap) -> Decision {
        let mut changed = false;
        for Name(name) in &self.config.remove {
            changed |= remove_all(headers, name);
        }
        changed |= self.config.set.set(headers) | self.config.add.add(headers);
        if changed { Decision::changed() } else { Decision::skip("no_such_header") }
    }
}

fn remove_all(headers: &mut HeaderMap, name: &HeaderName) -> bool {
    headers.remove(name).is_some()
}

impl ExchangeFilter for Changing {
    fn on_request(&mut self, head: &mut request::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => self.change(&mut head.headers),
            Direction::Downstream => Decision::forward(),
        }
    }

    fn on_response(&mut self, head: &mut response::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => Decision::forward(),
            Direction::Downstream => self.change(&mut head.headers),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::script::{Exchange, check};

    fn fields(headers: &HeaderMap) -> Vec<(&str, &str)> {
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
    }

    #[test]
    fn http_19_a_name_means_all_its_fields() {
        let config =
            json!({"set": {"X-Y": "3"}, "add": {"set-cookie": "c=3"}, "remove": ["x-gone", "x-absent"]});
        let mut exchange = Exchange::new::<Headers>(config, &Scope::default());
        for (name, value) in [
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("x-y", "1"),
            ("x-y", "2"),
            ("x-gone", "1"),
            ("x-gone", "2"),
        ] {
            exchange.response.headers.append(name, value.parse().unwrap());
        }
        assert!(exchange.response().struck);
        assert_eq!(
            fields(&exchange.response.headers),
            [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("set-cookie", "c=3"), ("x-y", "3")]
        );
    }

    #[test]
    fn each_direction_has_its_own_headers() {
        let scope = Scope { direction: Direction::Upstream, ..Scope::default() };
        let mut exchange =
            Exchange::new::<Headers>(json!({"set": {"authorization": "Bearer wrong"}}), &scope);
        assert!(exchange.request().struck);
        assert!(!exchange.response().struck);
        assert_eq!(fields(&exchange.request.headers), [("authorization", "Bearer wrong")]);
        assert!(exchange.response.headers.is_empty());
    }

    #[test]
    fn nothing_to_remove_is_told() {
        let mut exchange = Exchange::new::<Headers>(json!({"remove": ["x-absent"]}), &Scope::default());
        let decision = exchange.response();
        assert_eq!((decision.struck, decision.skipped), (false, Some("no_such_header")));
    }

    #[test]
    fn names_values_and_framing_are_checked() {
        for bad in [
            json!({}),
            json!({"set": {"bad name": "x"}}),
            json!({"set": {"x": "a\nb"}}),
            json!({"remove": [""]}),
            json!({"set": {"Content-Length": "5"}}),
            json!({"remove": ["transfer-encoding"]}),
            json!({"add": {"connection": "close"}}),
        ] {
            assert!(check::<Headers>(bad.clone()).is_err(), "{bad}");
        }
        assert_eq!(check::<Headers>(json!({"set": {"x-name": "世"}})), Ok(()));
    }
}
