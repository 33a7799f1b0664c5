//! Toxics on HTTP exchanges, on streams of events and on documents.
mod kinds;

pub(crate) use kinds::Kinds;
pub use kinds::Which;
