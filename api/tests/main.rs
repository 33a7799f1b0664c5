//! The API over a fake of the proxies, without sockets but where the client is tested.
#![allow(clippy::unwrap_used, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests have tasks and peers of their own")]
mod app;
mod contract;
mod fake;

mod client;
mod populate;
mod root;
mod v1;
mod vectors;
