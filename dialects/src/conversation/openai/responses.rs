//! OpenAI's Responses.

mod answer;
mod read;
mod stream;
mod write;

use super::super::{Answer, Codec, FieldError, Request, StreamReader, StreamWriter, Untranslatable, Written};
use crate::EventFormat;

/// OpenAI's Responses.
pub const OPENAI_RESPONSES: &dyn Codec = &OpenAiResponses;

#[derive(Debug)]
struct OpenAiResponses;

impl Codec for OpenAiResponses {
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
        "/v1/responses".to_owned()
    }

    fn read_answer(&self, body: &[u8]) -> Result<Answer, FieldError> {
        answer::read(body)
    }

    fn write_answer(&self, answer: &Answer, to: &Request) -> Written {
        answer::write(answer, to)
    }

    fn stream_reader(&self) -> Box<dyn StreamReader> {
        Box::new(stream::Reader::default())
    }

    fn stream_writer(&self, to: &Request) -> Box<dyn StreamWriter> {
        Box::new(stream::Writer::new(to))
    }
}

const NAME: &str = "openai-responses";
