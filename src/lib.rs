//! The proxy.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tasks and peers of their own"))]

mod admin;
pub mod cli;
pub mod config;
mod connection;
mod dial;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod instance;
mod journal;
pub mod link;
mod listen;
mod metrics;
mod plan;
mod proxy;
mod secrets;
pub mod sim;
mod site;
mod steady;
mod supervisor;
mod tcp;
pub mod tls;
mod workers;

pub use aconite_api::{client, model};
pub use aconite_toxics as toxics;
pub use instance::{Aconite, Builder, StartError};
