//! JSON arrays and AWS frames.
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ARRAY: &[u8] =
    "[{\n  \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"你 ]},\\\"\"}]}}]\n}\r\n,\r\n{\"a\": [1, {}]}\n,\n{\"b\":2}\n]\n"
        .as_bytes();

/// Each piece in turn, cut anywhere.
fn two_cuts(body: &[u8]) -> impl Iterator<Item = [&[u8]; 3]> {
    let cuts = move |first: usize| (first..=body.len()).step_by(7).map(move |second| (first, second));
    (0..=body.len())
        .flat_map(cuts)
        .map(|(first, second)| [&body[..first], &body[first..second], &body[second..]])
}

/// The bytes of pieces, one after the other, each fitted to those before it.
fn sent(framing: EventFormat, pieces: impl IntoIterator<Item = Event>) -> Vec<u8> {
    let mut at = Meter::new(framing);
    let mut sent = Vec::new();
    for piece in pieces {
        let raw = piece.raw_at(&at);
        at.feed(&raw);
        sent.extend_from_slice(&raw);
    }
    sent
}

fn kinds(pieces: &[Event]) -> Vec<bool> {
    pieces.iter().map(Event::is_event).collect()
}

#[test]
fn elements_of_an_array_are_events_however_it_is_cut() {
    let whole: Value = serde_json::from_slice(ARRAY).unwrap();
    for chunks in two_cuts(ARRAY) {
        let (pieces, decoder) = decode_with(EventFormat::JsonArray, LIMIT, &chunks);
        let elements: Vec<Value> =
            data_of(&pieces).iter().map(|data| serde_json::from_slice(data).unwrap()).collect();
        assert_eq!(json!(elements), whole);
        assert_eq!(concat(&pieces), ARRAY);
        assert_eq!((decoder.events(), decoder.damaged()), (3, 0));
        assert_eq!(sent(EventFormat::JsonArray, pieces), ARRAY);
        let meter = metered(EventFormat::JsonArray, &chunks);
        assert_eq!((meter.events(), meter.unterminated_tail()), (3, 0));
    }
}

#[test]
fn an_element_leaves_as_soon_as_it_is_complete() {
    let mut decoder = Decoder::new(EventFormat::JsonArray, LIMIT);
    let mut push = |bytes: &'static str| {
        decoder.push(bytes.into());
        std::iter::from_fn(|| decoder.next()).map(Event::into_raw).collect::<Vec<_>>()
    };
    assert_eq!(push("[{\"a\":1}"), ["[", "{\"a\":1}"]);
    assert_eq!(push("\n,"), [""; 0]);
    assert_eq!(push("\n{\"b\":[2]}\n"), ["\n,\n{\"b\":[2]}"]);
    assert_eq!(push("]"), ["\n]"]);
}

#[test]
fn an_array_stays_one_when_elements_go_come_and_change_places() {
    let pieces = decode_with(EventFormat::JsonArray, LIMIT, &[ARRAY]).0;
    let [open, first, second, third, close, end] = &pieces[..] else { panic!("{pieces:?}") };
    let fresh = &Event::new(EventFormat::JsonArray, None, b"{\"error\":{}}");
    let values = |pieces: &[&Event]| {
        let sent = sent(EventFormat::JsonArray, pieces.iter().map(|piece| (*piece).clone()));
        let text = String::from_utf8_lossy(&sent).into_owned();
        serde_json::from_str::<Vec<Value>>(&text).unwrap_or_else(|error| panic!("{error}: {text}")).len()
    };
    assert_eq!(values(&[open, second, third, close, end]), 2);
    assert_eq!(values(&[open, first, third, close]), 2);
    assert_eq!(values(&[open, close]), 0);
    assert_eq!(values(&[open, first, first, second, second, close]), 4);
    assert_eq!(values(&[open, third, first, close]), 2);
    assert_eq!(values(&[fresh, open, first, close]), 2);
    assert_eq!(values(&[open, fresh, first, fresh, close]), 3);
    let closing = &Event::last_of(EventFormat::JsonArray).unwrap();
    assert_eq!(values(&[fresh, closing]), 1);
    assert_eq!(values(&[open, first, fresh, closing]), 2);
    assert_eq!(values(&[open, closing]), 0);
    let twice = sent(EventFormat::JsonArray, [open, first, second, fresh].map(Clone::clone));
    assert!(twice.ends_with(b"\r\n,\r\n{\"error\":{}}"), "it looks as what was between the two before");
    assert_eq!(first.with_data(b"{}").raw(), "{}");
    assert_eq!(second.with_data(b"{}").raw(), "\r\n,\r\n{}");
}

