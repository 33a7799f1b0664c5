//! Streamed bodies as events: server-sent events and newline-delimited JSON.
//!
//! [`Decoder`] cuts the bytes of a body into [`Event`]s that can be held, dropped or changed. [`Meter`] only follows
//! along and counts: it is what runs on traffic that nobody touches. Both are driven by the same state machine, so
//! they agree on every input.
//!
//! The rules are those of the [event stream section] of the HTML standard: lines end with LF, CR or CRLF, and with
//! nothing else; a byte order mark at the start is skipped; an event ends with a blank line, and one that the end of
//! the body interrupts is no event.
//!
//! [event stream section]: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

mod decoder;
mod line;
mod meter;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
use line::{Line, lines};
pub use meter::Meter;

/// How a streamed body is cut into events.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Framing {
    /// `text/event-stream`: blocks of `field: value` lines, each ended by a blank line.
    #[default]
    Sse,
    /// Newline-delimited JSON, as Ollama and Milvus send it: an event a line.
    Ndjson,
}

impl Framing {
    /// The framing that a `content-type` header announces, if it announces one. Parameters and case don't matter.
    pub fn of_content_type(value: &str) -> Option<Self> {
        let essence = value.split(';').next().unwrap_or_default().trim();
        const NDJSON: [&str; 8] = [
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonl",
            "application/jsonlines",
            "application/x-jsonlines",
            "application/json-lines",
            "application/stream+json",
        ];
        if essence.eq_ignore_ascii_case("text/event-stream") {
            Some(Self::Sse)
        } else if NDJSON.iter().any(|name| essence.eq_ignore_ascii_case(name)) {
            Some(Self::Ndjson)
        } else {
            None
        }
    }
}

/// A piece of a streamed body, with the very bytes that it was sent as.
///
/// Most pieces are whole events. The others ([`is_event`](Self::is_event) says false) carry what lies between and
/// around them: comments, blank lines, a byte order mark, blocks without data, parts of an event that was too large
/// to hold, and the unterminated rest at the end.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    raw: Bytes,
    framing: Framing,
    piece: Piece,
}

/// What part of a body a piece is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Piece {
    /// A whole event.
    Event,
    /// A comment, a blank line or a byte order mark between events.
    Between,
    /// A part of an event, of which more follows.
    Open,
    /// Anything else that ends at a boundary or with the body.
    Rest,
}

impl Piece {
    /// What a piece is that begins and ends at a boundary and is no event.
    fn between_events(framing: Framing, raw: &[u8]) -> Self {
        let is_blank = match framing {
            Framing::Sse => raw.iter().all(|byte| matches!(byte, b'\r' | b'\n')) || raw == b"\xef\xbb\xbf",
            Framing::Ndjson => raw.iter().all(u8::is_ascii_whitespace),
        };
        if is_blank || framing == Framing::Sse && raw.starts_with(b":") { Self::Between } else { Self::Rest }
    }
}

impl Event {
    /// A fresh event, with LF line ends. Line ends within `data` make several `data` lines; in NDJSON, which has no
    /// names either, they become spaces.
    pub fn new(framing: Framing, name: Option<&str>, data: &[u8]) -> Self {
        let mut raw = BytesMut::with_capacity(data.len() + 32);
        match framing {
            Framing::Sse => {
                if let Some(name) = name {
                    raw.put_slice(b"event: ");
                    raw.put_slice(name.replace(['\r', '\n'], " ").as_bytes());
                    raw.put_u8(b'\n');
                }
                for value in values(data) {
                    raw.put_slice(b"data: ");
                    raw.put_slice(value);
                    raw.put_u8(b'\n');
                }
                raw.put_u8(b'\n');
            }
            Framing::Ndjson => {
                put_on_one_line(&mut raw, data);
                raw.put_u8(b'\n');
            }
        }
        Self::from_raw(framing, raw.freeze())
    }

    /// Bytes to be sent just as they are. Whether they are an event follows from them.
    pub fn from_raw(framing: Framing, raw: Bytes) -> Self {
        let mut meter = Meter::new(framing);
        meter.feed(&raw);
        let piece = if meter.events() > 0 {
            Piece::Event
        } else if meter.at_boundary() {
            Piece::between_events(framing, &raw)
        } else {
            Piece::Open
        };
        Self { raw, framing, piece }
    }

    /// The bytes, as they came.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes, as they came.
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// The framing that it is written in.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether a client is given something for it: in SSE a terminated block with a `data` field, be it empty; in
    /// NDJSON a terminated line that is not blank.
    pub fn is_event(&self) -> bool {
        self.piece == Piece::Event
    }

