//! What a toxic is.
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{ConnectFault, Dice, ExchangeFilter, Scope, StreamFilter};
use aconite_dialects::Event;

/// A kind of fault.
///
/// The implementing type *is* the configuration: its doc comment, its fields
/// and their doc comments are all that the API, the CLI, the schema and the
/// manual know of it. State lives in the [`Instance`] that it starts.
pub trait Toxic: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Its `type` in configuration; equals the name of its file.
    const TYPE: &'static str;
    /// What it acts on.
    const LEVEL: Level;
    /// Whether it acts on whole documents too, besides `LEVEL`.
    const DOCUMENTS_TOO: bool = false;

    /// Whether what it sends names the model that the request asks for.
    const NAMES_MODEL: bool = false;

    /// A typical configuration, for the manual and for tests.
    fn example() -> Self;

    /// What cannot work although each field by itself is right, in the user's words.
    ///
    /// # Errors
    /// What is wrong, as one sentence without a full stop.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Begins on one connection, or on one HTTP exchange.
    fn start(&self, scope: &Scope, dice: Dice) -> Instance;
}

/// What a toxic acts on, from the wire up.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The bytes of the client's connection.
    Bytes,
    /// The making of a connection. The one kind besides bytes that a `tcp` proxy can have.
    Connect,
    /// An HTTP request and its answer.
    Exchange,
    /// The events of a streamed body.
    Events,
    /// A whole JSON body.
    Document,
}

/// A toxic at work.
pub enum Instance {
    /// Acts on the bytes of a connection.
    Bytes(Box<dyn StreamFilter<Bytes>>),
    /// Acts while a connection is made.
    Connect(ConnectFault),
    /// Acts on an HTTP exchange.
    Exchange(Box<dyn ExchangeFilter>),
    /// Acts on a body.
    Body(BodyFilter),
    /// Has nothing to do here, for a reason that goes into the record.
    Idle(&'static str),
}

/// What acts on a body.
pub enum BodyFilter {
    /// Its bytes, decoded.
    Bytes(Box<dyn StreamFilter<Bytes>>),
    /// Its events.
    Events(Box<dyn StreamFilter<Event>>),
    /// The whole of it.
    Document(Box<dyn DocumentFilter>),
}

/// Edits a whole body.
pub trait DocumentFilter: Send {
    /// The body to send instead, or the reason for leaving it as it is.
    ///
    /// # Errors
    /// Why the body was left alone: it is not JSON, nothing matched.
    fn edit(&mut self, body: &Bytes) -> Result<Bytes, &'static str>;
}
