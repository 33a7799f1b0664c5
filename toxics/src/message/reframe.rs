use aconite_dialects::{Event, EventFormat};
use bytes::{Bytes, BytesMut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    BodyFilter, BodyForm, Dice, Instance, Level, Moment, NEVER, Schedule, Scope, StreamFilter, Toxic,
};

/// Changes the framing of a stream in ways that the standard allows but some readers do not handle.
///
/// The content of the events stays the same, except with `no_event_name` and `heartbeat`. openai-python, openai-node
/// and Vercel's ai read `crlf`, `cr`, `no_space`, `comments`, `multi_data`, `bytewise` and `merge` correctly; `bom`
/// costs openai-python the first event, and anthropic-python an `AssertionError`. google-genai accepts only `data: `
/// with the space as an event and treats everything else as part of its JSON, so `comments` and `no_space` break it.
///
/// Streams of lines (NDJSON) can be reframed by `crlf`, `bom`, `bytewise`, `merge`, `keep_open` and `gzip_late` only,
/// JSON arrays and AWS event streams by the last four of these.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reframe {
    /// What changes.
    how: Reframing,
}

/// A way of framing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Reframing {
    /// Lines end with CR LF.
    Crlf,
    /// Lines end with CR alone.
    Cr,
    /// No space after the colon: `data:{`.
    NoSpace,
    /// A comment line before each event.
    Comments,
    /// JSON objects are spread over three `data` lines.
    MultiData,
    /// A byte order mark at the start. Not on streams that have already started.
    Bom,
    /// Each byte is a chunk.
    Bytewise,
    /// Two events in one chunk; the first waits for the second.
    Merge,
    /// No `event` lines. The Anthropic SDKs silently ignore such events.
    NoEventName,
    /// The stream stays open and silent after its last event. Readers that wait for the end instead of the terminator
    /// (those for Anthropic and for the Responses API) reach their timeout, or wait for ever.
    KeepOpen,
    /// The whole stream arrives at once, at its end, as if a gateway had compressed it without flushing. The bytes are
    /// not compressed. Streams of more than 16 MiB arrive in parts of that size.
    GzipLate,
    /// A comment and a blank line after each event. Each event gets an `id`, its own or its number in the stream.
    /// openai-python reads the comment as an event without data and raises `JSONDecodeError`.
    Heartbeat,
}

impl Toxic for Reframe {
    const TYPE: &'static str = "reframe";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { how: Reframing::Crlf }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        let BodyForm::Events(framing) = scope.body else { return Instance::Idle("not_a_stream") };
        let suits = match framing {
            EventFormat::Ndjson => self.how.suits_lines() || self.how.suits_any(),
            EventFormat::JsonArray | EventFormat::AwsEventStream => self.how.suits_any(),
            _ => true,
        };
        if !suits {
            return Instance::Idle("not_server_sent_events");
        }
        if self.how == Reframing::Bom && scope.passed > 0 {
            return Instance::Idle("already_begun");
        }
        Instance::Body(match self.how {
            Reframing::Bytewise => BodyFilter::Bytes(Box::new(Bytewise)),
            Reframing::GzipLate => BodyFilter::Bytes(Box::new(Late(BytesMut::new()))),
            Reframing::Merge => {
                BodyFilter::Events(Box::new(Merge { framing, held: BytesMut::new(), events: 0 }))
            }
            how => BodyFilter::Events(Box::new(Rewrite { how, framing, events: 0, open: false })),
        })
    }
}

impl Reframing {
    fn suits_lines(self) -> bool {
        matches!(self, Self::Crlf | Self::Bom)
    }

    fn suits_any(self) -> bool {
        matches!(self, Self::Bytewise | Self::Merge | Self::KeepOpen | Self::GzipLate)
    }
}

/// Writes each piece anew.
struct Rewrite {
    how: Reframing,
    framing: EventFormat,
    events: u64,
    /// Whether the last piece was a part of an event.
    open: bool,
}

