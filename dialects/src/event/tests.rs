//! Events out of bytes, however they are cut.
use super::*;

mod cases;
mod forms;
mod pieces;
mod properties;

const LIMIT: usize = 1 << 20;

fn decode_with(framing: EventFormat, max_event: usize, chunks: &[&[u8]]) -> (Vec<Event>, Decoder) {
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
    decode_with(EventFormat::Sse, LIMIT, chunks).0
}

fn metered(framing: EventFormat, chunks: &[&[u8]]) -> Meter {
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
