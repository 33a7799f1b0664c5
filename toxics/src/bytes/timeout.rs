use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Discards all data, and closes the connection after a period without data.
///
/// All data of its direction is discarded. Each piece of data restarts the timer, so a busy connection stays open;
/// `limit_time` sets a limit that traffic does not extend. When the timer expires, the connection is closed on both
/// sides. It is also closed when the sender finishes after data was discarded.
///
/// Because data was lost, removing the toxic closes every connection that it acted on. A change of its attributes only
/// restarts the timer.
///
/// Compatible with Toxiproxy, except that connections which its toxicity did not select stay open when it is removed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeout {
    /// How long the connection may be silent before it is closed. 0, the default, never closes it.
    timeout: Millis,
}

impl Toxic for Timeout {
    const TYPE: &'static str = "timeout";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { timeout: Millis(5_000) }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(BlackHole { timeout: self.timeout, swallowed: 0 }))
    }
}

struct BlackHole {
    timeout: Millis,
    /// In bytes.
    swallowed: u64,
}

impl BlackHole {
    fn restart(&self, now: Moment, out: &mut Schedule<Bytes>) {
        if self.timeout != Millis(0) {
            out.wake_at(now.saturating_add(self.timeout.into()));
        }
    }
}

impl StreamFilter<Bytes> for BlackHole {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.restart(now, out);
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        self.swallowed = self.swallowed.saturating_add(item.len() as u64);
        self.restart(now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if self.swallowed > 0 {
            out.close(now);
        } else {
            out.end(now);
        }
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        out.close(now);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        out.close(now);
    }

    /// It has nothing to hand over; but a mere change must not close.
    fn only_delays(&self) -> bool {
        true
    }

    fn tally(&self) -> u64 {
        self.swallowed
    }

    fn resume(&mut self, tally: u64) {
        self.swallowed = tally;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    #[test]
    fn silence_closes_and_data_puts_it_off() {
        let mut line = Line::with("timeout", &json!({"timeout": 300}));
        for at in (100..=1_000).step_by(100) {
            line.push(ms(at), "swallowed");
        }
        line.at(ms(10_000));
        assert_eq!(line.log(), log([(1_300, "<close>")]));
        assert_eq!(line.struck(), Some(ms(100)));
    }

    #[test]
    fn a_silent_connection_closes_too() {
        let mut line = Line::with("timeout", &json!({"timeout": 500}));
        line.at(ms(499));
        assert_eq!(line.log(), []);
        line.at(ms(500));
        assert_eq!(line.log(), log([(500, "<close>")]));
    }

    #[test]
    fn a_timeout_of_0_never_closes() {
        let mut line = Line::with("timeout", &json!({}));
        line.push(ms(100), "swallowed");
        line.at(ms(100_000_000));
        assert_eq!(line.log(), []);
        assert_eq!(line.pipeline.next_wakeup(), None);
        assert!(line.pipeline.has_room());
    }

    #[test]
    fn a_removal_closes() {
        let mut line = Line::with("timeout", &json!({"timeout": 0}));
        line.at(ms(100));
        line.remove();
        assert_eq!(line.log(), log([(100, "<close>")]));
    }

    #[test]
    fn a_change_restarts_the_timer_and_does_not_close() {
        let mut line = Line::with("timeout", &json!({"timeout": 500}));
        line.push(ms(100), "swallowed");
        line.at(ms(400));
        line.change("timeout", &json!({"timeout": 1_000}));
        line.at(ms(1_399));
        assert_eq!(line.log(), []);
        line.at(ms(1_400));
        assert_eq!(line.log(), log([(1_400, "<close>")]));
    }

    #[test]
    fn an_end_after_lost_data_closes_also_across_a_change() {
        let mut line = Line::with("timeout", &json!({}));
        line.push(ms(100), "swallowed");
        line.change("timeout", &json!({"timeout": 10_000}));
        line.end(ms(200));
        assert_eq!(line.log(), log([(200, "<close>")]));
    }

    #[test]
    fn an_end_with_nothing_lost_passes() {
        let mut line = Line::with("timeout", &json!({}));
        line.end(ms(200));
        assert_eq!(line.log(), log([(200, "<end>")]));
    }
}
