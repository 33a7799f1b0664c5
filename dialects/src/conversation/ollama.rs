//! Ollama's own chat.

mod answer;
mod read;
mod stream;
mod write;

use super::{Answer, Codec, FieldError, Request, StreamReader, StreamWriter, Untranslatable, Written};
use crate::EventFormat;

/// Ollama's own chat.
pub const OLLAMA: &dyn Codec = &Ollama;

#[derive(Debug)]
struct Ollama;

impl Codec for Ollama {
    fn name(&self) -> &'static str {
        NAME
    }

    fn framing(&self) -> EventFormat {
        EventFormat::Ndjson
    }

    fn read_request(&self, _path: &str, body: &[u8]) -> Result<Request, FieldError> {
        read::request(body)
    }

    fn write_request(&self, request: &Request) -> Result<Written, Untranslatable> {
        write::request(request)
    }

    fn path(&self, _request: &Request) -> String {
        "/api/chat".to_owned()
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

const NAME: &str = "ollama";
