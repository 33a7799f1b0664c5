use aconite_dialects::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    on_events,
    which::{Pick, Which},
};
use crate::{At, Dice, Instance, Level, Moment, Probability, Schedule, Scope, StreamFilter, Toxic};

/// Sends events of a stream twice.
///
/// Content appears twice, and no official SDK reports it. Only the final text of `.stream()` of OpenAI's Responses API
/// is right, because it is sent again at the end.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Duplicate {
    /// Which event is sent twice: the first one of its kind after this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// The probability that an event of this kind is sent twice, instead of `at`. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Probability>,
    /// The kind of event. Default `content`.
    which: Which,
}

impl Toxic for Duplicate {
    const TYPE: &'static str = "duplicate";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { at: Some(At::Tokens(3)), ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        Pick::check(self.at, self.rate)
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_events(scope, |_| Box::new(Doubling(Pick::new(self.at, self.rate, self.which, scope, dice))))
    }
}

struct Doubling(Pick);

impl StreamFilter<Event> for Doubling {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Event>) {
        self.0.start(now);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        if self.0.choose(&item, now, |_| true).is_some() {
            out.strike(now);
            out.send(now, item.clone());
        }
        out.send(now, item);
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        self.0.pass(item, now)
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.finish(out);
        out.end(now);
    }

    fn tally(&self) -> u64 {
        self.0.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.0.resume(tally);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::message::script::{CHAT, Play, chat_pieces, sse};

    #[test]
    fn one_comes_twice() {
        let mut play = Play::new::<Duplicate>(json!({"at": {"tokens": 1}}), &sse());
        play.push(1, CHAT);
        let twice = chat_pieces().map(|piece| if piece.contains('好') { piece.repeat(2) } else { piece });
        assert_eq!(play.text(), twice.collect::<String>());
        assert_eq!(play.struck(), Some(1));
    }

    proptest! {
        #[test]
        fn each_event_comes_once_or_twice_and_in_order(
            rate in 0.0..1.0_f64,
            cuts in prop::collection::vec(0_usize..1_000, 0..8),
        ) {
            let mut play = Play::new::<Duplicate>(json!({"rate": rate, "which": "any"}), &sse());
            play.push_cut(CHAT.as_bytes(), &cuts);
            play.end(99);
            let text = play.text();
            let mut rest = text.as_str();
            for piece in chat_pieces() {
                rest = rest.strip_prefix(piece.as_str()).unwrap();
                if piece.starts_with("data") {
                    rest = rest.strip_prefix(piece.as_str()).unwrap_or(rest);
                }
            }
            prop_assert_eq!(rest, "");
            let mut whole = Play::new::<Duplicate>(json!({"rate": rate, "which": "any"}), &sse());
            whole.push(1, CHAT);
            prop_assert_eq!(whole.text(), text);
        }
    }
}
