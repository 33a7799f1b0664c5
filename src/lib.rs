//! The proxy.
mod connection;
mod http;
mod journal;
pub mod link;
mod listen;
mod metrics;
mod plan;
mod proxy;
pub mod sim;
mod supervisor;
pub mod tls;
