use std::borrow::Cow;

use aconite_dialects::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    on_events,
    which::{Pick, Which},
};
use crate::{At, Dice, Instance, Level, Moment, Probability, Schedule, Scope, StreamFilter, Toxic};

/// Corrupts the JSON in events of a stream. The framing of the events stays valid.
///
/// Applies to the first suitable event after `at`, or to each event with the probability `rate`. Events whose data is
/// not a JSON object, such as `[DONE]`, are not changed.
///
/// Invalid JSON ends the stream in the official SDKs with a bare `JSONDecodeError` (Node: `SyntaxError`), which is not
/// the SDK's own error class. Vercel's ai reports an error part and continues; Cohere's SDK skips the event with a
/// warning. No SDK detects `mojibake`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Garble {
    /// Which event is changed: the first one after this place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// The probability that an event is changed, instead of `at`. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<Probability>,
    /// What happens to it.
    how: GarbleKind,
}

/// A way of garbling.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum GarbleKind {
    /// The second half of the JSON is missing.
    HalfJson,
    /// A gateway's error text instead of the JSON.
    NotJson,
    /// A raw control character inside the JSON, which JSON does not allow.
    Control,
    /// A character without its last byte: invalid UTF-8. If the text is ASCII, half a character is added.
    Utf8Split,
    /// UTF-8 that was decoded as Latin-1: `ä½ å¥½`. Still valid JSON. ASCII events are not changed.
    Mojibake,
}

impl Toxic for Garble {
    const TYPE: &'static str = "garble";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { at: Some(At::Events(5)), rate: None, how: GarbleKind::HalfJson }
    }

    fn check(&self) -> Result<(), String> {
        Pick::check(self.at, self.rate)
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_events(scope, |_| {
            Box::new(Garbling { pick: Pick::new(self.at, self.rate, Which::Any, scope, dice), how: self.how })
        })
    }
}

struct Garbling {
    pick: Pick,
    how: GarbleKind,
}

impl StreamFilter<Event> for Garbling {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Event>) {
        self.pick.start(now);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        match self.pick.choose(&item, now, |event| self.how.can(event)) {
            Some(mut dice) => {
                out.strike(now);
                out.send(now, item.with_data(&self.how.garble(&item.data(), &mut dice)));
            }
            None => out.send(now, item),
        }
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        self.pick.pass(item, now)
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.pick.finish(out);
        out.end(now);
    }

    fn tally(&self) -> u64 {
        self.pick.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.pick.resume(tally);
    }
}

impl GarbleKind {
    fn can(self, event: &Event) -> bool {
        let data = event.data();
        let data = data.trim_ascii();
        data.starts_with(b"{") && data.len() > 1 && (self != Self::Mojibake || !data.is_ascii())
    }

    fn garble<'d>(self, data: &'d [u8], dice: &mut Dice) -> Cow<'d, [u8]> {
        match self {
            Self::HalfJson => Cow::Borrowed(&data[..start_of_character(data, data.len() / 2)]),
            Self::NotJson => Cow::Borrowed(NOT_JSON),
            Self::Control => {
                let control = CONTROLS[index(dice, CONTROLS.len())];
                Cow::Owned(insert(data, inside(data, dice), &[control]))
            }
            Self::Utf8Split => Cow::Owned(split_character(data, dice)),
            Self::Mojibake => {
                let character = |byte: &u8| char::from(*byte).encode_utf8(&mut [0; 2]).as_bytes().to_vec();
                Cow::Owned(data.iter().flat_map(character).collect())
            }
        }
    }
}

/// What Envoy answers in place of an upstream that is gone.
const NOT_JSON: &[u8] =
    b"upstream connect error or disconnect/reset before headers. reset reason: connection termination";

/// Those that JSON does not take for white space.
const CONTROLS: [u8; 6] = [0x00, 0x07, 0x08, 0x0b, 0x0c, 0x1b];

/// Where the character that holds this byte begins.
fn start_of_character(data: &[u8], at: usize) -> usize {
    let continues = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    at - data[..=at.min(data.len() - 1)].iter().rev().take_while(|byte| continues(byte)).count().min(at)
}

/// A place between two characters, inside the outermost braces.
fn inside(data: &[u8], dice: &mut Dice) -> usize {
    start_of_character(data, 1 + index(dice, data.len() - 1)).max(1)
}

