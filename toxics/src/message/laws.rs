//! What holds for every toxic on a stream.
use aconite_dialects::{Dialect, Event, EventFormat, Meter, Operation};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Content, Cut, Drop, Duplicate, Edit, Finish, Garble, Model, Pause, Reframe, Reorder, SlowStream,
    StreamError, ToolCall, Usage,
    script::{CHAT, Play, filter, sse},
};
use crate::{BodyForm, Moment, Schedule, Scope, StreamFilter};

type New = fn(Value, &Scope) -> Play;
type Filter = Box<dyn StreamFilter<Event>>;
type Start = fn(Value, &Scope, Option<Meter>) -> Filter;
type Joining = fn(Value, &Scope, u64, Meter) -> Play;

/// Toxics whose effect does not hang on time, some by dice.
fn timeless() -> Vec<(New, Value)> {
    let mut toxics: Vec<(New, Value)> = vec![
        (Play::new::<Cut>, json!({"at": {"events": 4}})),
        (Play::new::<Cut>, json!({"at": {"tokens": 2}, "how": "fin"})),
        (Play::new::<Cut>, json!({"at": {"bytes": 200}, "how": "rst"})),
        (Play::new::<Drop>, json!({"rate": 0.5, "which": "any"})),
        (Play::new::<Duplicate>, json!({"rate": 0.5})),
        (Play::new::<Reorder>, json!({"rate": 0.5, "which": "any"})),
        (Play::new::<StreamError>, json!({"at": {"bytes": 200}, "cause": "overloaded"})),
        (Play::new::<Edit>, json!({"ops": [{"path": "$.choices[0].delta.content", "set": "x"}]})),
        (Play::new::<Usage>, json!({"how": "missing"})),
        (Play::new::<Content>, json!({"how": "truncate", "tokens": 1})),
        (Play::new::<Content>, json!({"how": "replace"})),
        (Play::new::<Content>, json!({"how": "repeat"})),
        (Play::new::<Finish>, json!({"reason": "length", "keep": 2})),
        (Play::new::<Pause>, json!({"at": {"events": 1}, "for": 300, "hold_comments": true})),
        (Play::new::<SlowStream>, json!({"between": 10, "jitter": 5, "hold_comments": true})),
    ];
    for how in ["half_json", "not_json", "control", "utf8_split", "mojibake"] {
        toxics.push((Play::new::<Garble>, json!({"rate": 0.5, "how": how})));
    }
    for how in
        ["crlf", "cr", "no_space", "comments", "multi_data", "bom", "no_event_name", "heartbeat", "merge"]
    {
        toxics.push((Play::new::<Reframe>, json!({"how": how})));
    }
    toxics
}

/// Toxics that have nothing to strike in [`CHAT`].
fn idle() -> Vec<(New, Joining, Value)> {
    vec![
        (Play::new::<Cut>, Play::joining::<Cut>, json!({"at": {"events": 99}})),
        (Play::new::<Cut>, Play::joining::<Cut>, json!({"at": {"fraction": 0.5}})),
        (Play::new::<Drop>, Play::joining::<Drop>, json!({"rate": 0})),
        (Play::new::<Duplicate>, Play::joining::<Duplicate>, json!({"at": {"tokens": 99}})),
        (Play::new::<Reorder>, Play::joining::<Reorder>, json!({"rate": 0, "which": "any"})),
        (Play::new::<Garble>, Play::joining::<Garble>, json!({"at": {"events": 99}, "how": "control"})),
        (
            Play::new::<StreamError>,
            Play::joining::<StreamError>,
            json!({"at": {"events": 99}, "cause": "overloaded"}),
        ),
        (Play::new::<Edit>, Play::joining::<Edit>, json!({"ops": [{"path": "$.absent", "null": true}]})),
        (Play::new::<Model>, Play::joining::<Model>, json!({"served": "other"})),
        (Play::new::<ToolCall>, Play::joining::<ToolCall>, json!({"how": "bad_json"})),
        (Play::new::<Content>, Play::joining::<Content>, json!({"how": "truncate", "tokens": 99})),
        (Play::new::<Finish>, Play::joining::<Finish>, json!({"reason": "stop"})),
        (Play::new::<Pause>, Play::joining::<Pause>, json!({"at": {"events": 99}, "for": 9})),
        (Play::new::<SlowStream>, Play::joining::<SlowStream>, json!({"first": 5, "hold_comments": true})),
        (Play::new::<Reframe>, Play::joining::<Reframe>, json!({"how": "no_event_name"})),
    ]
}

