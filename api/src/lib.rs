//! The admin API: resources, routes, client. It does not know the proxy: the
//! proxy implements [`Control`].
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests have tasks and peers of their own"))]

pub mod check;
pub mod client;
mod control;
mod metrics;
pub mod model;
mod problem;
mod request;
mod routes;
mod security;
mod toxiproxy;
mod v1;

pub use client::Client;
pub use control::{Control, ControlError};
pub use metrics::MetricsFormat;
pub use problem::Problem;
pub use routes::router;
pub use security::Security;
pub use toxiproxy::read_toxiproxy_list;
pub use v1::read_value;
