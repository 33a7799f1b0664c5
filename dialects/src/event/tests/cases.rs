//! The cases by their ids.
use super::*;

#[test]
fn sse_04_crlf_is_one_line_end_also_after_a_cr() {
    let open: &[u8] = b"data: 1\rdata: 2\r\n";
    assert_eq!(strings(&decode(&[open])), [""; 0]);
    assert_eq!(metered(EventFormat::Sse, &[open]).events(), 0);
    assert_eq!(metered(EventFormat::Sse, &[open]).unterminated_tail(), 17);

    let whole: &[u8] = b"data: 1\rdata: 2\r\n\n";
    assert_eq!(strings(&decode(&[whole])), ["1\n2"]);
    assert_eq!(metered(EventFormat::Sse, &[whole]).events(), 1);
    assert!(metered(EventFormat::Sse, &[whole]).at_boundary());
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
        assert_eq!(metered(EventFormat::Sse, &[input.as_bytes()]).unterminated_tail(), tail.len() as u64);
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
    assert_eq!(Event::from_raw(EventFormat::Sse, "data\n\n".into()).with_data(b"x").raw(), "data: x\n\n");
    assert_eq!(Event::from_raw(EventFormat::Sse, "data:x\n\n".into()).with_data(b" y").raw(), "data:  y\n\n");
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
    let (pieces, decoder) = decode_with(EventFormat::Sse, LIMIT, &chunks);
    assert_eq!(strings(&pieces), ["1", "2"]);
    assert_eq!(concat(&pieces), input);
    assert!(pieces.iter().all(|piece| piece.raw().len() <= LIMIT + (16 << 10)));
    assert_eq!((decoder.oversize(), decoder.events()), (1, 3));
    assert_eq!(metered(EventFormat::Sse, &chunks).events(), 3);
}

#[test]
fn sse_17_the_limit_does_not_hang_on_the_cuts() {
    for (size, oversize) in [(20, 0), (21, 1)] {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let input = format!("data: {}{end}", "x".repeat(size - 6 - end.len() / 2));
            for cut in 0..input.len() {
                let (head, tail) = input.as_bytes().split_at(cut);
                let (pieces, decoder) = decode_with(EventFormat::Sse, 20, &[head, tail]);
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
        let (pieces, _) = decode_with(EventFormat::Ndjson, LIMIT, &[head, tail]);
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
    let mut decoder = Decoder::new(EventFormat::Sse, LIMIT);
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
    assert_eq!(metered(EventFormat::Sse, &[input]).events(), 2);
}

#[test]
fn cjk_01_events_may_be_cut_and_named_anywhere() {
    let data = format!("a{}", "好".repeat(200));
    let event = Event::new(EventFormat::Sse, Some(&"好".repeat(50)), data.as_bytes());
    for limit in [60, 120, 200, 500] {
        let (head, tail) = event.raw().split_at(limit);
        let (pieces, _) = decode_with(EventFormat::Sse, limit, &[head, tail]);
        assert_eq!(concat(&pieces), &event.raw()[..]);
    }
    let broken = Event::from_raw(EventFormat::Sse, Bytes::from_static(b"event: \xe5\xa5\ndata: \xe5\n\n"));
    assert_eq!(broken.name().as_deref(), Some("\u{fffd}"));
    assert_eq!(broken.data(), &b"\xe5"[..]);
}
