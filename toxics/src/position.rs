//! A place in a stream of bytes or events.
use std::time::Duration;

use aconite_dialects::{Event, Shape};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BodyForm, Millis, Moment, Scope};

/// A place in a stream, counted from where the toxic joins: from the start of the body, unless it was added to a live
/// stream. Exactly one of the keys. 0 is before the first.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum At {
    /// After this many complete events. Comments and blank lines do not count.
    Events(u64),
    /// After this many events that carry model output: text, reasoning, arguments of tool calls.
    Tokens(u64),
    /// After exactly this many bytes of the body, even inside an event or a character. A toxic that acts on whole
    /// events applies after the event that contains the last of these bytes.
    Bytes(u64),
    /// This long after the toxic started to act: for a response, after its header section.
    Time(Millis),
    /// After this share, from 0 to 1, of a body with a declared length. In a body of unknown length the toxic does not
    /// apply.
    Fraction(Share),
}

impl At {
    /// Whether it can be found in a stream of events only.
    pub fn needs_events(self) -> bool {
        matches!(self, Self::Events(_) | Self::Tokens(_))
    }
}

/// A share of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(inline, extend("minimum" = 0, "maximum" = 1))]
pub struct Share(f64);

impl Share {
    /// This share of a whole, rounded down.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a length is not negative; beyond 2^53 bytes it is rounded"
    )]
    pub fn of(self, whole: u64) -> u64 {
        (self.0 * whole as f64) as u64
    }
}

impl TryFrom<f64> for Share {
    type Error = &'static str;

    fn try_from(share: f64) -> Result<Self, Self::Error> {
        (0.0..=1.0).contains(&share).then_some(Self(share)).ok_or("a fraction lies between 0 and 1")
    }
}

impl From<Share> for f64 {
    fn from(Share(share): Share) -> Self {
        share
    }
}

/// Follows a stream until it comes to a place.
#[derive(Clone, Debug)]
pub struct Tracker {
    goal: Threshold,
    count: u64,
    since: Option<Moment>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
enum Threshold {
    Events(u64),
    Tokens(u64),
    Bytes(u64),
    Time(Duration),
    /// The stream has no such place, for this reason.
    Nowhere(&'static str),
}

impl Tracker {
    /// A tracker at the place where the toxic joins.
    pub fn new(at: At, scope: &Scope) -> Self {
        let has_events = matches!(scope.body, BodyForm::Events(_));
        let goal = match at {
            _ if at.needs_events() && !has_events => Threshold::Nowhere("not_a_stream"),
            At::Events(events) => Threshold::Events(events),
            At::Tokens(tokens) => Threshold::Tokens(tokens),
            At::Bytes(bytes) => Threshold::Bytes(bytes),
            At::Time(time) => Threshold::Time(time.into()),
            At::Fraction(share) => match scope.length {
                Some(length) => Threshold::Bytes(share.of(length).saturating_sub(scope.passed)),
                None => Threshold::Nowhere("unknown_length"),
            },
        };
        Self { goal, count: 0, since: None, shape: scope.shape() }
    }

    /// Begins. Without effect after [`resume`](Self::resume).
    pub fn start(&mut self, now: Moment) {
        self.since.get_or_insert(now);
    }

    /// Why the place was not reached, once the stream has ended before it.
    pub fn missed(&self) -> &'static str {
        match self.goal {
            Threshold::Nowhere(reason) => reason,
            _ => "not_reached",
        }
    }

    /// Whether the place has been reached.
    pub fn reached(&self, now: Moment) -> bool {
        match self.goal {
            Threshold::Events(goal) | Threshold::Tokens(goal) | Threshold::Bytes(goal) => self.count >= goal,
            Threshold::Time(_) => self.moment().is_some_and(|moment| now >= moment),
            Threshold::Nowhere(_) => false,
        }
    }

