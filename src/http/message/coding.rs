//! Content codings: bodies are decoded where a toxic has to read them, and only there.
use std::io;

use bytes::{Buf, Bytes};
use compression_codecs::{
    BrotliDecoder, Decode, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder, core::util::PartialBuffer,
    zstd::params::DParameter,
};
use http::{HeaderMap, header};

/// A coding that can be undone (RFC 9110, section 8.4.1; RFC 7932; RFC 8878).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// How a body is coded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coded {
    /// Not at all.
    Plain,
    By(Coding),
    /// In a way that is not known here, or in several.
    Unknown,
}

impl Coded {
    /// What the head says.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Self::Plain };
        let text = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        match text.as_str() {
            _ if values.next().is_some() => Self::Unknown,
            "" | "identity" => Self::Plain,
            "gzip" | "x-gzip" => Self::By(Coding::Gzip),
            "deflate" => Self::By(Coding::Deflate),
            "br" => Self::By(Coding::Brotli),
            "zstd" => Self::By(Coding::Zstd),
            _ => Self::Unknown,
        }
    }
}

/// Decodes a body, a bounded step at a time, whatever its coded bytes expand to.
pub(crate) struct Decoding {
    codec: Codec,
    /// Coded bytes that have not been decoded yet.
    coded: Bytes,
    plain: Box<[u8]>,
    place: DecoderState,
}

enum Codec {
    /// HTTP's "deflate" is zlib, but some send it bare: the first byte tells.
    Undecided,
    Gzip(Box<GzipDecoder>),
    Zlib(Box<ZlibDecoder>),
    Deflate(Box<DeflateDecoder>),
    Brotli(BrotliDecoder),
    Zstd(Box<ZstdDecoder>),
}

/// Where in the coded body a decoder is. Gzip and zstd may have several members (RFC 1952, section 2.2) or frames
/// (RFC 8878, section 3).
#[derive(Clone, Copy, PartialEq)]
enum DecoderState {
    BeforeMember,
    InMember,
}

impl Decoding {
    /// The most that one step gives, in bytes.
    pub(crate) const STEP: usize = 16 * 1024;

    /// The largest window that a zstd body may ask for, as a power of two (RFC 9659).
    const ZSTD_WINDOW: u32 = 23;

    pub(crate) fn new(coding: Coding) -> Self {
        let codec = match coding {
            Coding::Gzip => Codec::Gzip(Box::default()),
            Coding::Deflate => Codec::Undecided,
            Coding::Brotli => Codec::Brotli(BrotliDecoder::new()),
            Coding::Zstd => {
                let window = DParameter::window_log_max(Self::ZSTD_WINDOW);
                Codec::Zstd(Box::new(ZstdDecoder::new_with_params(&[window])))
            }
        };
        Self {
            codec,
            coded: Bytes::new(),
            plain: vec![0; Self::STEP].into_boxed_slice(),
            place: DecoderState::BeforeMember,
        }
    }

    /// Takes the next coded bytes. To be called when [`step`](Self::step) has given all that it can.
    pub(crate) fn push(&mut self, coded: Bytes) {
        if let (Codec::Undecided, Some(first)) = (&self.codec, coded.first()) {
            // The low four bits of a zlib header name the method, 8 (RFC 1950, section 2.2).
            self.codec =
                if first & 0x0f == 8 { Codec::Zlib(Box::default()) } else { Codec::Deflate(Box::default()) };
        }
        self.coded = coded;
    }

    /// Decodes at most [`STEP`](Self::STEP) bytes. `None` if that needs more coded bytes.
    ///
    /// # Errors
    /// If the bytes are not what the coding allows.
    pub(crate) fn step(&mut self) -> io::Result<Option<Bytes>> {
        let mut plain = PartialBuffer::new(&mut self.plain[..]);
        while !plain.unwritten().is_empty() {
            let before = (self.coded.len(), plain.written().len());
            let mut coded = PartialBuffer::new(&self.coded[..]);
            if self.place == DecoderState::BeforeMember {
                if self.coded.is_empty() {
                    break;
                }
                self.place = DecoderState::InMember;
            }
            let over = self.codec.decode(&mut coded, &mut plain)?;
            let taken = coded.written().len();
            self.coded.advance(taken);
            if over {
                self.codec.next_member(self.coded.is_empty())?;
                self.place = DecoderState::BeforeMember;
            } else if before == (self.coded.len(), plain.written().len()) {
                break;
            }
        }
        let plain = plain.written();
        Ok((!plain.is_empty()).then(|| Bytes::copy_from_slice(plain)))
    }

    /// Whether the coded body may end here.
    pub(crate) fn is_complete(&self) -> bool {
        self.place == DecoderState::BeforeMember && self.coded.is_empty()
    }
}

impl Codec {
    /// Whether a member is over.
    fn decode(
        &mut self,
        coded: &mut PartialBuffer<&[u8]>,
        plain: &mut PartialBuffer<&mut [u8]>,
    ) -> io::Result<bool> {
        match self {
            Self::Undecided => Ok(false),
            Self::Gzip(decoder) => decode(decoder.as_mut(), coded, plain),
            Self::Zlib(decoder) => decode(decoder.as_mut(), coded, plain),
            Self::Deflate(decoder) => decode(decoder.as_mut(), coded, plain),
            Self::Brotli(decoder) => decoder.decode(coded, plain),
            Self::Zstd(decoder) => decoder.decode(coded, plain),
        }
    }

