//! What must hold for arbitrary bytes, for property tests and fuzzers to run. Each function panics if it does not.

use bytes::Bytes;

use crate::{
    Decoder, Event, EventFormat, Meter, Shape,
    embeddings::{self, EmbeddingFault},
    hits::{self, HitsFault},
    json::{self, Change, Document, Op, Path, PathEdit},
};

/// The first two bytes choose framing (by the lowest bit of the one and the highest of the other), limit and cut, the rest
/// is a body. Nothing is lost, the meter agrees with the decoder, and the cut changes nothing about the events.
pub fn event_codec(input: &[u8]) {
    let [choice, cut, body @ ..] = input else { return };
    let framing = match (choice & 1, cut >> 7) {
        (0, 0) => EventFormat::Sse,
        (_, 0) => EventFormat::Ndjson,
        (0, _) => EventFormat::JsonArray,
        (_, _) => EventFormat::AwsEventStream,
    };
    let cut = cut & 0x7f;
    let max_event = usize::from(choice >> 1);
    let (cut_pieces, cut_count) = decode(framing, max_event, body.chunks(usize::from(cut).max(1)));
    let (pieces, count) = decode(framing, max_event, [body]);
    for pieces in [&cut_pieces, &pieces] {
        let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.raw().to_vec()).collect();
        assert_eq!(joined, body, "bytes are lost, added or moved");
        let mut at = Meter::new(framing);
        let mut sent = Vec::new();
        for piece in pieces {
            let raw = piece.clone().raw_at(&at);
            at.feed(&raw);
            sent.extend_from_slice(&raw);
        }
        assert_eq!(sent, body, "what nobody touches is sent differently");
    }
    assert_eq!(cut_count, count, "the count hangs on the cuts");
    assert_eq!(data(&cut_pieces), data(&pieces), "the events depend on the cuts");
    for event in pieces.iter().filter(|piece| piece.is_event()) {
        assert_eq!(event.with_data(&event.data()).data(), event.data());
        let _ = (event.name(), Shape::UNKNOWN.is_content(event), Shape::UNKNOWN.is_terminator(event));
    }
}

/// The pieces, and how many events there were, how many too large and how many damaged ones.
fn decode<'b>(
    framing: EventFormat,
    max_event: usize,
    chunks: impl IntoIterator<Item = &'b [u8]>,
) -> (Vec<Event>, (u64, u64, u64)) {
    let mut decoder = Decoder::new(framing, max_event);
    let mut meter = Meter::new(framing);
    let mut pieces = Vec::new();
    for chunk in chunks {
        meter.feed(chunk);
        decoder.push(Bytes::copy_from_slice(chunk));
        pieces.extend(std::iter::from_fn(|| decoder.next()));
    }
    pieces.extend(decoder.finish());
    let whole = pieces.iter().filter(|piece| piece.is_event()).count() as u64;
    assert_eq!(meter.events(), whole + decoder.oversize(), "meter and decoder disagree");
    assert_eq!(meter.events(), decoder.events());
    let longest = pieces.iter().filter(|piece| piece.is_event()).map(|piece| piece.raw().len()).max();
    assert!(longest.is_none_or(|longest| longest <= max_event + 4), "an event was held beyond the limit");
    (pieces, (decoder.events(), decoder.oversize(), decoder.damaged()))
}

fn data(pieces: &[Event]) -> Vec<Vec<u8>> {
    pieces.iter().filter(|piece| piece.is_event()).map(|event| event.data().into_owned()).collect()
}

