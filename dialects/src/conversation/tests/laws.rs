//! Laws of all formats and of all pairs of them.

use bytes::Bytes;
use proptest::prelude::*;

use super::samples::{answer, essence, request, told_answer, told_request};
use crate::{
    Decoder,
    conversation::{Accumulator, Answer, CODECS, Codec, Delta, Request, StreamReader},
};

fn written_and_read(codec: &dyn Codec, request: &Request) -> Request {
    let written = codec.write_request(request).unwrap();
    codec.read_request(&codec.path(request), written.body.text().as_bytes()).unwrap()
}

/// The same stream, its texts cut into pieces of `sizes` characters.
fn cut(deltas: Vec<Delta>, sizes: &[usize]) -> Vec<Delta> {
    let mut sizes = sizes.iter().copied().cycle();
    let mut pieces = move |text: String| {
        let (mut pieces, mut rest) = (Vec::new(), text.as_str());
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1);
            let at = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
            pieces.push(rest[..at].to_owned());
            rest = &rest[at..];
        }
        pieces
    };
    let cut = deltas.into_iter().flat_map(|delta| match delta {
        Delta::Text { choice, text, .. } => {
            pieces(text).into_iter().map(|text| Delta::Text { choice, text, logprobs: None }).collect()
        }
        Delta::Reasoning { choice, text } => {
            pieces(text).into_iter().map(|text| Delta::Reasoning { choice, text }).collect()
        }
        Delta::Arguments { choice, call, text } => {
            pieces(text).into_iter().map(|text| Delta::Arguments { choice, call, text }).collect()
        }
        other => vec![other],
    });
    cut.collect()
}

/// A whole stream as the bytes of its body.
pub(super) fn body(codec: &dyn Codec, to: &Request, deltas: &[Delta]) -> Bytes {
    let mut writer = codec.stream_writer(to);
    let frames = deltas.iter().flat_map(|delta| writer.write(delta));
    frames.flat_map(|frame| frame.event(codec.framing()).into_raw()).collect()
}

pub(super) fn accumulated(codec: &dyn Codec, body: &Bytes, chunk: usize) -> Accumulator {
    let mut decoder = Decoder::new(codec.framing(), 1 << 20);
    let mut reader = codec.stream_reader();
    let mut accumulator = Accumulator::default();
    let mut read = |event: crate::Event, reader: &mut dyn StreamReader| {
        if event.is_event() {
            let deltas = reader.read(event.name().as_deref(), &event.data()).unwrap();
            deltas.into_iter().for_each(|delta| accumulator.push(delta));
        }
    };
    for chunk in body.chunks(chunk.max(1)) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = decoder.next() {
            read(event, &mut *reader);
        }
    }
    decoder.finish().into_iter().for_each(|event| read(event, &mut *reader));
    reader.end().into_iter().for_each(|delta| accumulator.push(delta));
    accumulator
}

fn with_usage() -> Request {
    Request { stream: true, stream_usage: true, ..Request::default() }
}

/// The usage that is known at the start has done its work once the stream is over.
fn settled(mut answer: Answer) -> Answer {
    answer.head.usage = None;
    answer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_request_written_and_read_is_the_same(request in request()) {
        for codec in CODECS {
            let read = written_and_read(*codec, &request);
            let told = told_request(codec.name(), request.clone());
            prop_assert_eq!(Request { echo: Vec::new(), ..read }, told, "{}", codec.name());
        }
    }

    #[test]
    fn a_request_survives_the_way_through_any_other_format(request in request()) {
        for there in CODECS {
            for back in CODECS {
                let came = written_and_read(*back, &request);
                let there_and_back = written_and_read(*back, &written_and_read(*there, &came));
                let told = told_request(back.name(), told_request(there.name(), came));
                prop_assert_eq!(
                    (there_and_back.turns, there_and_back.tools, there_and_back.tool_choice, there_and_back.sampling),
                    (told.turns, told.tools, told.tool_choice, told.sampling), "{} {}", there.name(), back.name()
                );
            }
        }
    }

    #[test]
    fn an_answer_written_and_read_is_the_same(answer in answer()) {
        for codec in CODECS {
            let written = codec.write_answer(&answer, &Request::default());
            prop_assert_eq!(&written.losses, &[], "{}", codec.name());
            let read = codec.read_answer(written.body.text().as_bytes()).unwrap();
            prop_assert_eq!(read, told_answer(codec.name(), answer.clone()), "{}", codec.name());
        }
    }

    #[test]
    fn a_stream_however_it_is_cut_is_the_whole_answer(
        answer in answer(), sizes in prop::collection::vec(1..5_usize, 1..4), chunk in 1..60_usize,
    ) {
        for codec in CODECS {
            let body = body(*codec, &with_usage(), &cut(answer.deltas(), &sizes));
            let streamed = accumulated(*codec, &body, chunk);
            prop_assert!(streamed.is_done() && streamed.error().is_none());
            let whole = codec.write_answer(&answer, &with_usage());
            let whole = codec.read_answer(whole.body.text().as_bytes()).unwrap();
            prop_assert_eq!(settled(streamed.into_answer()), settled(whole), "{}", codec.name());
        }
    }

    #[test]
    fn an_answer_survives_the_way_through_any_other_format(
        answer in answer(), sizes in prop::collection::vec(1..5_usize, 1..4),
    ) {
        for there in CODECS {
            for back in CODECS {
                let stream = body(*there, &with_usage(), &cut(answer.deltas(), &sizes));
                let came = accumulated(*there, &stream, usize::MAX).into_answer();
                let whole = back.write_answer(&came, &with_usage());
                let read = back.read_answer(whole.body.text().as_bytes()).unwrap();
                let told = told_answer(back.name(), told_answer(there.name(), answer.clone()));
                prop_assert_eq!(essence(&read), essence(&told), "{} {}", there.name(), back.name());
                let stream = body(*back, &with_usage(), &cut(came.deltas(), &sizes));
                let read = accumulated(*back, &stream, usize::MAX).into_answer();
                prop_assert_eq!(essence(&read), essence(&told), "{} {} streamed", there.name(), back.name());
            }
        }
    }

    #[test]
    fn a_stream_that_is_cut_off_is_never_done(answer in answer(), keep in 0..100_usize) {
        for codec in CODECS {
            let mut deltas = answer.deltas();
            deltas.truncate(keep.min(deltas.len() - 1));
            let read = accumulated(*codec, &body(*codec, &with_usage(), &deltas), usize::MAX);
            prop_assert!(!read.is_done(), "{}: {:?}", codec.name(), deltas);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(body in "[\\[\\]{}:,\"a-z0-9 ]{0,60}|\\PC{0,20}") {
        for codec in CODECS {
            let _ = codec.read_request("/", body.as_bytes());
            let _ = codec.read_answer(body.as_bytes());
            let _ = codec.stream_reader().read(None, body.as_bytes());
        }
    }
}
