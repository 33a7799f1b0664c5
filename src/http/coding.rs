//! Content codings: bodies are decoded where a toxic has to read them, and only there.
use std::io::{self, Write};

use bytes::Bytes;
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

/// Undoes a coding, piece by piece, giving out at once what can be read.
pub(crate) struct Decoding(State);

enum State {
    /// HTTP's "deflate" is zlib, but some send it bare: the first byte tells.
    Undecided,
    Gzip(flate2::write::MultiGzDecoder<Vec<u8>>),
    Zlib(flate2::write::ZlibDecoder<Vec<u8>>),
    Deflate(flate2::write::DeflateDecoder<Vec<u8>>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
    Zstd(zstd::stream::write::Decoder<'static, Vec<u8>>),
}

impl Decoding {
    /// Begins.
    ///
    /// # Errors
    /// If the decoder cannot be made.
    pub(crate) fn new(coding: Coding) -> io::Result<Self> {
        Ok(Self(match coding {
            Coding::Gzip => State::Gzip(flate2::write::MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => State::Undecided,
            Coding::Brotli => State::Brotli(Box::new(brotli::DecompressorWriter::new(Vec::new(), 16 * 1024))),
            Coding::Zstd => State::Zstd(zstd::stream::write::Decoder::new(Vec::new())?),
        }))
    }

    /// What the next coded bytes say.
    ///
    /// # Errors
    /// If they are not what the coding allows.
    pub(crate) fn push(&mut self, coded: &[u8]) -> io::Result<Bytes> {
        if matches!(self.0, State::Undecided)
            && let Some(first) = coded.first()
        {
            // The low four bits of a zlib header name the method, 8 (RFC 1950, section 2.2).
            self.0 = if first & 0x0f == 8 {
                State::Zlib(flate2::write::ZlibDecoder::new(Vec::new()))
            } else {
                State::Deflate(flate2::write::DeflateDecoder::new(Vec::new()))
            };
        }
        let plain = match &mut self.0 {
            State::Undecided => return Ok(Bytes::new()),
            State::Gzip(decoder) => written(decoder, coded, |decoder| decoder.get_mut())?,
            State::Zlib(decoder) => written(decoder, coded, |decoder| decoder.get_mut())?,
            State::Deflate(decoder) => written(decoder, coded, |decoder| decoder.get_mut())?,
            State::Brotli(decoder) => written(decoder.as_mut(), coded, |decoder| decoder.get_mut())?,
            State::Zstd(decoder) => written(decoder, coded, |decoder| decoder.get_mut())?,
        };
        Ok(plain.into())
    }
}

fn written<D: Write>(
    decoder: &mut D,
    coded: &[u8],
    plain: impl Fn(&mut D) -> &mut Vec<u8>,
) -> io::Result<Vec<u8>> {
    decoder.write_all(coded)?;
    decoder.flush()?;
    Ok(std::mem::take(plain(decoder)))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn every_coding_is_undone_however_it_is_cut() {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let body = coded(coding);
            for size in [1, 7, body.len()] {
                let mut decoding = Decoding::new(coding).unwrap();
                let plain: Vec<u8> =
                    body.chunks(size).flat_map(|piece| decoding.push(piece).unwrap()).collect();
                assert_eq!(plain, TEXT, "{coding:?} by {size}");
            }
        }
    }

    #[test]
    fn sse_22_an_event_flushed_by_the_encoder_is_read_at_once() {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 20);
        let mut decoding = Decoding::new(Coding::Brotli).unwrap();
        for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let piece = std::mem::take(encoder.get_mut());
            assert_eq!(decoding.push(&piece).unwrap(), event.as_bytes());
        }
    }

    #[test]
    fn bare_deflate_is_understood() {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(TEXT).unwrap();
        let body = encoder.finish().unwrap();
        assert_eq!(Decoding::new(Coding::Deflate).unwrap().push(&body).unwrap(), TEXT);
    }

    #[test]
    fn what_is_not_coded_as_it_says_is_an_error() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            assert!(
                Decoding::new(coding).unwrap().push(b"<html>no such thing</html>").is_err(),
                "{coding:?}"
            );
        }
    }
}
