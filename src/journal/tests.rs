//! What the journal keeps, and how much.
use super::*;

fn head(path: &str) -> ExchangeStart {
    ExchangeStart {
        proxy: "p".into(),
        connection: 1,
        method: Method::GET,
        host: "h".into(),
        path: recorded(path),
        dialect: None,
        operation: None,
        scene: None,
        test_id: None,
    }
}

fn captured(bytes: usize) -> Option<Box<Captured>> {
    Some(Box::new(Captured { request: Some("x".repeat(bytes)), ..Captured::hiding(Vec::new()) }))
}

fn counted(journal: &Journal) -> usize {
    lock(&journal.ring).bytes
}

/// What is in the ring, counted anew.
fn sum(journal: &Journal) -> usize {
    lock(&journal.ring).records.iter().map(|record| record.bytes()).sum()
}

#[test]
fn a_06_the_ring_is_bounded_in_bytes() {
    let journal = Journal::new(Outlets::default());
    let no_headers = HeaderMap::new();
    for size in (0..1_000).map(|n| n * 200) {
        let record = journal.begin(head("/"));
        record.note(|course| course.bodies = captured(size));
        journal.end(&record, &no_headers);
        assert!(sum(&journal) <= MAX_BYTES, "{size}");
        assert_eq!(counted(&journal), sum(&journal), "{size}");
    }
    let kept = lock(&journal.ring).records.len();
    assert!((MAX_BYTES / 200_000..1_000).contains(&kept), "{kept}");
    assert!(journal.get(1_000).is_some() && journal.get(1).is_none());
}

#[test]
fn a_06_what_the_ring_has_forgotten_is_not_counted() {
    let journal = Journal::new(Outlets::default());
    let no_headers = HeaderMap::new();
    let records: Vec<_> = (0..CAPACITY + 5).map(|_| journal.begin(head("/a"))).collect();
    assert_eq!(lock(&journal.ring).records.len(), CAPACITY);
    for record in &records {
        record.note(|course| course.model = Some("m".into()));
        journal.end(record, &no_headers);
    }
    assert_eq!(counted(&journal), sum(&journal));
    let late = journal.begin(head("/b"));
    journal.clear();
    late.note(|course| course.bodies = captured(9));
    journal.end(&late, &no_headers);
    assert_eq!(counted(&journal), 0);
}

#[test]
fn a_06_lists_are_paged_by_bytes_and_by_number() {
    let journal = Journal::new(Outlets::default());
    for _ in 0..100 {
        let record = journal.begin(head("/"));
        record.note(|course| course.bodies = captured(MAX_PAGE_BYTES / 20));
    }
    for limit in [None, Some(3), Some(usize::MAX)] {
        let (mut ids, mut since) = (Vec::new(), 0);
        loop {
            let (page, next) =
                journal.list(&ExchangeFilter { since: Some(since), limit, ..Default::default() });
            assert!(page.len() <= limit.unwrap_or(20).min(20), "{}", page.len());
            ids.extend(page.iter().map(|exchange| exchange.id));
            if next == since {
                break;
            }
            since = next;
        }
        assert_eq!(ids, (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn a_06_recorded_strings_are_cut_between_characters() {
    for text in ["", "a", &"a".repeat(MAX_TEXT), &"好".repeat(341)] {
        assert_eq!(&*recorded(text), text);
    }
    for (text, kept) in [("a".repeat(MAX_TEXT + 1), MAX_TEXT), ("好".repeat(MAX_TEXT), 1_023)] {
        assert_eq!(&*recorded(&text), format!("{}…", &text[..kept]));
    }
    let method = Method::from_bytes(&[b'M'; 1_000]).unwrap();
    assert_eq!(recorded_method(&method).as_str(), format!("{}...", "M".repeat(MAX_METHOD)));
    assert_eq!(recorded_method(&Method::OPTIONS), Method::OPTIONS);
}
