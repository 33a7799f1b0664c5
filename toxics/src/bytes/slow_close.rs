use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Keeps the connection open for a while after the sender has finished.
///
/// Data passes unchanged; only the end of the stream is delayed. On `downstream` the client is told late that the
/// server has closed, on `upstream` the server is told late that the client has.
///
/// Compatible with Toxiproxy: a change during the delay restarts it, removing the toxic ends it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlowClose {
    /// How long the end of the stream is delayed. Default 0.
    delay: Millis,
}

impl Toxic for SlowClose {
    const TYPE: &'static str = "slow_close";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { delay: Millis(1_000) }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Linger { delay: self.delay, began: Moment::ZERO }))
    }
}

struct Linger {
    delay: Millis,
    began: Moment,
}

impl StreamFilter<Bytes> for Linger {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Bytes>) {
        self.began = now;
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        // An end that a predecessor already holds waits as long as a new one.
        out.end(now.max(self.began).saturating_add(self.delay.into()));
    }

    fn only_delays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    fn line() -> Line {
        let mut line = Line::with("slow_close", &json!({"delay": 700}));
        line.push(ms(100), "data");
        line.end(ms(200));
        line
    }

    #[test]
    fn only_the_end_waits() {
        let mut line = line();
        line.at(ms(10_000));
        assert_eq!(line.log(), log([(100, "data"), (900, "<end>")]));
        assert_eq!(line.struck(), Some(ms(200)));
    }

    #[test]
    fn a_change_begins_the_wait_anew() {
        let mut line = line();
        line.at(ms(800));
        line.change("slow_close", &json!({"delay": 300}));
        line.at(ms(10_000));
        assert_eq!(line.log(), log([(100, "data"), (1_100, "<end>")]));
    }

    #[test]
    fn a_removal_ends_the_wait() {
        let mut line = line();
        line.at(ms(800));
        line.remove();
        assert_eq!(line.log(), log([(100, "data"), (800, "<end>")]));
    }
}