#[test]
fn what_is_no_array_passes_and_counts_as_damage_once() {
    for (body, events) in [
        (&b"{\"error\":{}}"[..], 0),
        (b"[1,,2]", 1),
        (b"[1 2]", 1),
        (b"[1,]", 1),
        (b"[]x[{}]", 0),
        (b"\xff\xff", 0),
        (b"[}", 0),
    ] {
        for chunks in two_cuts(body) {
            let (pieces, decoder) = decode_with(EventFormat::JsonArray, LIMIT, &chunks);
            assert_eq!(concat(&pieces), body);
            assert_eq!((decoder.events(), decoder.damaged()), (events, 1), "{}", body.escape_ascii());
            assert_eq!(sent(EventFormat::JsonArray, pieces), body);
        }
    }
    for body in [&b"[]"[..], b" [ ] \n", b"[\"a\",null,-1e3,[],{}]", b"", b"[{\"a\":1}"] {
        assert_eq!(metered(EventFormat::JsonArray, &[body]).damaged(), 0);
    }
}

/// A frame of `ConverseStream`, written down byte by byte.
fn hello() -> Vec<u8> {
    [
        &[0, 0, 0, 0x6f, 0, 0, 0, 0x52][..],
        &crc32fast::hash(&[0, 0, 0, 0x6f, 0, 0, 0, 0x52]).to_be_bytes(),
        b"\x0b:event-type\x07\0\x0cmessageStart",
        b"\x0d:content-type\x07\0\x10application/json",
        b"\x0d:message-type\x07\0\x05event",
        b"{\"p\":\"abcde\"}",
    ]
    .concat()
}

