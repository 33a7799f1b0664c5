use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Moment, NEVER, Schedule, Scope, StreamFilter, Toxic};

/// Limits the bandwidth.
///
/// The limit applies to each connection and direction separately. Data is sent in pieces of at most 100 ms worth of
/// data, each at the moment at which its last byte would have arrived at this rate, so the first byte of a large
/// message arrives after 100 ms. The sender soon has to wait.
///
/// With a rate of 0 no data passes and the connection stays open. Held data is delivered without loss when the toxic is
/// changed or removed. The end of the stream passes if no data is held before it.
///
/// Compatible with Toxiproxy. Unlike Toxiproxy, a change of the rate also applies to held data, from the moment of the
/// change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bandwidth {
    /// The bandwidth in kilobytes (1,000 bytes) per second. 0, the default, passes no data.
    #[schemars(extend("x-unit" = "KB/s"))]
    rate: u64,
}

impl Toxic for Bandwidth {
    const TYPE: &'static str = "bandwidth";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { rate: 100 }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Line { rate: self.rate, busy: Moment::ZERO, passed: 0, free: Moment::ZERO }))
    }
}

struct Line {
    /// In bytes a millisecond.
    rate: u64,
    /// Since when it has not been idle.
    busy: Moment,
    /// How many bytes it has taken since then.
    passed: u64,
    /// When the last of them will have left.
    free: Moment,
}

impl Line {
    /// What it passes in 100 ms.
    fn piece(&self) -> usize {
        usize::try_from(self.rate.saturating_mul(100)).unwrap_or(usize::MAX)
    }

    fn take(&mut self, bytes: usize) {
        self.passed = self.passed.saturating_add(bytes as u64);
        // Counted from when the line became busy, so that rounding does not add up.
        let nanos = (u128::from(self.passed) * 1_000_000).div_ceil(u128::from(self.rate));
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.free = self.busy.saturating_add(Duration::from_nanos(nanos));
    }
}

impl StreamFilter<Bytes> for Line {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Bytes>) {
        self.busy = now;
        self.free = now;
    }

    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        if self.rate == 0 {
            out.send(NEVER, item);
            return;
        }
        if self.free < now {
            self.busy = now;
            self.passed = 0;
        }
        while !item.is_empty() {
            let piece = item.split_to(item.len().min(self.piece()));
            self.take(piece.len());
            out.send(self.free, piece);
        }
    }

    fn only_delays(&self) -> bool {
        true
    }

    fn capacity(&self) -> usize {
        // The next piece has to be there when one leaves, or the line runs dry.
        self.piece().saturating_mul(2).clamp(16 * 1024, 4 * 1024 * 1024)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, log, ms};
    use crate::Step;

    fn sizes(line: &Line) -> Vec<(u64, usize)> {
        line.log().into_iter().map(|(at, data)| (at, data.len())).collect()
    }

    #[test]
    fn data_leaves_in_pieces_of_a_tenth_of_a_second() {
        let mut line = Line::with("bandwidth", &json!({"rate": 1}));
        line.push(ms(0), [b'x'; 250]);
        line.push(ms(300), [b'y'; 10]);
        line.at(ms(1_000));
        assert_eq!(sizes(&line), [(100, 100), (200, 100), (250, 50), (310, 10)]);
        assert_eq!(line.struck(), Some(ms(0)));
    }

    #[test]
    fn a_kilobyte_is_a_thousand_bytes() {
        let mut line = Line::with("bandwidth", &json!({"rate": 100}));
        line.push(ms(0), vec![b'x'; 200_000]);
        line.end(ms(0));
        line.at(ms(10_000));
        assert_eq!(line.log().last(), log([(2_000, "<end>")]).last());
    }

    #[test]
    fn a_rate_of_0_cuts_the_line_and_loses_nothing() {
        let mut line = Line::with("bandwidth", &json!({"rate": 0}));
        line.push(ms(0), "all of ");
        line.push(ms(10), "it");
        line.end(ms(20));
        line.at(ms(1_000_000));
        assert_eq!(line.log(), []);
        line.remove();
        assert_eq!(line.log(), log([(1_000_000, "all of "), (1_000_000, "it"), (1_000_000, "<end>")]));
    }

    #[test]
    fn a_new_rate_applies_to_what_waits() {
        let mut line = Line::with("bandwidth", &json!({"rate": 0}));
        line.push(ms(0), [b'x'; 250]);
        line.end(ms(10));
        line.at(ms(5_000));
        line.change("bandwidth", &json!({"rate": 1}));
        line.at(ms(9_000));
        assert_eq!(sizes(&line), [(5_100, 100), (5_200, 100), (5_250, 50), (5_250, "<end>".len())]);
    }

    #[test]
    fn an_idle_line_saves_nothing_up() {
        let mut line = Line::with("bandwidth", &json!({"rate": 1}));
        line.push(ms(10_000), [b'x'; 100]);
        line.at(ms(20_000));
        assert_eq!(sizes(&line), [(10_100, 100)]);
    }

    #[test]
    fn the_sender_is_made_to_wait_until_data_has_left() {
        let mut line = Line::with("bandwidth", &json!({"rate": 100}));
        line.push(ms(0), vec![b'x'; 40_000]);
        assert!(!line.pipeline.has_room());
        line.at(ms(300));
        assert!(line.pipeline.has_room());
    }

    #[test]
    fn no_rate_does_harm() {
        for rate in [1 << 53, 92_233_720_368_547_758, u64::MAX] {
            let mut line = Line::with("bandwidth", &json!({"rate": rate}));
            line.push(ms(1), vec![b'x'; 1_000_000]);
            line.at(ms(2));
            assert_eq!(line.data().len(), 1_000_000, "{rate}");
        }
    }

    proptest! {
        #[test]
        fn never_faster_than_the_rate_and_never_idle_while_data_waits(
            rate in 1u64..300,
            chunks in prop::collection::vec((0u64..60, 1usize..5_000), 1..30),
        ) {
            let mut line = Line::with("bandwidth", &json!({"rate": rate}));
            let (mut now, mut total) = (0, 0);
            // When an ideal line would have passed it all.
            let mut ideal = 0.0f64;
            for (gap, size) in &chunks {
                now += gap;
                total += size;
                ideal = ideal.max(now as f64) + *size as f64 / rate as f64;
                line.push(ms(now), vec![b'x'; *size]);
            }
            line.at(ms(10_000_000));
            prop_assert_eq!(line.data().len(), total);
            let end = line.sent.last().unwrap().0.as_secs_f64() * 1_000.0;
            prop_assert!((end - ideal).abs() < 0.001, "{end} {ideal}");
            let largest = line.sent.iter().map(|(_, step)| match step {
                Step::Item(item) => item.len() as u64,
                _ => 0,
            });
            prop_assert!(largest.max().unwrap() <= rate * 100);
        }
    }
}
