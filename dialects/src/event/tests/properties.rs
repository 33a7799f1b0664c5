//! Properties over arbitrary bytes and cuts.
use proptest::prelude::*;

use super::*;

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
        let (pieces, decoder) = decode_with(EventFormat::Sse, LIMIT, &chunks);
        prop_assert_eq!(data_of(&pieces), reference(&body));
        prop_assert_eq!(concat(&pieces), &body[..]);
        let meter = metered(EventFormat::Sse, &chunks);
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
        let framing = if ndjson { EventFormat::Ndjson } else { EventFormat::Sse };
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
        let fresh = Event::new(EventFormat::Sse, None, data.as_bytes());
        prop_assert_eq!(fresh.data(), data.as_bytes());
    }
}
