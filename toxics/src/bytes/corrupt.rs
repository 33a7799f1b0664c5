use bytes::{Bytes, BytesMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Moment, Probability, Schedule, Scope, StreamFilter, Toxic};

/// Corrupts a share of the bytes without changing their number.
///
/// In plain HTTP this breaks framing or JSON, in an event stream it breaks events. Under TLS the first corrupted byte
/// ends the connection with an alert (`bad record mac`). Which bytes are corrupted, and how, depends only on the seed
/// and on their position in the stream, not on how the network split the data. Positions are counted from the moment at
/// which the toxic started to act or was changed.
///
/// Toxiproxy has no such toxic.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Corrupt {
    /// The share of bytes that are corrupted, 0 to 1. Default 0.001: one in a thousand.
    rate: Probability,
    /// What happens to a byte. Default `flip`.
    mode: Mode,
}

/// What happens to a damaged byte.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Mode {
    /// One bit of the byte is flipped.
    #[default]
    Flip,
    /// The byte becomes 0.
    Zero,
    /// The byte becomes a random other byte.
    Random,
}

impl Default for Corrupt {
    fn default() -> Self {
        Self { rate: Probability::of(0.001), mode: Mode::default() }
    }
}

impl Toxic for Corrupt {
    const TYPE: &'static str = "corrupt";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { rate: Probability::of(0.01), mode: Mode::Random }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        let mut noise = Noise { config: self.clone(), dice, offset: 0, next: 0 };
        noise.next = noise.gap();
        Instance::Bytes(Box::new(noise))
    }
}

struct Noise {
    config: Corrupt,
    dice: Dice,
    /// How many bytes came so far.
    offset: u64,
    /// The offset of the next byte to damage.
    next: u64,
}

impl Noise {
    /// How many bytes stay whole before the next damaged one: geometrically distributed.
    fn gap(&mut self) -> u64 {
        let rate = self.config.rate.get();
        if rate <= 0.0 {
            return u64::MAX;
        }
        let whole = (1.0 - self.dice.unit()).ln() / (-rate).ln_1p();
        // A cast from a float saturates.
        whole as u64
    }

    fn damage(&mut self, byte: u8) -> u8 {
        match self.config.mode {
            Mode::Flip => byte ^ (1 << self.dice.below(8)),
            Mode::Zero => 0,
            Mode::Random => byte ^ (1 + self.dice.below(255) as u8),
        }
    }
}

impl StreamFilter<Bytes> for Noise {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let start = self.offset;
        self.offset += item.len() as u64;
        if self.next >= self.offset {
            out.send(now, item);
            return;
        }
        out.strike(now);
        let mut bytes = BytesMut::from(item);
        while self.next < self.offset {
            if let Some(byte) = bytes.get_mut((self.next - start) as usize) {
                *byte = self.damage(*byte);
            }
            self.next = self.next.saturating_add(1).saturating_add(self.gap());
        }
        out.send(now, bytes.freeze());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, ms};

    fn damaged(mode: &str, rate: f64, data: &[u8]) -> Vec<u8> {
        let mut line = Line::with("corrupt", &json!({"rate": rate, "mode": mode}));
        line.push(ms(0), data);
        line.data()
    }

    #[test]
    fn about_the_stated_share_is_damaged() {
        let data = vec![b'x'; 100_000];
        for (mode, rate) in [("flip", 0.01), ("random", 0.3), ("zero", 0.001)] {
            let changed = damaged(mode, rate, &data).iter().filter(|byte| **byte != b'x').count();
            let share = changed as f64 / data.len() as f64;
            assert!((share / rate - 1.0).abs() < 0.3, "{mode}: {share} for {rate}");
        }
    }

    #[test]
    fn all_or_nothing() {
        let data = vec![b'x'; 1_000];
        assert_eq!(damaged("zero", 1.0, &data), vec![0; 1_000]);
        assert_eq!(damaged("zero", 0.0, &data), data);
        let tiny = f64::MIN_POSITIVE;
        assert_eq!(damaged("zero", tiny, &data), data);
    }

    #[test]
    fn each_mode_damages_in_its_way() {
        let data = vec![b'x'; 1_000];
        assert!(damaged("flip", 1.0, &data).iter().all(|byte| (byte ^ b'x').count_ones() == 1));
        let random = damaged("random", 1.0, &data);
        assert!(random.iter().all(|byte| *byte != b'x'));
        assert!((0..=255).filter(|byte| random.contains(byte)).count() > 200);
    }

    #[test]
    fn it_strikes_when_it_first_damages() {
        let mut line = Line::with("corrupt", &json!({"rate": 0}));
        line.push(ms(0), "x");
        assert_eq!(line.struck(), None);
        let mut line = Line::with("corrupt", &json!({"rate": 1}));
        line.push(ms(5), "x");
        assert_eq!(line.struck(), Some(ms(5)));
    }

    proptest! {
        #[test]
        fn the_same_bytes_are_damaged_whatever_the_cuts(
            data in prop::collection::vec(any::<u8>(), 1..2_000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            rate in prop_oneof![0.0f64..0.05, 0.0f64..1.0],
            mode in prop_oneof![Just("flip"), Just("zero"), Just("random")],
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(data.len())).collect();
            cuts.sort_unstable();
            let mut line = Line::with("corrupt", &json!({"rate": rate, "mode": mode}));
            let mut from = 0;
            for to in cuts.into_iter().chain([data.len()]) {
                line.push(ms(0), &data[from..to]);
                from = to;
            }
            prop_assert_eq!(line.data(), damaged(mode, rate, &data));
        }
    }
}
