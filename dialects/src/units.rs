//! Configuration values that carry their unit and their range in their type.
use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A length of time: a whole number of milliseconds, or a string such as `250ms`, `5s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
#[schemars(inline, extend("x-unit" = "ms", "type" = ["integer", "string"], "minimum" = 0, "maximum" = u64::MAX, "pattern" = r"^\+?[0-9]+(ms|s|m|h)$"))]
pub struct Millis(pub u64);

impl From<Millis> for Duration {
    fn from(Millis(ms): Millis) -> Self {
        Self::from_millis(ms)
    }
}

impl Millis {
    /// Reads `250ms`, `5s`, `2m` or `1h`.
    ///
    /// # Errors
    /// If there is no unit, or no whole number before it.
    pub fn parse(text: &str) -> Result<Self, String> {
        MILLIS.parse(text).map(Self)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(&MILLIS).map(Self)
    }
}

/// A length of time: a whole number of microseconds, or a string such as `250us`, `5ms`, `1s`.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
#[schemars(inline, extend("x-unit" = "us", "type" = ["integer", "string"], "minimum" = 0, "maximum" = u64::MAX, "pattern" = r"^\+?[0-9]+(us|ms|s)$"))]
pub struct Micros(pub u64);

impl From<Micros> for Duration {
    fn from(Micros(us): Micros) -> Self {
        Self::from_micros(us)
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(&MICROS).map(Self)
    }
}

/// How a length of time is written.
struct Length {
    expected: &'static str,
    /// Each unit, as a multiple of the smallest.
    units: &'static [(&'static str, u64)],
}

const MILLIS: Length = Length {
    expected: "milliseconds as a whole number from 0, or a string such as 250ms, 5s, 2m",
    units: &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)],
};

const MICROS: Length = Length {
    expected: "microseconds as a whole number from 0, or a string such as 250us, 5ms, 1s",
    units: &[("us", 1), ("ms", 1_000), ("s", 1_000_000)],
};

impl Length {
    fn parse(&self, text: &str) -> Result<u64, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let name = text.get(digits.len()..).unwrap_or_default();
        let Some((_, unit)) = self.units.iter().find(|(unit, _)| *unit == name) else {
            return Err(format!("`{text}` is not {}", self.expected));
        };
        let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a whole number of a unit"))?;
        number.checked_mul(*unit).ok_or_else(|| format!("`{text}` is too long"))
    }
}

impl de::Visitor<'_> for &Length {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        self.parse(text).map_err(E::custom)
    }
}

/// A probability from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(inline, extend("minimum" = 0, "maximum" = 1))]
pub struct Probability(f64);

impl Probability {
    /// Certainty.
    pub const ALWAYS: Self = Self(1.0);

    /// A value known to lie between 0 and 1; panics otherwise.
    pub const fn of(value: f64) -> Self {
        assert!(value >= 0.0 && value <= 1.0, "a probability lies between 0 and 1");
        Self(value)
    }

    /// The value, between 0 and 1.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Probability {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        (0.0..=1.0).contains(&value).then_some(Self(value)).ok_or("a probability lies between 0 and 1")
    }
}

impl From<Probability> for f64 {
    fn from(Probability(value): Probability) -> Self {
        value
    }
}

/// A share in percent, from 0 to 100.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(inline, extend("x-unit" = "%", "minimum" = 0, "maximum" = 100))]
pub struct Percent(f64);

impl Percent {
    /// A value known to lie between 0 and 100; panics otherwise.
    pub const fn of(value: f64) -> Self {
        assert!(value >= 0.0 && value <= 100.0, "a percentage lies between 0 and 100");
        Self(value)
    }

    /// The share as a number between 0 and 1.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl TryFrom<f64> for Percent {
    type Error = &'static str;

    fn try_from(value: f64) -> Result<Self, Self::Error> {
        (0.0..=100.0).contains(&value).then_some(Self(value)).ok_or("a percentage lies between 0 and 100")
    }
}

impl From<Percent> for f64 {
    fn from(Percent(value): Percent) -> Self {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_or_are_milliseconds() {
        let read = |json: &str| serde_json::from_str::<Millis>(json);
        assert_eq!(read("250").unwrap(), Millis(250));
        assert_eq!(read("\"5s\"").unwrap(), Millis(5_000));
        assert_eq!(read("\"2m\"").unwrap(), Millis(120_000));
        assert_eq!(read("\"250ms\"").unwrap(), Millis(250));
        for bad in ["-5", "1.5", "\"100\"", "\"ms\"", "\"1.5s\"", "\"99999999999999999h\"", "null", "true"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn microseconds_have_their_own_units() {
        let read = |json: &str| serde_json::from_str::<Micros>(json);
        assert_eq!(read("250").unwrap(), Micros(250));
        assert_eq!(read("\"5ms\"").unwrap(), Micros(5_000));
        assert_eq!(read("\"7us\"").unwrap(), Micros(7));
        assert!(read("\"1h\"").is_err());
    }

    #[test]
    fn shares_keep_to_their_range() {
        for (good, share) in [("0", 0.0), ("12.5", 0.125), ("100", 1.0)] {
            assert_eq!(serde_json::from_str::<Percent>(good).unwrap().share(), share);
        }
        for bad in ["-0.1", "100.1", "\"5\"", "null"] {
            assert!(serde_json::from_str::<Percent>(bad).is_err(), "{bad}");
        }
        for bad in ["-0.1", "1.1", "80"] {
            assert!(serde_json::from_str::<Probability>(bad).is_err(), "{bad}");
        }
    }
}
