//! What is left of toxics that were added and removed: nothing.
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    MIB,
    live::{Kind, Stage},
    serving, settled,
};
use crate::{
    cli_support::Server,
    support::{hear_until, many_files},
};

/// Live connections of each kind.
const CONNECTIONS: usize = 200;
/// Toxics that are added and removed before memory is measured, and once more.
const TOXICS: usize = 1_000;

/// One kept connection to the admin API.
struct Admin(TcpStream);

impl Admin {
    async fn to(server: &Server) -> Self {
        Self(TcpStream::connect(server.admin()).await.unwrap())
    }

    async fn call(&mut self, method: &str, path: &str, body: &Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        self.0.write_all([head, body].concat().as_bytes()).await.unwrap();
        let head = String::from_utf8(hear_until(&mut self.0, "\r\n\r\n").await).unwrap();
        assert!(head.starts_with("HTTP/1.1 20"), "{method} {path}: {head}");
        let length = head.to_ascii_lowercase();
        let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut rest = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
        self.0.read_exact(&mut rest).await.unwrap();
    }
}

/// A proxy's settings for TLS to its upstream change 250 times. Each of them once cost 95 KiB for good, 23 MiB in all.
#[tokio::test(flavor = "multi_thread")]
async fn a_10_tls_settings_that_no_proxy_has_any_more_are_forgotten() {
    let server = serving(&json!([{"name": "p", "listen": "127.0.0.1:0", "upstream": "https://127.0.0.1:1"}]));
    let mut admin = Admin::to(&server).await;
    let mut changes = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let settings = json!({"upstream_tls": {"server_name": format!("{number}.test")}});
            admin.call("PATCH", "/v1/proxies/p", &settings).await;
        }
    };
    changes(0..25).await;
    let before = server.memory("VmRSS");
    changes(25..275).await;
    let grown = settled(&server).await.saturating_sub(before) / MIB;
    assert!(grown < 8, "{grown} MiB more");
}

/// 200 connections of each kind, idle, while a thousand toxics are added to their proxies and removed again, three times.
/// What is kept for each toxic and connection would take more than 100 MiB for the last thousand.
#[tokio::test(flavor = "multi_thread")]
async fn a_10_live_connections_keep_nothing_of_toxics_that_are_gone() {
    many_files();
    let stage = Stage::new().await;
    let server = serving(&stage.proxies());
    let mut admin = Admin::to(&server).await;
    let mut live = Vec::new();
    for kind in Kind::ALL {
        for _ in 0..CONNECTIONS {
            live.push(stage.open(&server, kind).await);
        }
    }
    let bytes = json!({"type": "latency", "name": "passing", "attributes": {"latency": 0}});
    let edit =
        json!({"type": "edit", "name": "passing", "attributes": {"ops": [{"path": "$.absent.x", "set": 1}]}});
    let mut rounds = async |count: usize| {
        for round in 0..count {
            let proxy = ["tcp", "http", "forward"][round % 3];
            let toxic = if proxy != "tcp" && round % 2 == 0 { &edit } else { &bytes };
            admin.call("POST", &format!("/v1/proxies/{proxy}/toxics"), toxic).await;
            admin.call("DELETE", &format!("/v1/proxies/{proxy}/toxics/passing"), &Value::Null).await;
        }
    };
    let (files, mut memory) = (server.open_files(), Vec::new());
    for _ in 0..3 {
        rounds(TOXICS).await;
        memory.push(settled(&server).await);
    }
    println!("{memory:?}");
    let grown = memory[2].saturating_sub(memory[1]);
    assert!(grown < 8 * MIB, "{} KiB more", grown / 1024);
    assert!(server.open_files() <= files, "{} open files, {files} before", server.open_files());

    // All of them are still in use, and nothing was lost or added.
    stage.go_on();
    for connection in live {
        connection.finish().await;
    }
}
