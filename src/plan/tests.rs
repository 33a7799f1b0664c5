use super::*;

fn plan(specs: &[serde_json::Value]) -> Plan {
    let catalogue = Catalogue::default();
    let toxics: Vec<_> = specs
        .iter()
        .map(|spec| Arc::new(Armed::new(&serde_json::from_value(spec.clone()).unwrap(), &catalogue).unwrap()))
        .collect();
    Plan::at(Instant::now(), "p".into(), 42, true, false, &toxics).0
}

fn struck(plan: &Plan, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers
        .filter(|number| {
            !byte_stages(plan, Direction::Downstream, &mut Decisions::new(*number), |_, _| ()).is_empty()
        })
        .collect()
}

#[tokio::test]
async fn d5_toxicity_is_the_same_for_the_same_seed() {
    let spec = serde_json::json!({"type": "latency", "toxicity": 0.5, "name": "l"});
    let first = struck(&plan(std::slice::from_ref(&spec)), 0..200);
    assert_eq!(first, struck(&plan(&[spec]), 0..200));
    assert!((60..140).contains(&first.len()), "{}", first.len());
}

#[tokio::test]
async fn d9_an_unrelated_change_never_rolls_again() {
    let plan = plan(&[serde_json::json!({"type": "latency", "toxicity": 0.5, "budget": {"times": 1}})]);
    let mut decisions = Decisions::new(1);
    let number = (0..).find(|number| !struck(&plan, *number..*number + 1).is_empty()).unwrap();
    assert!(byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ()).is_empty() || number > 0);
    for _ in 0..10 {
        let mut decisions = Decisions::new(number);
        let first = byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ());
        assert_eq!(first, byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ()));
    }
}

#[tokio::test]
async fn budgets_count() {
    let with = |budget: serde_json::Value| plan(&[serde_json::json!({"type": "latency", "budget": budget})]);
    assert_eq!(struck(&with(serde_json::json!({"skip": 2, "times": 3})), 0..10), [2, 3, 4]);
    assert_eq!(struck(&with(serde_json::json!({"every": 3})), 0..10), [0, 3, 6, 9]);
    let plan = with(serde_json::json!({"max_active": 1}));
    let (mut one, mut two) = (Decisions::new(0), Decisions::new(1));
    assert_eq!(byte_stages(&plan, Direction::Downstream, &mut one, |_, _| ()).len(), 1);
    assert_eq!(byte_stages(&plan, Direction::Downstream, &mut two, |_, _| ()).len(), 0);
    drop(one);
    assert_eq!(byte_stages(&plan, Direction::Downstream, &mut Decisions::new(2), |_, _| ()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_window_opens_and_closes() {
    let spec = serde_json::json!({"type": "latency", "window": {"after": "1s", "for": "2s"}});
    let toxics =
        [Arc::new(Armed::new(&serde_json::from_value(spec).unwrap(), &Catalogue::default()).unwrap())];
    let start = Instant::now();
    let at = |ms| Plan::at(start + Duration::from_millis(ms), "p".into(), 1, true, false, &toxics);
    for (ms, open, next) in [
        (0, 0, Some(1_000)),
        (999, 0, Some(1_000)),
        (1_000, 1, Some(3_000)),
        (2_999, 1, Some(3_000)),
        (3_000, 0, None),
    ] {
        let (plan, changes) = at(ms);
        assert_eq!(plan.toxics.len(), open, "{ms}");
        assert_eq!(changes, next.map(|next| start + Duration::from_millis(next)), "{ms}");
    }
}
