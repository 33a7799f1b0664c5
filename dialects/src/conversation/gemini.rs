//! Google's Gemini: `generateContent` and `streamGenerateContent`.

mod answer;
mod read;
mod stream;
mod write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{
    Answer, Codec, ErrorKind, FieldError, Request, Signature, StreamReader, StreamWriter, Untranslatable,
    Written,
};
use crate::EventFormat;

/// Google's Gemini. Streams are asked for as server-sent events.
pub const GEMINI: &dyn Codec = &Gemini;

#[derive(Debug)]
struct Gemini;

impl Codec for Gemini {
    fn name(&self) -> &'static str {
        NAME
    }

    fn framing(&self) -> EventFormat {
        EventFormat::Sse
    }

    fn read_request(&self, path: &str, body: &[u8]) -> Result<Request, FieldError> {
        read::request(path, body)
    }

    fn write_request(&self, request: &Request) -> Result<Written, Untranslatable> {
        write::request(request)
    }

    fn path(&self, request: &Request) -> String {
        const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
        let verb = if request.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        format!("/v1beta/models/{}:{verb}", utf8_percent_encode(&request.model, KEPT))
    }

    fn read_answer(&self, body: &[u8]) -> Result<Answer, FieldError> {
        answer::read(body)
    }

    fn write_answer(&self, answer: &Answer, _to: &Request) -> Written {
        answer::write(answer)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::default())
    }

    fn stream_writer(&self, _to: &Request) -> Box<dyn StreamWriter> {
        Box::new(stream::Writer::default())
    }
}

const NAME: &str = "gemini";

/// Statuses of errors, by kind. The first for a kind is the one that is written.
const ERRORS: &[(ErrorKind, &str)] = &[
    (ErrorKind::Server, "INTERNAL"),
    (ErrorKind::Overloaded, "UNAVAILABLE"),
    (ErrorKind::RateLimit, "RESOURCE_EXHAUSTED"),
    (ErrorKind::Invalid, "INVALID_ARGUMENT"),
    (ErrorKind::Invalid, "FAILED_PRECONDITION"),
    (ErrorKind::TooLarge, "INVALID_ARGUMENT"),
    (ErrorKind::Authentication, "UNAUTHENTICATED"),
    (ErrorKind::Permission, "PERMISSION_DENIED"),
    (ErrorKind::NotFound, "NOT_FOUND"),
    (ErrorKind::Timeout, "DEADLINE_EXCEEDED"),
];

fn seal(data: String) -> Signature {
    Signature { format: NAME, data, id: None, is_redacted: false }
}
