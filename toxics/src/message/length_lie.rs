use http::{Extensions, HeaderMap, header::CONTENT_LENGTH, request, response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Decision, DeclaredLength, Dice, Direction, ExchangeFilter, Instance, Level, Moment, Scope, Toxic,
};

/// Declares a content-length that differs from what is sent.
///
/// If it is too large, the connection closes before the body is complete. openai-python and anthropic-python retry and
/// raise `APIConnectionError`; the Node SDKs do not retry and raise a bare `TypeError: terminated`. If it is too small,
/// the caller reads a truncated body that looks complete: invalid JSON, which no SDK retries.
///
/// It applies to the response, or with `stream: upstream` to the request, and only to messages that declare a length;
/// most streams do not. Over HTTP/2 a wrong length is a protocol error and resets the stream.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LengthLie {
    /// The difference to the actual length, in bytes; negative declares too few. The declared length is never below 0.
    delta: i64,
}

impl Toxic for LengthLie {
    const TYPE: &'static str = "length_lie";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        Self { delta: 50 }
    }

    fn check(&self) -> Result<(), String> {
        if self.delta == 0 { Err("a `delta` of 0 is not a lie".to_owned()) } else { Ok(()) }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        Instance::Exchange(Box::new(Lie { delta: self.delta, direction: scope.direction }))
    }
}

struct Lie {
    delta: i64,
    direction: Direction,
}

impl Lie {
    fn tell(&self, headers: &mut HeaderMap, extensions: &mut Extensions) -> Decision {
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let Some(length) = length else {
            return Decision::skip("unknown_length");
        };
        let declared = length.saturating_add_signed(self.delta);
        headers.insert(CONTENT_LENGTH, declared.into());
        extensions.insert(DeclaredLength(declared));
        Decision::changed()
    }
}

impl ExchangeFilter for Lie {
    fn on_request(&mut self, head: &mut request::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => self.tell(&mut head.headers, &mut head.extensions),
            Direction::Downstream => Decision::forward(),
        }
    }

    fn on_response(&mut self, head: &mut response::Parts, _: Moment) -> Decision {
        match self.direction {
            Direction::Upstream => Decision::forward(),
            Direction::Downstream => self.tell(&mut head.headers, &mut head.extensions),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::script::Exchange;

    fn declared(delta: i64, length: Option<&str>) -> (Option<u64>, Decision) {
        let mut exchange = Exchange::new::<LengthLie>(json!({"delta": delta}), &Scope::default());
        if let Some(length) = length {
            exchange.response.headers.insert(CONTENT_LENGTH, length.parse().unwrap());
        }
        let decision = exchange.response();
        let header = exchange.response.headers.get(CONTENT_LENGTH);
        let declared = exchange.response.extensions.get::<DeclaredLength>().map(|length| length.0);
        if let Some(declared) = declared {
            assert_eq!(header.unwrap().to_str().unwrap(), declared.to_string());
        }
        (declared, decision)
    }

    #[test]
    fn the_length_is_off_by_delta() {
        for (delta, length) in [(50, 862), (-10, 802), (-1_000, 0)] {
            let (declared, decision) = declared(delta, Some("812"));
            assert_eq!((declared, decision.struck), (Some(length), true));
        }
    }

    #[test]
    fn without_a_length_there_is_no_lie() {
        for length in [None, Some("many")] {
            let (declared, decision) = declared(50, length);
            assert_eq!((declared, decision.struck, decision.skipped), (None, false, Some("unknown_length")));
        }
    }
}
