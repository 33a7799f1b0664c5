use aconite_dialects::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    on_events,
    which::{Pick, Which},
};
use crate::{At, Dice, Instance, Level, Moment, Probability, Schedule, Scope, StreamFilter, Toxic};

/// Drops events of a stream.
///
/// A missing content event leaves a gap in the text that no SDK reports. A missing terminator is not reported by the
/// plain loops of the official SDKs either, which end with the body; `.stream()` of the Responses API and of
/// anthropic-ts raise. Without usage the cost of the call is unknown. Comments around a dropped event stay.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Drop {
    /// Which event is dropped: the first one of its kind after this place.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// The probability that an event of this kind is dropped, instead of `at`. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Probability>,
    /// The kind of event. Default `content`.
    which: Which,
}

impl Toxic for Drop {
    const TYPE: &'static str = "drop";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { at: None, rate: None, which: Which::Terminator }
    }

    fn check(&self) -> Result<(), String> {
        Pick::check(self.at, self.rate)
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_events(scope, |_| Box::new(Dropping(Pick::new(self.at, self.rate, self.which, scope, dice))))
    }
}

struct Dropping(Pick);

impl StreamFilter<Event> for Dropping {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Event>) {
        self.0.start(now);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        match self.0.choose(&item, now, |_| true) {
            Some(_) => out.strike(now),
            None => out.send(now, item),
        }
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

    fn drop(config: serde_json::Value, body: &str) -> Play {
        let mut play = Play::new::<Drop>(config, &sse());
        play.push(1, body);
        play.end(2);
        play
    }

    #[test]
    fn sse_34_the_terminator_goes_and_the_comments_stay() {
        let body = ": x-cost=0.0001\n: x-tokens=37\ndata: [DONE]\n\n:\n\n";
        let play = drop(json!({"which": "terminator"}), body);
        assert_eq!(play.text(), ": x-cost=0.0001\n: x-tokens=37\n:\n\n");
        assert_eq!(play.struck(), Some(1));
    }

    #[test]
    fn each_kind_is_found() {
        for (which, gone) in [
            ("content", vec!["\"你\"", "\"好\"", "\"!\""]),
            ("usage", vec!["total_tokens"]),
            ("terminator", vec!["[DONE]"]),
        ] {
            let play = drop(json!({"which": which}), CHAT);
            let kept: String =
                chat_pieces().filter(|piece| !gone.iter().any(|gone| piece.contains(gone))).collect();
            assert_eq!(play.text(), kept, "{which}");
        }
    }

    #[test]
    fn one_is_dropped_after_a_place() {
        let play = drop(json!({"at": {"tokens": 1}}), CHAT);
        assert_eq!(play.text(), CHAT.replace(&chat_pieces().find(|piece| piece.contains("好")).unwrap(), ""));
    }

    #[test]
    fn what_never_came_is_told() {
        let play = drop(json!({"which": "terminator"}), "data: {}\n\n");
        assert_eq!((play.text().as_str(), play.skipped()), ("data: {}\n\n", Some("no_such_event")));
    }

    proptest! {
        #[test]
        fn what_is_not_dropped_stays_as_it_is(
            rate in 0.0..1.0_f64,
            which in prop::sample::select(vec!["content", "any"]),
            cuts in prop::collection::vec(0_usize..1_000, 0..8),
        ) {
            let config = json!({"rate": rate, "which": which});
            let whole = drop(config.clone(), &CHAT.repeat(3)).text();
            let mut play = Play::new::<Drop>(config, &sse());
            play.push_cut(CHAT.repeat(3).as_bytes(), &cuts);
            play.end(99);
            prop_assert_eq!(play.text(), whole.clone());
            let pieces: Vec<_> = (0..3).flat_map(|_| chat_pieces()).collect();
            let mut rest = whole.as_str();
            for piece in pieces {
                rest = rest.strip_prefix(piece.as_str()).unwrap_or(rest);
            }
            prop_assert_eq!(rest, "", "nothing but whole events went");
        }
    }
}
