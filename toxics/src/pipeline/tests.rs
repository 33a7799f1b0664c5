use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// Holds each item for so long.
struct Hold(u64);

impl StreamFilter<Bytes> for Hold {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now + ms(self.0), item);
    }
    fn only_delays(&self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// Writes down when each item reaches it.
struct Log(Arc<Mutex<Vec<(Bytes, Moment)>>>);

impl StreamFilter<Bytes> for Log {
    fn on_item(&mut self, item: Bytes, now: Moment, _: &mut Schedule<Bytes>) {
        self.0.lock().unwrap().push((item, now));
    }
}

fn ms(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn id(toxic: u64, revision: u64) -> StageId {
    StageId { toxic, revision }
}

fn item(number: usize) -> Bytes {
    Bytes::copy_from_slice(&(number as u32).to_be_bytes())
}

fn departures(holds: &[u64], arrivals: &[u64], polls: impl Iterator<Item = u64>) -> Vec<(Bytes, Moment)> {
    let log = Arc::default();
    let mut pipeline = Pipeline::default();
    for (toxic, hold) in (0..).zip(holds) {
        pipeline.append(Moment::ZERO, id(toxic, 0), Box::new(Hold(*hold)));
    }
    pipeline.append(Moment::ZERO, id(99, 0), Box::new(Log(Arc::clone(&log))));
    for (number, at) in arrivals.iter().enumerate() {
        pipeline.push(ms(*at), Step::Item(item(number)));
    }
    for at in polls {
        while pipeline.poll(ms(at)).is_some() {}
    }
    drop(pipeline);
    Arc::into_inner(log).unwrap().into_inner().unwrap()
}

proptest! {
    #[test]
    fn when_the_engine_polls_changes_nothing(
        holds in prop::collection::vec(0u64..100, 0..4),
        mut arrivals in prop::collection::vec(0u64..500, 1..30),
        mut polls in prop::collection::vec(0u64..1_000, 0..10),
    ) {
        arrivals.sort_unstable();
        polls.sort_unstable();
        polls.push(1_000);
        let often = departures(&holds, &arrivals, 0..=1_000);
        let seldom = departures(&holds, &arrivals, polls.into_iter());
        prop_assert_eq!(often.len(), arrivals.len());
        prop_assert_eq!(often, seldom);
    }

    #[test]
    fn any_change_at_any_moment_neither_loses_nor_reorders(
        gaps in prop::collection::vec(0u64..30, 1..60),
        changes in prop::collection::vec((0usize..60, prop::collection::vec((0u64..5, 0u64..3, 0u64..200), 0..4)), 0..6),
    ) {
        let mut pipeline = Pipeline::default();
        let (mut now, mut got) = (Moment::ZERO, Vec::new());
        for (number, gap) in gaps.iter().enumerate() {
            now += ms(*gap);
            for (when, stages) in &changes {
                if *when == number {
                    let mut stages = stages.clone();
                    stages.dedup_by_key(|stage| stage.0);
                    stages.sort_unstable();
                    stages.dedup_by_key(|stage| stage.0);
                    let wanted: Vec<_> = stages.iter().map(|(toxic, revision, _)| id(*toxic, *revision)).collect();
                    pipeline.change(now, &wanted, |id| {
                        let hold = stages.iter().find(|stage| stage.0 == id.toxic)?.2;
                        Some(Box::new(Hold(hold)))
                    });
                    prop_assert_eq!(pipeline.stages().count(), wanted.len());
                }
            }
            pipeline.push(now, Step::Item(item(number)));
            while let Some(Step::Item(item)) = pipeline.poll(now) {
                got.push(item);
            }
        }
        pipeline.push(now, Step::End);
        let end = loop {
            match pipeline.poll(now + ms(10_000)) {
                Some(Step::Item(item)) => got.push(item),
                other => break other,
            }
        };
        prop_assert_eq!(end, Some(Step::End));
        prop_assert_eq!(pipeline.weight(), 0);
        prop_assert_eq!(got, (0..gaps.len()).map(item).collect::<Vec<_>>());
    }
}

#[test]
fn a_longer_delay_counts_from_the_moment_at_which_the_item_came() {
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), Box::new(Hold(1_000)));
    pipeline.push(ms(0), Step::Item(item(1)));
    pipeline.change(ms(200), &[id(1, 1)], |_| Some(Box::new(Hold(500))));
    assert_eq!(pipeline.poll(ms(499)), None);
    assert_eq!(pipeline.poll(ms(500)), Some(Step::Item(item(1))));
}

#[test]
fn a_removed_filter_lets_go_at_once_of_what_waits_for_ever() {
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), Box::new(Hold(u64::MAX / 2)));
    pipeline.push(ms(0), Step::Item(item(1)));
    assert_eq!(pipeline.poll(ms(10)), None);
    pipeline.change(ms(20), &[], |_| None);
    assert_eq!(pipeline.poll(ms(20)), Some(Step::Item(item(1))));
}
