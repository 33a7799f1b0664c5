//! What is known of the wire formats and habits of model providers and vector stores.
//!
//! Pure functions and small state machines over bytes: no sockets, no clock, no randomness of its own. What a fault
//! does not touch leaves every function here byte for byte as it came.
//!
//! - [`dialect`]: whose protocol a request speaks, and what it is for.
//! - [`event`]: cutting a streamed body into events, and putting other data into one.
//! - [`json`]: JSON documents, edited in place.

pub mod dialect;
pub mod event;
pub mod json;
mod named;

pub use dialect::{Dialect, Operation, Recognised, known_hosts, recognise};
pub use event::{Decoder, Event, Framing, Meter};
