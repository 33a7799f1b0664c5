use aconite_dialects::Decoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Step,
    message::script::{CHAT, Play, instance, sse},
};

fn reframe(how: &str, body: &str) -> Play {
    let mut play = Play::new::<Reframe>(json!({"how": how}), &sse());
    play.push(1, body);
    play.end(2);
    play
}

/// The events of a body: name and data.
fn events(body: &[u8]) -> Vec<(Option<String>, Vec<u8>)> {
    let mut decoder = Decoder::new(EventFormat::Sse, 1 << 20);
    decoder.push(Bytes::copy_from_slice(body));
    std::iter::from_fn(|| decoder.next())
        .filter(Event::is_event)
        .map(|event| (event.name().map(|name| name.into_owned()), event.data().into_owned()))
        .collect()
}

#[test]
fn each_way_has_its_bytes() {
    let body = ": c\n\nevent: e\ndata: {\"a\":1}\n\ndata:  b\n\ndata: [DONE]\n\n";
    for (how, expected) in [
        ("crlf", ": c\r\n\r\nevent: e\r\ndata: {\"a\":1}\r\n\r\ndata:  b\r\n\r\ndata: [DONE]\r\n\r\n"),
        ("cr", ": c\r\revent: e\rdata: {\"a\":1}\r\rdata:  b\r\rdata: [DONE]\r\r"),
        ("no_space", ": c\n\nevent:e\ndata:{\"a\":1}\n\ndata:  b\n\ndata:[DONE]\n\n"),
        (
            "comments",
            ": c\n\n: keep-alive\nevent: e\ndata: {\"a\":1}\n\n: keep-alive\ndata:  b\n\n: keep-alive\ndata: [DONE]\n\n",
        ),
        ("multi_data", ": c\n\nevent: e\ndata: {\ndata: \"a\":1\ndata: }\n\ndata:  b\n\ndata: [DONE]\n\n"),
        ("bom", "\u{feff}: c\n\nevent: e\ndata: {\"a\":1}\n\ndata:  b\n\ndata: [DONE]\n\n"),
        ("no_event_name", ": c\n\ndata: {\"a\":1}\n\ndata:  b\n\ndata: [DONE]\n\n"),
    ] {
        let play = reframe(how, body);
        assert_eq!(play.text(), expected, "{how}");
        assert!(play.struck().is_some(), "{how}");
    }
}

#[test]
fn sse_11_a_heartbeat_follows_an_id() {
    let play = reframe("heartbeat", "id: x\ndata: 1\n\ndata: 2\n\n");
    assert_eq!(play.text(), "id: x\ndata: 1\n\n: ping\n\nid: 2\ndata: 2\n\n: ping\n\n");
}

#[test]
fn kept_open_it_never_ends_until_the_toxic_goes() {
    let mut play = reframe("keep_open", "data: [DONE]\n\n");
    play.until(1_000_000);
    assert_eq!(play.log().len(), 1);
    play.remove(1_000_001);
    assert_eq!(play.last(), Some((1_000_001, Step::End)));
}

#[test]
fn all_at_once_at_the_end() {
    let mut play = Play::new::<Reframe>(json!({"how": "gzip_late"}), &sse());
    for at in 0..5 {
        play.push(at, "data: x\n\n");
    }
    play.end(9);
    assert_eq!((play.items(), play.times()), (vec!["data: x\n\n".repeat(5)], vec![9]));
}

#[test]
fn bytes_and_pairs() {
    let play = reframe("bytewise", "data: 世\n\n");
    assert!(play.items().len() == 11 && play.text() == "data: 世\n\n");
    let play = reframe("merge", "data: 1\n\n: c\n\ndata: 2\n\ndata: 3\n\ndata: tail");
    assert_eq!(play.items(), ["data: 1\n\n: c\n\ndata: 2\n\n", "data: 3\n\ndata: tail"]);
}

#[test]
fn lines_have_fewer_ways() {
    let lines = Scope { body: BodyForm::Events(EventFormat::Ndjson), ..Scope::default() };
    assert!(matches!(instance::<Reframe>(json!({"how": "cr"}), &lines), Instance::Idle(_)));
    let mut play = Play::new::<Reframe>(json!({"how": "crlf"}), &lines);
    play.push(1, "{\"a\":\r1}\n{}\n");
    assert_eq!(play.text(), "{\"a\":\r1}\r\n{}\r\n");
    let late = Scope { passed: 9, ..sse() };
    assert!(matches!(instance::<Reframe>(json!({"how": "bom"}), &late), Instance::Idle("already_begun")));
}

#[test]
fn an_event_too_large_to_hold_is_not_rewritten_in_part() {
    let large = format!("data: {}\r", "x".repeat(2 << 20));
    let mut play = Play::new::<Reframe>(json!({"how": "crlf"}), &sse());
    play.push(1, &large);
    play.push(2, "\n\r\n");
    play.push(3, "data: 2\n\n");
    assert_eq!(play.text(), format!("{large}\n\r\ndata: 2\r\n\r\n"));
}

proptest! {
    #[test]
    fn the_events_stay_the_same_however_the_stream_is_cut(
        how in prop::sample::select(vec![
            "crlf", "cr", "no_space", "comments", "bom", "bytewise", "merge", "gzip_late", "keep_open", "multi_data",
        ]),
        cuts in prop::collection::vec(0_usize..1_000, 0..8),
    ) {
        let body = format!("{CHAT}data\r\n\r\nid\nevent: x\rdata:  a\rdata:b\r\r:c\n\ndata: y\r\n\r\n{CHAT}data: tail");
        let mut play = Play::new::<Reframe>(json!({"how": how}), &sse());
        play.push_cut(body.as_bytes(), &cuts);
        play.end(99);
        let (before, after) = (events(body.as_bytes()), events(&play.bytes()));
        if how == "multi_data" {
            let read = |(name, data): (Option<String>, Vec<u8>)| {
                (name, serde_json::from_slice::<Value>(&data).map_err(|_| data))
            };
            let read = |events: Vec<_>| events.into_iter().map(read).collect::<Vec<_>>();
            prop_assert_eq!(format!("{:?}", read(after)), format!("{:?}", read(before)));
        } else {
            prop_assert_eq!(after, before);
        }
    }
}
