//! Messages: heads, framing, codings, and what is known of a request.
pub(crate) mod broken;
pub(crate) mod capture;
pub(crate) mod coding;
pub(crate) mod facts;
pub(crate) mod framing;
pub(crate) mod headers;