/// Toxics that let events through until they come to a place, and some that hold or change events.
fn placed() -> Vec<(Start, Value)> {
    let mut toxics: Vec<(Start, Value)> = vec![
        (filter::<SlowStream>, json!({"between": 3})),
        (filter::<Drop>, json!({"rate": 0.3, "which": "any"})),
        (filter::<Reframe>, json!({"how": "merge"})),
    ];
    for at in [json!({"events": 4}), json!({"tokens": 3}), json!({"bytes": 300}), json!({"time": 5})] {
        toxics.extend::<[(Start, Value); 8]>([
            (filter::<Cut>, json!({"at": at})),
            (filter::<Drop>, json!({"at": at, "which": "any"})),
            (filter::<Duplicate>, json!({"at": at})),
            (filter::<Garble>, json!({"at": at, "how": "half_json"})),
            (filter::<Reorder>, json!({"at": at, "which": "any"})),
            (filter::<Pause>, json!({"at": at, "for": 4})),
            (filter::<Pause>, json!({"at": at, "for": 4, "hold_comments": true})),
            (filter::<StreamError>, json!({"at": at, "cause": "overloaded"})),
        ]);
    }
    toxics
}

/// A filter that is given every item.
struct GivenAll(Filter);

impl StreamFilter<Event> for GivenAll {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_start(now, out);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_item(item, now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_end(now, out);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_wakeup(now, out);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_stop(now, out);
    }
}

/// A body with everything in it that may be framed in more than one way.
fn body() -> String {
    format!("\u{feff}{CHAT}data:x\r\n\r\n: c\rid: 1\n\ndata\r\rdata: a\ndata: b\n\n{CHAT}data: tail")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_seed_gives_the_same_faults_however_the_stream_is_cut_and_polled(
        cuts in prop::collection::vec(0_usize..2_000, 0..8),
        polls in prop::collection::vec(0_u64..2_000, 0..8),
    ) {
        for (new, config) in timeless() {
            // Between a CR and an LF a cut makes a piece of its own, which changes bytes, though no event.
            let body = body().replace("\r\n", "\n");
            let mut whole = new(config.clone(), &sse());
            whole.push(1, &body);
            whole.end(9);
            whole.until(10_000);

            let mut cut = new(config.clone(), &sse());
            cut.push_cut(body.as_bytes(), &cuts);
            cut.end(9);
            let mut polls = polls.clone();
            polls.sort_unstable();
            polls.into_iter().filter(|at| *at > 9).for_each(|at| cut.until(at));
            cut.until(10_000);

            let text = |play: &Play| String::from_utf8_lossy(&play.bytes()).into_owned();
            prop_assert_eq!(text(&whole), text(&cut), "{}", config);
            prop_assert_eq!(
                whole.last().map(|(_, step)| std::mem::discriminant(&step)),
                cut.last().map(|(_, step)| std::mem::discriminant(&step))
            );
        }
    }

    #[test]
    fn a_toxic_past_which_events_go_acts_as_one_that_is_given_them(
        chosen in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
        cuts in prop::collection::vec(0_usize..2_000, 0..20),
        removed in prop::option::of((0_u64..6, 1_u64..12)),
    ) {
        let toxics = placed();
        let chosen: Vec<_> = chosen.iter().map(|index| index.get(&toxics)).collect();
        let start = || chosen.iter().map(|(start, config)| start(config.clone(), &sse(), None));
        let given_all = start().map(|filter| Box::new(GivenAll(filter)) as Filter).collect();
        let [passed, given] = [start().collect(), given_all].map(|filters| {
            let mut play = Play::row(filters);
            let body = body();
            let mut places: Vec<_> = cuts.iter().map(|cut| cut % (body.len() + 1)).chain([0, body.len()]).collect();
            places.sort_unstable();
            for (number, pair) in (1..).zip(places.windows(2)) {
                play.push(number, &body.as_bytes()[pair[0]..pair[1]]);
                if let Some((toxic, _)) = removed.filter(|(_, at)| *at == number) {
                    play.remove_one(number, toxic);
                }
            }
            play.end(50);
            play.until(1_000);
            play
        });
        let config = || chosen.iter().map(|(_, config)| config.to_string()).collect::<Vec<_>>();
        prop_assert_eq!(passed.log(), given.log(), "{:?}", config());
        prop_assert_eq!(passed.told(), given.told(), "{:?}", config());
    }

    #[test]
    fn what_is_not_struck_leaves_byte_for_byte(
        cuts in prop::collection::vec(0_usize..2_000, 0..8),
        joins in 0_usize..1_500,
        leaves in prop::option::of(1_u64..9),
    ) {
        let body = body();
        for (new, joining, config) in idle() {
            let mut play = new(config.clone(), &sse());
            let mut removed = false;
            let mut remove_at = |play: &mut Play, now: u64| {
                if !removed && leaves.is_some_and(|at| at <= now) {
                    removed = true;
                    play.remove(now);
                }
            };
            let mut places: Vec<_> = cuts.iter().map(|cut| cut % (body.len() + 1)).chain([0, body.len()]).collect();
            places.sort_unstable();
            for (number, pair) in (1..).zip(places.windows(2)) {
                play.push(number, &body.as_bytes()[pair[0]..pair[1]]);
                remove_at(&mut play, number);
            }
            play.end(50);
            play.until(1_000);
            prop_assert_eq!(play.text(), body.as_str(), "{}", config);

            let (before, after) = body.as_bytes().split_at(joins.min(body.len()));
            let mut meter = Meter::new(EventFormat::Sse);
            meter.feed(before);
            let mut play = joining(config.clone(), &sse(), 7, meter);
            play.push(8, after);
            play.end(50);
            play.until(1_000);
            prop_assert_eq!(play.bytes(), after, "{}", config);
        }
    }
}