    /// The moment that is the place, if it is one.
    pub fn moment(&self) -> Option<Moment> {
        match self.goal {
            Threshold::Time(time) => self.since.map(|since| since.saturating_add(time)),
            _ => None,
        }
    }

    /// Counts a piece of a stream of events that passes.
    pub fn pass(&mut self, piece: &Event) {
        let counts = match self.goal {
            Threshold::Events(_) => u64::from(piece.is_event()),
            Threshold::Tokens(_) => u64::from(self.shape.is_content(piece)),
            Threshold::Bytes(_) => piece.raw().len() as u64,
            Threshold::Time(_) | Threshold::Nowhere(_) => 0,
        };
        self.count = self.count.saturating_add(counts);
    }

    /// Counts a piece that passes, unless the place has been reached or is reached with it. Says whether it was counted.
    pub(crate) fn pass_before(&mut self, piece: &Event, now: Moment) -> bool {
        let before = self.count;
        if !self.reached(now) {
            self.pass(piece);
            if !self.reached(now) {
                return true;
            }
        }
        self.count = before;
        false
    }

    /// Takes and counts those of some bytes that lie before the place, and leaves the others.
    ///
    /// A place that [needs events](At::needs_events) is not found this way.
    pub fn take(&mut self, bytes: &mut Bytes, now: Moment) -> Bytes {
        let before = match self.goal {
            Threshold::Bytes(goal) => {
                usize::try_from(goal.saturating_sub(self.count)).unwrap_or(usize::MAX).min(bytes.len())
            }
            Threshold::Time(_) if self.reached(now) => 0,
            _ => bytes.len(),
        };
        let taken = bytes.split_to(before);
        if let Threshold::Bytes(_) = self.goal {
            self.count = self.count.saturating_add(taken.len() as u64);
        }
        taken
    }

    /// What it has counted so far, for a successor with another place.
    pub fn tally(&self) -> u64 {
        let count = match self.goal {
            Threshold::Time(_) => {
                self.since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
            }
            _ => self.count,
        };
        count << UNIT_BITS | self.unit()
    }

    /// Goes on from a predecessor's [`tally`](Self::tally). If that counted something else, this one begins anew.
    pub fn resume(&mut self, tally: u64) {
        if tally & ((1 << UNIT_BITS) - 1) != self.unit() {
            return;
        }
        let count = tally >> UNIT_BITS;
        match self.goal {
            Threshold::Time(_) => self.since = Some(Moment::from_millis(count)),
            _ => self.count = count,
        }
    }

    fn unit(&self) -> u64 {
        match self.goal {
            Threshold::Nowhere(_) => 0,
            Threshold::Events(_) => 1,
            Threshold::Tokens(_) => 2,
            Threshold::Bytes(_) => 3,
            Threshold::Time(_) => 4,
        }
    }
}

/// How many low bits of a tally say what was counted.
const UNIT_BITS: u32 = 3;

#[cfg(test)]
mod tests {
    use aconite_dialects::EventFormat;
    use proptest::prelude::*;

    use super::*;

    fn at(json: &str) -> Result<At, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    fn events() -> Scope {
        Scope { body: BodyForm::Events(EventFormat::Sse), ..Scope::default() }
    }

    fn tracker(json: &str, scope: &Scope) -> Tracker {
        let mut tracker = Tracker::new(at(json).unwrap(), scope);
        tracker.start(Moment::from_secs(10));
        tracker
    }

