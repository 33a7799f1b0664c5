//! JSON bodies, read and changed in place.
//!
//! A document is never printed anew: an edit replaces the bytes of the value that it is about, and white space, order
//! of keys, spelling of numbers, escapes and duplicate keys everywhere else leave as they came.
//!
//! What is accepted is the grammar of RFC 8259, and what lies outside of it in meaning only: lone surrogates
//! (`"\ud83d"`), numbers that no float can hold (`1E400`), duplicate keys (the last one wins, as in Python and
//! JavaScript). Everything else, `NaN` and `Infinity` included, is [`NotJson`].

mod document;
mod edit;
mod op;
mod path;
mod scan;
mod splice;
#[cfg(test)]
mod tests;
mod text;

pub use document::{Document, MAX_VALUES, Node, ReadError};
pub use edit::{EditError, MAX_EDITED, apply, remove, same};
pub use op::{Change, JsonType, Op, PatchOp, PathEdit, Pointer};
pub use path::{MAX_STEPS, Path, TooComplex};
pub use scan::{Kind, NotJson, Span, members};
pub use splice::Splices;
pub use text::{quote, unquote};
