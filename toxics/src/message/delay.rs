use http::{request, response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Distribution;
use crate::{Decision, Dice, Direction, ExchangeFilter, Instance, Level, Millis, Moment, Scope, Toxic};

/// Delays the response's header section, or with `stream: upstream` the request.
///
/// A delayed response was produced and billed in time; a delayed request reaches the provider late. The body is not
/// slowed down: use `slow_stream` for that, or `latency` for the bytes of the connection.
///
/// openai-python and anthropic-python time out after 10 minutes by default, retry twice, and raise `APITimeoutError`;
/// the Node SDKs do the same. qdrant-client does not retry; chromadb and ollama-python wait for ever.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// How long the exchange waits.
    delay: Millis,
    /// The spread of the delay. Default 0.
    #[serde(default)]
    jitter: Millis,
    /// The distribution of the delay. Default `uniform`.
    #[serde(default)]
    distribution: Distribution,
}

impl Toxic for Delay {
    const TYPE: &'static str = "delay";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        Self { delay: Millis(5_000), jitter: Millis(1_000), distribution: Distribution::Uniform }
    }

    fn check(&self) -> Result<(), String> {
        self.distribution.check(self.jitter)
    }

    fn start(&self, scope: &Scope, mut dice: Dice) -> Instance {
        let after = self.distribution.roll(self.delay.into(), self.jitter, &mut dice);
        Instance::Exchange(Box::new(Delaying { after, direction: scope.direction }))
    }
}

struct Delaying {
    after: Moment,
    direction: Direction,
}

impl ExchangeFilter for Delaying {
    fn on_request(&mut self, _: &mut request::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => Decision::delay(self.after),
            Direction::Downstream => Decision::forward(),
        }
    }

    fn on_response(&mut self, _: &mut response::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => Decision::forward(),
            Direction::Downstream => Decision::delay(self.after),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::script::{Exchange, check};

    #[test]
    fn the_answer_or_the_request_waits_once() {
        for direction in [Direction::Downstream, Direction::Upstream] {
            let scope = Scope { direction, ..Scope::default() };
            let mut exchange = Exchange::new::<Delay>(json!({"delay": "5s"}), &scope);
            let (request, response) = (exchange.request(), exchange.response());
            let (delayed, other) = match direction {
                Direction::Upstream => (request, response),
                Direction::Downstream => (response, request),
            };
            assert_eq!((delayed.after, delayed.struck), (Moment::from_secs(5), true));
            assert_eq!((other.after, other.struck), (Moment::ZERO, false));
        }
    }

    #[test]
    fn jitter_needs_a_distribution_that_has_one() {
        assert!(check::<Delay>(json!({"delay": 1, "jitter": 1, "distribution": "fixed"})).is_err());
        assert!(check::<Delay>(json!({"delay": 1, "jitter": 1})).is_ok());
        assert!(check::<Delay>(json!({})).is_err());
    }
}
