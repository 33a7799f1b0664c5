use std::{borrow::Cow, ops::Range};

use memchr::memchr;

/// The text of a string as it is spelt in a body, quotes included. Lone surrogates become U+FFFD, and so does what is
/// not UTF-8.
pub fn unquote(spelt: &[u8]) -> Cow<'_, str> {
    let inner = &spelt[1.min(spelt.len())..spelt.len().saturating_sub(1).max(1.min(spelt.len()))];
    if memchr(b'\\', inner).is_none() {
        return String::from_utf8_lossy(inner);
    }
    let mut text = String::with_capacity(inner.len());
    for unit in characters(inner) {
        match &inner[unit] {
            [b'\\', b'u', escape @ ..] => text.push(unescape_unicode(escape)),
            [b'\\', b'b'] => text.push('\u{8}'),
            [b'\\', b'f'] => text.push('\u{c}'),
            [b'\\', b'n'] => text.push('\n'),
            [b'\\', b'r'] => text.push('\r'),
            [b'\\', b't'] => text.push('\t'),
            [b'\\', other @ ..] | other => text.push_str(&String::from_utf8_lossy(other)),
        }
    }
    Cow::Owned(text)
}

/// A text as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Where each character of a string's inside lies: an escape is one, and so is the pair of escapes of a character
/// beyond the basic plane.
pub(super) fn characters(inner: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = inner.get(at..).filter(|rest| !rest.is_empty())?;
        let len = match rest {
            [b'\\', b'u', ..] => {
                let pair = code_unit(rest).is_some_and(|unit| (0xd800..0xdc00).contains(&unit))
                    && rest.get(6..).and_then(code_unit).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
                if pair { 12 } else { 6 }
            }
            [b'\\', ..] => 2,
            _ => 1 + rest[1..].iter().take_while(|byte| **byte & 0xc0 == 0x80).count(),
        };
        let len = len.min(rest.len());
        at += len;
        Some(at - len..at)
    })
}

/// The code unit of the `\uXXXX` at the start.
fn code_unit(escape: &[u8]) -> Option<u16> {
    let hex = escape.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

/// The character of `XXXX` or `XXXX\uXXXX`.
fn unescape_unicode(escape: &[u8]) -> char {
    let unit = |hex: Option<&[u8]>| {
        hex.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u16::from_str_radix(hex, 16).ok())
    };
    let units = [unit(escape.get(..4)), unit(escape.get(6..10))];
    char::decode_utf16(units.into_iter().flatten())
        .next()
        .and_then(Result::ok)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}
