//! Configuration values that carry their unit and their range in their type.
use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A length of time: a whole number of milliseconds, or a string such as `250ms`, `5s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
#[schemars(inline, extend("x-unit" = "ms", "type" = ["integer", "string"], "minimum" = 0))]
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
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match text.get(digits.len()..) {
            Some("ms") => 1,
            Some("s") => 1_000,
            Some("m") => 60_000,
            Some("h") => 3_600_000,
            _ => return Err(format!("`{text}` needs a unit: ms, s, m or h, as in 250ms or 5s")),
        };
        let number: u64 =
            digits.trim().parse().map_err(|_| format!("`{text}` is no whole number of a unit"))?;
        number.checked_mul(unit).map(Self).ok_or_else(|| format!("`{text}` is too long"))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Millis;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("milliseconds as a whole number from 0, or a string such as 250ms, 5s, 2m")
            }
            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Millis, E> {
                Ok(Millis(ms))
            }
            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Millis, E> {
                u64::try_from(ms).map(Millis).map_err(|_| E::invalid_value(de::Unexpected::Signed(ms), &self))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Millis, E> {
                Millis::parse(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A probability from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(inline)]
pub struct Probability(#[schemars(range(min = 0.0, max = 1.0))] f64);

impl Probability {
    /// Certainty.
    pub const ALWAYS: Self = Self(1.0);

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
}
