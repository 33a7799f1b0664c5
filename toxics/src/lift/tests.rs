//! Event filters in a row share the decoding.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use proptest::prelude::*;

use super::*;
use crate::{Pipeline, StageId, Step};

/// Passes everything, and counts it. The first event goes past it, the next is given to it, and so on.
struct Idle(Arc<AtomicUsize>);

impl StreamFilter<Event> for Idle {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.0.fetch_add(usize::from(item.is_event()), Relaxed);
        out.send(now, item);
    }

    fn pass(&mut self, item: &Event, _: Moment) -> bool {
        let passes = self.0.load(Relaxed).is_multiple_of(2);
        self.0.fetch_add(usize::from(passes && item.is_event()), Relaxed);
        passes
    }
}

/// Strikes every event.
struct Striker;

impl StreamFilter<Event> for Striker {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        out.strike(now);
        out.send(now, item);
    }
}

/// Tells the decoded from the undecoded.
struct Watch(Box<dyn StreamFilter<Event>>, Arc<AtomicUsize>);

impl StreamFilter<Event> for Watch {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.1.fetch_add(usize::from(item.is_undecoded()), Relaxed);
        self.0.on_item(item, now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_end(now, out);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.0.on_stop(now, out);
    }

    fn hand_over(&mut self) -> Option<Decoder> {
        self.0.hand_over()
    }

    fn take_over(&mut self, decoder: Decoder) {
        self.0.take_over(decoder);
    }
}

fn id(toxic: u64, revision: u64) -> StageId {
    StageId { toxic, revision }
}

fn idle(framing: EventFormat, at: Option<Meter>, events: &Arc<AtomicUsize>) -> Box<dyn StreamFilter<Event>> {
    Box::new(OnEvents::new(Box::new(Idle(Arc::clone(events))), framing, 1 << 20, at))
}

fn push(pipeline: &mut Pipeline<Event>, bytes: &[u8]) -> Vec<u8> {
    pipeline.push(Moment::ZERO, Step::Item(Event::undecoded(Bytes::copy_from_slice(bytes))));
    take(pipeline)
}

fn take(pipeline: &mut Pipeline<Event>) -> Vec<u8> {
    let mut left = Vec::new();
    while let Some(step) = pipeline.poll(Moment::ZERO) {
        if let Step::Item(item) = step {
            left.extend_from_slice(item.raw());
        }
    }
    left
}

#[test]
fn ten_filters_decode_once() {
    let (events, undecoded) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut pipeline = Pipeline::default();
    for toxic in 0..10 {
        let filter = Watch(idle(EventFormat::Sse, None, &events), Arc::clone(&undecoded));
        pipeline.append(Moment::ZERO, id(toxic, 0), Box::new(filter));
    }
    let body = "data: {\"a\":1}\n\n".repeat(100);
    assert_eq!(push(&mut pipeline, body.as_bytes()), body.as_bytes());
    assert_eq!(events.load(Relaxed), 1_000, "each filter sees each event");
    assert_eq!(undecoded.load(Relaxed), 1, "only the first is given bytes");
}

#[test]
fn a_filter_that_strikes_each_event_is_reported_once() {
    let mut pipeline = Pipeline::default();
    let filter = OnEvents::new(Box::new(Striker), EventFormat::Sse, 1 << 20, None);
    pipeline.append(Moment::ZERO, id(1, 0), Box::new(filter));
    let mut reports = 0;
    for _ in 0..100 {
        push(&mut pipeline, b"data: 1\n\n");
        pipeline.reports(|_, report| reports += usize::from(report.struck.is_some()));
    }
    assert_eq!(reports, 1);
}

/// A stream in each framing, of which some events are too large to hold.
fn bodies() -> [(EventFormat, Vec<u8>); 4] {
    let large = "x".repeat(300);
    let sse = format!(
        "\u{feff}: c\r\ndata: 1\r\n\r\ndata: {large}\n\nid: 1\n\nevent: e\rdata: 2\r\rdata: 3\n\ndata: t"
    );
    let lines = format!("{{}}\n\n{{\"a\":\"{large}\"}}\r\n[1]\n{{");
    let array = format!("[{{\"a\":1}},\n\"{large}\" , 12,[[],\"]\"]\n]\n");
    let frame = |data: &[u8]| Event::new(EventFormat::AwsEventStream, None, data).into_raw();
    let mut frames = [&frame(b"{}")[..], &frame(large.as_bytes()), &frame(b"1"), &frame(b"2")].concat();
    let last = frames.len() - 1;
    frames[last] ^= 1;
    frames.extend_from_slice(&frame(b"3"));
    [
        (EventFormat::Sse, sse.into_bytes()),
        (EventFormat::Ndjson, lines.into_bytes()),
        (EventFormat::JsonArray, array.into_bytes()),
        (EventFormat::AwsEventStream, frames),
    ]
}

