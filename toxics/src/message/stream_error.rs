use aconite_dialects::{Cause, Event, EventFormat, FailureContext, failure::in_stream, json::Document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    cause::{self, Wording},
    on_events,
};
use crate::{
    At, BodyForm, Dice, Ending, Instance, Level, Moment, Schedule, Scope, StreamFilter, Toxic, Tracker,
};

/// Sends the provider's own error event in the middle of a stream whose status was 200, then ends it.
///
/// At `at` the provider's error event is sent, and then the stream ends without its terminator. It never splits an
/// event. Gemini's JSON array is closed if the body ends cleanly.
///
/// Chat: openai-python and openai-node raise `APIError`, which has no status, and do not retry. Responses:
/// openai-python yields the error as an event and its loop ends normally; only `.stream()` raises. Anthropic:
/// anthropic-python raises `APIStatusError` with status 200, which is not the `OverloadedError` that callers catch;
/// without its `event:` line the SDK ignores the event, see `reframe`. google-genai raises by the code in the frame.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamError {
    /// Where the stream fails.
    at: At,
    /// The cause, by name.
    #[serde(deserialize_with = "cause::read")]
    cause: Cause,
    /// How the body ends after the error event. Default `clean`.
    #[serde(default)]
    how: Ending,
}

impl Toxic for StreamError {
    const TYPE: &'static str = "stream_error";
    const LEVEL: Level = Level::Events;
    const NAMES_MODEL: bool = true;

    fn example() -> Self {
        Self { at: At::Events(5), cause: Cause::Overloaded, how: Ending::Clean }
    }

    fn check(&self) -> Result<(), String> {
        cause::check(self.cause, |dialect, cause| {
            !in_stream(dialect, None, cause, &FailureContext::default(), 0).is_empty()
        })
    }

    fn start(&self, scope: &Scope, mut dice: Dice) -> Instance {
        let wording = Wording::new(self.cause, scope, &mut dice);
        if let BodyForm::Events(framing) = scope.body
            && wording.frames(framing, 0).is_empty()
        {
            return Instance::Idle("cause_unknown_here");
        }
        on_events(scope, |framing| {
            Box::new(Failing {
                tracker: Tracker::new(self.at, scope),
                wording,
                how: self.how,
                framing,
                numbered: scope.shape().is_numbered(),
                last: None,
                open: false,
                done: false,
            })
        })
    }
}

struct Failing {
    tracker: Tracker,
    wording: Wording,
    how: Ending,
    framing: EventFormat,
    /// Whether events bear numbers in sequence.
    numbered: bool,
    last: Option<Event>,
    /// Whether an event is under way.
    open: bool,
    done: bool,
}

impl Failing {
    fn fail_if_reached(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.done || self.open || !self.tracker.reached(now) {
            return;
        }
        self.done = true;
        for frame in self.wording.frames(self.framing, self.next_number()) {
            out.send(now, frame);
        }
        if self.how == Ending::Clean
            && let Some(last) = Event::last_of(self.framing)
        {
            out.send(now, last);
        }
        self.how.strike(now, out);
    }

    fn next_number(&self) -> u64 {
        let number = |event: &Event| {
            let data = event.data();
            let document = Document::parse(&data).ok()?;
            document.root().get("sequence_number")?.to_value().as_u64()
        };
        self.last.as_ref().and_then(number).map_or(0, |number| number.saturating_add(1))
    }
}

