//! Many changes, many connections, and hostile peers: nothing grows for good, and nobody pays for a neighbour.
#![cfg(target_os = "linux")]
use serde_json::{Value, json};

use crate::cli_support::{Server, file};

mod changes;
mod neighbours;
mod switch;

const MIB: usize = 1 << 20;

/// A server with these proxies in a process of its own, so that its memory is its own.
fn serving(proxies: &Value) -> Server {
    let home = tempfile::TempDir::new().unwrap();
    let config = json!({"proxies": proxies}).to_string();
    Server::start(&["-c", file(home.path(), "a.yaml", &config).to_str().unwrap()])
}
