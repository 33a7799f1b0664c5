//! What is known of the wire formats and habits of model providers and vector stores.
//!
//! Pure functions and small state machines over bytes: no sockets, no clock, no randomness of its own. What a fault
//! does not touch leaves every function here byte for byte as it came.
//!
//! - [`checks`]: what must hold for arbitrary bytes, for fuzzers to run.
//! - [`content`]: what an event of an answer's stream is for.
//! - [`conversation`]: what models are asked and answer, read and written in each wire format.
//! - [`dialect`]: whose protocol a request speaks, and what it is for.
//! - [`embeddings`]: answers that are vectors, spoilt in place.
//! - [`event`]: cutting a streamed body into events, and putting other data into one.
//! - [`failure`]: causes of failure, and how each provider words them.
//! - [`finish`]: why responses end, in each provider's words.
//! - [`form`]: what a body is made of.
//! - [`hits`]: answers of vector searches, spoilt in place.
//! - [`json`]: JSON documents, edited in place.
//! - [`outcome`]: how an attempt came out, read from a response or an event.
//! - [`parts`]: where the parts of chat responses are.
//! - [`provider`]: everything known of each provider, one file and one row each.
//! - [`units`]: configuration values that carry their unit and their range in their type, for the crates above.

pub mod checks;
pub mod content;
pub mod conversation;
pub mod dialect;
pub mod embeddings;
pub mod event;
pub mod failure;
pub mod finish;
pub mod form;
pub mod hits;
pub mod json;
mod media_type;
mod named;
pub mod outcome;
pub mod parts;
pub mod provider;
mod spec_error;
pub mod units;

pub use content::Shape;
pub use dialect::{Dialect, Operation, Recognised, known_hosts, recognise};
pub use embeddings::EmbeddingFault;
pub use event::{Decoder, Event, EventFormat, Meter};
pub use failure::{Cause, Failure, FailureContext};
pub use finish::Finish;
pub use form::BodyForm;
pub use hits::HitsFault;
pub use media_type::MediaType;
pub use parts::Part;
pub use provider::Provider;
pub use spec_error::SpecError;
