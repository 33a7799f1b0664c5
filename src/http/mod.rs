//! HTTP: reverse and forward proxying, one exchange at a time.
mod body;
mod client;
mod coding;
mod dial;
mod exchange;
mod facts;
mod forward;
pub(crate) mod fuzzing;
mod governor;
mod headers;
mod ongoing;
mod own_answer;
mod patience;
mod pool;
mod server;
mod source;
mod target;
mod tunnel;
mod upgrade;
mod upstream;
mod upstream_io;

pub(crate) use dial::dial;
pub(crate) use forward::ForwardRules;
pub(crate) use pool::{Pool, sweep_regularly};
pub(crate) use server::serve;
pub(crate) use target::Target;
pub(crate) use upstream::Upstreams;