    /// Whether it is a comment, a blank line or a byte order mark between events. Such a piece may leave before events
    /// that it came after.
    pub fn is_between(&self) -> bool {
        self.piece == Piece::Between
    }

    /// Whether it is a part of an event of which more follows: nothing may be put after it.
    pub fn is_open(&self) -> bool {
        self.piece == Piece::Open
    }

    /// The value of its `event` field; the last one if there are several, and none if that is empty. Always none in
    /// NDJSON.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        if self.framing != Framing::Sse {
            return None;
        }
        let last = lines(&self.raw).filter_map(|line| line.value_of(b"event")).last()?;
        (!last.is_empty()).then(|| String::from_utf8_lossy(last))
    }

    /// Its lines, each with its end: LF, CR, CRLF, or nothing at the end of the bytes. In NDJSON there is one.
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ndjson = (self.framing == Framing::Ndjson).then(|| split_ndjson(&self.raw));
        let sse = if ndjson.is_some() { &[][..] } else { &self.raw[..] };
        ndjson.into_iter().chain(lines(sse).map(|line| (line.content, line.end)))
    }

    /// Its data: in SSE the values of its `data` lines joined by LF, in NDJSON the line without its end.
    ///
    /// Borrowed unless there are several `data` lines.
    pub fn data(&self) -> Cow<'_, [u8]> {
        if self.framing == Framing::Ndjson {
            let (content, _) = split_ndjson(&self.raw);
            return Cow::Borrowed(content);
        }
        let mut values = lines(&self.raw).filter_map(|line| line.value_of(b"data"));
        let first = values.next().unwrap_or_default();
        let Some(second) = values.next() else { return Cow::Borrowed(first) };
        let mut joined = first.to_vec();
        for value in std::iter::once(second).chain(values) {
            joined.push(b'\n');
            joined.extend_from_slice(value);
        }
        Cow::Owned(joined)
    }

    /// The same event with other data: all other lines, the line ends and the spelling of `data:` stay. There are as
    /// many `data` lines as the data has lines. A piece without a `data` line stays as it is.
    pub fn with_data(&self, data: &[u8]) -> Self {
        let mut raw = BytesMut::with_capacity(self.raw.len() + data.len());
        match self.framing {
            Framing::Sse => replace_data_lines(&self.raw, data, &mut raw),
            Framing::Ndjson => {
                put_on_one_line(&mut raw, data);
                raw.put_slice(split_ndjson(&self.raw).1);
            }
        }
        Self { raw: raw.freeze(), ..*self }
    }
}

/// Puts each line of `data` where a `data` line was. What is left goes to the last of them; old lines too many go.
fn replace_data_lines(old: &[u8], data: &[u8], out: &mut BytesMut) {
    let mut left = lines(old).filter(|line| line.value_of(b"data").is_some()).count();
    let mut values = values(data);
    for line in lines(old) {
        if line.value_of(b"data").is_none() {
            out.put_slice(line.content);
            out.put_slice(line.end);
            continue;
        }
        left -= 1;
        let here = if left == 0 { usize::MAX } else { 1 };
        for value in values.by_ref().take(here) {
            put_data_line(&line, value, out);
        }
    }
}

fn put_data_line(style: &Line<'_>, value: &[u8], out: &mut BytesMut) {
    let after_name = &style.content[b"data".len()..];
    let separator: &[u8] = match after_name {
        [] if value.is_empty() => b"",
        [b':', next, ..] if *next != b' ' => b":",
        [b':'] if value.is_empty() => b":",
        _ => b": ",
    };
    out.put_slice(b"data");
    // The first space after the colon is not part of the value, so a value that starts with one needs another.
    out.put_slice(if value.first() == Some(&b' ') { b": " } else { separator });
    out.put_slice(value);
    out.put_slice(if style.end.is_empty() { b"\n" } else { style.end });
}

/// The lines of some data, of which there is at least one.
fn values(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends_open = data.is_empty() || data.ends_with(b"\n") || data.ends_with(b"\r");
    lines(data).map(|line| line.content).chain(ends_open.then_some(&b""[..]))
}

fn put_on_one_line(out: &mut BytesMut, data: &[u8]) {
    out.extend(data.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
}

/// The content of a line and its end. A CR alone does not end a line here.
fn split_ndjson(raw: &[u8]) -> (&[u8], &[u8]) {
    let content = match raw {
        [content @ .., b'\r', b'\n'] | [content @ .., b'\n'] => content,
        open => open,
    };
    raw.split_at(content.len())
}