    /// Prepares for another member behind the one that is over.
    fn next_member(&mut self, none: bool) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.reinit(),
            Self::Zstd(decoder) => decoder.reinit(),
            _ if none => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "bytes follow the end of the coded body")),
        }
    }
}

/// Decodes with a decoder of flate2's. Without input it gives what there was no room for before, and tells the end; it calls
/// it an error if there is neither.
fn decode(
    decoder: &mut impl Decode,
    coded: &mut PartialBuffer<&[u8]>,
    plain: &mut PartialBuffer<&mut [u8]>,
) -> io::Result<bool> {
    let no_input = coded.unwritten().is_empty();
    match decoder.decode(coded, plain) {
        Err(error) if no_input && error.kind() == io::ErrorKind::Other => Ok(false),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"data: {\"a\":1}\n\ndata: {\"b\":\"\xe4\xb8\x96\"}\n\ndata: [DONE]\n\n";

    fn coded(coding: Coding) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::fast());
                encoder.write_all(TEXT).unwrap();
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::fast());
                encoder.write_all(TEXT).unwrap();
            }
            Coding::Brotli => brotli::CompressorWriter::new(&mut out, 4096, 4, 20).write_all(TEXT).unwrap(),
            Coding::Zstd => out = zstd::encode_all(TEXT, 1).unwrap(),
        }
        out
    }

    /// What a piece says, in steps.
    fn read(decoding: &mut Decoding, piece: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        decoding.push(Bytes::copy_from_slice(piece));
        while let Some(step) = decoding.step()? {
            assert!(!step.is_empty() && step.len() <= Decoding::STEP);
            plain.extend_from_slice(&step);
        }
        Ok(plain)
    }

    #[test]
    fn every_coding_is_undone_however_it_is_cut() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let body = coded(coding);
            for size in [1, 7, body.len()] {
                let mut decoding = Decoding::new(coding);
                let plain: Vec<u8> =
                    body.chunks(size).flat_map(|piece| read(&mut decoding, piece).unwrap()).collect();
                assert_eq!(plain, TEXT, "{coding:?} by {size}");
                assert!(decoding.is_complete(), "{coding:?} by {size}");
            }
        }
    }

    #[test]
    fn sse_22_an_event_flushed_by_the_encoder_is_read_at_once() {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 20);
        let mut decoding = Decoding::new(Coding::Brotli);
        for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let piece = std::mem::take(encoder.get_mut());
            assert_eq!(read(&mut decoding, &piece).unwrap(), event.as_bytes());
        }
    }

    #[test]
    fn bare_deflate_is_understood() {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(TEXT).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(read(&mut Decoding::new(Coding::Deflate), &body).unwrap(), TEXT);
    }

    #[test]
    fn what_is_not_coded_as_it_says_is_an_error() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            assert!(read(&mut Decoding::new(coding), b"<html>no such thing</html>").is_err(), "{coding:?}");
        }
    }

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    #[test]
    fn r2_23_a_truncated_body_is_not_complete() {
        for coding in ALL {
            let body = coded(coding);
            for length in 1..body.len() {
                let mut decoding = Decoding::new(coding);
                let read = read(&mut decoding, &body[..length]);
                assert!(read.is_ok() && !decoding.is_complete(), "{coding:?} of {length}");
            }
        }
    }

    #[test]
    fn r2_23_what_follows_the_end_is_another_member_or_an_error() {
        for coding in ALL {
            let twice = [coded(coding), coded(coding)].concat();
            let garbage = [&coded(coding)[..], b"garbage"].concat();
            let read = |body: &[u8]| read(&mut Decoding::new(coding), body).ok();
            assert!(read(&garbage).is_none(), "{coding:?}");
            let members = matches!(coding, Coding::Gzip | Coding::Zstd);
            assert_eq!(read(&twice), members.then(|| TEXT.repeat(2)), "{coding:?}");
        }
    }

    /// So many zeros, coded.
    fn bomb(coding: Coding, size: u64) -> Vec<u8> {
        let mut zeros = io::Read::take(io::repeat(0), size);
        let best = flate2::Compression::best();
        match coding {
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), best);
                io::copy(&mut zeros, &mut encoder).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), best);
                io::copy(&mut zeros, &mut encoder).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Brotli => {
                let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 24);
                io::copy(&mut zeros, &mut encoder).unwrap();
                encoder.into_inner()
            }
            Coding::Zstd => zstd::encode_all(zeros, 3).unwrap(),
        }
    }

    #[test]
    fn a_02_a_bomb_goes_off_in_small_steps() {
        for coding in ALL {
            let bomb = bomb(coding, 32 << 20);
            assert!(bomb.len() < 64 << 10, "{coding:?}");
            let mut decoding = Decoding::new(coding);
            decoding.push(bomb.into());
            let mut size = 0;
            while let Some(step) = decoding.step().unwrap() {
                assert!(step.len() <= Decoding::STEP);
                size += step.len();
            }
            assert_eq!((size, decoding.is_complete()), (32 << 20, true), "{coding:?}");
        }
    }
}