impl StreamFilter<Event> for Failing {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.tracker.start(now);
        self.fail_if_reached(now, out);
        if let Some(moment) = self.tracker.moment().filter(|_| !self.done) {
            out.wake_at(moment);
        }
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.tracker.pass(&item);
        self.open = item.is_open();
        if self.numbered && item.is_event() {
            self.last = Some(item.clone());
        }
        out.send(now, item);
        self.fail_if_reached(now, out);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.fail_if_reached(now, out);
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        // Where events are numbered, the last one is kept.
        !self.numbered && !self.open && self.tracker.pass_before(item, now)
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if !self.done {
            out.skip(self.tracker.missed());
        }
        out.end(now);
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
    use aconite_dialects::{Dialect, Meter, Operation};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        Step,
        message::script::{Play, check, instance, sse},
    };

    fn data_of(frame: &str) -> Value {
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(frame);
        serde_json::from_str(data).unwrap()
    }

    fn anthropic() -> Scope {
        Scope { dialect: Some(Dialect::Anthropic), ..sse() }
    }

    #[test]
    fn sse_26_anthropic_has_a_named_error_and_no_message_stop() {
        let config = json!({"at": {"events": 1}, "cause": "overloaded"});
        let mut play = Play::new::<StreamError>(config, &anthropic());
        play.push(5, "event: a\ndata: {}\n\nevent: message_stop\ndata: {}\n\n");
        let items = play.items();
        assert_eq!(items.len(), 2);
        assert!(items[1].starts_with("event: error\ndata: {"));
        let error = data_of(&items[1]);
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("overloaded_error")));
        assert_eq!(play.last(), Some((5, Step::End)));
        assert_eq!(play.struck(), Some(5));
    }

    #[test]
    fn chat_has_an_error_and_no_done() {
        for how in ["clean", "fin", "rst"] {
            let config = json!({"at": {"events": 0}, "cause": "server_error", "how": how});
            let mut play = Play::new::<StreamError>(config, &sse());
            play.push(5, "data: {}\n\ndata: [DONE]\n\n");
            let items = play.items();
            assert_eq!(items.len(), 1);
            assert_eq!(data_of(&items[0])["error"]["type"], "server_error");
            let step = match how {
                "clean" => Step::End,
                "fin" => Step::Close,
                _ => Step::Reset,
            };
            assert_eq!(play.last(), Some((0, step)));
        }
    }

    #[test]
    fn responses_go_on_counting() {
        let scope = Scope { operation: Some(Operation::Responses), ..sse() };
        let config = json!({"at": {"events": 2}, "cause": "server_error"});
        let mut play = Play::new::<StreamError>(config, &scope);
        play.push(
            0,
            "event: a\ndata: {\"sequence_number\":6}\n\nevent: b\ndata: {\"sequence_number\":7}\n\n",
        );
        let items = play.items();
        assert!(items[2].starts_with("event: error\n"));
        assert_eq!(data_of(&items[2])["sequence_number"], 8);
    }

    #[test]
    fn ollama_has_a_line() {
        let scope = Scope {
            dialect: Some(Dialect::Ollama),
            body: BodyForm::Events(EventFormat::Ndjson),
            ..Scope::default()
        };
        let mut play =
            Play::new::<StreamError>(json!({"at": {"events": 1}, "cause": "server_error"}), &scope);
        play.push(0, "{\"done\":false}\n{\"done\":true}\n");
        let items = play.items();
        assert_eq!(items.len(), 2);
        assert!(data_of(&items[1])["error"].is_string());
    }

    #[test]
    fn a_frame_never_splits_an_event() {
        let mut play = Play::new::<StreamError>(json!({"at": {"time": 100}, "cause": "overloaded"}), &sse());
        let large = format!("data: {}", "x".repeat(2 << 20));
        play.push(50, &large);
        play.until(150);
        assert_eq!(play.items(), [large.as_str()]);
        play.push(200, "\n\n");
        assert_eq!(play.last(), Some((200, Step::End)));
        assert!(play.text().starts_with(&format!("{large}\n\ndata: {{\"error\"")));

        let mut meter = Meter::new(EventFormat::Sse);
        meter.feed(b"data: bro");
        let config = json!({"at": {"events": 0}, "cause": "overloaded"});
        let mut play = Play::joining::<StreamError>(config, &sse(), 10, meter);
        play.push(11, "ken\n\ndata: 2\n\n");
        assert!(play.text().starts_with("ken\n\ndata: {\"error\""));
        assert_eq!(play.last(), Some((11, Step::End)));
    }

    #[test]
    fn in_silence_a_moment_fails() {
        let config = json!({"at": {"time": 100}, "cause": "overloaded", "how": "hang"});
        let mut play = Play::new::<StreamError>(config, &anthropic());
        play.until(1_000);
        play.push(2_000, "data: {}\n\n");
        play.end(3_000);
        assert_eq!(play.times(), [100]);
        assert_eq!(play.log().len(), 1);
    }

    #[test]
    fn where_no_frame_is_known_nothing_is_done() {
        let scope = Scope { dialect: Some(Dialect::Qdrant), ..sse() };
        let config = json!({"at": {"events": 0}, "cause": "overloaded"});
        assert!(matches!(instance::<StreamError>(config, &scope), Instance::Idle("cause_unknown_here")));
        assert!(check::<StreamError>(json!({"at": {"events": 0}, "cause": "refusal"})).is_err());
    }
}
