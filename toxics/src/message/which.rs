//! Which events of a stream a toxic is after.
use aconite_dialects::{Event, Shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{At, Dice, Moment, Probability, Schedule, Scope, Tracker};

/// A kind of event.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Which {
    /// Events with model output: text, reasoning, arguments of tool calls.
    #[default]
    Content,
    /// The event that marks the stream as complete: `[DONE]`, `message_stop`, `response.completed`, `done: true`.
    Terminator,
    /// Events that report token usage.
    Usage,
    /// All.
    Any,
}

impl Which {
    /// Whether an event is of this kind in the stream's protocol. Pieces that are not events are of no kind.
    pub(super) fn covers(self, event: &Event, shape: Shape) -> bool {
        match self {
            Self::Content => shape.is_content(event),
            Self::Terminator => shape.is_terminator(event),
            Self::Usage => shape.is_usage(event),
            Self::Any => event.is_event(),
        }
    }
}

/// Chooses events: the first of a kind after a place, or each of the kind with a probability.
///
/// Dice are split by the number of the event, so that neither cuts nor timing change what they say.
pub(super) struct Pick {
    which: Which,
    shape: Shape,
    by: By,
    dice: Dice,
    /// Events so far.
    events: u64,
    /// Whether an event of the kind came by.
    met: bool,
}

enum By {
    Place { tracker: Tracker, done: bool },
    Rate(f64),
}

impl Pick {
    /// What contradicts itself in the attributes `at` and `rate`.
    pub(super) fn check(at: Option<At>, rate: Option<Probability>) -> Result<(), String> {
        if at.is_some() && rate.is_some() {
            return Err("`at` and `rate` exclude each other".to_owned());
        }
        Ok(())
    }

    /// With neither place nor rate every event of the kind is chosen.
    pub(super) fn new(
        at: Option<At>,
        rate: Option<Probability>,
        which: Which,
        scope: &Scope,
        dice: Dice,
    ) -> Self {
        let by = match at {
            Some(at) => By::Place { tracker: Tracker::new(at, scope), done: false },
            None => By::Rate(rate.map_or(1.0, Probability::get)),
        };
        Self { which, shape: scope.shape(), by, dice, events: 0, met: false }
    }

    pub(super) fn start(&mut self, now: Moment) {
        if let By::Place { tracker, .. } = &mut self.by {
            tracker.start(now);
        }
    }

    /// Counts a piece, and gives dice for it if it is chosen and `can` be struck.
    ///
    /// If it cannot, the next event after the place is asked about.
    pub(super) fn choose(
        &mut self,
        piece: &Event,
        now: Moment,
        can: impl FnOnce(&Event) -> bool,
    ) -> Option<Dice> {
        let candidate = self.which.covers(piece, self.shape) && can(piece);
        let number = self.events;
        self.events += u64::from(piece.is_event());
        self.met |= candidate;
        match &mut self.by {
            By::Place { tracker, done } => {
                let chosen = candidate && !*done && tracker.reached(now);
                tracker.pass(piece);
                *done |= chosen;
                chosen.then(|| self.dice.split(number))
            }
            By::Rate(rate) => {
                let mut dice = candidate.then(|| self.dice.split(number))?;
                dice.happens(*rate).then_some(dice)
            }
        }
    }

    /// Counts a piece that is before or behind the place. `false`, with nothing counted: [`choose`](Self::choose) has to
    /// decide.
    pub(super) fn pass(&mut self, piece: &Event, now: Moment) -> bool {
        let By::Place { tracker, done } = &mut self.by else { return false };
        if !*done && tracker.reached(now) {
            return false;
        }
        self.events += u64::from(piece.is_event());
        tracker.pass(piece);
        true
    }

    /// Says at the end of the stream why nothing was chosen, unless only the dice said so.
    pub(super) fn finish<T: crate::Weight>(&self, out: &mut Schedule<T>) {
        match &self.by {
            By::Place { done: true, .. } => {}
            By::Place { tracker, .. } => out.skip(tracker.missed()),
            By::Rate(_) if !self.met => out.skip("no_such_event"),
            By::Rate(_) => {}
        }
    }

    pub(super) fn tally(&self) -> u64 {
        match &self.by {
            By::Place { tracker, .. } => tracker.tally(),
            By::Rate(_) => self.events,
        }
    }

    pub(super) fn resume(&mut self, tally: u64) {
        match &mut self.by {
            By::Place { tracker, .. } => tracker.resume(tally),
            By::Rate(_) => self.events = tally,
        }
    }
}

#[cfg(test)]
mod tests {
    use aconite_dialects::EventFormat;

    use super::*;
    use crate::message::script::sse;

    #[test]
    fn kinds_follow_the_dialect() {
        let chunk = |data: &str| Event::new(EventFormat::Sse, None, data.as_bytes());
        let shape = sse().shape();
        let role = chunk(r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#);
        let text = chunk(r#"{"choices":[{"delta":{"content":"hi"}}]}"#);
        let usage = chunk(r#"{"choices":[],"usage":{"total_tokens":3}}"#);
        let done = chunk("[DONE]");
        let ping = Event::from_raw(EventFormat::Sse, ": ping\n".into());
        for (which, covered) in [
            (Which::Content, [false, true, false, false, false]),
            (Which::Terminator, [false, false, false, true, false]),
            (Which::Usage, [false, false, true, false, false]),
            (Which::Any, [true, true, true, true, false]),
        ] {
            let events = [&role, &text, &usage, &done, &ping];
            assert_eq!(events.map(|event| which.covers(event, shape)), covered, "{which:?}");
        }
    }

    #[test]
    fn a_place_chooses_the_first_that_can_be_struck_and_no_other() {
        let dice = Dice::new(1, "p", "t", 1);
        let mut pick = Pick::new(Some(At::Events(1)), None, Which::Any, &sse(), dice);
        let chosen: Vec<_> = ["a", "b", "c", "d"]
            .map(|data| {
                let event = Event::new(EventFormat::Sse, None, data.as_bytes());
                pick.choose(&event, Moment::ZERO, |event| event.data() != &b"b"[..]).is_some()
            })
            .into();
        assert_eq!(chosen, [false, false, true, false]);
    }

    #[test]
    fn a_rate_rolls_by_the_number_of_the_event() {
        let choices = |comments: bool| {
            let dice = Dice::new(1, "p", "t", 1);
            let rate = Probability::try_from(0.3).ok();
            let mut pick = Pick::new(None, rate, Which::Any, &sse(), dice);
            let mut chosen = Vec::new();
            for _ in 0..1_000 {
                if comments {
                    let ping = Event::from_raw(EventFormat::Sse, ":\n".into());
                    assert!(pick.choose(&ping, Moment::ZERO, |_| true).is_none());
                }
                let event = Event::new(EventFormat::Sse, None, b"x");
                chosen.push(pick.choose(&event, Moment::ZERO, |_| true).is_some());
            }
            chosen
        };
        let chosen = choices(false);
        assert_eq!(chosen, choices(true));
        let share = chosen.iter().filter(|chosen| **chosen).count();
        assert!((250..350).contains(&share), "{share}");
    }
}
