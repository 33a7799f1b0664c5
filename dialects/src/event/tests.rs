//! The cases by their ids, then properties over arbitrary bytes and cuts.
use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1 << 20;

fn decode_with(framing: Framing, max_event: usize, chunks: &[&[u8]]) -> (Vec<Event>, Decoder) {
    let mut decoder = Decoder::new(framing, max_event);
    let mut pieces = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        pieces.extend(std::iter::from_fn(|| decoder.next()));
    }
    pieces.extend(decoder.finish());
    (pieces, decoder)
}

fn decode(chunks: &[&[u8]]) -> Vec<Event> {
    decode_with(Framing::Sse, LIMIT, chunks).0
}

fn metered(framing: Framing, chunks: &[&[u8]]) -> Meter {
    let mut meter = Meter::new(framing);
    chunks.iter().for_each(|chunk| meter.feed(chunk));
    meter
}

fn data_of(pieces: &[Event]) -> Vec<Vec<u8>> {
    pieces.iter().filter(|piece| piece.is_event()).map(|event| event.data().into_owned()).collect()
}

fn concat(pieces: &[Event]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| piece.raw().to_vec()).collect()
}

fn strings(pieces: &[Event]) -> Vec<String> {
    data_of(pieces).into_iter().map(|data| String::from_utf8_lossy(&data).into_owned()).collect()
}

#[test]
fn sse_04_crlf_is_one_line_end_also_after_a_cr() {
    let open: &[u8] = b"data: 1\rdata: 2\r\n";
    assert_eq!(strings(&decode(&[open])), [""; 0]);
    assert_eq!(metered(Framing::Sse, &[open]).events(), 0);
    assert_eq!(metered(Framing::Sse, &[open]).unterminated_tail(), 17);

    let whole: &[u8] = b"data: 1\rdata: 2\r\n\n";
    assert_eq!(strings(&decode(&[whole])), ["1\n2"]);
    assert_eq!(metered(Framing::Sse, &[whole]).events(), 1);
    assert!(metered(Framing::Sse, &[whole]).at_boundary());
}

#[test]
fn sse_04_a_late_lf_is_no_second_event() {
    let pieces = decode(&[b"data: 1\r\n\r", b"\ndata: 2\r\r", b"\n"]);
    let raw: Vec<_> = pieces.iter().map(|piece| (&piece.raw()[..], piece.is_event())).collect();
    assert_eq!(
        raw,
        [
            (&b"data: 1\r\n\r"[..], true),
            (&b"\n"[..], false),
            (&b"data: 2\r\r"[..], true),
            (&b"\n"[..], false)
        ]
    );
}

#[test]
fn sse_05_an_event_without_its_blank_line_is_an_unterminated_tail() {
    for tail in ["data: {\"choices\":[]}\n", "data: {\"choices\":[]}", "data: x\r", "id: 3\n", "\u{feff}dat"]
    {
        let input = format!("data: 1\n\n{tail}");
        let pieces = decode(&[input.as_bytes()]);
        assert_eq!(strings(&pieces), ["1"], "{tail:?}");
        let last = pieces.last().unwrap();
        assert_eq!((&last.raw()[..], last.is_event()), (tail.as_bytes(), false));
        assert_eq!(metered(Framing::Sse, &[input.as_bytes()]).unterminated_tail(), tail.len() as u64);
    }
}

#[test]
fn sse_08_no_space_after_the_colon() {
    let input = "data:{\"choices\":[{\"delta\":{\"content\":\"好\"}}]}\n\n".as_bytes();
    let pieces = decode(&[input]);
    assert_eq!(strings(&pieces), ["{\"choices\":[{\"delta\":{\"content\":\"好\"}}]}"]);
    assert_eq!(pieces[0].raw(), input);
    assert_eq!(pieces[0].with_data(b"{}").raw(), "data:{}\n\n");
}

#[test]
fn sse_09_fields_with_two_spaces_no_colon_and_several_lines() {
    assert_eq!(
        strings(&decode(&[b"data:  two\n\ndata\n\ndata: foo\ndata: bar\n\n"])),
        [" two", "", "foo\nbar"]
    );
}

