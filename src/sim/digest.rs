//! Ids and pseudo-random numbers that derive from content alone.

/// A 64-bit digest: FNV-1a, then mixed. Stable across versions and machines; not for secrets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(0xcbf2_9ce4_8422_2325).and(bytes)
    }

    /// The digest of what was digested so far and then `bytes`.
    pub(super) fn and(self, bytes: &[u8]) -> Self {
        let fnv =
            bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        Self(mix(fnv))
    }

    /// A digest of its own for the `n`th thing.
    pub(super) fn nth(self, n: usize) -> Self {
        self.and(&(n as u64).to_le_bytes())
    }

    /// An endless sequence of numbers that begins here (SplitMix64).
    pub(super) fn numbers(self) -> impl Iterator<Item = u64> {
        (1_u64..).map(move |n| mix(self.0.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }

    /// `prefix` and `length` letters and digits.
    pub(super) fn id(self, prefix: &str, length: usize) -> String {
        const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        self.spell(prefix, length, ALPHABET)
    }

    /// `prefix` and `length` hexadecimal digits.
    pub(super) fn hex(self, prefix: &str, length: usize) -> String {
        self.spell(prefix, length, b"0123456789abcdef")
    }

    fn spell(self, prefix: &str, length: usize, alphabet: &[u8]) -> String {
        let letter = |number: u64| char::from(alphabet[(number % alphabet.len() as u64) as usize]);
        prefix.chars().chain(self.numbers().take(length).map(letter)).collect()
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_never_change_between_versions() {
        let digest = Digest::of(b"request");
        assert_eq!(digest.hex("req_", 8), Digest::of(b"request").hex("req_", 8));
        assert_eq!(digest.id("msg_", 24).len(), 28);
        assert_ne!(digest.id("", 24), digest.nth(0).id("", 24));
        assert_ne!(digest.nth(0).id("", 24), digest.nth(1).id("", 24));
        assert_ne!(Digest::of(b"a").and(b"b"), Digest::of(b"ab"));
    }
}