proptest! {
    /// Filters come, go and are changed in mid-event; bytes filters come between them.
    #[test]
    fn nothing_is_lost_or_moved_however_the_row_changes(
        form in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4, 0_u64..4), 0..12),
    ) {
        let (framing, body) = bodies()[form].clone();
        let mut changes: Vec<_> =
            changes.into_iter().map(|(at, what, toxic)| (at.index(body.len() + 1), what, toxic)).collect();
        changes.sort_by_key(|(at, _, _)| *at);
        let mut pipeline: Pipeline<Event> = Pipeline::default();
        let mut wanted: Vec<StageId> = Vec::new();
        let (events, mut sent, mut at) = (Arc::default(), Vec::new(), 0);
        let mut meter = Meter::new(framing);
        let mut take_in = |left: Vec<u8>, meter: &mut Meter| {
            meter.feed(&left);
            sent.extend(left);
        };
        for (place, what, toxic) in changes {
            take_in(push(&mut pipeline, &body[at..place]), &mut meter);
            at = place;
            match wanted.iter_mut().find(|id| id.toxic == toxic) {
                Some(id) if what > 1 => id.revision += 1,
                Some(_) => wanted.retain(|id| id.toxic != toxic),
                None => wanted.push(id(toxic, 0)),
            }
            pipeline.change(Moment::ZERO, &wanted, |_| Some(match what {
                1 | 3 => Box::new(OnBytes::new(Box::new(PassBytes), Some(meter))),
                _ => Box::new(OnEvents::new(Box::new(Idle(Arc::clone(&events))), framing, 64, Some(meter))),
            }));
            take_in(take(&mut pipeline), &mut meter);
        }
        take_in(push(&mut pipeline, &body[at..]), &mut meter);
        pipeline.push(Moment::ZERO, Step::End);
        take_in(take(&mut pipeline), &mut meter);
        prop_assert_eq!(sent.escape_ascii().to_string(), body.escape_ascii().to_string());
    }

    /// The first filter of two leaves in the middle of an event: the second one sees all events behind all the same.
    #[test]
    fn whoever_comes_next_goes_on_where_a_filter_has_left(form in 0_usize..4, place: prop::sample::Index, replace: bool) {
        let (framing, body) = bodies()[form].clone();
        let cut = place.index(body.len() + 1);
        let (first, second, alone) = (Arc::default(), Arc::default(), Arc::default());
        let mut expected = Pipeline::default();
        expected.append(Moment::ZERO, id(1, 0), idle(framing, None, &alone));
        push(&mut expected, &body);

        let mut pipeline = Pipeline::default();
        pipeline.append(Moment::ZERO, id(1, 0), idle(framing, None, &first));
        pipeline.append(Moment::ZERO, id(2, 0), idle(framing, None, &second));
        let mut sent = push(&mut pipeline, &body[..cut]);
        let mut meter = Meter::new(framing);
        meter.feed(&sent);
        let wanted = if replace { vec![id(1, 1), id(2, 0)] } else { vec![id(2, 0)] };
        pipeline.change(Moment::ZERO, &wanted, |_| Some(idle(framing, Some(meter), &first)));
        sent.extend(take(&mut pipeline));
        sent.extend(push(&mut pipeline, &body[cut..]));
        pipeline.push(Moment::ZERO, Step::End);
        sent.extend(take(&mut pipeline));
        prop_assert_eq!(sent, body);
        prop_assert_eq!(second.load(Relaxed), alone.load(Relaxed));
        if replace {
            prop_assert_eq!(first.load(Relaxed), alone.load(Relaxed));
        }
    }
}

struct PassBytes;

impl StreamFilter<Bytes> for PassBytes {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }
}
