//! Streamed bodies as events: server-sent events, newline-delimited JSON, a JSON array that is sent element by element,
//! and AWS event stream frames.
//!
//! [`Decoder`] cuts the bytes of a body into [`Event`]s that can be held, dropped or changed. [`Meter`] only follows
//! along and counts: it is what runs on traffic that nobody touches. Both are driven by the same state machine, so
//! they agree on every input.
//!
//! For server-sent events the rules are those of the [event stream section] of the HTML standard: lines end with LF, CR or CRLF, and with
//! nothing else; a byte order mark at the start is skipped; an event ends with a blank line, and one that the end of
//! the body interrupts is not an event.
//!
//! [event stream section]: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Shape, media_type::MediaType};

mod array;
mod decoder;
mod facts;
mod frame;
mod line;
mod meter;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
use facts::EventFacts;
pub(crate) use facts::Question;
use line::{Line, LineEnd, lines};
pub use meter::Meter;

/// How a streamed body is cut into events.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum EventFormat {
    /// `text/event-stream`: blocks of `field: value` lines, each ended by a blank line.
    #[default]
    Sse,
    /// Newline-delimited JSON, as Ollama and Milvus send it: an event a line.
    Ndjson,
    /// One JSON array, as Gemini streams it without `alt=sse`: an event an element.
    JsonArray,
    /// `application/vnd.amazon.eventstream`, as Bedrock sends it: an event a frame.
    AwsEventStream,
}

impl EventFormat {
    /// The framing that a media type stands for, if it stands for one.
    pub(crate) fn of_media_type(media_type: MediaType<'_>) -> Option<Self> {
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
        if media_type.is("text/event-stream") {
            Some(Self::Sse)
        } else if NDJSON.iter().any(|name| media_type.is(name)) {
            Some(Self::Ndjson)
        } else if media_type.is("application/vnd.amazon.eventstream") {
            Some(Self::AwsEventStream)
        } else {
            None
        }
    }
}

/// A piece of a streamed body, with the very bytes that it was sent as.
///
/// Most pieces are whole events. The others ([`is_event`](Self::is_event) says false) carry what lies between and
/// around them: comments, blank lines, a byte order mark, blocks without data, the brackets of an array, frames with a
/// wrong checksum, parts of an event that was too large to hold, and the unterminated rest at the end.
#[derive(Clone, Debug)]
pub struct Event {
    raw: Bytes,
    framing: EventFormat,
    piece: ChunkKind,
    /// It was not sent by the other side: its lines may end as those around it do.
    fresh: bool,
    answers: EventFacts,
}

impl Eq for Event {}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (&self.raw, self.framing, self.piece) == (&other.raw, other.framing, other.piece)
    }
}

/// What part of a body a piece is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ChunkKind {
    /// A whole event.
    Event,
    /// A comment, a blank line or a byte order mark between events.
    Between,
    /// A part of an event, of which more follows.
    Open,
    /// The `[` or the `]` of an array.
    Bracket,
    /// A part of a body whose framing makes no sense.
    Lost,
    /// Bytes that have not been cut into events.
    Undecoded,
    /// Anything else that ends at a boundary or with the body.
    Rest,
}

impl ChunkKind {
    /// What a piece is that begins and ends at a boundary and is not an event.
    fn between_events(framing: EventFormat, raw: &[u8]) -> Self {
        let is_blank = match framing {
            EventFormat::Sse => {
                raw.iter().all(|byte| matches!(byte, b'\r' | b'\n')) || raw == b"\xef\xbb\xbf"
            }
            EventFormat::Ndjson => raw.iter().all(u8::is_ascii_whitespace),
            EventFormat::JsonArray => return Self::Bracket,
            EventFormat::AwsEventStream => false,
        };
        if is_blank || framing == EventFormat::Sse && raw.starts_with(b":") {
            Self::Between
        } else {
            Self::Rest
        }
    }
}

impl Event {
    /// The same event under another name, if it has one and is a server-sent event.
    pub fn renamed(&self, name: &str) -> Self {
        if self.framing != EventFormat::Sse {
            return self.clone();
        }
        let mut raw = BytesMut::with_capacity(self.raw.len() + name.len());
        for line in lines(&self.raw) {
            match line.value_of(b"event") {
                Some(old) if !old.is_empty() => {
                    raw.put_slice(&line.content[..line.content.len() - old.len()]);
                    raw.put_slice(name.as_bytes());
                }
                _ => raw.put_slice(line.content),
            }
            raw.put_slice(line.end);
        }
        Self { raw: raw.freeze(), answers: EventFacts::default(), ..*self }
    }

