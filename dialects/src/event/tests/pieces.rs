//! What the decoder gives, and what an event is made of.
use super::*;
use crate::{Dialect, Operation};

#[test]
fn what_lies_between_events_is_told_from_parts_of_one() {
    let kind = |piece: &Event| (piece.is_event(), piece.is_between(), piece.is_open());
    let (pieces, _) = decode_with(
        EventFormat::Sse,
        12,
        &[b"\xef\xbb\xbf: c\n\nid: 1\n\ndata: 1\r\n\r", b"\ndata: aaaaaaa", b"\n: no\n", b"\n", b"data: x"],
    );
    let (event, between, open, rest) =
        ((true, false, false), (false, true, false), (false, false, true), (false, false, false));
    assert_eq!(
        pieces.iter().map(kind).collect::<Vec<_>>(),
        [between, between, between, rest, event, between, open, open, rest, rest]
    );
    let (pieces, _) = decode_with(EventFormat::Ndjson, 12, &[b" \r\n{}\n", b"{\"a\":\"aaaaaaaa", b"\"}\n"]);
    assert_eq!(pieces.iter().map(kind).collect::<Vec<_>>(), [between, event, open, rest]);
    for (raw, is) in [("data: x\n\n", event), (": x\n", between), ("data: x\n", open), ("id: 1\n\n", rest)] {
        assert_eq!(kind(&Event::from_raw(EventFormat::Sse, raw.into())), is);
    }
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_alone() {
    for cut in 0..6 {
        let input = "\u{feff}data: 1\n\n\u{feff}data: 2\n\n".as_bytes();
        let pieces = decode(&[&input[..cut], &input[cut..]]);
        assert_eq!(strings(&pieces), ["1"]);
        assert_eq!(concat(&pieces), input);
    }
}

#[test]
fn events_within_a_chunk_are_slices_of_it() {
    let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\n");
    let mut decoder = Decoder::new(EventFormat::Sse, LIMIT);
    decoder.push(chunk.clone());
    assert_eq!(decoder.next().unwrap().raw().as_ptr(), chunk.as_ptr());
    assert_eq!(decoder.next().unwrap().raw().as_ptr(), chunk[9..].as_ptr());
}

#[test]
fn a_decoder_that_takes_over_lets_the_event_under_way_pass() {
    let input: &[u8] = b"data: 1\n\ndata: 2\r\n\r\ndata: 3\n\n";
    for cut in 0..input.len() {
        let meter = metered(EventFormat::Sse, &[&input[..cut]]);
        let mut decoder = Decoder::resume(EventFormat::Sse, LIMIT, meter);
        decoder.push(Bytes::copy_from_slice(&input[cut..]));
        let pieces: Vec<_> = std::iter::from_fn(|| decoder.next()).collect();
        assert_eq!(concat(&pieces), &input[cut..]);
        let begun = u64::from(!meter.at_boundary());
        assert_eq!(strings(&pieces).len() as u64, 3 - meter.events() - begun, "cut at {cut}");
        assert_eq!((decoder.events(), decoder.oversize()), (3, 0));
    }
}

#[test]
fn a_fresh_event_decodes_to_itself() {
    let event = Event::new(EventFormat::Sse, Some("a\nb"), b"1\r\n2\r3\n");
    assert_eq!(event.raw(), "event: a b\ndata: 1\ndata: 2\ndata: 3\ndata: \n\n");
    assert_eq!(decode(&[event.raw()]), [event]);
    assert_eq!(Event::new(EventFormat::Ndjson, None, b"{\n}").raw(), "{ }\n");
    assert_eq!(Event::new(EventFormat::Sse, None, b"").raw(), "data: \n\n");
}

#[test]
fn an_event_keeps_what_was_found_out_about_it() {
    let event = Event::new(EventFormat::Sse, None, b"{}");
    let asked = std::cell::Cell::new(0);
    let ask = |event: &Event, shape, question, is| {
        event.answer(shape, question, || {
            asked.set(asked.get() + 1);
            is
        })
    };
    let chat = Shape::of(Some(Dialect::OpenAi), Some(Operation::Chat));
    let gemini = Shape::of(Some(Dialect::Gemini), Some(Operation::Chat));
    for _ in 0..10 {
        assert!(ask(&event, chat, Question::Content, true));
        assert!(!ask(&event, chat, Question::Usage, false));
        assert!(ask(&event.clone(), chat, Question::Content, true));
    }
    assert_eq!(asked.get(), 2);
    assert!(!ask(&event, gemini, Question::Content, false), "in another shape it is another thing");
    assert!(!ask(&event.with_data(b"[]"), gemini, Question::Content, false), "so it is with other data");
    assert_eq!(asked.get(), 4);
}
