use aconite_dialects::Event;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_events;
use crate::{At, Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic, Tracker};

/// Pauses a stream before one event, then continues.
///
/// The event after `at`, and everything behind it, is delayed from its arrival. Keep-alive comments pass during the
/// pause; `hold_comments` makes the silence complete. Models that think in the middle of a response look like this.
///
/// The Python SDKs raise `APITimeoutError` (anthropic-python a bare `httpx.ReadTimeout`) when one read takes longer
/// than their timeout, and comments count as reads. The Node SDKs wait: their timeout does not cover the body, but
/// Node's own fetch gives up after 5 minutes of silence.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Which event is delayed: the first one after this place.
    at: At,
    /// How long it is delayed.
    #[serde(rename = "for")]
    duration: Millis,
    /// Whether comments and blank lines are delayed too. Default false.
    #[serde(default)]
    hold_comments: bool,
}

impl Toxic for Pause {
    const TYPE: &'static str = "pause";
    const LEVEL: Level = Level::Events;

    fn example() -> Self {
        Self { at: At::Events(5), duration: Millis(30_000), hold_comments: false }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        on_events(scope, |_| {
            Box::new(Pausing { tracker: Tracker::new(self.at, scope), config: self.clone(), begun: false })
        })
    }
}

struct Pausing {
    config: Pause,
    tracker: Tracker,
    begun: bool,
}

impl StreamFilter<Event> for Pausing {
    fn on_start(&mut self, now: Moment, _: &mut Schedule<Event>) {
        self.tracker.start(now);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        if item.is_between() && !self.config.hold_comments {
            self.tracker.pass(&item);
            out.send_ahead(now, item);
            return;
        }
        if !self.begun && self.tracker.reached(now) && (item.is_event() || item.is_open()) {
            self.begun = true;
            out.strike(now);
            out.hold_until(now.saturating_add(self.config.duration.into()));
        }
        self.tracker.pass(&item);
        out.send(now, item);
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        let passes = self.begun || !self.tracker.reached(now);
        if passes {
            self.tracker.pass(item);
        }
        passes
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if !self.begun {
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
    use serde_json::json;

    use super::*;
    use crate::{
        Step,
        message::script::{Play, sse},
    };

    #[test]
    fn the_event_after_the_place_waits_and_the_rest_follows() {
        let mut play = Play::new::<Pause>(json!({"at": {"events": 1}, "for": "2s"}), &sse());
        play.push(10, "data: 1\n\ndata: 2\n\n");
        play.push(500, ": ping\n");
        play.push(600, "data: 3\n\n");
        play.end(700);
        play.push(3_000, "");
        assert_eq!(play.items(), ["data: 1\n\n", ": ping\n", "data: 2\n\n", "data: 3\n\n"]);
        assert_eq!(play.times(), [10, 500, 2_010, 2_010]);
        assert_eq!(play.last(), Some((2_010, Step::End)));
        assert_eq!(play.struck(), Some(10));
    }

    #[test]
    fn a_complete_silence_holds_comments_in_their_order() {
        let config = json!({"at": {"events": 0}, "for": 100, "hold_comments": true});
        let mut play = Play::new::<Pause>(config, &sse());
        play.push(0, "data: 1\n\n: a\n");
        play.push(50, "data: 2\n\n");
        play.until(200);
        assert_eq!(play.items(), ["data: 1\n\n", ": a\n", "data: 2\n\n"]);
        assert_eq!(play.times(), [100, 100, 100]);
    }

    #[test]
    fn after_a_moment_the_next_event_waits() {
        let mut play = Play::new::<Pause>(json!({"at": {"time": 100}, "for": 50}), &sse());
        for at in [0, 99, 120, 130] {
            play.push(at, "data: x\n\n");
        }
        play.until(1_000);
        assert_eq!(play.times(), [0, 99, 170, 170]);
    }

    #[test]
    fn a_stream_too_short_is_told() {
        let mut play = Play::new::<Pause>(json!({"at": {"events": 1}, "for": 50}), &sse());
        play.push(0, "data: x\n\n");
        play.end(1);
        assert_eq!(play.skipped(), Some("not_reached"));
    }
}
