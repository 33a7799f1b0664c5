use super::*;

fn ms(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn drain(schedule: &mut Schedule<Bytes>) -> Vec<(u64, String)> {
    let name = |step: Step<Bytes>| match step {
        Step::Item(item) => String::from_utf8_lossy(&item).into_owned(),
        other => format!("{other:?}"),
    };
    std::iter::from_fn(|| schedule.take_due(NEVER))
        .map(|(at, step)| (at.as_millis() as u64, name(step)))
        .collect()
}

fn named<const N: usize>(steps: [(u64, &str); N]) -> Vec<(u64, String)> {
    steps.map(|(at, name)| (at, name.to_owned())).to_vec()
}

#[test]
fn what_is_sent_ahead_passes_what_waits_and_nothing_else() {
    let mut schedule = Schedule::default();
    schedule.send(ms(10), bytes("due"));
    schedule.send(ms(100), bytes("late"));
    schedule.send_ahead(ms(50), bytes("ahead"));
    schedule.send_ahead(ms(50), bytes("second"));
    schedule.end(ms(100));
    schedule.send_ahead(ms(200), bytes("too late"));
    let expected = [(10, "due"), (50, "ahead"), (50, "second"), (100, "late"), (100, "End")];
    assert_eq!(drain(&mut schedule), named(expected));
    assert_eq!(schedule.weight, 0);
}

#[test]
fn moments_never_go_back_along_the_queue() {
    let mut schedule = Schedule::default();
    schedule.send_ahead(ms(50), bytes("a"));
    schedule.send(ms(10), bytes("b"));
    assert_eq!(drain(&mut schedule), named([(50, "a"), (50, "b")]));
}

#[test]
fn a_lifted_filter_that_drops_what_waits_drops_it_below_too() {
    let (mut inner, mut outer) = (Schedule::<Bytes>::default(), Schedule::<Bytes>::default());
    inner.send(ms(100), bytes("dropped"));
    inner.end(ms(100));
    outer.adopt(&mut inner, |item| item);
    inner.clear();
    inner.reset(ms(20));
    outer.adopt(&mut inner, |item| item);
    inner.send(ms(30), bytes("nothing comes after"));
    outer.adopt(&mut inner, |item| item);
    assert_eq!(outer.weight, 0);
    assert_eq!(drain(&mut outer), named([(20, "Reset")]));
}

#[test]
fn a_lifted_filters_ahead_stays_ahead() {
    let (mut inner, mut outer) = (Schedule::<Bytes>::default(), Schedule::<Bytes>::default());
    inner.send(ms(100), bytes("late"));
    outer.adopt(&mut inner, |item| item);
    inner.send_ahead(ms(10), bytes("ahead"));
    outer.adopt(&mut inner, |item| item);
    assert_eq!(drain(&mut outer), named([(10, "ahead"), (100, "late")]));
}

#[test]
fn an_end_that_is_cleared_makes_room_for_another() {
    let mut schedule = Schedule::default();
    schedule.end(ms(10));
    schedule.clear();
    schedule.send(ms(2), bytes("a"));
    schedule.end(ms(3));
    assert_eq!(drain(&mut schedule), named([(2, "a"), (3, "End")]));
}

#[test]
fn an_end_that_has_left_is_not_taken_back_by_clearing() {
    let mut schedule = Schedule::default();
    schedule.end(ms(1));
    schedule.take_due(ms(1));
    schedule.clear();
    schedule.send(ms(2), bytes("late"));
    schedule.close(ms(3));
    assert_eq!(drain(&mut schedule), named([(3, "Close")]));
}

#[test]
fn what_goes_first_keeps_what_waits_unless_it_ends_the_stream() {
    let queue = |first: &str| {
        let (mut queue, mut first_queue) = (Schedule::default(), Schedule::default());
        queue.send(ms(50), bytes("b"));
        queue.close(ms(60));
        first_queue.send(ms(5), bytes("a"));
        match first {
            "end" => first_queue.end(ms(6)),
            "reset" => first_queue.reset(ms(6)),
            _ => {}
        }
        queue.put_first(first_queue);
        let weight = queue.weight;
        if !first.is_empty() {
            queue.send(ms(70), bytes("nothing comes after"));
        }
        (weight, drain(&mut queue))
    };
    assert_eq!(queue(""), (2, named([(5, "a"), (50, "b"), (60, "Close")])));
    assert_eq!(queue("end"), (1, named([(5, "a"), (6, "End"), (60, "Close")])));
    assert_eq!(queue("reset"), (1, named([(5, "a"), (6, "Reset")])));
}

#[test]
fn the_room_of_a_burst_is_given_back() {
    let mut schedule = Schedule::default();
    for _ in 0..10_000 {
        schedule.send(ms(1), bytes("x"));
    }
    assert!(schedule.load() > 10_000 * 50);
    drain(&mut schedule);
    assert_eq!(schedule.load(), 0);
    assert!(schedule.steps.capacity() <= KEPT_STEPS);
}

#[test]
fn an_end_that_goes_first_bars_what_would_come_later() {
    let (mut queue, mut first) = (Schedule::default(), Schedule::default());
    queue.send(ms(50), bytes("dropped"));
    first.end(ms(5));
    queue.put_first(first);
    queue.send(ms(60), bytes("late"));
    assert_eq!(drain(&mut queue), named([(5, "End")]));
}
