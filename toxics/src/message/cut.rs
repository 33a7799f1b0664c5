use aconite_dialects::Event;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    At, BodyFilter, BodyForm, Dice, Ending, ExchangeFilter, Instance, Level, Moment, Schedule, Scope,
    StreamFilter, Toxic, Tracker,
};

/// Ends a body early.
///
/// After a `clean` end of a stream the official SDKs report no error: the loop ends and the text is short. Only the
/// helpers that wait for a final event (`.stream()` of the OpenAI Responses API and of the Node SDKs) raise. After
/// `fin` or `rst` openai-python raises `APIConnectionError`, anthropic-python a bare `httpx` error and the Node SDKs a
/// bare `TypeError: terminated`; no SDK retries once the response has started. After `hang` Python raises its read
/// timeout; Node waits.
///
/// A JSON body with a `clean` cut is invalid JSON of the right length, which no SDK retries. One with `fin` or `rst`
/// is retried by the Python SDKs and not by the Node SDKs.
///
/// `at` may be inside an event or a character if it counts bytes. With `{events: n}` the last event is complete,
/// including its blank line. A `clean` cut removes the content-length; if it is added while a body with a declared
/// length is being sent, it ends like `fin`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Where the body ends.
    at: At,
    /// How it ends. Default `clean`.
    #[serde(default)]
    how: Ending,
}

impl Toxic for Cut {
    const TYPE: &'static str = "cut";
    const LEVEL: Level = Level::Exchange;

    fn example() -> Self {
        Self { at: At::Events(3), how: Ending::Fin }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Exchange(Box::new(self.clone()))
    }
}

impl ExchangeFilter for Cut {
    fn body(&mut self, scope: &Scope) -> Option<BodyFilter> {
        let Self { at, how } = *self;
        let cutter = Cutter { tracker: Tracker::new(at, scope), how, done: false };
        Some(match scope.body {
            BodyForm::Events(_) if at.needs_events() => BodyFilter::Events(Box::new(cutter)),
            _ => BodyFilter::Bytes(Box::new(cutter)),
        })
    }
}

/// Cuts bytes, or between events.
struct Cutter {
    tracker: Tracker,
    how: Ending,
    done: bool,
}

impl Cutter {
    fn start<T: crate::Weight>(&mut self, now: Moment, out: &mut Schedule<T>) {
        self.tracker.start(now);
        self.cut_if_reached(now, out);
        if let Some(moment) = self.tracker.moment().filter(|_| !self.done) {
            out.wake_at(moment);
        }
    }

    fn cut_if_reached<T: crate::Weight>(&mut self, now: Moment, out: &mut Schedule<T>) {
        if !self.done && self.tracker.reached(now) {
            self.done = true;
            self.how.strike(now, out);
        }
    }

    fn end<T: crate::Weight>(&self, now: Moment, out: &mut Schedule<T>) {
        if !self.done {
            out.skip(self.tracker.missed());
        }
        out.end(now);
    }
}

impl StreamFilter<Bytes> for Cutter {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.start(now, out);
    }

    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let before = self.tracker.take(&mut item, now);
        if !before.is_empty() {
            out.send(now, before);
        }
        self.cut_if_reached(now, out);
        if !item.is_empty() {
            out.send(now, item);
        }
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.cut_if_reached(now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.end(now, out);
    }

    // What is broken off is shorter than its head says, and has to look so.
    fn changes_length(&self) -> bool {
        self.how == Ending::Clean
    }

    fn tally(&self) -> u64 {
        self.tracker.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.tracker.resume(tally);
    }
}

impl StreamFilter<Event> for Cutter {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.start(now, out);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.tracker.pass(&item);
        out.send(now, item);
        self.cut_if_reached(now, out);
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        self.tracker.pass_before(item, now)
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.end(now, out);
    }

    fn tally(&self) -> u64 {
        self.tracker.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.tracker.resume(tally);
    }
}

