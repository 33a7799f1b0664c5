//! What is left of toxics that were added and removed: nothing.
use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{MIB, serving};
use crate::{
    cli_support::Server,
    support::{GUARD, Origin, hear_until, many_files},
};

const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const EVENT: &str = "data: {\"a\":1}\n\n";

/// Streams events for `/stream`, says `ok` to every other request, and sends back what is not a request.
async fn origin() -> Origin {
    Origin::running(|mut caller| async move {
        while let Some(first) = caller.byte().await {
            if first != b'G' {
                caller.say([first]).await;
                continue;
            }
            let Some(request) = caller.request().await else { return };
            if !request.starts_with(b"ET /stream") {
                caller.say(PLAIN).await;
                continue;
            }
            caller.say(STREAM).await;
            while caller.stream.write_all(EVENT.as_bytes()).await.is_ok() {
                sleep(Duration::from_millis(300)).await;
            }
            return;
        }
    })
    .await
}

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

/// Connections of one kind, which live for as long as the test.
async fn open(address: &str, count: usize, first: &str, answered: &str) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(first.as_bytes()).await.unwrap();
        hear_until(&mut client, answered).await;
        open.push(client);
    }
    open
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

/// 50 connections each of TCP, kept HTTP, event streams and tunnels; on each proxy 500 times a toxic is added and
/// removed. A build that kept a decision for each of them grew by 12 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn a_10_live_connections_keep_nothing_of_toxics_that_are_gone() {
    many_files();
    let origin = origin().await;
    let upstream = origin.address.to_string();
    let server = serving(&json!([
        {"name": "tcp", "listen": "127.0.0.1:0", "upstream": upstream},
        {"name": "http", "listen": "127.0.0.1:0", "upstream": origin.url()},
        {"name": "forward", "listen": "127.0.0.1:0", "protocol": "forward"},
    ]));
    let mut admin = Admin::to(&server).await;
    let [tcp, http, forward] = ["tcp", "http", "forward"].map(|name| server.proxy(name));
    let mut echoing = open(tcp, 50, "a", "a").await;
    let mut kept = open(http, 50, "GET / HTTP/1.1\r\nhost: x\r\n\r\n", "ok").await;
    let stream = "GET /stream HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut streams = open(http, 50, stream, EVENT.trim_end()).await;
    let connect = format!("CONNECT {upstream} HTTP/1.1\r\n\r\n");
    let mut tunnels = open(forward, 50, &connect, "\r\n\r\n").await;

    let bytes = json!({"type": "latency", "name": "passing", "attributes": {"latency": 0}});
    let edit = json!({"type": "edit", "name": "passing", "attributes": {"ops": [{"path": "$.b", "set": 1}]}});
    let mut rounds = async |count: usize| {
        for round in 0..count {
            for proxy in ["tcp", "http", "forward"] {
                let toxic = if proxy == "http" && round % 2 == 0 { &edit } else { &bytes };
                admin.call("POST", &format!("/v1/proxies/{proxy}/toxics"), toxic).await;
                admin.call("DELETE", &format!("/v1/proxies/{proxy}/toxics/passing"), &Value::Null).await;
            }
        }
    };
    rounds(50).await;
    let before = server.memory("VmRSS");
    rounds(500).await;
    let grown = settled(&server).await.saturating_sub(before) / MIB;
    assert!(grown < 12, "{grown} MiB more");

    // All of them are still in use.
    for client in echoing.iter_mut().chain(&mut tunnels) {
        client.write_all(b"z").await.unwrap();
        hear_until(client, "z").await;
    }
    for client in &mut kept {
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        hear_until(client, "ok").await;
    }
    for client in &mut streams {
        let mut piece = [0; 64 * 1024];
        assert!(timeout(GUARD, client.read(&mut piece)).await.unwrap().unwrap() > 0);
    }
}
