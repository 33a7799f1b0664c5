//! What identifies a point.
use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number or a UUID; numbers come before UUIDs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum PointId {
    Number(u64),
    Uuid(u128),
}

/// As it stands in a path, or in a string.
impl FromStr for PointId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        uuid(text).map(Self::Uuid).ok_or_else(|| {
            format!(
                "value {text} is not a valid point ID, valid values are either an unsigned integer or a UUID"
            )
        })
    }
}

/// Reads a UUID: 32 hexadecimal digits, hyphens between them or not, `urn:uuid:` before them or not.
fn uuid(text: &str) -> Option<u128> {
    let digits = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let hyphens = digits.match_indices('-').map(|(at, _)| at);
    if digits.contains('-') && !hyphens.eq([8, 13, 18, 23]) {
        return None;
    }
    let digits = digits.replace('-', "");
    let valid = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    valid.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Uuid(uuid) => {
                let digits = format!("{uuid:032x}");
                let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &digits[group]);
                f.write_str(&groups.join("-"))
            }
        }
    }
}

impl Serialize for PointId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Uuid(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PointId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = PointId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a point ID, either an unsigned integer or a UUID")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<PointId, E> {
                Ok(PointId::Number(number))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<PointId, E> {
                let number = u64::try_from(number);
                number
                    .map(PointId::Number)
                    .map_err(|_| E::custom(format_args!("value {number:?} is not a valid point ID")))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<PointId, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_uuids_are_ids_and_nothing_else_is() {
        let read = |json: &str| serde_json::from_str::<PointId>(json);
        let uuid = "\"936da01f-9abd-4d9d-80c7-02af85c822a8\"";
        for form in [
            uuid,
            "\"936DA01F9ABD4D9D80C702AF85C822A8\"",
            "\"urn:uuid:936da01f-9abd-4d9d-80c7-02af85c822a8\"",
        ] {
            assert_eq!(serde_json::to_string(&read(form).unwrap()).unwrap(), uuid);
        }
        assert_eq!(read("18446744073709551615").unwrap(), PointId::Number(u64::MAX));
        for bad in [
            "-1",
            "1.5",
            "\"x\"",
            "\"\"",
            "\"936da01f9abd4d9d80c702af85c822a\"",
            "\"936da01-f9abd-4d9d-80c7-02af85c822a8\"",
            "null",
            "[1]",
            "\"+36da01f9abd4d9d80c702af85c822a8\"",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(PointId::Number(u64::MAX) < PointId::Uuid(0));
    }
}