#[test]
fn sse_09_a_new_value_has_as_many_data_lines_as_it_has_lines() {
    let event = &decode(&[b"event: e\r\ndata: foo\r\n: c\r\ndata:bar\r\nid: 1\r\n\r\n"])[0];
    assert_eq!(event.with_data(&event.data()), *event);
    assert_eq!(
        event.with_data(b"1\n2\n3").raw(),
        "event: e\r\ndata: 1\r\n: c\r\ndata:2\r\ndata:3\r\nid: 1\r\n\r\n"
    );
    assert_eq!(event.with_data(b"1").raw(), "event: e\r\ndata: 1\r\n: c\r\nid: 1\r\n\r\n");
    assert_eq!(event.with_data(b"").data(), &b""[..]);
    assert_eq!(event.with_data(b"1\n").raw(), "event: e\r\ndata: 1\r\n: c\r\ndata:\r\nid: 1\r\n\r\n");
    assert_eq!(Event::from_raw(Framing::Sse, "data\n\n".into()).with_data(b"x").raw(), "data: x\n\n");
    assert_eq!(Event::from_raw(Framing::Sse, "data:x\n\n".into()).with_data(b" y").raw(), "data:  y\n\n");
}

#[test]
fn sse_10_comments_are_no_events() {
    let pieces = decode(&[b": OPENROUTER PROCESSING\n\ndata: {}\n\n"]);
    let raw: Vec<_> = pieces.iter().map(|piece| (&piece.raw()[..], piece.is_event())).collect();
    assert_eq!(
        raw,
        [(&b": OPENROUTER PROCESSING\n"[..], false), (&b"\n"[..], false), (&b"data: {}\n\n"[..], true)]
    );
}

#[test]
fn sse_11_a_comment_block_after_an_event_with_an_id() {
    let input: &[u8] = b"id: 1\ndata: {}\n\n: ping\n\ndata: {}\n\n";
    let pieces = decode(&[input]);
    assert_eq!(strings(&pieces), ["{}", "{}"]);
    assert_eq!(concat(&pieces), input);
}

#[test]
fn sse_13_empty_data_is_an_event() {
    assert_eq!(strings(&decode(&[b"data: 1\n\ndata:\n\ndata: 2\n\n"])), ["1", "", "2"]);
}

#[test]
fn sse_16_only_cr_and_lf_end_a_line() {
    let data = "{\"content\":\"a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\"}";
    let pieces = decode(&[format!("data: {data}\n\n").as_bytes()]);
    assert_eq!(strings(&pieces), [data]);
    assert_eq!(pieces[0].with_data(data.as_bytes()), pieces[0]);
}

#[test]
fn sse_17_an_event_too_large_to_hold_passes_in_pieces() {
    let input = [b"data: 1\n\ndata: {\"b64\":\"", &b"A".repeat(4 << 20)[..], b"\"}\n\ndata: 2\n\n"].concat();
    let chunks: Vec<_> = input.chunks(16 << 10).collect();
    let (pieces, decoder) = decode_with(Framing::Sse, LIMIT, &chunks);
    assert_eq!(strings(&pieces), ["1", "2"]);
    assert_eq!(concat(&pieces), input);
    assert!(pieces.iter().all(|piece| piece.raw().len() <= LIMIT + (16 << 10)));
    assert_eq!((decoder.oversize(), decoder.events()), (1, 3));
    assert_eq!(metered(Framing::Sse, &chunks).events(), 3);
}

#[test]
fn sse_17_the_limit_does_not_hang_on_the_cuts() {
    for (size, oversize) in [(20, 0), (21, 1)] {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let input = format!("data: {}{end}", "x".repeat(size - 6 - end.len() / 2));
            for cut in 0..input.len() {
                let (head, tail) = input.as_bytes().split_at(cut);
                let (pieces, decoder) = decode_with(Framing::Sse, 20, &[head, tail]);
                assert_eq!(decoder.oversize(), oversize, "{input:?} cut at {cut}");
                assert_eq!(pieces.iter().filter(|piece| piece.is_event()).count() as u64, 1 - oversize);
            }
        }
    }
}

#[test]
fn sse_24_ndjson_lines_are_events_however_they_are_cut() {
    let lines = "{\"message\":{\"content\":\"你\"},\"done\":false}\n{\"message\":{\"content\":\"好\"},\"done\":false}\r\n \n";
    for cut in 0..lines.len() {
        let (head, tail) = lines.as_bytes().split_at(cut);
        let (pieces, _) = decode_with(Framing::Ndjson, LIMIT, &[head, tail]);
        assert_eq!(
            strings(&pieces),
            [
                "{\"message\":{\"content\":\"你\"},\"done\":false}",
                "{\"message\":{\"content\":\"好\"},\"done\":false}"
            ]
        );
        assert_eq!(concat(&pieces), lines.as_bytes());
        assert_eq!(pieces[1].with_data(b"{}\n").raw(), "{} \r\n");
    }
}

#[test]
fn sse_26_the_name_of_an_event() {
    let pieces = decode(&[b"event: error\ndata: {\"type\":\"error\"}\n\nevent:\ndata: x\n\n"]);
    assert_eq!(pieces[0].name().as_deref(), Some("error"));
    assert_eq!(pieces[1].name(), None);
}