#[test]
fn a_frame_has_its_type_its_payload_and_right_checksums() {
    let frame = Event::new(EventFormat::AwsEventStream, Some("messageStart"), b"{\"p\":\"abcde\"}");
    let body = hello();
    let expected = [&body[..], &crc32fast::hash(&body).to_be_bytes()].concat();
    assert_eq!(frame.raw().escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert_eq!(
        (frame.name().as_deref(), &frame.data()[..]),
        (Some("messageStart"), &b"{\"p\":\"abcde\"}"[..])
    );
    assert!(frame.is_event() && !frame.is_aws_failure());
    let other = frame.with_data(b"{}");
    assert_eq!(other, Event::new(EventFormat::AwsEventStream, Some("messageStart"), b"{}"));
    assert_eq!(other, Event::from_raw(EventFormat::AwsEventStream, other.raw().clone()));
}

#[test]
fn an_exception_is_an_event_that_is_a_failure() {
    let frame = Event::aws_exception("throttlingException", b"{\"message\":\"slow down\"}");
    assert_eq!(frame.name().as_deref(), Some("throttlingException"));
    assert!(frame.is_event() && frame.is_aws_failure());
    assert!(Shape::UNKNOWN.is_failure(&frame));
}

fn three_frames() -> [Vec<u8>; 3] {
    [&b"{}"[..], b"{\"text\":\"\xe4\xbd\xa0\"}", b""]
        .map(|data| Event::new(EventFormat::AwsEventStream, Some("contentBlockDelta"), data).raw().to_vec())
}

#[test]
fn frames_are_events_however_they_are_cut() {
    let body = three_frames().concat();
    for chunks in two_cuts(&body) {
        let (pieces, decoder) = decode_with(EventFormat::AwsEventStream, LIMIT, &chunks);
        assert_eq!(pieces.iter().map(|piece| piece.raw().to_vec()).collect::<Vec<_>>(), three_frames());
        assert_eq!((decoder.events(), decoder.damaged()), (3, 0));
        let meter = metered(EventFormat::AwsEventStream, &chunks);
        assert_eq!((meter.events(), meter.unterminated_tail()), (3, 0));
    }
}

#[test]
fn a_frame_with_a_wrong_checksum_passes_and_those_behind_it_are_events() {
    let [first, mut second, third] = three_frames();
    *second.last_mut().unwrap() ^= 1;
    let body = [&first[..], &second, &third].concat();
    for chunks in two_cuts(&body) {
        let (pieces, decoder) = decode_with(EventFormat::AwsEventStream, LIMIT, &chunks);
        assert_eq!((kinds(&pieces), concat(&pieces)), (vec![true, false, true], body.clone()));
        assert!(!pieces[1].is_between() && !pieces[1].is_open());
        assert_eq!((decoder.events(), decoder.damaged()), (2, 1));
    }
}

#[test]
fn behind_a_prelude_that_makes_no_sense_nothing_is_held_or_counted() {
    let [first, second, third] = three_frames();
    for at in 0..12 {
        let mut second = second.clone();
        second[at] ^= 1;
        let body = [&first[..], &second, &third].concat();
        let (pieces, decoder) = decode_with(EventFormat::AwsEventStream, LIMIT, &[&body]);
        assert_eq!((kinds(&pieces), concat(&pieces)), (vec![true, false], body.clone()));
        assert!(pieces[1].is_open(), "nothing may be put behind it");
        assert_eq!((decoder.events(), decoder.damaged()), (1, 1));
    }
    // Lengths that cannot be, with a checksum that is right.
    for (total, headers) in [(15_u32, 0_u32), (16, 1), (0, 0), (100, u32::MAX)] {
        let mut prelude = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        prelude.extend(crc32fast::hash(&prelude).to_be_bytes());
        let (pieces, decoder) = decode_with(EventFormat::AwsEventStream, LIMIT, &[&prelude, &[0; 64]]);
        assert_eq!((kinds(&pieces), decoder.damaged()), (vec![false, false], 1));
    }
}

#[test]
fn half_a_frame_at_the_end_is_a_tail() {
    let body = three_frames().concat();
    for cut in 1..20 {
        let meter = metered(EventFormat::AwsEventStream, &[&body[..body.len() - cut]]);
        assert_eq!(meter.events(), 2);
        assert!(meter.unterminated_tail() > 0);
    }
}

#[test]
fn headers_of_every_type_are_read_past() {
    let headers: [&[u8]; 10] = [
        b"\x01a\x00",
        b"\x01b\x01",
        b"\x01c\x02x",
        b"\x01d\x03xx",
        b"\x01e\x04xxxx",
        b"\x01f\x05xxxxxxxx",
        b"\x01g\x06\0\x02xx",
        b"\x01h\x08xxxxxxxx",
        b"\x01i\x09xxxxxxxxxxxxxxxx",
        b"\x0b:event-type\x07\0\x05chunk",
    ];
    let headers = headers.concat();
    let mut raw = Vec::new();
    raw.extend((16 + headers.len() as u32).to_be_bytes());
    raw.extend((headers.len() as u32).to_be_bytes());
    raw.extend(crc32fast::hash(&raw).to_be_bytes());
    raw.extend(&headers);
    raw.extend(crc32fast::hash(&raw).to_be_bytes());
    let event = Event::from_raw(EventFormat::AwsEventStream, raw.into());
    assert_eq!((event.is_event(), event.name().as_deref()), (true, Some("chunk")));
}

#[test]
fn r2_33_a_fresh_event_ends_its_lines_as_the_one_before_it() {
    let fresh = || Event::new(EventFormat::Sse, Some("error"), b"1\n2");
    for (before, end) in [
        ("", "\n"),
        ("data: x\n\n", "\n"),
        ("data: x\r\n\r\n", "\r\n"),
        ("data: x\r\r", "\r"),
        ("data: x\n\ndata: y\r\n\r\n", "\r\n"),
        ("data: x\r\n\r\ndata: y\n\n", "\n"),
        (": c\r\n", "\r\n"),
        ("event: e\r\ndata: y\r\r", "\r"),
    ] {
        for chunks in two_cuts(before.as_bytes()) {
            let meter = metered(EventFormat::Sse, &chunks);
            let raw = fresh().raw_at(&meter);
            let expected = "event: error\ndata: 1\ndata: 2\n\n".replace('\n', end);
            assert_eq!(raw, expected, "{before:?} as {chunks:?}");
            let there = Event::from_raw(EventFormat::Sse, "data: z\n\n".into());
            assert_eq!(there.raw_at(&meter), "data: z\n\n", "what is not fresh stays");
        }
    }
    for (before, end) in [("{}\n", "\n"), ("{}\r\n", "\r\n"), ("{}\r\n{}\n", "\n"), ("", "\n")] {
        for chunks in two_cuts(before.as_bytes()) {
            let meter = metered(EventFormat::Ndjson, &chunks);
            assert_eq!(Event::new(EventFormat::Ndjson, None, b"{}").raw_at(&meter), format!("{{}}{end}"));
        }
    }
}

#[test]
fn no_form_holds_more_than_its_limit() {
    let frame = Event::new(EventFormat::AwsEventStream, None, &[b'x'; 1 << 16]).raw().to_vec();
    let element = [b"[\"", &[b'x'; 1 << 16][..], b"\",{}]"].concat();
    for (framing, body, events) in
        [(EventFormat::AwsEventStream, frame, 0), (EventFormat::JsonArray, element, 1)]
    {
        let chunks: Vec<_> = body.chunks(1_000).collect();
        let (pieces, decoder) = decode_with(framing, 4_096, &chunks);
        assert!(pieces.iter().all(|piece| piece.raw().len() <= 4_096 + 1_000));
        assert_eq!((concat(&pieces), decoder.oversize()), (body.clone(), 1));
        assert_eq!(data_of(&pieces).len(), events);
    }
}

proptest! {
    #[test]
    fn arrays_of_anything_give_their_elements(
        values in prop::collection::vec("[ -~\n你]{0,12}".prop_map(|text| json!({"t": [text, 1, null]})), 0..6),
        scalars: bool,
        pretty: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut values = values;
        if scalars {
            values.extend([json!("\"]"), json!(-1.5), json!(null), json!([])]);
        }
        let whole = json!(values);
        let body = if pretty { serde_json::to_vec_pretty(&whole) } else { serde_json::to_vec(&whole) }.unwrap();
        let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        at.sort_unstable();
        let chunks: Vec<_> = at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        let (pieces, _) = decode_with(EventFormat::JsonArray, LIMIT, &chunks);
        let elements: Vec<Value> = data_of(&pieces).iter().map(|data| serde_json::from_slice(data).unwrap()).collect();
        prop_assert_eq!(json!(elements), whole);
        let without_first = pieces.iter().filter(|piece| piece.is_event()).skip(1).count();
        let mut skipped = false;
        let rest = pieces.into_iter().filter(|piece| !piece.is_event() || std::mem::replace(&mut skipped, true));
        let sent = sent(EventFormat::JsonArray, rest);
        prop_assert_eq!(serde_json::from_slice::<Vec<Value>>(&sent).unwrap().len(), without_first);
    }
}