#[cfg(test)]
mod tests {
    use aconite_dialects::{EventFormat, Meter};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        Step,
        message::script::{Play, instance, sse},
    };

    const BODY: &str = "data: 1\n\n: ping\n\ndata: 2\n\ndata: 世\n\ndata: [DONE]\n\n";

    fn cut(at: serde_json::Value, how: &str) -> Play {
        Play::new::<Cut>([("at", at), ("how", how.into())].into_iter().collect(), &sse())
    }

    #[test]
    fn after_an_event_its_blank_line_is_the_last_byte() {
        for (how, step) in [("clean", Step::End), ("fin", Step::Close), ("rst", Step::Reset)] {
            let mut play = cut(json!({"events": 2}), how);
            play.push(5, BODY);
            play.end(9);
            assert_eq!(play.text(), "data: 1\n\n: ping\n\ndata: 2\n\n", "{how}");
            assert_eq!(play.last(), Some((5, step)), "{how}");
            assert_eq!(play.struck(), Some(5));
        }
    }

    #[test]
    fn at_0_not_a_byte_leaves() {
        for at in [json!({"events": 0}), json!({"bytes": 0}), json!({"tokens": 0}), json!({"time": 0})] {
            let mut play = cut(at, "fin");
            play.push(5, BODY);
            assert_eq!(play.log(), [(0, Step::Close)]);
        }
    }

    #[test]
    fn sse_30_bytes_cut_inside_a_character() {
        let at = BODY.find('世').unwrap() + 1;
        let mut play = cut(json!({"bytes": at}), "clean");
        play.push(1, BODY);
        assert_eq!(play.bytes(), &BODY.as_bytes()[..at]);
        assert_eq!(play.last(), Some((1, Step::End)));
    }

    #[test]
    fn a_moment_cuts_in_the_middle_of_silence() {
        let mut play = cut(json!({"time": 300}), "rst");
        play.push(0, "data: 1\n\n");
        play.until(1_000);
        assert_eq!(play.last(), Some((300, Step::Reset)));
    }

    #[test]
    fn in_silence_nothing_leaves_until_the_toxic_goes() {
        let mut play = cut(json!({"events": 1}), "hang");
        play.push(1, BODY);
        play.push_step(2, Step::Close);
        play.until(1_000_000);
        assert_eq!(play.text(), "data: 1\n\n");
        play.remove(1_000_001);
        assert_eq!(play.text(), BODY);
        assert_eq!(play.last(), Some((1_000_001, Step::Close)));
    }

    #[test]
    fn a_place_that_never_comes_is_told() {
        for (at, reason) in [
            (json!({"events": 99}), "not_reached"),
            (json!({"bytes": 999}), "not_reached"),
            (json!({"fraction": 0.5}), "unknown_length"),
        ] {
            let mut play = cut(at, "fin");
            play.push(1, BODY);
            play.end(2);
            assert_eq!((play.text().as_str(), play.skipped()), (BODY, Some(reason)));
            assert_eq!(play.last(), Some((2, Step::End)));
        }
        let document = Scope { body: BodyForm::Document, ..Scope::default() };
        let mut play = Play::new::<Cut>(json!({"at": {"events": 1}}), &document);
        play.push(1, "{}");
        play.end(2);
        assert_eq!((play.text().as_str(), play.skipped()), ("{}", Some("not_a_stream")));
    }

    #[test]
    fn json_bodies_are_cut_by_their_length() {
        let scope = Scope { body: BodyForm::Document, length: Some(10), ..Scope::default() };
        let mut play = Play::new::<Cut>(json!({"at": {"fraction": 0.5}, "how": "fin"}), &scope);
        play.push(1, "0123456789");
        assert_eq!((play.text().as_str(), play.last()), ("01234", Some((1, Step::Close))));
    }

    #[test]
    fn joining_in_mid_event_counts_from_the_next() {
        let mut meter = Meter::new(EventFormat::Sse);
        meter.feed(b"data: 0\n\ndata: bro");
        let mut play = Play::joining::<Cut>(json!({"at": {"events": 1}, "how": "fin"}), &sse(), 50, meter);
        play.push(51, "ken\n\ndata: 1\n\ndata: 2\n\n");
        assert_eq!(play.text(), "ken\n\ndata: 1\n\n");
        let mut play = Play::joining::<Cut>(json!({"at": {"bytes": 2}, "how": "fin"}), &sse(), 50, meter);
        play.push(51, "ken\n\n");
        assert_eq!(play.text(), "ke");
    }

    #[test]
    fn what_is_broken_off_keeps_its_declared_length() {
        for (how, changes) in [("clean", true), ("fin", false), ("rst", false), ("hang", false)] {
            let config = json!({"at": {"bytes": 1}, "how": how});
            let Instance::Exchange(mut filter) = instance::<Cut>(config, &sse()) else { unreachable!() };
            let Some(BodyFilter::Bytes(filter)) = filter.body(&sse()) else { unreachable!() };
            assert_eq!(filter.changes_length(), changes, "{how}");
        }
    }

    proptest! {
        #[test]
        fn exact_however_the_stream_is_cut(at in 0_usize..60, cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let mut play = cut(json!({"bytes": at}), "rst");
            play.push_cut(BODY.as_bytes(), &cuts);
            play.end(99);
            let expected = &BODY.as_bytes()[..at.min(BODY.len())];
            prop_assert_eq!(play.bytes(), expected);
            prop_assert_eq!(play.last().map(|(_, step)| step == Step::Reset), Some(at <= BODY.len()));
        }
    }
}