    /// A fresh event. Line ends within `data` make several `data` lines; in NDJSON they become spaces. Neither NDJSON
    /// nor a JSON array has names. An AWS frame is one of type `name` with a JSON payload.
    ///
    /// Lines end with LF; [`raw_at`](Self::raw_at) makes them end as others in the stream do.
    pub fn new(framing: EventFormat, name: Option<&str>, data: &[u8]) -> Self {
        let mut raw = BytesMut::with_capacity(data.len() + 32);
        match framing {
            EventFormat::Sse => {
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
            EventFormat::Ndjson => {
                put_on_one_line(&mut raw, data);
                raw.put_u8(b'\n');
            }
            EventFormat::JsonArray => raw.put_slice(data),
            EventFormat::AwsEventStream => {
                raw = aws_frame("event", ":event-type", name.unwrap_or("chunk"), data);
            }
        }
        Self::fresh(framing, raw.freeze(), ChunkKind::Event)
    }

    /// A fresh AWS frame by which a service says that it has failed: its type, such as `throttlingException`, and a
    /// JSON payload.
    pub fn aws_exception(name: &str, data: &[u8]) -> Self {
        let raw = aws_frame("exception", ":exception-type", name, data).freeze();
        Self::fresh(EventFormat::AwsEventStream, raw, ChunkKind::Event)
    }

    /// What ends a body of this framing besides the end of its bytes: the `]` of a JSON array.
    pub fn last_of(framing: EventFormat) -> Option<Self> {
        let raw = Bytes::from_static(b"\n]");
        (framing == EventFormat::JsonArray).then(|| Self::fresh(framing, raw, ChunkKind::Bracket))
    }

    fn fresh(framing: EventFormat, raw: Bytes, piece: ChunkKind) -> Self {
        Self { fresh: true, ..Self::piece(framing, raw, piece) }
    }

    fn piece(framing: EventFormat, raw: Bytes, piece: ChunkKind) -> Self {
        Self { raw, framing, piece, fresh: false, answers: EventFacts::default() }
    }

    /// Bytes of a body that have not been cut into events. To be cut by a [`Decoder`], or to be sent as they are.
    pub fn undecoded(bytes: Bytes) -> Self {
        Self::piece(EventFormat::default(), bytes, ChunkKind::Undecoded)
    }

    /// Whether it is bytes that have not been cut into events.
    pub fn is_undecoded(&self) -> bool {
        self.piece == ChunkKind::Undecoded
    }

    /// What was found out about it in this shape before, or is found out now. Toxics in a row ask the same.
    pub(crate) fn answer(&self, shape: Shape, question: Question, find_out: impl FnOnce() -> bool) -> bool {
        self.answers.get(shape, question).unwrap_or_else(|| {
            let answer = find_out();
            self.answers.put(shape, question, answer);
            answer
        })
    }

    /// Bytes to be sent just as they are. Whether they are an event follows from them.
    pub fn from_raw(framing: EventFormat, raw: Bytes) -> Self {
        let mut meter = Meter::before_event(framing);
        meter.feed(array_element(framing, &raw));
        let piece = if meter.events() > 0 {
            ChunkKind::Event
        } else if meter.at_boundary() {
            ChunkKind::between_events(framing, &raw)
        } else {
            ChunkKind::Open
        };
        Self::piece(framing, raw, piece)
    }

    /// The bytes, as they came.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes, as they came.
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// The bytes to be sent at a place in a body of the same framing. Those of an event that came from the other side
    /// are its own, but for a comma between it and the element before it in a JSON array. The lines of a fresh one end
    /// as the last one did that was sent.
    pub fn raw_at(self, at: &Meter) -> Bytes {
        if self.is_undecoded() {
            return self.raw;
        }
        if let Some((place, separator)) = at.in_array() {
            return array::fit(self, place, separator);
        }
        let end = at.line_end();
        if !self.fresh || end == LineEnd::Lf {
            return self.raw;
        }
        let mut raw = BytesMut::with_capacity(self.raw.len() + 8);
        for (line, old_end) in self.lines() {
            raw.put_slice(line);
            raw.put_slice(if old_end.is_empty() { old_end } else { end.bytes() });
        }
        raw.freeze()
    }

    /// The framing that it is written in.
    pub fn framing(&self) -> EventFormat {
        self.framing
    }

    /// Whether a client is given something for it: in SSE a terminated block with a `data` field, be it empty; in
    /// NDJSON a terminated line that is not blank; an element of an array; a frame with right checksums.
    pub fn is_event(&self) -> bool {
        self.piece == ChunkKind::Event
    }

    /// Whether it is a comment, a blank line or a byte order mark between events. Such a piece may leave before events
    /// that it came after.
    pub fn is_between(&self) -> bool {
        self.piece == ChunkKind::Between
    }

    /// Whether it is a part of an event of which more follows: nothing may be put after it.
    pub fn is_open(&self) -> bool {
        matches!(self.piece, ChunkKind::Open | ChunkKind::Lost)
    }

    /// Its name: in SSE the value of its `event` field, the last one if there are several, and none if that is empty; the
    /// type of an AWS frame. None in NDJSON and JSON arrays.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        match self.framing {
            EventFormat::Sse => {
                let last = lines(&self.raw).filter_map(|line| line.value_of(b"event")).last()?;
                (!last.is_empty()).then(|| String::from_utf8_lossy(last))
            }
            EventFormat::Ndjson | EventFormat::JsonArray => None,
            EventFormat::AwsEventStream => [":event-type", ":exception-type", ":error-code"]
                .iter()
                .find_map(|name| frame::header(&self.raw, name))
                .map(Cow::Borrowed),
        }
    }

    /// Whether it is an AWS frame by which a service says that it has failed.
    pub fn is_aws_failure(&self) -> bool {
        self.framing == EventFormat::AwsEventStream
            && matches!(frame::header(&self.raw, ":message-type"), Some("exception" | "error"))
    }

    /// Its lines, each with its end: LF, CR, CRLF, or nothing at the end of the bytes. In NDJSON there is one; what is
    /// not made of lines is one without an end.
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (one, sse) = match self.framing {
            EventFormat::Sse => (None, &self.raw[..]),
            EventFormat::Ndjson => (Some(split_ndjson(&self.raw)), &[][..]),
            EventFormat::JsonArray | EventFormat::AwsEventStream => (Some((&self.raw[..], &[][..])), &[][..]),
        };
        one.into_iter().chain(lines(sse).map(|line| (line.content, line.end)))
    }

    /// Its data: in SSE the values of its `data` lines joined by LF, in NDJSON the line without its end, in an array the
    /// element, in an AWS frame the payload.
    ///
    /// Borrowed unless there are several `data` lines.
    pub fn data(&self) -> Cow<'_, [u8]> {
        match self.framing {
            EventFormat::Sse => {}
            EventFormat::Ndjson => return Cow::Borrowed(split_ndjson(&self.raw).0),
            EventFormat::JsonArray => return Cow::Borrowed(array::split(&self.raw).1),
            EventFormat::AwsEventStream => return Cow::Borrowed(frame::payload(&self.raw)),
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
    /// many `data` lines as the data has lines. A piece without a `data` line stays as it is. An AWS frame keeps its
    /// headers and has right lengths and checksums.
    pub fn with_data(&self, data: &[u8]) -> Self {
        let mut raw = BytesMut::with_capacity(self.raw.len() + data.len());
        match self.framing {
            EventFormat::Sse => replace_data_lines(&self.raw, data, &mut raw),
            EventFormat::Ndjson => {
                put_on_one_line(&mut raw, data);
                raw.put_slice(split_ndjson(&self.raw).1);
            }
            EventFormat::JsonArray => {
                let (before, _, after) = array::split(&self.raw);
                raw.extend([before, data, after].into_iter().flatten());
            }
            EventFormat::AwsEventStream => raw = frame::with_payload(&self.raw, data),
        }
        Self { raw: raw.freeze(), answers: EventFacts::default(), ..*self }
    }
}

fn aws_frame(message_type: &str, type_header: &str, name: &str, data: &[u8]) -> BytesMut {
    let headers =
        [(type_header, name), (":content-type", "application/json"), (":message-type", message_type)];
    frame::new(&headers, data)
}

/// In a JSON array, the bytes without a comma that goes before.
fn array_element(framing: EventFormat, raw: &[u8]) -> &[u8] {
    if framing == EventFormat::JsonArray { &raw[array::split(raw).0.len()..] } else { raw }
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