#[test]
fn r2_33_what_is_added_ends_its_lines_as_the_lines_around_it() {
    let changes_ends = |config: &Value| config == &json!({"how": "crlf"}) || config == &json!({"how": "cr"});
    let toxics = || timeless().into_iter().filter(|(_, config)| !changes_ends(config));
    for (end, alien) in [("\r", "\n"), ("\r\n", "")] {
        for (new, config) in toxics() {
            let mut play = new(config.clone(), &sse());
            play.push(1, CHAT.replace('\n', end));
            play.end(9);
            play.until(10_000);
            let text = String::from_utf8_lossy(&play.bytes()).replace("\r\n", alien);
            let strange = text.matches(if end == "\r" { &['\n'][..] } else { &['\r', '\n'] }).count();
            assert_eq!(strange, 0, "{end:?} {config}: {text:?}");
        }
    }
    // Of a stream that mixes its ends the line before is followed.
    let config = json!({"at": {"events": 2}, "cause": "overloaded"});
    let mut play = Play::new::<StreamError>(config, &sse());
    play.push(1, "data: 1\n\ndata: 2\r\r");
    let error = play.items().pop().unwrap_or_default();
    assert!(error.starts_with("data: ") && error.ends_with("\r\r") && !error.contains('\n'), "{error:?}");
    let mut play = Play::new::<Reframe>(json!({"how": "heartbeat"}), &sse());
    play.push(1, "data: 1\n\ndata: 2\r\r");
    assert_eq!(play.text(), "id: 1\ndata: 1\n\n: ping\n\nid: 2\rdata: 2\r\r: ping\r\r");
}

#[test]
fn what_drops_adds_and_changes_events_leaves_gemini_an_array() {
    let element = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}).to_string();
    let body = format!("[{}\n,\r\n{}\n,\r\n{}\n]", element("a"), element("b"), element("c"));
    let scope = Scope {
        dialect: Some(Dialect::Gemini),
        operation: Some(Operation::Chat),
        body: BodyForm::Events(EventFormat::JsonArray),
        ..Scope::default()
    };
    let toxics: [(New, Value, usize); 8] = [
        (Play::new::<Drop>, json!({"at": {"events": 0}}), 2),
        (Play::new::<Drop>, json!({}), 0),
        (Play::new::<Duplicate>, json!({"at": {"tokens": 0}}), 4),
        (Play::new::<Duplicate>, json!({}), 6),
        (Play::new::<Reorder>, json!({"at": {"events": 0}}), 3),
        (Play::new::<StreamError>, json!({"at": {"events": 0}, "cause": "overloaded"}), 1),
        (Play::new::<StreamError>, json!({"at": {"tokens": 2}, "cause": "overloaded"}), 3),
        (Play::new::<Edit>, json!({"ops": [{"path": "$..text", "set": "你"}]}), 3),
    ];
    for (new, config, left) in toxics {
        for cut in 0..body.len() {
            let mut play = new(config.clone(), &scope);
            play.push_cut(body.as_bytes(), &[cut]);
            play.end(9);
            play.until(10_000);
            let text = play.text();
            let values: Vec<Value> =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{config}: {error}: {text}"));
            assert_eq!(values.len(), left, "{config}: {text}");
            assert!(play.struck().is_some(), "{config}");
        }
    }
}

#[test]
fn aws_frames_are_changed_with_right_checksums_and_damaged_ones_are_told() {
    let frame =
        |data: &str| Event::new(EventFormat::AwsEventStream, Some("chunk"), data.as_bytes()).raw().to_vec();
    let scope = Scope {
        dialect: Some(Dialect::Bedrock),
        operation: Some(Operation::Chat),
        body: BodyForm::Events(EventFormat::AwsEventStream),
        ..Scope::default()
    };
    let ops = json!({"ops": [{"path": "$.a", "set": "changed"}]});
    let body = [frame(r#"{"a":1}"#), frame(r#"{"b":2}"#)].concat();
    let expected = [frame(r#"{"a":"changed"}"#), frame(r#"{"b":2}"#)].concat();
    for cut in 0..body.len() {
        let mut play = Play::new::<Edit>(ops.clone(), &scope);
        play.push_cut(&body, &[cut]);
        assert_eq!(play.bytes(), expected);
        assert_eq!(play.skipped(), None);
    }
    let mut damaged = body;
    damaged[30] ^= 1;
    let mut play = Play::new::<Edit>(ops, &scope);
    play.push(1, &damaged);
    play.end(2);
    assert_eq!((play.bytes(), play.skipped()), (damaged, Some("event_damaged")));
}