#[test]
fn sse_30_a_cut_inside_a_character_leaves_a_tail() {
    let input = &"data: {\"choices\":[{\"delta\":{\"content\":\"世".as_bytes()[..40];
    let pieces = decode(&[input]);
    assert_eq!(strings(&pieces), [""; 0]);
    assert_eq!(pieces[0].raw(), input);
}

#[test]
fn sse_31_a_comment_leaves_as_soon_as_its_line_is_complete() {
    let mut decoder = Decoder::new(Framing::Sse, LIMIT);
    for ping in [": ping\n", ": ping\r", ": ping\r\n", ":\n"] {
        decoder.push(ping.into());
        let given: Vec<_> = std::iter::from_fn(|| decoder.next()).map(Event::into_raw).collect();
        assert_eq!(given, [ping]);
    }
}

#[test]
fn sse_34_comments_before_the_last_event_are_apart_from_it() {
    let pieces = decode(&[b": x-cost=0.0001\n: x-tokens=37\ndata: [DONE]\n\n:\n\n"]);
    assert_eq!(strings(&pieces), ["[DONE]"]);
    let without_done: Vec<_> = pieces.into_iter().filter(|piece| !piece.is_event()).collect();
    assert_eq!(concat(&without_done), b": x-cost=0.0001\n: x-tokens=37\n:\n\n");
}

#[test]
fn sse_35_a_block_without_data_is_no_event() {
    let input: &[u8] = b"id: 7\ndata: a\n\nid\ndata: b\n\nevent: x\nid: 9\n\nretry: 100\n\n";
    let pieces = decode(&[input]);
    assert_eq!(strings(&pieces), ["a", "b"]);
    assert_eq!(pieces.len(), 4);
    assert_eq!(metered(Framing::Sse, &[input]).events(), 2);
}

