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

type OnWakeup = fn(Moment, &mut Schedule<Bytes>);

/// Lets every item through. At first it may hold what it sends, and ask to be woken.
#[derive(Default)]
struct Open {
    hold: u64,
    wake: Option<(u64, OnWakeup)>,
}

impl StreamFilter<Bytes> for Open {
    fn on_start(&mut self, _: Moment, out: &mut Schedule<Bytes>) {
        out.hold_until(ms(self.hold));
        if let Some((at, _)) = self.wake {
            out.wake_at(ms(at));
        }
    }
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }
    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if let Some((_, woken)) = self.wake {
            woken(now, out);
        }
    }
    fn pass(&mut self, _: &Bytes, _: Moment) -> bool {
        true
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

/// Does what it is told on each call, and writes the calls down.
#[derive(Default)]
struct Script {
    calls: Arc<Mutex<Vec<(&'static str, Moment)>>>,
    wake_after: Option<Moment>,
    delays: bool,
    closes: bool,
}

impl Script {
    fn note(&self, call: &'static str, now: Moment, out: &mut Schedule<Bytes>) {
        self.calls.lock().unwrap().push((call, now));
        if let Some(after) = self.wake_after {
            out.wake_at(now + after);
        }
    }
}

impl StreamFilter<Bytes> for Script {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.note("start", now, out);
    }
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        self.note("item", now, out);
        out.send(now, item);
        if self.closes {
            out.close(now);
        }
    }
    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.note("wakeup", now, out);
        out.strike(now);
    }
    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.note("stop", now, out);
    }
    fn only_delays(&self) -> bool {
        self.delays
    }
}

type Calls = Arc<Mutex<Vec<(&'static str, Moment)>>>;

fn script(wake_after: Option<u64>, delays: bool) -> (Calls, Box<Script>) {
    let calls = Calls::default();
    (Arc::clone(&calls), Box::new(Script { calls, wake_after: wake_after.map(ms), delays, closes: false }))
}

fn calls(calls: &Calls) -> Vec<(&'static str, u64)> {
    calls.lock().unwrap().drain(..).map(|(call, at)| (call, at.as_millis() as u64)).collect()
}

#[test]
fn wakeups_come_at_their_moments_however_late_the_poll() {
    let (log, filter) = script(Some(100), true);
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), filter);
    pipeline.push(ms(150), Step::Item(item(1)));
    assert_eq!(pipeline.next_wakeup(), Some(ms(100)));
    assert_eq!(pipeline.poll(ms(400)), Some(Step::Item(item(1))));
    assert_eq!(calls(&log), [("start", 0), ("wakeup", 100), ("item", 150), ("wakeup", 250), ("wakeup", 350)]);
}

#[test]
fn an_item_goes_before_a_wakeup_at_the_same_moment() {
    let (log, filter) = script(Some(100), true);
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), filter);
    pipeline.push(ms(100), Step::Item(item(1)));
    pipeline.poll(ms(150));
    assert_eq!(calls(&log), [("start", 0), ("item", 100)]);
}

#[test]
fn a_filter_that_always_asks_for_now_does_not_hang() {
    let (log, filter) = script(Some(0), true);
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), filter);
    assert_eq!(pipeline.poll(ms(3)), None);
    assert_eq!(calls(&log), [("start", 0), ("wakeup", 0), ("wakeup", 1), ("wakeup", 2), ("wakeup", 3)]);
}

#[test]
fn a_filter_is_told_no_moment_before_its_start() {
    let mut pipeline = Pipeline::default();
    pipeline.push(ms(50), Step::Item(item(1)));
    let (log, filter) = script(None, true);
    pipeline.append(ms(80), id(1, 0), filter);
    assert_eq!(pipeline.poll(ms(80)), Some(Step::Item(item(1))));
    assert_eq!(calls(&log), [("start", 80), ("item", 80)]);
}

#[test]
fn only_what_cannot_be_handed_over_is_stopped_by_a_change() {
    for delays in [true, false] {
        let (log, filter) = script(None, delays);
        let mut pipeline = Pipeline::default();
        pipeline.append(ms(0), id(1, 0), filter);
        pipeline.push(ms(10), Step::Item(item(1)));
        pipeline.change(ms(20), &[id(1, 1)], |_| Some(script(None, delays).1));
        let stop = (!delays).then_some(("stop", 20));
        assert_eq!(calls(&log), [("start", 0), ("item", 10)].into_iter().chain(stop).collect::<Vec<_>>());
        assert_eq!(pipeline.poll(ms(20)), Some(Step::Item(item(1))));
    }
}

#[test]
fn a_filter_that_has_closed_is_given_no_more() {
    let (log, mut filter) = script(None, true);
    filter.closes = true;
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), filter);
    for at in [10, 20] {
        pipeline.push(ms(at), Step::Item(item(1)));
    }
    let left: Vec<_> = std::iter::from_fn(|| pipeline.poll(ms(30))).collect();
    assert_eq!(left, [Step::Item(item(1)), Step::Close]);
    assert_eq!(calls(&log), [("start", 0), ("item", 10)]);
}

#[test]
fn an_unchanged_revision_is_left_alone() {
    let (log, filter) = script(None, false);
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), filter);
    pipeline.change(ms(20), &[id(1, 0)], |_| panic!("started anew"));
    assert_eq!(calls(&log), [("start", 0)]);
}

