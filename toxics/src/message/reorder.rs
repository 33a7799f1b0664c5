use aconite_dialects::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    on_events,
    which::{Pick, Which},
};
use crate::{At, Dice, Instance, Level, Moment, Probability, Schedule, Scope, StreamFilter, Toxic};

/// Sends an event of a stream after the next one instead of before it.
///
/// Content arrives in the wrong order, and no official SDK reports it. The event is sent after the next event of any
/// kind. At the end of the stream there is no next event, and the order stays.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reorder {
    /// Which event is moved: the first one of its kind after this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// The probability that an event of this kind is moved, instead of `at`. Default 1. The event that follows a moved
    /// one is not moved itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Probability>,
    /// The kind of event. Default `content`.
    which: Which,
}

impl Toxic for Reorder {
    const TYPE: &'static str = "reorder";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { at: Some(At::Tokens(3)), ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        Pick::check(self.at, self.rate)
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_events(scope, |_| {
            let pick = Pick::new(self.at, self.rate, self.which, scope, dice);
            Box::new(Swapping { pick, late: None })
        })
    }
}

struct Swapping {
    pick: Pick,
    late: Option<Event>,
}

impl Swapping {
    fn let_go(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if let Some(late) = self.late.take() {
            out.send(now, late);
        }
    }
}

impl StreamFilter<Event> for Swapping {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Event>) {
        self.pick.start(now);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        let waiting = self.late.is_some();
        let chosen = self.pick.choose(&item, now, |_| !waiting).is_some();
        if item.is_between() {
            out.send(now, item);
        } else if chosen {
            self.late = Some(item);
        } else if item.is_event() {
            if waiting {
                out.strike(now);
            }
            out.send(now, item);
            self.let_go(now, out);
        } else {
            // Nothing can be put behind an event that is not complete.
            self.let_go(now, out);
            out.send(now, item);
        }
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        self.late.is_none() && self.pick.pass(item, now)
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.late.is_some() {
            out.skip("no_next_event");
        } else {
            self.pick.finish(out);
        }
        self.let_go(now, out);
        out.end(now);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.let_go(now, out);
    }

    fn tally(&self) -> u64 {
        self.pick.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.pick.resume(tally);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::message::script::{CHAT, Play, chat_pieces, sse};

    #[test]
    fn one_comes_after_the_next() {
        let mut play = Play::new::<Reorder>(json!({"at": {"events": 1}, "which": "any"}), &sse());
        play.push(1, "data: 1\n\ndata: 2\n\n: c\n\n");
        play.push(5, "data: 3\n\ndata: 4\n\n");
        play.end(6);
        assert_eq!(play.text(), "data: 1\n\n: c\n\ndata: 3\n\ndata: 2\n\ndata: 4\n\n");
        assert_eq!(play.struck(), Some(5));
    }

    #[test]
    fn all_are_swapped_in_pairs() {
        let mut play = Play::new::<Reorder>(json!({"which": "any"}), &sse());
        play.push(1, "data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\ndata: 5\n\n");
        play.end(2);
        assert_eq!(play.text(), "data: 2\n\ndata: 1\n\ndata: 4\n\ndata: 3\n\ndata: 5\n\n");
    }

    #[test]
    fn the_last_one_is_not_lost() {
        for tail in ["", "data: not compl"] {
            let mut play = Play::new::<Reorder>(json!({"which": "any"}), &sse());
            play.push(1, format!("data: 1\n\n{tail}"));
            play.end(2);
            assert_eq!(play.text(), format!("data: 1\n\n{tail}"));
            assert_eq!(play.struck(), None);
        }
        let mut play = Play::new::<Reorder>(json!({"which": "any"}), &sse());
        play.push(1, "data: 1\n\n");
        play.remove(2);
        assert_eq!(play.text(), "data: 1\n\n");
    }

    proptest! {
        #[test]
        fn every_event_comes_out_whole_and_near_its_place(
            rate in 0.0..1.0_f64,
            cuts in prop::collection::vec(0_usize..1_000, 0..8),
        ) {
            let config = json!({"rate": rate, "which": "any"});
            let mut play = Play::new::<Reorder>(config.clone(), &sse());
            play.push_cut(CHAT.as_bytes(), &cuts);
            play.end(99);
            let mut whole = Play::new::<Reorder>(config, &sse());
            whole.push(1, CHAT);
            whole.end(2);
            prop_assert_eq!(whole.text(), play.text());
            let before: Vec<_> = chat_pieces().filter(|piece| piece.starts_with("data")).collect();
            let after: Vec<_> = whole.items().into_iter().filter(|piece| piece.starts_with("data")).collect();
            for (place, event) in before.iter().enumerate() {
                let found = after.iter().position(|other| other == event);
                prop_assert!(found.is_some_and(|found| found.abs_diff(place) <= 1), "{}", event);
            }
            prop_assert_eq!(after.len(), before.len());
        }
    }
}
