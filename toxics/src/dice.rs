//! Randomness that a run can repeat.
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The random source of one toxic on one connection or exchange.
///
/// `ChaCha8`, whose output is fixed for good, and not the standard generators,
/// whose output may change between releases.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice that always roll the same for the same seed, proxy, toxic and number.
    ///
    /// `number` counts the connections or the exchanges of the proxy, so that
    /// nothing depends on timing.
    pub fn new(seed: u64, proxy: &str, toxic: &str, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut stream = Fnv::new();
        stream.add(proxy.as_bytes());
        stream.add(&[0]);
        stream.add(toxic.as_bytes());
        stream.add(&[0]);
        stream.add(&number.to_le_bytes());
        rng.set_stream(stream.0);
        Self(rng)
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Whether something of this probability happens. 1 and more always do, 0 and less never.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number in `-spread..=spread`.
    pub fn around_zero(&mut self, spread: i64) -> i64 {
        let spread = spread.saturating_abs();
        self.0.random_range(-spread..=spread)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.random_range(0..bound) }
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Dice of their own for a part of the toxic's work, such as its nth event.
    #[must_use]
    pub fn split(&self, number: u64) -> Self {
        let mut rng = self.0.clone();
        let mut stream = Fnv(rng.get_stream() ^ 0x9e37_79b9_7f4a_7c15);
        stream.add(&number.to_le_bytes());
        rng.set_stream(stream.0);
        rng.set_word_pos(0);
        Self(rng)
    }
}

/// FNV-1a, 64 bits: a hash that is the same on every machine and in every release.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64, proxy: &str, toxic: &str, number: u64) -> u64 {
        Dice::new(seed, proxy, toxic, number).bits()
    }

    #[test]
    fn the_same_roll_the_same_and_others_do_not() {
        assert_eq!(first(1, "p", "t", 2), first(1, "p", "t", 2));
        let others =
            [first(2, "p", "t", 2), first(1, "q", "t", 2), first(1, "p", "u", 2), first(1, "p", "t", 3)];
        assert!(!others.contains(&first(1, "p", "t", 2)));
        assert_ne!(first(1, "ab", "c", 0), first(1, "a", "bc", 0));
    }

    #[test]
    fn a_split_does_not_depend_on_what_was_rolled_before() {
        let mut dice = Dice::new(1, "p", "t", 0);
        let before = dice.split(7).bits();
        dice.bits();
        assert_eq!(dice.split(7).bits(), before);
        assert_ne!(dice.split(8).bits(), before);
    }

    #[test]
    fn rolls_are_fixed_for_good() {
        assert_eq!(Dice::new(42, "openai", "slow", 1).bits(), ROLL_OF_42);
    }

    const ROLL_OF_42: u64 = 6_064_785_972_218_880_606;
}
