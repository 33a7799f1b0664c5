//! The proxy.
pub mod link;
