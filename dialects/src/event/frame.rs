//! Frames of the AWS event stream encoding (`application/vnd.amazon.eventstream`).
//!
//! A frame is its length, the length of its headers, a checksum over these two, the headers, the payload, and a
//! checksum over all that. Numbers are big endian, checksums are CRC-32 as gzip has it. Source: "Event stream
//! encoding" in the documentation of Amazon Transcribe and of S3 `SelectObjectContent`.

use std::ops::Range;

use bytes::{BufMut, BytesMut};

/// The length of the two lengths and their checksum.
pub(super) const PRELUDE: usize = 12;
/// The length of a checksum.
pub(super) const CHECKSUM: usize = 4;

/// A checksum over more bytes. It starts with 0.
pub(super) fn checksum(so_far: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(so_far);
    hasher.update(bytes);
    hasher.finalize()
}

/// The number at the start of some bytes.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |first| u32::from_be_bytes(*first))
}

/// The length of a frame by its prelude, if that is in order.
pub(super) fn length(prelude: &[u8; PRELUDE]) -> Option<usize> {
    let headers = usize::try_from(number(&prelude[4..])).ok()?;
    let total = usize::try_from(number(prelude)).ok()?;
    let room = total.checked_sub(PRELUDE + CHECKSUM)?;
    (headers <= room && number(&prelude[8..]) == checksum(0, &prelude[..8])).then_some(total)
}

/// Where the headers and the payload are. Empty at the start if it is not a whole frame.
fn parts(frame: &[u8]) -> (Range<usize>, Range<usize>) {
    let found = frame.first_chunk().and_then(|prelude| {
        let total = length(prelude).filter(|total| *total <= frame.len())?;
        let headers = PRELUDE + usize::try_from(number(&prelude[4..])).ok()?;
        Some((PRELUDE..headers, headers..total - CHECKSUM))
    });
    found.unwrap_or_default()
}

/// The payload of a frame; nothing if it is not a whole frame.
pub(super) fn payload(frame: &[u8]) -> &[u8] {
    &frame[parts(frame).1]
}

/// The value of a header of type string. Nothing behind a header that cannot be read is found.
pub(super) fn header<'f>(frame: &'f [u8], name: &str) -> Option<&'f str> {
    let mut rest = &frame[parts(frame).0];
    loop {
        let (name_len, after) = rest.split_first()?;
        let (this, after) = after.split_at_checked(usize::from(*name_len))?;
        let (kind, after) = after.split_first()?;
        let value_len = match kind {
            // true, false
            0 | 1 => 0,
            // byte, short, integer, long
            2 => 1,
            3 => 2,
            4 => 4,
            5 => 8,
            // bytes, string
            6 | 7 => 2 + usize::from(u16::from_be_bytes(*after.first_chunk()?)),
            // timestamp, UUID
            8 => 8,
            9 => 16,
            _ => return None,
        };
        let (value, after) = after.split_at_checked(value_len)?;
        if this == name.as_bytes() {
            return (*kind == STRING).then(|| std::str::from_utf8(value.get(2..)?).ok()).flatten();
        }
        rest = after;
    }
}

const STRING: u8 = 7;

/// The same frame with another payload.
pub(super) fn with_payload(frame: &[u8], payload: &[u8]) -> BytesMut {
    let headers = &frame[parts(frame).0];
    build(payload, headers.len(), |out| out.put_slice(headers))
}

/// A frame with headers of type string. Values must be shorter than 64 KiB, names shorter than 256 bytes.
pub(super) fn new(headers: &[(&str, &str)], payload: &[u8]) -> BytesMut {
    let len = headers.iter().map(|(name, value)| 4 + name.len() + value.len()).sum();
    build(payload, len, |out| {
        for (name, value) in headers {
            let value = value.as_bytes();
            out.put_u8(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.put_slice(name.as_bytes());
            out.put_u8(STRING);
            out.put_u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
            out.put_slice(value);
        }
    })
}

fn build(payload: &[u8], headers_len: usize, put_headers: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let total = PRELUDE + headers_len + payload.len() + CHECKSUM;
    let mut out = BytesMut::with_capacity(total);
    out.put_u32(u32::try_from(total).unwrap_or(u32::MAX));
    out.put_u32(u32::try_from(headers_len).unwrap_or(u32::MAX));
    out.put_u32(checksum(0, &out));
    put_headers(&mut out);
    out.put_slice(payload);
    out.put_u32(checksum(0, &out));
    out
}
