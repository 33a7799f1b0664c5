//! Many changes, many connections, and hostile peers: nothing grows for good, and nobody pays for a neighbour.
#![cfg(target_os = "linux")]
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cli_support::{Server, file};

mod bombs;
mod changes;
mod held;
mod live;
mod neighbours;
mod switch;

const MIB: usize = 1 << 20;

/// A server with these proxies in a process of its own, so that its memory is its own.
fn serving(proxies: &Value) -> Server {
    let home = tempfile::TempDir::new().unwrap();
    let config = json!({"proxies": proxies}).to_string();
    Server::start(&["-c", file(home.path(), "a.yaml", &config).to_str().unwrap()])
}

/// The least memory within a second: the allocator gives back a little later than it was given.
async fn settled(server: &Server) -> usize {
    let mut least = usize::MAX;
    for _ in 0..20 {
        least = least.min(server.memory("VmRSS"));
        sleep(Duration::from_millis(50)).await;
    }
    least
}
