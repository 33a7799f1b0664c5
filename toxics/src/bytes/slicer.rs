use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Micros, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Splits data into small pieces, with an optional delay between them.
///
/// The client gets the same bytes in more, smaller reads. This finds code that treats one read as one message. Data is
/// halved until each piece has at most `average_size + size_variation` bytes, and `delay` passes after each piece. A
/// variation larger than the average counts as the average. Where data is split depends on how it was read and on its
/// position in the stream.
///
/// Compatible with Toxiproxy, which crashes if the average is 0 or the variation is above the average.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slicer {
    /// The approximate average size of a piece. 0, the default, does not split data.
    #[schemars(extend("x-unit" = "bytes"))]
    average_size: u64,
    /// The largest distance of a split from the middle, in either direction. Default 0.
    #[schemars(extend("x-unit" = "bytes"))]
    size_variation: u64,
    /// How long to wait after each piece, in microseconds. Default 0.
    delay: Micros,
}

impl Toxic for Slicer {
    const TYPE: &'static str = "slicer";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { average_size: 64, size_variation: 16, delay: Micros(1_000) }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        let average = match self.average_size {
            0 => usize::MAX,
            size => usize::try_from(size).unwrap_or(usize::MAX),
        };
        let variation = usize::try_from(self.size_variation).unwrap_or(usize::MAX).min(average);
        Instance::Bytes(Box::new(SliceCursor {
            largest: average.saturating_add(variation),
            variation: i64::try_from(variation).unwrap_or(i64::MAX),
            delay: self.delay,
            dice,
            offset: 0,
            free: Moment::ZERO,
        }))
    }
}

struct SliceCursor {
    largest: usize,
    variation: i64,
    delay: Micros,
    dice: Dice,
    /// How many bytes came so far.
    offset: u64,
    /// When the wait after the last piece is over.
    free: Moment,
}

impl SliceCursor {
    /// As the variation is not above the average, the depth is logarithmic.
    fn cut(&mut self, mut piece: Bytes, dice: &mut Dice, now: Moment, out: &mut Schedule<Bytes>) {
        if piece.len() > self.largest {
            let stray = dice.around_zero(self.variation);
            let middle = (piece.len() as u64 / 2).saturating_add_signed(stray) as usize;
            let left = piece.split_to(middle.clamp(1, piece.len() - 1));
            out.strike(now);
            self.cut(left, dice, now, out);
            self.cut(piece, dice, now, out);
        } else {
            let at = now.max(self.free);
            out.send(at, piece);
            self.free = at.saturating_add(self.delay.into());
        }
    }
}

impl StreamFilter<Bytes> for SliceCursor {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Bytes>) {
        self.free = now;
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        if self.delay != Micros(0) {
            out.strike(now);
        }
        let mut dice = self.dice.split(self.offset);
        self.offset += item.len() as u64;
        self.cut(item, &mut dice, now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.end(now.max(self.free));
    }

    fn only_delays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, log, ms};
    use crate::{Moment, Step};

    fn sizes(line: &Line) -> Vec<usize> {
        let size = |step: &Step<_>| if let Step::Item(item) = step { bytes::Bytes::len(item) } else { 0 };
        line.sent.iter().map(|(_, step)| size(step)).collect()
    }

    #[test]
    fn data_is_halved_until_it_fits() {
        let mut line = Line::with("slicer", &json!({"average_size": 100, "delay": 20_000}));
        line.push(ms(0), vec![b'x'; 1_000]);
        line.end(ms(0));
        line.at(ms(10_000));
        let mut sizes = sizes(&line);
        assert_eq!(sizes.pop(), Some(0));
        assert_eq!(sizes.len(), 16);
        assert!(sizes.iter().all(|size| (62..=63).contains(size)), "{sizes:?}");
        let moments: Vec<_> = line.sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(moments, (0..=16).map(|n| ms(20 * n)).collect::<Vec<_>>());
        assert_eq!(line.struck(), Some(ms(0)));
    }

    #[test]
    fn the_delay_is_in_microseconds() {
        let mut line = Line::with("slicer", &json!({"average_size": 1, "delay": 10}));
        line.push(ms(0), "abc");
        line.at(ms(1));
        let moments: Vec<_> = line.sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(moments, [0, 10, 20].map(Moment::from_micros));
    }

    #[test]
    fn small_data_passes_whole() {
        let mut line = Line::with("slicer", &json!({"average_size": 4}));
        line.push(ms(10), "abcd");
        assert_eq!(line.log(), log([(10, "abcd")]));
        assert_eq!(line.struck(), None);
    }

    #[test]
    fn a_removal_lets_go_of_the_rest() {
        let mut line = Line::with("slicer", &json!({"average_size": 1, "delay": 1_000_000}));
        line.push(ms(0), "abc");
        line.at(ms(100));
        line.remove();
        assert_eq!(line.log(), log([(0, "a"), (100, "b"), (100, "c")]));
    }

    #[test]
    fn a_new_delay_applies_to_the_rest() {
        let mut line = Line::with("slicer", &json!({"average_size": 1, "delay": 1_000_000}));
        line.push(ms(0), "abc");
        line.at(ms(100));
        line.change("slicer", &json!({"average_size": 1, "delay": 50_000}));
        line.at(ms(1_000));
        assert_eq!(line.log(), log([(0, "a"), (100, "b"), (150, "c")]));
    }

    proptest! {
        #[test]
        fn no_attributes_do_harm_and_no_byte_is_lost(
            average in prop_oneof![Just(0), 1u64..100, Just(1_000), any::<u64>()],
            variation in prop_oneof![Just(0), 1u64..100, Just(1_000), any::<u64>()],
            chunks in prop::collection::vec(1usize..5_000, 1..6),
        ) {
            let attributes = json!({"average_size": average, "size_variation": variation});
            let (mut line, mut again) = (Line::with("slicer", &attributes), Line::with("slicer", &attributes));
            let mut all = Vec::new();
            for size in chunks {
                let data: Vec<u8> = (0..size).map(|n| (n + all.len()) as u8).collect();
                line.push(ms(1), &data);
                again.push(ms(1), &data);
                all.extend(data);
            }
            prop_assert_eq!(line.data(), all);
            let largest = if average == 0 { u64::MAX } else { average.saturating_add(variation.min(average)) };
            prop_assert!(sizes(&line).into_iter().all(|size| size > 0 && size as u64 <= largest));
            prop_assert_eq!(sizes(&line), sizes(&again));
        }
    }

    #[test]
    fn an_average_of_0_cuts_nothing() {
        let mut line = Line::with("slicer", &json!({"size_variation": 5}));
        line.push(ms(10), "abcd");
        assert_eq!(line.log(), log([(10, "abcd")]));
    }

    #[test]
    fn cuts_vary_within_data_and_from_place_to_place() {
        let mut line = Line::with("slicer", &json!({"average_size": 100, "size_variation": 50}));
        line.push(ms(0), vec![b'x'; 10_000]);
        let mut sizes = sizes(&line);
        line.push(ms(1), vec![b'x'; 10_000]);
        assert_ne!(super::tests::sizes(&line)[sizes.len()..], sizes);
        sizes.sort_unstable();
        sizes.dedup();
        assert!(sizes.len() > 10, "{sizes:?}");
    }
}
