//! The proxy.

pub mod tls;
