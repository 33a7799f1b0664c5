use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn mark() -> impl Strategy<Value = Mark> {
    (any::<bool>(), any::<bool>()).prop_map(|(failed, slow)| Mark { failed, slow })
}

fn sum<'m>(marks: impl IntoIterator<Item = &'m Mark>) -> Totals {
    let mut totals = Totals::default();
    marks.into_iter().for_each(|mark| totals.add(Totals::of(*mark)));
    totals
}

proptest! {
    #[test]
    fn a_window_over_calls_holds_the_last_ones(size in 1u32..20, marks in prop::collection::vec(mark(), 0..100)) {
        let mut window = Window::count(size, 1);
        for (index, mark) in marks.iter().enumerate() {
            window.record(*mark, Moment::ZERO);
            let first = (index + 1).saturating_sub(size as usize);
            prop_assert_eq!(window.totals(Moment::ZERO), sum(&marks[first..=index]));
        }
    }

    #[test]
    fn a_window_over_time_holds_the_last_seconds(
        seconds in 1u32..8,
        start in 0u64..5_000,
        steps in prop::collection::vec((0u64..3_000, mark()), 0..100),
    ) {
        let mut now = Duration::from_millis(start);
        let mut window = Window::time(seconds, 1, now);
        let mut all = Vec::new();
        for (ahead, mark) in steps {
            now += Duration::from_millis(ahead);
            let held = |all: &[(u64, Mark)], now: Duration| {
                let first = (now.as_secs() + 1).saturating_sub(seconds.into());
                sum(all.iter().filter(|(second, _)| *second >= first).map(|(_, mark)| mark))
            };
            prop_assert_eq!(window.totals(now), held(&all, now), "reading");
            window.record(mark, now);
            all.push((now.as_secs(), mark));
            prop_assert_eq!(window.totals(now), held(&all, now), "recording");
        }
    }

    #[test]
    fn what_is_saved_can_be_loaded_at_another_time(
        is_time in any::<bool>(),
        size in 1u32..8,
        steps in prop::collection::vec((0u64..1_500, mark()), 0..40),
        restart in 0u64..20_000,
        age in 0u64..10,
        later in 0u64..12_000,
    ) {
        let window = |now| if is_time { Window::time(size, 1, now) } else { Window::count(size, 1) };
        let mut now = Duration::ZERO;
        let mut before = window(now);
        for (ahead, mark) in steps {
            now += Duration::from_millis(ahead);
            before.record(mark, now);
        }
        let restart = Duration::from_secs(restart);
        let mut after = window(restart);
        after.load(&before.saved(now), age);
        // Compared at the beginning of a second, because that is what is saved.
        let (age, later) = (Duration::from_secs(age), Duration::from_secs(later / 1_000));
        let now = Duration::from_secs(now.as_secs());
        prop_assert_eq!(after.totals(restart + later), before.totals(now + age + later));
    }
}

#[test]
fn t_50_window_memory_constant() {
    for mut window in [Window::count(7, 1), Window::time(7, 1, Moment::ZERO)] {
        for call in 0..100_000u64 {
            window.record(Mark { failed: true, slow: false }, Duration::from_millis(call * 37));
        }
        window.record(Mark::default(), Moment::MAX);
        assert_eq!(window.capacity(), 7);
    }
}
