//! What is known of the wire formats and habits of model providers and vector stores.
//!
//! Pure functions and small state machines over bytes: no sockets, no clock, no randomness of its own. What a fault
//! does not touch leaves every function here byte for byte as it came.
//!
//! - [`event`]: cutting a streamed body into events, and putting other data into one.

pub mod event;

pub use event::{Decoder, Event, Framing, Meter};
mod dialect;
pub use dialect::{Dialect, Operation};
