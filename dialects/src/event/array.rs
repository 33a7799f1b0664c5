//! Elements of a JSON array that is sent piece by piece.

use bytes::{Bytes, BytesMut};

use super::{ChunkKind, Event, meter::Place};

/// What comes before an element (white space and a comma), the element, and what comes after it.
pub(super) fn split(raw: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let is_lead = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
    let start = raw.iter().position(|byte| !is_lead(byte)).unwrap_or(raw.len());
    let len = raw[start..].trim_ascii_end().len();
    (&raw[..start], &raw[start..start + len], &raw[start + len..])
}

/// The bytes of a piece such that the array stays one when they come at this place, where something may have been
/// dropped or added before.
pub(super) fn fit(piece: Event, place: Place, separator: &[u8]) -> Bytes {
    let (lead, element, _) = split(&piece.raw);
    let unled = piece.raw.slice(lead.len()..);
    match (piece.piece, place) {
        (ChunkKind::Event | ChunkKind::Open, Place::Before) if !element.is_empty() => concat(b"[", &unled),
        (ChunkKind::Event | ChunkKind::Open, Place::Opened | Place::Comma) if lead.contains(&b',') => unled,
        (ChunkKind::Event | ChunkKind::Open, Place::Between)
            if !element.is_empty() && !lead.contains(&b',') =>
        {
            concat(if separator.contains(&b',') { separator } else { USUAL }, &unled)
        }
        (ChunkKind::Bracket, Place::Before) if element == b"]" => concat(b"[", &piece.raw),
        (ChunkKind::Bracket, Place::Before) => piece.raw,
        (ChunkKind::Bracket, _) if element == b"[" => Bytes::new(),
        _ => piece.raw,
    }
}

fn concat(first: &[u8], second: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(first.len() + second.len());
    out.extend_from_slice(first);
    out.extend_from_slice(second);
    out.freeze()
}

/// What Gemini puts between elements.
const USUAL: &[u8] = b"\n,\r\n";
