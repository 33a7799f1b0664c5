use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Pauses the stream once, at a chosen place, for a fixed time.
///
/// The connection stays open and no data is lost; held data is sent as soon as the pause ends. This looks like a
/// response that hangs in the middle. The sender has to wait when more than 64 KiB are held. The end of the stream is
/// delayed too. It happens once for each connection. Changing or removing the toxic ends the pause; after a change the
/// position is counted from the start again.
///
/// Toxiproxy has no such toxic.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stall {
    /// Where the pause begins, counted from the moment at which the toxic starts to act. Default: before the first
    /// byte.
    at: Anchor,
    /// How long it lasts. Default 10 s.
    #[serde(rename = "for")]
    duration: Millis,
}

/// A place in a stream of bytes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Anchor {
    /// After exactly this many bytes.
    Bytes(u64),
    /// After this time.
    Time(Millis),
}

impl Default for Stall {
    fn default() -> Self {
        Self { at: Anchor::Bytes(0), duration: Millis(10_000) }
    }
}

impl Toxic for Stall {
    const TYPE: &'static str = "stall";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { at: Anchor::Bytes(2_000), duration: Millis(5_000) }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        let (bytes_left, silence) = match self.at {
            Anchor::Bytes(bytes) => (Some(bytes), None),
            Anchor::Time(_) => (None, None),
        };
        Instance::Bytes(Box::new(Silence { config: self.clone(), bytes_left, silence }))
    }
}

struct Silence {
    config: Stall,
    /// How many bytes pass before it begins, if bytes decide.
    bytes_left: Option<u64>,
    /// From when until when it lasts, once that is known.
    silence: Option<(Moment, Moment)>,
}

impl Silence {
    fn begin(&mut self, at: Moment) {
        self.bytes_left = None;
        self.silence = Some((at, at.saturating_add(self.config.duration.into())));
    }

    /// When what comes now may leave.
    fn leave(&self, now: Moment, out: &mut Schedule<Bytes>) -> Moment {
        match self.silence {
            Some((from, until)) if (from..until).contains(&now) => {
                out.strike(now);
                until
            }
            _ => now,
        }
    }
}

impl StreamFilter<Bytes> for Silence {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Bytes>) {
        match self.config.at {
            Anchor::Bytes(0) => self.begin(now),
            Anchor::Bytes(_) => {}
            Anchor::Time(time) => self.begin(now.saturating_add(time.into())),
        }
    }

    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        if let Some(left) = self.bytes_left {
            let passing = item.split_to(item.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            self.bytes_left = Some(left - passing.len() as u64);
            out.send(now, passing);
            if self.bytes_left == Some(0) {
                self.begin(now);
            }
        }
        if !item.is_empty() {
            let at = self.leave(now, out);
            out.send(at, item);
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        let at = self.leave(now, out);
        out.end(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    #[test]
    fn it_falls_silent_after_exactly_so_many_bytes() {
        let mut line = Line::with("stall", &json!({"at": {"bytes": 6}, "for": "5s"}));
        line.push(ms(100), "abcd");
        line.push(ms(200), "efgh");
        line.push(ms(300), "ijkl");
        line.at(ms(6_000));
        line.push(ms(6_000), "mnop");
        let expected = [(100, "abcd"), (200, "ef"), (5_200, "gh"), (5_200, "ijkl"), (6_000, "mnop")];
        assert_eq!(line.log(), log(expected));
        assert_eq!(line.struck(), Some(ms(200)));
    }

    #[test]
    fn the_silence_begins_when_the_last_byte_has_passed() {
        let mut line = Line::with("stall", &json!({"at": {"bytes": 4}, "for": 500}));
        line.push(ms(100), "abcd");
        line.push(ms(400), "efgh");
        line.end(ms(450));
        line.at(ms(6_000));
        assert_eq!(line.log(), log([(100, "abcd"), (600, "efgh"), (600, "<end>")]));
    }

    #[test]
    fn time_counts_from_when_the_toxic_began() {
        let mut line = Line::with("noop", &json!({}));
        line.at(ms(1_000));
        line.add("stall", &json!({"at": {"time": 300}, "for": 500}));
        for at in [1_200, 1_300, 1_799, 1_800] {
            line.push(ms(at), at.to_string());
        }
        line.at(ms(6_000));
        let expected = [(1_200, "1200"), (1_800, "1300"), (1_800, "1799"), (1_800, "1800")];
        assert_eq!(line.log(), log(expected));
    }

    #[test]
    fn by_default_it_stalls_before_the_first_byte_and_holds_the_end() {
        let mut line = Line::with("stall", &json!({}));
        line.end(ms(100));
        line.at(ms(60_000));
        assert_eq!(line.log(), log([(10_000, "<end>")]));
    }

    #[test]
    fn a_removal_ends_the_silence() {
        let mut line = Line::with("stall", &json!({"for": "1h"}));
        line.push(ms(100), "abcd");
        line.at(ms(200));
        line.remove();
        assert_eq!(line.log(), log([(200, "abcd")]));
    }

    #[test]
    fn the_sender_is_made_to_wait() {
        let mut line = Line::with("stall", &json!({"for": "1h"}));
        line.push(ms(0), vec![0; 70_000]);
        assert!(!line.pipeline.has_room());
    }

    proptest! {
        #[test]
        fn the_place_does_not_depend_on_the_cuts(at in 0u64..100, sizes in prop::collection::vec(1usize..30, 1..10)) {
            let mut line = Line::with("stall", &json!({"at": {"bytes": at}, "for": 1_000}));
            let mut total = 0;
            for size in sizes {
                line.push(ms(10), vec![b'x'; size]);
                total += size as u64;
            }
            prop_assert_eq!(line.data().len() as u64, at.min(total));
            line.at(ms(5_000));
            prop_assert_eq!(line.data().len() as u64, total);
        }
    }
}
