//! What holds for every toxic on bytes that does not lose data by contract.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::{ms, start};
use crate::{Moment, Pipeline, Schedule, StageId, Step, StreamFilter};

const HOUR: u64 = 3_600_000;

/// A toxic that loses nothing, by type and attributes.
fn lossless() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        (0u64..400, 0u64..500).prop_map(|(l, j)| ("latency", json!({"latency": l, "jitter": j}))),
        (0u64..50).prop_map(|rate| ("bandwidth", json!({"rate": rate}))),
        (0u64..300).prop_map(|delay| ("slow_close", json!({"delay": delay}))),
        (0u64..40, 0u64..40, 0u64..9_000)
            .prop_map(|(a, v, d)| ("slicer", json!({"average_size": a, "size_variation": v, "delay": d}))),
        (0u64..900, 0u64..900).prop_map(|(n, t)| ("stall", json!({"at": {"bytes": n}, "for": t}))),
        (0u64..900, 0u64..900).prop_map(|(n, t)| ("stall", json!({"at": {"time": n}, "for": t}))),
        (0.0f64..100.0, 0u64..300).prop_map(|(p, r)| ("loss", json!({"percent": p, "rto": r}))),
        Just(("loss", json!({"percent": 100}))),
        Just(("noop", json!({}))),
        Just(("corrupt", json!({"rate": 0}))),
        Just(("limit_data", json!({"bytes": u64::MAX}))),
        Just(("limit_time", json!({"time": 10 * HOUR}))),
        Just(("reset_peer", json!({"timeout": 10 * HOUR}))),
    ]
}

/// Toxics by number and revision; what a number and revision stand for is fixed for a whole run.
type Set = BTreeMap<u64, u64>;

fn set() -> impl Strategy<Value = Set> {
    prop::collection::btree_map(0u64..4, 0u64..3, 0..4)
}

