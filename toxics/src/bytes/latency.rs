use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Delays all data by a fixed time, plus or minus some jitter.
///
/// The delay is pipelined: each byte arrives later, at the same throughput. Up to 31 MiB are held for each direction;
/// then the sender has to wait. Data is never reordered: a piece with a long delay also delays the pieces behind it.
/// The end of a stream has no delay of its own and stays behind the data. The toxic acts on one direction: add one to
/// each stream to delay both halves of a round trip. Several delays add up.
///
/// The jitter of a piece of data depends on the position of its first byte in the stream: a message at the same
/// position gets the same delay in every run, however the network split the data before it.
///
/// Compatible with Toxiproxy. Unlike Toxiproxy, a change of the attributes also applies to data that is already held,
/// counted from its arrival, and a negative delay (jitter larger than latency) counts as none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Latency {
    /// How long data is delayed. Default 0.
    latency: Millis,
    /// The largest deviation from `latency` in either direction, uniformly distributed. Default 0.
    jitter: Millis,
}

impl Toxic for Latency {
    const TYPE: &'static str = "latency";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { latency: Millis(200), jitter: Millis(50) }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        Instance::Bytes(Box::new(Delay { config: self.clone(), dice, offset: 0 }))
    }
}

struct Delay {
    config: Latency,
    dice: Dice,
    /// How many bytes came so far.
    offset: u64,
}

impl StreamFilter<Bytes> for Delay {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let Latency { latency: Millis(latency), jitter: Millis(jitter) } = self.config;
        let stray = match i64::try_from(jitter).unwrap_or(i64::MAX) {
            0 => 0,
            spread => self.dice.split(self.offset).around_zero(spread),
        };
        self.offset += item.len() as u64;
        let delay = Duration::from_millis(latency.saturating_add_signed(stray));
        if !delay.is_zero() {
            out.strike(now);
        }
        out.send(now.saturating_add(delay), item);
    }

    fn only_delays(&self) -> bool {
        true
    }

    fn capacity(&self) -> usize {
        // With what it costs to keep them, 32 MiB of memory.
        31 * 1024 * 1024
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    #[test]
    fn data_is_shifted_and_keeps_its_pace() {
        let mut line = Line::with("latency", &json!({"latency": 300}));
        for (number, text) in ["a", "b", "c"].into_iter().enumerate() {
            line.push(ms(20 * number as u64), text);
        }
        line.end(ms(50));
        line.at(ms(1_000));
        assert_eq!(line.log(), log([(300, "a"), (320, "b"), (340, "c"), (340, "<end>")]));
        assert_eq!(line.struck(), Some(ms(0)));
    }

    #[test]
    fn an_end_with_no_data_before_it_passes_at_once() {
        let mut line = Line::with("latency", &json!({"latency": 300}));
        line.end(ms(50));
        assert_eq!(line.log(), log([(50, "<end>")]));
        assert_eq!(line.struck(), None);
    }

    #[test]
    fn several_add_up() {
        let mut line = Line::with("latency", &json!({"latency": 100}));
        line.add("latency", &json!({"latency": 250}));
        line.push(ms(0), "a");
        line.at(ms(1_000));
        assert_eq!(line.log(), log([(350, "a")]));
    }

    #[test]
    fn a_removed_one_lets_go_at_once_and_in_order() {
        let mut line = Line::with("latency", &json!({"latency": 2_000}));
        for text in ["a", "b", "c"] {
            line.push(ms(10), text);
        }
        line.at(ms(500));
        line.remove();
        assert_eq!(line.log(), log([(500, "a"), (500, "b"), (500, "c")]));
    }

    #[test]
    fn a_changed_delay_counts_from_when_the_data_came() {
        let mut line = Line::with("latency", &json!({"latency": 5_000}));
        line.push(ms(0), "a");
        line.at(ms(200));
        line.change("latency", &json!({"latency": 300}));
        line.at(ms(1_000));
        assert_eq!(line.log(), log([(300, "a")]));
    }

    #[test]
    fn no_size_of_delay_or_jitter_does_harm() {
        for (latency, jitter) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (5, 1 << 62)] {
            let mut line = Line::with("latency", &json!({"latency": latency, "jitter": jitter}));
            line.push(ms(1), "a");
            line.at(ms(1_000_000));
            line.remove();
            assert_eq!(line.data(), b"a", "{latency} {jitter}");
        }
    }

    proptest! {
        #[test]
        fn each_piece_keeps_within_the_jitter_and_its_place(
            latency in 0u64..500,
            jitter in 0u64..700,
            gaps in prop::collection::vec(0u64..50, 1..40),
        ) {
            let mut line = Line::with("latency", &json!({"latency": latency, "jitter": jitter}));
            let (mut now, mut came) = (0, Vec::new());
            for (number, gap) in gaps.iter().enumerate() {
                now += gap;
                came.push(now);
                line.push(ms(now), [number as u8]);
            }
            line.at(ms(100_000));
            prop_assert_eq!(line.data(), (0..came.len() as u8).collect::<Vec<_>>());
            let mut longest = 0;
            for (came, (left, _)) in came.iter().zip(&line.sent) {
                // Held up at most by the slowest piece before it.
                longest = longest.max(came + latency + jitter);
                prop_assert!(*left >= ms(came + latency.saturating_sub(jitter)), "early");
                prop_assert!(*left <= ms(longest), "late");
            }
        }

        #[test]
        fn the_same_place_in_the_stream_gets_the_same_jitter(cut in 1usize..9) {
            let departure = |before: &[&[u8]]| {
                let mut line = Line::with("latency", &json!({"latency": 500, "jitter": 400}));
                for data in before {
                    line.push(ms(0), data);
                }
                line.push(ms(1_000), "message");
                line.at(ms(10_000));
                line.sent.last().unwrap().0
            };
            let data = b"0123456789";
            prop_assert_eq!(departure(&[data]), departure(&[&data[..cut], &data[cut..]]));
        }
    }

    #[test]
    fn jitter_differs_between_places() {
        let mut line = Line::with("latency", &json!({"latency": 500, "jitter": 400}));
        for number in 0..10u64 {
            line.push(ms(number * 10_000), "m");
        }
        line.at(ms(200_000));
        let mut delays: Vec<_> =
            line.sent.iter().zip(0u64..).map(|((at, _), number)| *at - ms(number * 10_000)).collect();
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 5, "{delays:?}");
    }
}
