//! What a wire format can do.

use std::fmt::Debug;

use super::{Answer, Delta, FieldError, Json, Loss, Request, Untranslatable};
use crate::{Event, EventFormat};

/// One provider's wire format of conversations.
///
/// Readers are lenient: fields that they do not know are kept aside, and only what cannot be understood is an error.
/// Writers give the provider's own fields in its order.
pub trait Codec: Debug + Send + Sync {
    /// Its name, such as `anthropic`.
    fn name(&self) -> &'static str;

    /// How its streams are cut into events.
    fn framing(&self) -> EventFormat;

    /// Reads a request. `path` is that of the URL: Gemini names the model there, and whether a stream is wanted.
    ///
    /// # Errors
    /// If the body is not JSON, or a field cannot be understood.
    fn read_request(&self, path: &str, body: &[u8]) -> Result<Request, FieldError>;

    /// Writes a request.
    ///
    /// # Errors
    /// If the request asks for something that the format cannot express and that must not be left out.
    fn write_request(&self, request: &Request) -> Result<Written, Untranslatable>;

    /// The path and query that a request is sent to, from the provider's root.
    fn path(&self, request: &Request) -> String;

    /// Reads an answer.
    ///
    /// # Errors
    /// If the body is not JSON, or a field cannot be understood.
    fn read_answer(&self, body: &[u8]) -> Result<Answer, FieldError>;

    /// Writes the answer to a request that came in this format.
    fn write_answer(&self, answer: &Answer, to: &Request) -> Written;

    /// A reader for one stream.
    fn stream_reader(&self) -> Box<dyn StreamReader>;

    /// A writer of the streamed answer to a request that came in this format.
    fn stream_writer(&self, to: &Request) -> Box<dyn StreamWriter>;
}

/// Something that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The body.
    pub body: Json,
    /// What the format could not express.
    pub losses: Vec<Loss>,
}

/// Reads the events of one stream.
pub trait StreamReader: Debug + Send + Sync {
    /// Reads one event: its name, if it has one, and its data.
    ///
    /// # Errors
    /// If the data is not JSON, or a field cannot be understood.
    fn read(&mut self, name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError>;

    /// The body has ended cleanly. Formats without a terminator are done then, if all that had to come has come.
    fn end(&mut self) -> Vec<Delta> {
        Vec::new()
    }
}

/// Writes the events of one stream. The terminator is written for [`Delta::Done`] and for nothing else: a stream that
/// was cut stays cut.
pub trait StreamWriter: Debug + Send + Sync {
    /// The events for one step: none, one or several. If the step brings about a token, the last of them carries it.
    fn write(&mut self, delta: &Delta) -> Vec<Frame>;
}

/// One event of a stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// Its name, in formats that name events.
    pub name: Option<&'static str>,
    /// Its data.
    pub data: String,
}

impl Frame {
    pub(super) fn unnamed(data: &Json) -> Self {
        Self { name: None, data: data.text().to_owned() }
    }

    pub(super) fn named(name: &'static str, data: &Json) -> Self {
        Self { name: Some(name), ..Self::unnamed(data) }
    }

    /// As it is sent.
    pub fn event(&self, framing: EventFormat) -> Event {
        Event::new(framing, self.name, self.data.as_bytes())
    }
}