impl Rewrite {
    /// What is sent instead of a piece, if anything else.
    fn rewrite(&self, piece: &Event) -> Option<Bytes> {
        let mut out = BytesMut::with_capacity(piece.raw().len() + 32);
        match self.how {
            Reframing::Crlf => put_with_ends(piece, b"\r\n", &mut out),
            Reframing::Cr => put_with_ends(piece, b"\r", &mut out),
            Reframing::NoSpace => put_without_spaces(piece, &mut out),
            Reframing::NoEventName => {
                let is_name = |line: &[u8]| line == b"event" || line.starts_with(b"event:");
                for (line, end) in piece.lines().filter(|(line, _)| !is_name(line)) {
                    out.extend_from_slice(line);
                    out.extend_from_slice(end);
                }
            }
            Reframing::MultiData => return spread(piece),
            Reframing::Comments if piece.is_event() => {
                out.extend_from_slice(b": keep-alive");
                out.extend_from_slice(line_end(piece));
                out.extend_from_slice(piece.raw());
            }
            Reframing::Heartbeat if piece.is_event() => {
                if !piece.lines().any(|(line, _)| line == b"id" || line.starts_with(b"id:")) {
                    out.extend_from_slice(format!("id: {}", self.events).as_bytes());
                    out.extend_from_slice(line_end(piece));
                }
                out.extend_from_slice(piece.raw());
                out.extend_from_slice(b": ping");
                out.extend_from_slice(&line_end(piece).repeat(2));
            }
            _ => return None,
        }
        (out != piece.raw()).then(|| out.freeze())
    }
}

impl StreamFilter<Event> for Rewrite {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.how == Reframing::Bom {
            out.strike(now);
            out.send(now, Event::from_raw(self.framing, Bytes::from_static(b"\xef\xbb\xbf")));
        }
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        // Half an event cannot be written anew: its lines are not known.
        let whole = !item.is_open() && !self.open;
        self.open = item.is_open();
        self.events += u64::from(item.is_event());
        match if whole { self.rewrite(&item) } else { None } {
            Some(raw) => {
                out.strike(now);
                out.send(now, Event::from_raw(self.framing, raw));
            }
            None => out.send(now, item),
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.how == Reframing::KeepOpen {
            out.strike(now);
            out.hold_until(NEVER);
        }
        out.end(now);
    }
}

/// How the lines of an event end: as the first one.
fn line_end(event: &Event) -> &[u8] {
    event.lines().next().map_or(b"\n", |(_, end)| end)
}

fn put_with_ends(piece: &Event, new_end: &[u8], out: &mut BytesMut) {
    for (line, end) in piece.lines() {
        out.extend_from_slice(line);
        out.extend_from_slice(if end.is_empty() { end } else { new_end });
    }
}

fn put_without_spaces(piece: &Event, out: &mut BytesMut) {
    for (line, end) in piece.lines() {
        let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
        match colon.map(|at| line.split_at(at + 1)) {
            // A second space would then be taken for the first, which is not a part of the value.
            Some((name, [b' ', value @ ..])) if value.first() != Some(&b' ') => {
                out.extend_from_slice(name);
                out.extend_from_slice(value);
            }
            _ => out.extend_from_slice(line),
        }
        out.extend_from_slice(end);
    }
}

/// Spreads an object over three lines: its braces and what is between them.
fn spread(event: &Event) -> Option<Bytes> {
    let data = event.data();
    let inner = data.strip_prefix(b"{")?.strip_suffix(b"}")?;
    let alone = event.is_event() && !inner.is_empty() && !inner.contains(&b'\n');
    alone.then(|| event.with_data(&[b"{\n", inner, b"\n}"].concat()).into_raw())
}

/// Sends events in pairs.
struct Merge {
    framing: EventFormat,
    held: BytesMut,
    events: u64,
}

impl Merge {
    fn let_go(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.events = 0;
        if !self.held.is_empty() {
            out.send(now, Event::from_raw(self.framing, self.held.split().freeze()));
        }
    }
}

impl StreamFilter<Event> for Merge {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.held.extend_from_slice(item.raw());
        self.events += u64::from(item.is_event());
        if item.is_event() && self.events == 2 {
            out.strike(now);
        }
        if !item.is_event() && self.events == 0 || item.is_open() || self.events == 2 {
            self.let_go(now, out);
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.let_go(now, out);
        out.end(now);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.let_go(now, out);
    }
}

/// Sends each byte alone.
struct Bytewise;

impl StreamFilter<Bytes> for Bytewise {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        for at in 0..item.len() {
            out.send(now, item.slice(at..=at));
        }
    }

    fn changes_length(&self) -> bool {
        false
    }

    // An item takes many times the one byte that it holds.
    fn capacity(&self) -> usize {
        4 * 1024
    }
}

/// Sends everything at the end.
struct Late(BytesMut);

/// How much is held at most.
const MAX_LATE: usize = 16 * 1024 * 1024;

impl Late {
    fn let_go(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if !self.0.is_empty() {
            out.send(now, self.0.split().freeze());
        }
    }
}

impl StreamFilter<Bytes> for Late {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        self.0.extend_from_slice(&item);
        if self.0.len() >= MAX_LATE {
            self.let_go(now, out);
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.let_go(now, out);
        out.end(now);
    }

    fn changes_length(&self) -> bool {
        false
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.let_go(now, out);
    }
}

#[cfg(test)]
mod tests;