#[test]
fn what_lies_between_events_is_told_from_parts_of_one() {
    let kind = |piece: &Event| (piece.is_event(), piece.is_between(), piece.is_open());
    let (pieces, _) = decode_with(
        Framing::Sse,
        12,
        &[b"\xef\xbb\xbf: c\n\nid: 1\n\ndata: 1\r\n\r", b"\ndata: aaaaaaa", b"\n: no\n", b"\n", b"data: x"],
    );
    let (event, between, open, rest) =
        ((true, false, false), (false, true, false), (false, false, true), (false, false, false));
    assert_eq!(
        pieces.iter().map(kind).collect::<Vec<_>>(),
        [between, between, between, rest, event, between, open, open, rest, rest]
    );
    let (pieces, _) = decode_with(Framing::Ndjson, 12, &[b" \r\n{}\n", b"{\"a\":\"aaaaaaaa", b"\"}\n"]);
    assert_eq!(pieces.iter().map(kind).collect::<Vec<_>>(), [between, event, open, rest]);
    for (raw, is) in [("data: x\n\n", event), (": x\n", between), ("data: x\n", open), ("id: 1\n\n", rest)] {
        assert_eq!(kind(&Event::from_raw(Framing::Sse, raw.into())), is);
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
fn cjk_01_events_may_be_cut_and_named_anywhere() {
    let data = format!("a{}", "好".repeat(200));
    let event = Event::new(Framing::Sse, Some(&"好".repeat(50)), data.as_bytes());
    for limit in [60, 120, 200, 500] {
        let (head, tail) = event.raw().split_at(limit);
        let (pieces, _) = decode_with(Framing::Sse, limit, &[head, tail]);
        assert_eq!(concat(&pieces), &event.raw()[..]);
    }
    let broken = Event::from_raw(Framing::Sse, Bytes::from_static(b"event: \xe5\xa5\ndata: \xe5\n\n"));
    assert_eq!(broken.name().as_deref(), Some("\u{fffd}"));
    assert_eq!(broken.data(), &b"\xe5"[..]);
}

#[test]
fn events_within_a_chunk_are_slices_of_it() {
    let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\n");
    let mut decoder = Decoder::new(Framing::Sse, LIMIT);
    decoder.push(chunk.clone());
    assert_eq!(decoder.next().unwrap().raw().as_ptr(), chunk.as_ptr());
    assert_eq!(decoder.next().unwrap().raw().as_ptr(), chunk[9..].as_ptr());
}

#[test]
fn a_decoder_that_takes_over_lets_the_event_under_way_pass() {
    let input: &[u8] = b"data: 1\n\ndata: 2\r\n\r\ndata: 3\n\n";
    for cut in 0..input.len() {
        let meter = metered(Framing::Sse, &[&input[..cut]]);
        let mut decoder = Decoder::resume(Framing::Sse, LIMIT, meter);
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
    let event = Event::new(Framing::Sse, Some("a\nb"), b"1\r\n2\r3\n");
    assert_eq!(event.raw(), "event: a b\ndata: 1\ndata: 2\ndata: 3\ndata: \n\n");
    assert_eq!(decode(&[event.raw()]), [event]);
    assert_eq!(Event::new(Framing::Ndjson, None, b"{\n}").raw(), "{ }\n");
    assert_eq!(Event::new(Framing::Sse, None, b"").raw(), "data: \n\n");
}

#[test]
fn framing_follows_the_content_type() {
    assert_eq!(Framing::of_content_type("Text/Event-Stream; charset=utf-8"), Some(Framing::Sse));
    assert_eq!(Framing::of_content_type("application/x-ndjson"), Some(Framing::Ndjson));
    assert_eq!(Framing::of_content_type("application/jsonl;x=y"), Some(Framing::Ndjson));
    assert_eq!(Framing::of_content_type("application/json"), None);
    assert_eq!(Framing::of_content_type(""), None);
}

/// The standard's rules once more, over the whole body at once and with nothing in common with the decoder.
fn reference(input: &[u8]) -> Vec<Vec<u8>> {
    let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let text = input
        .iter()
        .map(|byte| char::from(*byte))
        .collect::<String>()
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut lines: Vec<_> = text.split('\n').collect();
    lines.pop();
    let mut events = Vec::new();
    let mut data: Option<String> = None;
    for line in lines {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if line.is_empty() {
            events.extend(data.take());
        } else if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            data = Some(data.map_or_else(|| value.to_owned(), |before| before + "\n" + value));
        }
    }
    events
        .into_iter()
        .map(|event| event.chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect())
        .collect()
}

/// Bytes in which the framing is dense.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        &b"data"[..],
        b"dat",
        b"data:",
        b"data: ",
        b": c",
        b":",
        b"id",
        b"id: 1",
        b"event: e",
        b"\n",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"x",
        b" ",
        "好".as_bytes(),
        b"\xe5",
        b"\xef\xbb\xbf",
        b"\xef",
        b"{}",
        b"data: x\n\n",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn chunks(body: &[u8], mut cuts: Vec<prop::sample::Index>) -> Vec<&[u8]> {
    let mut at: Vec<_> = cuts.drain(..).map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
    at.sort_unstable();
    at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn any_cut_gives_the_events_of_the_standard(body in body(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let chunks = chunks(&body, cuts);
        let (pieces, decoder) = decode_with(Framing::Sse, LIMIT, &chunks);
        prop_assert_eq!(data_of(&pieces), reference(&body));
        prop_assert_eq!(concat(&pieces), &body[..]);
        let meter = metered(Framing::Sse, &chunks);
        prop_assert_eq!(meter.events(), data_of(&pieces).len() as u64);
        prop_assert_eq!(meter.events(), decoder.events());
        let tail = pieces.last().filter(|piece| !piece.is_event()).map_or(0, |piece| piece.raw().len() as u64);
        prop_assert!(meter.unterminated_tail() == 0 || meter.unterminated_tail() == tail);
    }

    #[test]
    fn a_small_limit_loses_nothing(
        body in body(), ndjson: bool, limit in 0_usize..24,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let framing = if ndjson { Framing::Ndjson } else { Framing::Sse };
        let chunks = chunks(&body, cuts);
        let (pieces, decoder) = decode_with(framing, limit, &chunks);
        prop_assert_eq!(concat(&pieces), &body[..]);
        let meter = metered(framing, &chunks);
        prop_assert_eq!(meter.events(), data_of(&pieces).len() as u64 + decoder.oversize());
        let (whole, uncut) = decode_with(framing, limit, &[&body]);
        prop_assert_eq!(data_of(&whole), data_of(&pieces));
        prop_assert_eq!(uncut.oversize(), decoder.oversize());
    }

    #[test]
    fn data_put_in_comes_out(body in body(), data in "[a-c \n好]{0,12}") {
        for event in decode(&[&body]).into_iter().filter(Event::is_event) {
            let other = event.with_data(data.as_bytes());
            let again = event.data().into_owned();
            prop_assert_eq!(other.data(), data.as_bytes());
            prop_assert_eq!(other.name(), event.name());
            prop_assert_eq!(event.with_data(&again).data().into_owned(), again);
        }
        let fresh = Event::new(Framing::Sse, None, data.as_bytes());
        prop_assert_eq!(fresh.data(), data.as_bytes());
    }
}
