use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{ChunkKind, Event, EventFormat, Meter, meter::Mark};

/// Cuts the bytes of a streamed body into events.
///
/// The raw bytes of all pieces that it gives, one after the other, are the bytes that were put in. An event within one
/// chunk is a slice of that chunk. A comment or blank line before an event is a piece of its own, and leaves as
/// soon as the line is complete: heartbeats are not held back. A comment inside an event is part of it.
///
/// A CR at the end of a chunk ends its line at once. If an LF follows after all, and the event is already out, that LF
/// is a piece of its own and no event.
#[derive(Debug, Default)]
pub struct Decoder {
    meter: Meter,
    max_event: usize,
    input: VecDeque<Bytes>,
    /// The beginning of the event under way.
    held: BytesMut,
    passing: Passing,
    oversize: u64,
}

/// Whether the event under way passes in pieces, and why.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Passing {
    #[default]
    No,
    /// Its beginning passed before the decoder was put in place.
    Begun,
    TooLarge,
}

impl Decoder {
    /// A decoder at the start of a body. An event of more than `max_event` bytes, its blank line not counted, passes
    /// in pieces that are no events: it cannot be held, dropped or changed, and is counted in
    /// [`oversize`](Self::oversize).
    pub fn new(framing: EventFormat, max_event: usize) -> Self {
        Self::resume(framing, max_event, Meter::new(framing))
    }

    /// A decoder that takes over where a meter of the same framing stands. If that is in the middle of an event, the
    /// rest of the event passes as pieces that are no events.
    pub fn resume(framing: EventFormat, max_event: usize, at: Meter) -> Self {
        debug_assert_eq!(framing, at.framing(), "the meter follows the same body");
        let passing = if at.at_boundary() { Passing::No } else { Passing::Begun };
        Self { meter: at, max_event, input: VecDeque::new(), held: BytesMut::new(), passing, oversize: 0 }
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.input.push_back(bytes);
        }
    }

    /// Follows a piece that another decoder has cut off, so that this one can take over behind it. The bytes that this
    /// one holds, if it does, come before that piece and are given back: they are not the piece's beginning.
    pub fn follow(&mut self, piece: &Event) -> Option<Event> {
        let held = self.finish();
        let before = self.meter.events();
        self.meter.pass(piece);
        if !piece.is_event() {
            let ended = self.meter.events() > before;
            self.oversize += u64::from(ended && self.passing == Passing::TooLarge);
            self.passing = match self.passing {
                _ if self.meter.at_boundary() => Passing::No,
                Passing::No => Passing::TooLarge,
                passing => passing,
            };
        }
        held
    }

    /// [`follow`](Self::follow) for a whole event, while this decoder holds nothing.
    pub fn pass_event(&mut self, event: &Event) {
        debug_assert!(
            event.is_event() && self.holds_nothing(),
            "else its place in the stream is another one"
        );
        self.meter.pass(event);
    }

    /// Where it is in the stream, if that is inside an event whose beginning has passed.
    pub fn inside(&self) -> Option<Meter> {
        (self.passing != Passing::No).then_some(self.meter)
    }

    /// Whether it has given back every byte that was put in.
    pub fn holds_nothing(&self) -> bool {
        self.input.is_empty() && self.held.is_empty()
    }

    /// The next piece, if one is complete.
    #[expect(clippy::should_implement_trait, reason = "more bytes can make a next piece after none")]
    pub fn next(&mut self) -> Option<Event> {
        while let Some(chunk) = self.input.front_mut() {
            let (used, mark) = self.meter.step(chunk);
            let part = if used == chunk.len() { self.input.pop_front()? } else { chunk.split_to(used) };
            if let Some(event) = self.take(part, mark) {
                return Some(event);
            }
        }
        None
    }

    /// At the end of the body, after the last [`next`](Self::next): the bytes that belong to no complete event.
    pub fn finish(&mut self) -> Option<Event> {
        if self.holds_nothing() {
            return None;
        }
        for chunk in self.input.drain(..) {
            self.held.extend_from_slice(&chunk);
        }
        let rest = self.held.split().freeze();
        Some(self.piece(rest, ChunkKind::Rest))
    }

    /// Events so far that passed in pieces because they were too large, counted when they end.
    pub fn oversize(&self) -> u64 {
        self.oversize
    }

    /// See [`Meter::damaged`]. What is damaged passes as a piece that is not an event.
    pub fn damaged(&self) -> u64 {
        self.meter.damaged()
    }

    /// All events so far, those that passed in pieces and those that the meter had counted before included.
    pub fn events(&self) -> u64 {
        self.meter.events()
    }

    /// Takes a part that ends at a mark, or in the middle of an event.
    fn take(&mut self, part: Bytes, mark: Option<Mark>) -> Option<Event> {
        let Some(mark) = mark else {
            let kind = if self.meter.is_lost() { ChunkKind::Lost } else { ChunkKind::Open };
            if self.passing != Passing::No {
                return Some(self.piece(part, kind));
            }
            self.held.extend_from_slice(&part);
            if self.held.len() <= self.max_event && kind == ChunkKind::Open {
                return None;
            }
            self.passing = Passing::TooLarge;
            let begun = self.held.split().freeze();
            return Some(self.piece(begun, kind));
        };
        let raw = if self.held.is_empty() {
            part
        } else {
            self.held.extend_from_slice(&part);
            self.held.split().freeze()
        };
        let is_event = mark == Mark::Event;
        let is_damaged = mark == Mark::Damaged;
        let passing = std::mem::replace(&mut self.passing, Passing::No);
        let too_large =
            passing == Passing::TooLarge || raw.len() - end_len(self.meter.framing(), &raw) > self.max_event;
        self.oversize += u64::from(is_event && too_large && passing != Passing::Begun);
        let piece = match passing {
            Passing::No if is_event && !too_large => ChunkKind::Event,
            Passing::No if !is_event && !is_damaged => ChunkKind::between_events(self.meter.framing(), &raw),
            _ => ChunkKind::Rest,
        };
        Some(self.piece(raw, piece))
    }

    fn piece(&self, raw: Bytes, piece: ChunkKind) -> Event {
        Event::piece(self.meter.framing(), raw, piece)
    }
}

/// The length of the last line end. It does not count as part of an event, so that the verdict on its size does not
/// depend on whether the LF of a last CRLF has come already.
fn end_len(framing: EventFormat, raw: &[u8]) -> usize {
    match framing {
        EventFormat::Sse if raw.ends_with(b"\r\n") => 2,
        EventFormat::Sse | EventFormat::Ndjson => 1,
        EventFormat::JsonArray | EventFormat::AwsEventStream => 0,
    }
}