/// The first byte chooses an edit, the rest is a body. What is JSON stays JSON, what is not is refused, and bytes
/// before the first and after the last edited value stay.
pub fn json_edits(input: &[u8]) {
    let [choice, body @ ..] = input else { return };
    let change = match choice % 3 {
        0 => Change::Null,
        1 => Change::Delete,
        _ => Change::Truncate(usize::from(choice / 3)),
    };
    let path = Path::parse(["$.*", "$..a", "$[0]"][usize::from(choice % 7 % 3)]).unwrap_or_default();
    let edited = json::apply(body, &[Op::Path(PathEdit { path, change })]);
    let _ = json::members(body, ["a", "b"]);
    let Ok(document) = Document::parse(body) else {
        assert!(edited.is_err());
        return;
    };
    let edited = edited.ok().flatten();
    let edited = edited.as_deref().unwrap_or(body);
    assert!(Document::parse(edited).is_ok(), "an edit has left no JSON");
    let outside = document.root().span();
    assert!(edited.starts_with(&body[..outside.start]) && edited.ends_with(&body[outside.end..]));
}

/// The first byte chooses a fault, the rest is a body. What is not spoilt stays; no body makes a panic.
pub fn answers(input: &[u8]) {
    let [choice, body @ ..] = input else { return };
    let choice = usize::from(*choice);
    let random = || f64::from(u8::try_from(choice % 256).unwrap_or_default()) / 256.0;
    let vectors = embeddings::edit(body, EmbeddingFault::ALL[choice % EmbeddingFault::ALL.len()], random);
    let hits = hits::edit(body, HitsFault::ALL[choice % HitsFault::ALL.len()], choice % 3, random);
    let is_json = Document::parse(body).is_ok();
    assert_eq!((vectors.is_ok(), hits.is_ok()), (is_json, is_json));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words of which bodies are made that come close to what is looked for.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(vec![
            &b"data: "[..],
            b"data",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b": c",
            b"[DONE]",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"\"a\"",
            b"\"result\"",
            b"\"points\"",
            b"\"embedding\"",
            b"\"data\"",
            b"\"score\"",
            b"\"\\ud83d\"",
            b"1.5",
            b"NaN",
            b"null",
            b"\"AACAPw==\"",
            b"\xe5",
            b"[{\"a\":1}]",
            b"{\"a\":[1,2]}",
            b" ",
        ]);
        prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
    }

    /// Elements of an array and what may be around them.
    fn array() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(vec![
            &b"[{\"a\":1}"[..],
            b",{\"b\":\"]\\\"\"}",
            b"\n,\r\n[[],{}]",
            b",12",
            b",\"x\"",
            b" ",
            b"]",
            b"[",
            b",",
            b"{",
            b"\\",
            b"\"",
        ]);
        prop::collection::vec(word, 0..12).prop_map(|words| words.concat())
    }

    /// Frames, whole ones and broken ones.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let frame = (prop::collection::vec(any::<u8>(), 0..40), any::<(bool, prop::sample::Index, u8)>());
        let broken = frame.prop_map(|(data, (is_broken, at, byte))| {
            let mut frame = Event::new(EventFormat::AwsEventStream, Some("e"), &data).raw().to_vec();
            let at = at.index(frame.len());
            if is_broken {
                frame[at] = byte;
            }
            frame
        });
        prop::collection::vec(broken, 0..4).prop_map(|frames| frames.concat())
    }

    proptest! {
        #[test]
        fn hold_for_words(choice: u8, cut in 0_u8..12, body in body()) {
            event_codec(&[&[choice, cut], &body[..]].concat());
            json_edits(&[&[choice], &body[..]].concat());
            answers(&[&[choice], &body[..]].concat());
        }

        #[test]
        fn hold_for_arrays_and_frames(limit in 0_u8..128, cut in 0_u8..40, array in array(), frames in frames()) {
            event_codec(&[&[limit << 1, 0x80 | cut], &array[..]].concat());
            event_codec(&[&[limit << 1 | 1, 0x80 | cut], &frames[..]].concat());
        }

        #[test]
        fn hold_for_bytes(input in prop::collection::vec(any::<u8>(), 0..64)) {
            event_codec(&input);
            json_edits(&input);
            answers(&input);
        }
    }
}
