//! Toxics on the bytes of a connection.
mod latency;
pub use latency::Latency;
