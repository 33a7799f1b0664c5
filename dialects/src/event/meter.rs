use super::{Event, EventFormat, line::LineEnd};

mod array;
mod frames;
mod lines;

use array::Array;
pub(super) use array::Place;
use frames::Frames;
use lines::Lines;

/// Follows the framing of a streamed body without copying, and counts its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    framing: EventFormat,
    events: u64,
    /// Bytes since the last boundary.
    tail: u64,
    damaged: u64,
    scan: Scan,
}

/// Where in a body of one framing the meter is.
#[derive(Clone, Copy, Debug)]
enum Scan {
    Lines(Lines),
    Array(Array),
    Frames(Frames),
}

impl Default for Scan {
    fn default() -> Self {
        Self::Lines(Lines::default())
    }
}

/// What has just ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mark {
    /// An event that a client is given.
    Event,
    /// An event that is damaged.
    Damaged,
    /// Anything else after which a new event may start.
    Other,
}

impl Meter {
    /// A meter at the start of a body.
    pub fn new(framing: EventFormat) -> Self {
        let scan = match framing {
            EventFormat::Sse | EventFormat::Ndjson => Scan::Lines(Lines::default()),
            EventFormat::JsonArray => Scan::Array(Array::default()),
            EventFormat::AwsEventStream => Scan::Frames(Frames::default()),
        };
        Self { framing, scan, ..Self::default() }
    }

    /// A meter in front of an event that is not the first.
    pub(super) fn before_event(framing: EventFormat) -> Self {
        let mut meter = Self::new(framing);
        match &mut meter.scan {
            Scan::Array(array) => array.open(),
            Scan::Lines(_) | Scan::Frames(_) => {}
        }
        meter
    }

    /// Takes a piece of the body. A whole event is not looked at again.
    pub(super) fn pass(&mut self, piece: &Event) {
        if !piece.is_event() {
            self.feed(&piece.raw);
            return;
        }
        self.events += 1;
        self.tail = 0;
        match &mut self.scan {
            Scan::Lines(lines) => lines.pass_event(),
            Scan::Array(array) => array.pass_element(),
            Scan::Frames(frames) => *frames = Frames::default(),
        }
    }

    /// Takes the next bytes of the body.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (used, _) = self.step(bytes);
            bytes = &bytes[used..];
        }
    }

    /// Whole events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes since the last boundary. At the end of the body: bytes that belong to no complete event.
    pub fn unterminated_tail(&self) -> u64 {
        self.tail
    }

    /// Whether an event may start here: nothing is under way.
    pub fn at_boundary(&self) -> bool {
        self.tail == 0
    }

    /// How many events so far were damaged: frames with a wrong checksum. From the place on where the framing itself
    /// makes no sense nothing more is counted, and that place counts as one.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Whether the framing has made no sense: no event comes any more.
    pub(super) fn is_lost(&self) -> bool {
        match &self.scan {
            Scan::Lines(_) => false,
            Scan::Array(array) => array.place() == Place::Lost,
            Scan::Frames(frames) => frames.is_lost(),
        }
    }

    pub(super) fn framing(&self) -> EventFormat {
        self.framing
    }

    /// How the last line ended that was not blank. LF if there was none.
    pub(super) fn line_end(&self) -> LineEnd {
        match &self.scan {
            Scan::Lines(lines) => lines.end(),
            Scan::Array(_) | Scan::Frames(_) => LineEnd::Lf,
        }
    }

    /// Where in a JSON array it is, and what was between its elements.
    pub(super) fn in_array(&self) -> Option<(Place, &[u8])> {
        match &self.scan {
            Scan::Array(array) => Some((array.place(), array.separator())),
            Scan::Lines(_) | Scan::Frames(_) => None,
        }
    }

    /// Takes bytes up to the next boundary, or all of them if there is none. `bytes` must not be empty. Only at a
    /// boundary none of them may be used: where the end of a number shows by what follows it.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let was_lost = self.is_lost();
        let (used, mark) = match &mut self.scan {
            Scan::Lines(lines) if self.framing == EventFormat::Sse => lines.step_sse(bytes, self.tail == 0),
            Scan::Lines(lines) => lines.step_ndjson(bytes),
            Scan::Array(array) => array.step(bytes),
            Scan::Frames(frames) => frames.step(bytes),
        };
        self.events += u64::from(mark == Some(Mark::Event));
        self.damaged += u64::from(mark == Some(Mark::Damaged) || self.is_lost() && !was_lost);
        self.tail = if mark.is_some() { 0 } else { self.tail + used as u64 };
        (used, mark)
    }
}
