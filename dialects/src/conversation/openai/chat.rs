//! Chat completions, as OpenAI and all who serve its API speak them.

mod answer;
mod read;
mod stream;
mod write;

use super::{
    super::{Answer, FieldError, Request, StreamReader, StreamWriter, Untranslatable},
    Codec, Usage, Written,
};
use crate::EventFormat;

/// OpenAI's chat completions.
pub const OPENAI_CHAT: &dyn Codec = &OpenAiChat;

#[derive(Debug)]
struct OpenAiChat;

impl Codec for OpenAiChat {
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
        "/v1/chat/completions".to_owned()
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

    fn stream_writer(&self, to: &Request) -> Box<dyn StreamWriter> {
        Box::new(stream::Writer::new(to.stream_usage))
    }
}

const NAME: &str = "openai-chat";
