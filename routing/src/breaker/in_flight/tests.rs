use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    End(usize),
    Timed(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        2 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::Timed),
        2 => (1u64..8).prop_map(Step::Wait),
    ]
}

const LIMIT: Duration = Duration::from_millis(10);

proptest! {
    /// The list agrees with one that looks at every call each time.
    #[test]
    fn overdue_are_the_calls_older_than_the_limit(steps in prop::collection::vec(step(), 0..200)) {
        let mut in_flight = InFlight::default();
        let mut calls: Vec<(u64, usize, Moment, bool)> = Vec::new();
        let mut now = Moment::ZERO;
        let mut most = 0;
        for (number, step) in (1..).zip(steps) {
            match step {
                Step::Begin => calls.push((number, in_flight.begin(number, now), now, false)),
                Step::End(which) if !calls.is_empty() => {
                    let (number, slot, ..) = calls.swap_remove(which % calls.len());
                    prop_assert!(in_flight.end(slot, number));
                    prop_assert!(!in_flight.end(slot, number), "a call ends once");
                }
                Step::Timed(which) if !calls.is_empty() => {
                    let which = which % calls.len();
                    in_flight.timed(calls[which].1, calls[which].0);
                    calls[which].3 = true;
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
                _ => {}
            }
            most = most.max(calls.len());
            in_flight.mark_overdue(now, LIMIT);
            let watched = || calls.iter().filter(|call| !call.3);
            let overdue = watched().filter(|call| now - call.2 > LIMIT).count();
            prop_assert_eq!(in_flight.overdue() as usize, overdue);
            let next = watched().map(|call| call.2 + LIMIT).filter(|due| *due >= now).min();
            prop_assert_eq!(in_flight.next_overdue(LIMIT), next.map(|due| due + Duration::from_nanos(1)));
            prop_assert!(in_flight.calls.len() <= most, "places are used again");
        }
    }
}
