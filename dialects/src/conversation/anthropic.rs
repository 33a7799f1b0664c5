//! Anthropic's messages.

mod answer;
mod read;
mod stream;
mod write;

use super::{
    Answer, Codec, ErrorKind, FieldError, Request, Signature, StreamReader, StreamWriter, Untranslatable,
    Usage, Written, text::object,
};
use crate::EventFormat;

/// Anthropic's messages.
pub const ANTHROPIC: &dyn Codec = &Anthropic;

#[derive(Debug)]
struct Anthropic;

impl Codec for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn framing(&self) -> EventFormat {
        EventFormat::Sse
    }

    fn read_request(&self, _path: &str, body: &[u8]) -> Result<Request, FieldError> {
        read::request(body)
    }

    fn write_request(&self, request: &Request) -> Result<Written, Untranslatable> {
        write::request(request)
    }

    fn path(&self, _request: &Request) -> String {
        "/v1/messages".to_owned()
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

const NAME: &str = "anthropic";

/// Types of errors. The first for a kind is the one that is written.
const ERRORS: &[(ErrorKind, &str)] = &[
    (ErrorKind::Server, "api_error"),
    (ErrorKind::Overloaded, "overloaded_error"),
    (ErrorKind::RateLimit, "rate_limit_error"),
    (ErrorKind::Invalid, "invalid_request_error"),
    (ErrorKind::Authentication, "authentication_error"),
    (ErrorKind::Permission, "permission_error"),
    (ErrorKind::Permission, "billing_error"),
    (ErrorKind::NotFound, "not_found_error"),
    (ErrorKind::TooLarge, "request_too_large"),
    (ErrorKind::Timeout, "timeout_error"),
];

fn signature(data: String) -> Signature {
    Signature { format: NAME, data, id: None, is_redacted: false }
}

fn redacted(data: String) -> Signature {
    Signature { is_redacted: true, ..signature(data) }
}