fn apply(pipeline: &mut Pipeline<Bytes>, now: Moment, set: &Set, toxics: &[(&'static str, Value)]) {
    let wanted: Vec<_> =
        set.iter().map(|(toxic, revision)| StageId { toxic: *toxic, revision: *revision }).collect();
    pipeline.change(now, &wanted, |id| {
        let (kind, attributes) = &toxics[(id.toxic * 3 + id.revision) as usize];
        Some(start(kind, attributes))
    });
}

/// When each byte came, and the end.
type Record = Vec<(Moment, Option<u8>)>;

/// Writes down what reaches it.
struct Log(Arc<Mutex<Record>>);

impl StreamFilter<Bytes> for Log {
    fn on_item(&mut self, item: Bytes, now: Moment, _: &mut Schedule<Bytes>) {
        self.0.lock().unwrap().extend(item.iter().map(|byte| (now, Some(*byte))));
    }

    fn on_end(&mut self, now: Moment, _: &mut Schedule<Bytes>) {
        self.0.lock().unwrap().push((now, None));
    }
}

/// Runs data through toxics that stay, and tells when each byte left.
fn departures(
    toxics: &[(&'static str, Value)],
    arrivals: &[(u64, usize)],
    polls: impl Iterator<Item = u64>,
) -> Record {
    let log = Arc::default();
    let mut pipeline = Pipeline::default();
    for (number, (kind, attributes)) in (0..).zip(toxics) {
        pipeline.append(ms(0), StageId { toxic: number, revision: 0 }, start(kind, attributes));
    }
    pipeline.append(ms(0), StageId { toxic: 99, revision: 0 }, Box::new(Log(Arc::clone(&log))));
    let mut polls = polls.peekable();
    let (mut count, mut last) = (0u8, 0);
    for (at, size) in arrivals {
        while let Some(poll) = polls.next_if(|poll| poll < at) {
            assert_eq!(pipeline.poll(ms(poll)), None);
        }
        let data: Bytes = (0..*size).map(|n| count.wrapping_add(n as u8)).collect();
        count = count.wrapping_add(*size as u8);
        pipeline.push(ms(*at), Step::Item(data));
        last = *at;
    }
    pipeline.push(ms(last), Step::End);
    for poll in polls.chain([HOUR]) {
        assert_eq!(pipeline.poll(ms(poll)), None);
    }
    drop(pipeline);
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}

proptest! {
    #[test]
    fn any_change_at_any_moment_neither_loses_nor_reorders(
        toxics in prop::collection::vec(lossless(), 12),
        script in prop::collection::vec((0u64..60, 1usize..120, prop::option::weighted(0.3, set())), 1..40),
        end_before in 0usize..5,
    ) {
        let mut pipeline = Pipeline::default();
        let (mut now, mut sent, mut got, mut ends) = (ms(0), Vec::new(), Vec::new(), 0);
        let ending = script.len().saturating_sub(end_before);
        for (number, (gap, size, change)) in script.iter().enumerate() {
            now += ms(*gap);
            if let Some(set) = change {
                apply(&mut pipeline, now, set, &toxics);
            }
            if number < ending {
                let data: Bytes = (0..*size).map(|n| (sent.len() + n) as u8).collect();
                sent.extend_from_slice(&data);
                pipeline.push(now, Step::Item(data));
            }
            if number + 1 == ending {
                pipeline.push(now, Step::End);
            }
            // A peer that is slow now and then.
            while gap % 3 > 0 && let Some(step) = pipeline.poll(now) {
                match step {
                    Step::Item(data) => got.extend_from_slice(&data),
                    Step::End => ends += 1,
                    broken => prop_assert!(false, "{broken:?}"),
                }
                prop_assert!(ends == 0 || got.len() == sent.len(), "an end before the data");
            }
        }
        if ending == 0 {
            pipeline.push(now, Step::End);
        }
        apply(&mut pipeline, now, &Set::new(), &toxics);
        while let Some(step) = pipeline.poll(now) {
            match step {
                Step::Item(data) => got.extend_from_slice(&data),
                Step::End => ends += 1,
                broken => prop_assert!(false, "{broken:?}"),
            }
        }
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(got, sent);
        prop_assert_eq!(pipeline.weight(), 0);
        prop_assert!(pipeline.is_transparent());
    }

    #[test]
    fn the_same_arrivals_leave_at_the_same_moments_however_often_the_engine_polls(
        toxics in prop::collection::vec(lossless(), 0..4),
        arrivals in prop::collection::vec((0u64..60, 1usize..120), 1..20),
        mut polls in prop::collection::vec(0u64..3_000, 0..20),
    ) {
        let mut now = 0;
        let arrivals: Vec<_> = arrivals.into_iter().map(|(gap, size)| { now += gap; (now, size) }).collect();
        polls.sort_unstable();
        let often = departures(&toxics, &arrivals, 0..2_000);
        let seldom = departures(&toxics, &arrivals, polls.into_iter());
        prop_assert!(often.is_sorted_by_key(|(at, _)| *at));
        prop_assert_eq!(often, seldom);
    }

    #[test]
    fn nothing_leaves_before_it_came(
        toxics in prop::collection::vec(lossless(), 0..4),
        arrivals in prop::collection::vec((0u64..60, 1usize..120), 1..20),
    ) {
        let (mut now, mut came) = (0, Vec::new());
        let mut moments = Vec::new();
        for (gap, size) in arrivals {
            now += gap;
            moments.push((now, size));
            came.extend(std::iter::repeat_n(ms(now), size));
        }
        let left = departures(&toxics, &moments, std::iter::empty());
        let bytes = left.iter().filter(|(_, byte)| byte.is_some());
        for ((at, byte), (number, came)) in bytes.zip(came.iter().enumerate()) {
            prop_assert_eq!(*byte, Some(number as u8));
            prop_assert!(at >= came);
        }
    }
}