#[test]
fn a_filter_that_is_gone_still_reports() {
    let mut pipeline: Pipeline<Bytes> = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), script(Some(100), true).1);
    pipeline.change(ms(100), &[], |_| None);
    let mut told = Vec::new();
    pipeline.reports(|id, report| told.push((id.toxic, report.struck)));
    pipeline.reports(|id, report| told.push((id.toxic, report.struck)));
    assert_eq!(told, [(1, Some(ms(100)))]);
}

#[test]
fn a_report_is_told_once_for_each_change_of_it() {
    let mut pipeline: Pipeline<Bytes> = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), script(Some(100), true).1);
    let mut told = 0;
    for at in [50, 100, 300] {
        pipeline.poll(ms(at));
        pipeline.reports(|_, report| told += usize::from(report.struck == Some(ms(100))));
    }
    assert_eq!(told, 1);
}

#[test]
fn there_is_room_while_each_stage_holds_less_than_it_may() {
    let mut pipeline: Pipeline<Bytes> = Pipeline::default();
    assert!(pipeline.has_room());
    pipeline.push(ms(0), Step::Item(item(1)));
    assert!(!pipeline.has_room(), "without stages nothing may wait");
    pipeline.append(ms(0), id(1, 0), Box::new(Hold(1_000)));
    assert!(pipeline.has_room());
    pipeline.push(ms(0), Step::Item(Bytes::from(vec![0; 64 * 1024])));
    pipeline.poll(ms(0));
    assert!(!pipeline.has_room());
    while pipeline.poll(ms(1_000)).is_some() {}
    assert!(pipeline.has_room());
}

#[test]
fn many_small_items_fill_it_too() {
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), Box::new(Hold(1_000)));
    let mut count = 0;
    while pipeline.has_room() {
        pipeline.push(ms(0), Step::Item(Bytes::from_static(b"x")));
        pipeline.poll(ms(0));
        count += 1;
    }
    assert!(count < 2_000, "{count}");
}

#[test]
fn a_reset_is_seen_behind_what_waits_for_a_slow_peer() {
    let mut pipeline = Pipeline::default();
    pipeline.push(ms(0), Step::Item(item(1)));
    pipeline.push(ms(0), Step::Item(item(2)));
    assert_eq!(pipeline.break_is_due(ms(0)), None);
    pipeline.push(ms(10), Step::Reset);
    assert_eq!(pipeline.next_break_wakeup(), Some(ms(10)));
    assert_eq!(pipeline.break_is_due(ms(9)), None);
    assert_eq!(pipeline.break_is_due(ms(10)), Some(Step::Reset));
}

#[test]
fn a_close_waits_until_a_slow_peer_has_taken_what_comes_before_it() {
    let mut pipeline = Pipeline::default();
    pipeline.push(ms(0), Step::Item(item(1)));
    pipeline.push(ms(0), Step::Close);
    assert_eq!(pipeline.break_is_due(ms(10)), None);
    assert_eq!(pipeline.next_break_wakeup(), None);
    assert_eq!(pipeline.poll(ms(10)), Some(Step::Item(item(1))));
    assert_eq!(pipeline.poll(ms(10)), Some(Step::Close));
}

#[test]
fn only_a_break_comes_after_the_end_and_nothing_after_a_break() {
    let mut pipeline = Pipeline::default();
    pipeline.append(ms(0), id(1, 0), Box::new(Hold(0)));
    for step in [Step::End, Step::Item(item(1)), Step::End, Step::Close, Step::Reset, Step::Item(item(2))] {
        pipeline.push(ms(0), step);
    }
    let left: Vec<_> = std::iter::from_fn(|| pipeline.poll(ms(10))).collect();
    assert_eq!(left, [Step::End, Step::Close]);
    assert_eq!(pipeline.weight(), 0);
}

/// What leaves at which moment when an item comes at 10, first polled at `polls`.
fn leaving(filters: Vec<Open>, polls: &[u64]) -> Vec<(u64, Step<Bytes>)> {
    let mut pipeline = Pipeline::default();
    for (toxic, filter) in (0..).zip(filters) {
        pipeline.append(Moment::ZERO, id(toxic, 0), Box::new(filter));
    }
    pipeline.push(ms(10), Step::Item(Bytes::from_static(b"item")));
    let mut left = Vec::new();
    for at in polls {
        left.extend(std::iter::from_fn(|| pipeline.poll(ms(*at))).map(|step| (*at, step)));
    }
    left
}

#[test]
fn no_item_goes_past_a_filter_that_holds_wakes_before_it_or_has_ended() {
    let item = || Step::Item(Bytes::from_static(b"item"));
    let open = Open::default;
    assert_eq!(leaving(vec![open(), open(), open()], &[9, 10]), [(10, item())]);
    for index in 0..3 {
        let row = |odd: Open| {
            let mut row = vec![open(), open(), open()];
            row[index] = odd;
            row
        };
        let held = row(Open { hold: 30, wake: None });
        assert_eq!(leaving(held, &[10, 29, 30]), [(30, item())]);
        let woken = row(Open { hold: 0, wake: Some((5, |now, out| out.send(now, "woken".into()))) });
        assert_eq!(leaving(woken, &[20]), [(20, Step::Item("woken".into())), (20, item())]);
        let reset = row(Open { hold: 0, wake: Some((5, |now, out| out.reset(now))) });
        assert_eq!(leaving(reset, &[5, 20]), [(5, Step::Reset)]);
    }
}
