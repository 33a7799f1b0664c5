use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Closes the connection after a fixed time, even if data is flowing.
///
/// Data passes unchanged until the connection is closed on both sides, as by a load balancer with a maximum connection
/// age. The time starts when the connection opens, or when the toxic is added to an open connection; a change restarts
/// it.
///
/// Toxiproxy has no such toxic: its `timeout` discards data and waits for silence.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitTime {
    /// The lifetime of the connection. Default 30 s.
    time: Millis,
}

impl Default for LimitTime {
    fn default() -> Self {
        Self { time: Millis(30_000) }
    }
}

impl Toxic for LimitTime {
    const TYPE: &'static str = "limit_time";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { time: Millis(2_000) }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Lifetime { time: self.time }))
    }
}

struct Lifetime {
    time: Millis,
}

impl StreamFilter<Bytes> for Lifetime {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.wake_at(now.saturating_add(self.time.into()));
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        out.close(now);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Line, ms};

    #[test]
    fn tox_07_it_closes_on_time_under_constant_traffic() {
        let mut line = Line::with("limit_time", &json!({"time": "2s"}));
        for at in (100..=3_000).step_by(100) {
            line.push(ms(at), "x");
        }
        assert_eq!(line.data(), [b'x'; 19]);
        assert_eq!(line.log().last().unwrap(), &(2_000, "<close>".to_owned()));
        assert_eq!(line.struck(), Some(ms(2_000)));
    }

    #[test]
    fn a_removal_leaves_the_connection_open() {
        let mut line = Line::with("limit_time", &json!({"time": 500}));
        line.at(ms(400));
        line.remove();
        line.push(ms(1_000), "x");
        assert_eq!(line.log(), [(1_000, "x".to_owned())]);
    }
}
