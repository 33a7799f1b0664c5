//! Toxics on HTTP exchanges, on streams of events and on documents.
mod cut;
mod kinds;
#[cfg(test)]
mod script;

pub use cut::Cut;
pub(crate) use kinds::Kinds;
pub use kinds::Which;