    #[test]
    fn a_place_has_exactly_one_key() {
        assert_eq!(at(r#"{"events": 3}"#), Ok(At::Events(3)));
        assert_eq!(at(r#"{"time": "3s"}"#), Ok(At::Time(Millis(3_000))));
        assert_eq!(at(r#"{"fraction": 0.5}"#), Ok(At::Fraction(Share(0.5))));
        for bad in ["{}", r#"{"events": 1, "bytes": 1}"#, r#"{"events": -1}"#, r#"{"fraction": 1.5}"#, "3"] {
            assert!(at(bad).is_err(), "{bad}");
        }
        assert!(at(r#"{"event": 1}"#).unwrap_err().contains("`events`"));
        assert_eq!(serde_json::to_string(&At::Fraction(Share(0.25))).unwrap(), r#"{"fraction":0.25}"#);
    }

    #[test]
    fn comments_and_blank_lines_are_no_events() {
        let mut tracker = tracker(r#"{"events": 1}"#, &events());
        for raw in [": ping\n", "\n", "id: 1\n\n"] {
            tracker.pass(&Event::from_raw(EventFormat::Sse, raw.into()));
            assert!(!tracker.reached(Moment::MAX));
        }
        tracker.pass(&Event::from_raw(EventFormat::Sse, "data:\n\n".into()));
        assert!(tracker.reached(Moment::ZERO));
    }

    #[test]
    fn time_counts_from_where_the_toxic_joins() {
        let tracker = tracker(r#"{"time": 3000}"#, &Scope::default());
        assert_eq!(tracker.moment(), Some(Moment::from_secs(13)));
        assert!(!tracker.reached(Moment::from_millis(12_999)));
        assert!(tracker.reached(Moment::from_secs(13)));
    }

    #[test]
    fn a_fraction_is_one_of_the_whole_body_also_for_one_who_joins_late() {
        let scope = Scope { length: Some(101), passed: 20, ..Scope::default() };
        let mut tracker = tracker(r#"{"fraction": 0.5}"#, &scope);
        let mut bytes = Bytes::from(vec![0; 81]);
        assert_eq!(tracker.take(&mut bytes, Moment::ZERO).len(), 30);
        assert!(tracker.reached(Moment::ZERO));
    }

    #[test]
    fn there_is_no_fraction_of_an_unknown_length() {
        let mut tracker = tracker(r#"{"fraction": 0}"#, &Scope::default());
        assert_eq!(tracker.take(&mut Bytes::from_static(b"abc"), Moment::MAX).len(), 3);
        assert!(!tracker.reached(Moment::MAX));
        assert_eq!(tracker.missed(), "unknown_length");
        assert_eq!(Tracker::new(At::Events(0), &Scope::default()).missed(), "not_a_stream");
    }

    #[test]
    fn a_successor_goes_on_if_it_counts_the_same() {
        let scope = events();
        let mut first = tracker(r#"{"bytes": 10}"#, &scope);
        first.take(&mut Bytes::from_static(b"abcd"), Moment::ZERO);
        let mut next = Tracker::new(At::Bytes(4), &scope);
        next.resume(first.tally());
        assert!(next.reached(Moment::ZERO));
        let mut other = Tracker::new(At::Events(4), &scope);
        other.resume(first.tally());
        assert!(!other.reached(Moment::ZERO));
        let mut time = Tracker::new(At::Time(Millis(5)), &scope);
        time.resume(tracker(r#"{"time": 1}"#, &scope).tally());
        time.start(Moment::from_secs(99));
        assert_eq!(time.moment(), Some(Moment::from_millis(10_005)));
    }

    proptest! {
        #[test]
        fn bytes_are_exact_however_the_stream_is_cut(goal in 0_u64..60, chunks in prop::collection::vec(0_usize..20, 0..10)) {
            let mut tracker = tracker(&format!(r#"{{"bytes": {goal}}}"#), &Scope::default());
            let (mut before, mut after) = (0, 0);
            for len in &chunks {
                let mut bytes = Bytes::from(vec![0; *len]);
                before += tracker.take(&mut bytes, Moment::ZERO).len() as u64;
                after += bytes.len() as u64;
            }
            let total = chunks.iter().sum::<usize>() as u64;
            prop_assert_eq!((before, after), (goal.min(total), total.saturating_sub(goal)));
            prop_assert_eq!(tracker.reached(Moment::ZERO), total >= goal);
        }
    }
}
