//! HTTP: reverse and forward proxying, one exchange at a time.
//!
//! From below: `message`, `target`, `ongoing`, `body`, `proxy_error`, `upstream`, `client`, `exchange`, `server`. Each uses only
//! those before it.
mod body;
mod client;
mod exchange;
mod message;
mod ongoing;
mod proxy_error;
mod server;
mod target;
mod upstream;

pub(crate) mod fuzzing;

pub(crate) use client::{
    forward::ForwardRules,
    proxy::{HttpProxy, ProxyMode, ServerLeaf},
};
pub(crate) use server::serve;
pub(crate) use target::Target;
pub(crate) use upstream::{
    TlsFiles, TlsIdentity, Upstreams,
    pool::{Pool, sweep_regularly},
};
