use std::time::Duration;

use aconite_dialects::{Event, Shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Distribution, on_events};
use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Slows a stream down, event by event.
///
/// The first event is delayed by `first`. Each later one is sent at least `between` after the one before, or at a rate
/// of `tokens_per_second` content events. Events that arrive more slowly are not delayed. Keep-alive comments pass at
/// once, so callers that treat them as activity do not time out; `hold_comments` delays them too.
///
/// Timeouts of the Python SDKs apply to each read: a slow stream never times out as long as each gap is shorter (10
/// minutes by default), and comments count as reads. The Node SDKs' timeout ends when the response starts.
/// langchain-openai raises `StreamChunkTimeoutError` after a gap of 120 s, in async code only.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlowStream {
    /// The delay of the first event. Default 0.
    first: Millis,
    /// The minimum time between two events. Default 0.
    between: Millis,
    /// The spread of the times between events. Default 0.
    jitter: Millis,
    /// The rate of content events, 0.001 to 1,000,000 a second; other events have no delay of their own. Use it instead
    /// of `between`.
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    tokens_per_second: Option<f64>,
    /// The distribution of the delays. Default `uniform`.
    distribution: Distribution,
    /// Whether comments and blank lines are delayed too. Default false.
    hold_comments: bool,
}

impl Toxic for SlowStream {
    const TYPE: &'static str = "slow_stream";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { first: Millis(3_000), tokens_per_second: Some(5.0), ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        self.distribution.check(self.jitter)?;
        if let Some(rate) = self.tokens_per_second {
            if !(0.001..=1e6).contains(&rate) {
                return Err("`tokens_per_second` lies between 0.001 and 1000000".to_owned());
            }
            if self.between != Millis(0) {
                return Err("`between` and `tokens_per_second` exclude each other".to_owned());
            }
        } else if self.first == Millis(0) && self.between == Millis(0) && self.jitter == Millis(0) {
            return Err("nothing is slowed down: give `first`, `between` or `tokens_per_second`".to_owned());
        }
        Ok(())
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_events(scope, |_| {
            Box::new(Pace { config: self.clone(), shape: scope.shape(), dice, events: 0, last: Moment::ZERO })
        })
    }
}

struct Pace {
    config: SlowStream,
    shape: Shape,
    dice: Dice,
    /// Events so far.
    events: u64,
    /// When the last of them leaves.
    last: Moment,
}

impl Pace {
    fn departure(&self, event: &Event, now: Moment) -> Moment {
        if self.events == 0 {
            return now.saturating_add(self.config.first.into());
        }
        let gap = match self.config.tokens_per_second {
            Some(_) if !self.shape.is_content(event) => return now,
            Some(rate) => Duration::from_secs_f64(1.0 / rate),
            None => self.config.between.into(),
        };
        let SlowStream { jitter, distribution, .. } = self.config;
        let gap = distribution.roll(gap, jitter, &mut self.dice.split(self.events));
        now.max(self.last.saturating_add(gap))
    }
}

impl StreamFilter<Event> for Pace {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        if item.is_between() && !self.config.hold_comments {
            out.send_ahead(now, item);
        } else if item.is_event() {
            let at = self.departure(&item, now);
            if at > now {
                out.strike(now);
            }
            // What passes without a wait still comes after what waits.
            self.last = self.last.max(at);
            self.events += 1;
            out.send(at, item);
        } else {
            out.send(now, item);
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.events == 0 {
            out.skip("no_events");
        }
        out.end(now);
    }

    fn tally(&self) -> u64 {
        self.events
    }

    fn resume(&mut self, tally: u64) {
        self.events = tally;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::message::script::{Play, check, sse};

    #[test]
    fn the_first_event_waits_and_so_do_the_gaps() {
        let mut play = Play::new::<SlowStream>(json!({"first": 1000, "between": 200}), &sse());
        play.push(10, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
        play.end(20);
        play.until(10_000);
        assert_eq!(play.times(), [1_010, 1_210, 1_410]);
        assert_eq!(play.last().map(|(at, _)| at), Some(1_410));
        assert_eq!(play.struck(), Some(10));
    }

    #[test]
    fn what_is_slow_already_is_not_delayed() {
        let mut play = Play::new::<SlowStream>(json!({"between": 100}), &sse());
        for at in [0, 500, 550] {
            play.push(at, "data: x\n\n");
        }
        play.until(1_000);
        assert_eq!(play.times(), [0, 500, 600]);
    }

    #[test]
    fn sse_31_heartbeats_pass_while_events_are_held() {
        for (hold_comments, times) in [(false, vec![10, 20, 1_000]), (true, vec![1_000, 1_000, 1_000])] {
            let config = json!({"first": 1000, "hold_comments": hold_comments});
            let mut play = Play::new::<SlowStream>(config, &sse());
            play.push(0, "data: 1\n\n");
            play.push(10, ": ping\n");
            play.push(20, ": ping\n");
            play.until(2_000);
            assert_eq!(play.times(), times);
        }
    }

    #[test]
    fn parts_of_an_event_too_large_to_hold_keep_their_place() {
        let large = format!("data: {}\n", "x".repeat(2 << 20));
        let mut play = Play::new::<SlowStream>(json!({"first": 1000}), &sse());
        play.push(0, "data: 1\n\n");
        play.push(1, &large);
        play.push(2, "\n");
        play.until(5_000);
        assert_eq!(play.text(), format!("data: 1\n\n{large}\n"));
        assert_eq!(play.skipped(), Some("event_too_large"));
    }

    #[test]
    fn attributes_that_contradict_each_other() {
        for bad in [
            json!({}),
            json!({"between": 1, "tokens_per_second": 1}),
            json!({"tokens_per_second": 0}),
            json!({"first": 1, "jitter": 1, "distribution": "fixed"}),
        ] {
            assert!(check::<SlowStream>(bad.clone()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn gaps_lie_within_jitter_and_nothing_hangs_on_the_cuts(
            jitter in 0_u64..100,
            cuts in prop::collection::vec(0_usize..200, 0..8),
        ) {
            let body = ": c\n\ndata: 1\n\ndata: 2\r\n\r\n: d\ndata: 3\n\ndata: 4\n\nid: 1\n\ndata: 5\n\ndata: tail";
            let config = json!({"between": 100, "jitter": jitter});
            let run = |cuts: &[usize]| {
                let mut play = Play::new::<SlowStream>(config.clone(), &sse());
                play.push_cut(body.as_bytes(), cuts);
                play.end(20);
                play.until(10_000);
                play
            };
            let (whole, play) = (run(&[]), run(&cuts));
            let events = |play: &Play| {
                let items = play.items().into_iter().zip(play.times());
                items.filter(|(item, _)| item.starts_with("data: ") && item.ends_with(['\r', '\n'])).collect::<Vec<_>>()
            };
            let (whole, events) = (events(&whole), events(&play));
            prop_assert_eq!(events.len(), 5);
            for pair in events.windows(2) {
                let gap = pair[1].1 - pair[0].1;
                prop_assert!((100 - jitter..=100 + jitter + 1).contains(&gap), "{} after {}", gap, pair[0].0);
            }
            // The same gaps, whenever the first event came.
            let gaps = |events: &[(String, u64)]| {
                events.windows(2).map(|pair| pair[1].1.abs_diff(pair[0].1)).collect::<Vec<_>>()
            };
            for (one, other) in gaps(&whole).into_iter().zip(gaps(&events)) {
                prop_assert!(one.abs_diff(other) <= 1);
            }
        }
    }
}
