//! Taking toxics and proxies away, whatever their connections do.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{PROMPT, before, call, call_at, echo, flood, ms, named, round_trip, source};
use crate::{
    cli_support::Server,
    support::{End, GUARD, Origin, Proxied, eventually, hear, many_files},
};

/// The calls that touch a proxy's connections or its toxics; each must be prompt.
async fn every_call(proxied: &Proxied) {
    for (method, path, body) in [
        (
            "POST",
            "/proxies/p/toxics",
            r#"{"type": "latency", "name": "probe", "attributes": {"latency": 1}}"#,
        ),
        ("POST", "/proxies/p/toxics/probe", r#"{"attributes": {"latency": 2}}"#),
        ("GET", "/proxies", ""),
        ("DELETE", "/proxies/p/toxics/probe", ""),
    ] {
        let answer = timeout(PROMPT, call(&proxied.aconite, method, path, body)).await;
        let (status, text) = answer.unwrap_or_else(|_| panic!("{method} {path} hangs"));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
    }
}

#[tokio::test]
async fn tox_01_latency_is_removed_at_once_beside_a_timeout() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    let mut client = proxied.connect().await;
    round_trip(&mut client).await;
    proxied.add(json!({"type": "latency", "name": "slow", "attributes": {"latency": 60_000}})).await;
    client.write_all(b"more").await.unwrap();
    proxied.add(json!({"type": "timeout", "name": "dead", "attributes": {"timeout": 0}})).await;
    timeout(PROMPT, proxied.remove("slow")).await.expect("the removal hangs");
    every_call(&proxied).await;
}

#[tokio::test]
async fn tox_02_removal_never_waits_for_clients_that_vanished_or_do_not_read() {
    let origin = flood().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "latency", "name": "slow", "attributes": {"latency": 6_000}})).await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(proxied.connect().await);
    }
    for (at, client) in clients.drain(..50).enumerate() {
        if at % 2 == 0 {
            client.set_zero_linger().unwrap();
        }
    }
    timeout(PROMPT, proxied.remove("slow")).await.expect("the removal hangs");
    every_call(&proxied).await;
    // Those that are left get their data now.
    for client in &mut clients {
        timeout(ms(3_000), client.read_u8()).await.expect("data is held on").unwrap();
    }
}

#[tokio::test]
async fn tox_02_removal_never_waits_for_an_upstream_that_does_not_read() {
    let origin = Origin::running(|caller| async move {
        std::future::pending::<()>().await;
        drop(caller);
    })
    .await;
    let proxied = before(&origin).await;
    proxied
        .add(json!({"type": "latency", "name": "slow", "stream": "upstream", "attributes": {"latency": 6_000}}))
        .await;
    let mut client = proxied.connect().await;
    let block = vec![7; 64 * 1024];
    // Until every buffer on the way is full.
    while timeout(ms(200), client.write_all(&block)).await.is_ok() {}
    timeout(PROMPT, proxied.remove("slow")).await.expect("the removal hangs");
    drop(client);
    every_call(&proxied).await;
}

#[tokio::test]
async fn tox_03_a_mended_cable_lets_held_data_through_at_once() {
    let origin = source(50_000).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "bandwidth", "name": "cut", "attributes": {"rate": 0}})).await;
    let mut client = proxied.connect().await;
    let held = hear(&mut client, ms(300)).await;
    assert_eq!((held.bytes.len(), held.end), (0, End::Silence));
    let start = Instant::now();
    timeout(PROMPT, proxied.remove("cut")).await.expect("the removal hangs");
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.bytes, heard.end), (vec![7; 50_000], End::Closed));
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
}

/// A process of its own has the thousand connections, as one program may not open as many files as both sides need.
///
/// On a machine in demand every call takes long. How long is measured by the same calls at the same time to a server without
/// connections: the stuck ones may add 100 ms to that.
#[tokio::test(flavor = "multi_thread")]
async fn tox_13_a_proxy_with_1000_stuck_connections_blocks_no_other_call() {
    const STUCK: usize = 1000;
    many_files();
    // Each has more behind it than it may send, and not so much that filling the buffers is what takes the time.
    let origin = Origin::running(|mut caller| async move {
        let _ = caller.stream.write_all(&vec![7; 128 * 1024]).await;
        std::future::pending::<()>().await;
    })
    .await;
    let (server, idle) = (Server::start(&[]), Server::start(&[]));
    let admin = server.admin();
    let (status, made) = call_at(admin, "POST", "/proxies", &named("a", any(), &origin)).await;
    assert_eq!(status, 201, "{made}");
    let address = serde_json::from_str::<Value>(&made).unwrap()["listen"].as_str().unwrap().to_owned();
    let toxic = r#"{"type": "bandwidth", "attributes": {"rate": 0}}"#;
    assert_eq!(call_at(admin, "POST", "/proxies/a/toxics", toxic).await.0, 200);
    let mut stuck = Vec::new();
    for _ in 0..STUCK {
        stuck.push(TcpStream::connect(&address).await.unwrap());
    }
    eventually("a thousand connections upstream", || origin.connections() == STUCK).await;
    let timed = async |admin: &str, method: &str, path: &str, body: &str| {
        let start = Instant::now();
        let (status, _) = call_at(admin, method, path, body).await;
        (status, start.elapsed())
    };
    let listing = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let (status, took) = timed(admin, "GET", "/proxies", "").await;
            assert_eq!(status, 200);
            slowest = slowest.max(took);
        }
        slowest
    };
    let creating = async |admin: &str| {
        let mut all = Vec::new();
        for name in ["b", "c", "d"] {
            all.push(timed(admin, "POST", "/proxies", &named(name, any(), &origin)).await);
        }
        all
    };
    let (deleted, listed, created, elsewhere) = tokio::join!(
        timed(admin, "DELETE", "/proxies/a", ""),
        listing,
        creating(admin),
        creating(idle.admin())
    );
    assert_eq!(deleted.0, 204);
    assert!(deleted.1 < PROMPT, "deleting took {:?}", deleted.1);
    assert!(listed < PROMPT, "listing took {listed:?}");
    // The worst of many calls is not a measure of the goal, the best of three is.
    let quickest = created.iter().map(|(_, took)| *took).min().unwrap();
    let pace = elsewhere.iter().map(|(_, took)| *took).max().unwrap();
    assert!(created.iter().all(|(status, _)| *status == 201), "{created:?}");
    assert!(quickest < pace + ms(100), "{created:?}, without connections {elsewhere:?}");
    for client in &mut stuck {
        assert_ne!(hear(client, GUARD).await.end, End::Silence, "a deleted proxy's connection lives on");
    }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}
