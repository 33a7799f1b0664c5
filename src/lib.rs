//! The proxy.
pub mod link;
pub mod sim;
