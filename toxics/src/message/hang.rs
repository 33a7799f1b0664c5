use http::{request, response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Decision, Dice, ExchangeFilter, Instance, Level, Millis, Moment, Scope, Toxic, Verdict};

/// Accepts a request and never responds.
///
/// The connection stays open and silent, and closes after `for`. openai-python, openai-node and anthropic-python reach
/// their own timeout (10 minutes by default), retry twice and raise `APITimeoutError` (Node:
/// `APIConnectionTimeoutError`). If the client waits longer, the connection closes before any byte, which the SDKs
/// retry too. chromadb and ollama-python have no timeout.
///
/// `stream` makes no difference; `reach_upstream` does.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hang {
    /// How long the silence lasts. Default 60 s.
    #[serde(rename = "for")]
    duration: Millis,
    /// Whether the provider receives the request, processes it and bills it. Default false.
    reach_upstream: bool,
}

impl Default for Hang {
    fn default() -> Self {
        Self { duration: Millis(60_000), reach_upstream: false }
    }
}

impl Toxic for Hang {
    const TYPE: &'static str = "hang";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        Self::default()
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Exchange(Box::new(self.clone()))
    }
}

impl Hang {
    fn hang(&self) -> Decision {
        Decision::instead(Verdict::Hang(Some(self.duration.into())))
    }
}

impl ExchangeFilter for Hang {
    fn on_request(&mut self, _: &mut request::Parts, _: Moment) -> Decision {
        if self.reach_upstream { Decision::forward() } else { self.hang() }
    }

    fn on_response(&mut self, _: &mut response::Parts, _: Moment) -> Decision {
        if self.reach_upstream { self.hang() } else { Decision::forward() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::message::script::Exchange;

    fn hangs(decision: &Decision) -> Option<Duration> {
        match decision.verdict {
            Verdict::Hang(duration) => duration,
            _ => None,
        }
    }

    #[test]
    fn the_upstream_is_spared_unless_told_otherwise() {
        let mut exchange = Exchange::new::<Hang>(json!({}), &Scope::default());
        assert_eq!(hangs(&exchange.request()), Some(Duration::from_secs(60)));
        let config = json!({"for": "1m", "reach_upstream": true});
        let mut exchange = Exchange::new::<Hang>(config, &Scope::default());
        assert_eq!(hangs(&exchange.request()), None);
        assert_eq!(hangs(&exchange.response()), Some(Duration::from_secs(60)));
    }
}
