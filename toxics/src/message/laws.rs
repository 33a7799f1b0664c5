//! What holds for every toxic on a stream.
use aconite_dialects::{Framing, Meter};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Cut, Drop, Duplicate, Edit, Garble, Pause, Reframe, Reorder, SlowStream, StreamError,
    script::{CHAT, Play, sse},
};
use crate::Scope;

type New = fn(Value, &Scope) -> Play;
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
        (Play::new::<Pause>, Play::joining::<Pause>, json!({"at": {"events": 99}, "for": 9})),
        (Play::new::<SlowStream>, Play::joining::<SlowStream>, json!({"first": 5, "hold_comments": true})),
        (Play::new::<Reframe>, Play::joining::<Reframe>, json!({"how": "no_event_name"})),
    ]
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
            let mut meter = Meter::new(Framing::Sse);
            meter.feed(before);
            let mut play = joining(config.clone(), &sse(), 7, meter);
            play.push(8, after);
            play.end(50);
            play.until(1_000);
            prop_assert_eq!(play.bytes(), after, "{}", config);
        }
    }
}