fn insert(data: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    [&data[..at], bytes, &data[at..]].concat()
}

fn split_character(data: &[u8], dice: &mut Dice) -> Vec<u8> {
    let lasts: Vec<_> = (0..data.len())
        .filter(|at| {
            data[*at] >= 0x80 && data.get(at + 1).is_none_or(|next| next & 0b1100_0000 != 0b1000_0000)
        })
        .collect();
    if lasts.is_empty() {
        return insert(data, inside(data, dice), &"世".as_bytes()[..2]);
    }
    let last = lasts[index(dice, lasts.len())];
    [&data[..last], &data[last + 1..]].concat()
}

fn index(dice: &mut Dice, len: usize) -> usize {
    usize::try_from(dice.below(len as u64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::message::script::{Play, check, sse};

    const BODY: &str =
        "data: {\"a\":1}\n\n: c\ndata:\n\nevent: e\r\ndata:{\"a\":\"你好\"}\r\n\r\ndata: [DONE]\n\n";

    fn garble(config: Value, body: &str) -> Play {
        let mut play = Play::new::<Garble>(config, &sse());
        play.push(1, body);
        play.end(2);
        play
    }

    #[test]
    fn each_way_spoils_the_event_and_no_other() {
        for how in ["half_json", "not_json", "control", "utf8_split", "mojibake"] {
            let play = garble(json!({"at": {"events": 1}, "how": how}), BODY);
            let bytes = play.bytes();
            let rest = bytes.strip_prefix(b"data: {\"a\":1}\n\n: c\ndata:\n\nevent: e\r\ndata:").unwrap();
            let data = rest.strip_suffix(b"\r\n\r\ndata: [DONE]\n\n").unwrap();
            let parsed = serde_json::from_slice::<Value>(data);
            match how {
                "mojibake" => assert_eq!(parsed.unwrap()["a"], "ä½\u{a0}å¥½"),
                _ => assert!(parsed.is_err(), "{how}: {data:?}"),
            }
            match how {
                "half_json" => assert_eq!(data, b"{\"a\":\""),
                "not_json" => assert_eq!(data, NOT_JSON),
                "utf8_split" => assert!(std::str::from_utf8(data).is_err()),
                _ => assert!(std::str::from_utf8(data).is_ok()),
            }
        }
    }

    #[test]
    fn sse_13_what_is_no_json_is_left_alone() {
        let body = "data:\n\ndata: [DONE]\n\n: c\n\n";
        let play = garble(json!({"how": "half_json"}), body);
        assert_eq!((play.text().as_str(), play.skipped()), (body, Some("no_such_event")));
        let play = garble(json!({"how": "mojibake"}), "data: {\"a\":1}\n\n");
        assert_eq!(play.skipped(), Some("no_such_event"));
    }

    #[test]
    fn ascii_is_split_by_half_a_character_more() {
        let play = garble(json!({"how": "utf8_split"}), "data: {\"a\":1}\n\n");
        assert!(std::str::from_utf8(&play.bytes()).is_err());
    }

    #[test]
    fn at_and_rate_exclude_each_other() {
        assert!(check::<Garble>(json!({"at": {"events": 1}, "rate": 0.5, "how": "control"})).is_err());
    }

    proptest! {
        #[test]
        fn any_data_can_be_garbled_and_cuts_change_nothing(
            text in "[ -~你\u{e9}\u{1f600}]{0,12}",
            how in prop::sample::select(vec!["half_json", "not_json", "control", "utf8_split", "mojibake"]),
            rate in 0.0..1.0_f64,
            cuts in prop::collection::vec(0_usize..500, 0..8),
        ) {
            let event = format!("data: {}\n\n", json!({"t": text}));
            let body = event.repeat(8);
            let config = json!({"rate": rate, "how": how});
            let whole = garble(config.clone(), &body);
            let mut play = Play::new::<Garble>(config, &sse());
            play.push_cut(body.as_bytes(), &cuts);
            play.end(99);
            prop_assert_eq!(play.bytes(), whole.bytes());
            prop_assert_eq!(play.struck().is_some(), play.bytes() != body.as_bytes());
            prop_assert_eq!(String::from_utf8_lossy(&play.bytes()).matches("\n\n").count(), 8);
        }
    }
}
