//! What each toxic does to a connection, and when.
use std::{io::ErrorKind, net::SocketAddr, time::Instant};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    sync::mpsc,
    time::timeout,
};

use super::{before, call, echo, ms, round_trip, source};
use crate::{
    cli_support::{printed, run},
    support::{Caller, End, GUARD, Origin, Proxied, hear},
};

#[tokio::test]
async fn tox_06_latency_is_paid_once_and_not_for_each_piece() {
    const SIZE: usize = 100_000_000;
    let origin = source(SIZE).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "latency", "attributes": {"latency": 500}})).await;
    let start = Instant::now();
    let mut client = proxied.connect().await;
    let heard = hear(&mut client, GUARD).await;
    let took = start.elapsed();
    assert_eq!((heard.bytes.len(), heard.end), (SIZE, End::Closed));
    // For each piece of 64 KiB it would be 760 s.
    assert!(took >= ms(500) && took < ms(15_000), "{took:?}");
}

#[tokio::test]
async fn tox_07_a_busy_connection_ends_on_time() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "limit_time", "attributes": {"time": 600}})).await;
    let start = Instant::now();
    let (mut read, mut write) = proxied.connect().await.into_split();
    let busy = tokio::spawn(async move {
        while write.write_all(b".").await.is_ok() {
            tokio::time::sleep(ms(20)).await;
        }
    });
    let mut heard = 0;
    while timeout(GUARD, read.read_u8()).await.unwrap().is_ok() {
        heard += 1;
    }
    let took = start.elapsed();
    busy.abort();
    assert!(took >= ms(590) && took < ms(900), "{took:?}");
    assert!(heard > 5, "{heard} bytes came back before the end");
}

#[tokio::test]
async fn tox_08_a_rate_is_each_connections_own() {
    let origin = source(40_000).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "bandwidth", "attributes": {"rate": 100}})).await;
    let start = Instant::now();
    let one = || async {
        let mut client = proxied.connect().await;
        assert_eq!(hear(&mut client, GUARD).await.bytes.len(), 40_000);
        start.elapsed()
    };
    let (a, b, c, d, e, f) = tokio::join!(one(), one(), one(), one(), one(), one());
    for took in [a, b, c, d, e, f] {
        // Shared among six it would be 2.4 s.
        assert!(took >= ms(390) && took < ms(1_800), "{took:?}");
    }
}

#[tokio::test]
async fn tox_09_resets_go_on_until_the_toxic_is_removed_or_its_window_ends() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "reset_peer", "name": "rst", "attributes": {"timeout": 10}})).await;
    for _ in 0..5 {
        let start = Instant::now();
        let mut client = proxied.connect().await;
        assert_eq!(hear(&mut client, GUARD).await.end, End::Reset);
        assert!(start.elapsed() >= ms(9), "{:?}", start.elapsed());
    }
    proxied.remove("rst").await;
    round_trip(&mut proxied.connect().await).await;
    let start = Instant::now();
    proxied.add(json!({"type": "reset_peer", "window": {"for": 700}, "attributes": {"timeout": 10}})).await;
    let mut client = proxied.connect().await;
    assert_eq!(hear(&mut client, GUARD).await.end, End::Reset);
    assert!(start.elapsed() < ms(700), "the machine is too busy to tell");
    tokio::time::sleep_until((start + ms(800)).into()).await;
    round_trip(&mut proxied.connect().await).await;
}

/// Blocking, since that is where it shows: `connect` itself fails if the RST is there before the thread runs again,
/// for which it has 40 ms.
fn connects_and_is_reset(address: SocketAddr, first: &[u8]) {
    let start = Instant::now();
    let mut client = std::net::TcpStream::connect(address).expect("connecting succeeds");
    client.set_read_timeout(Some(GUARD)).unwrap();
    // It may be reset before.
    let _ = std::io::Write::write(&mut client, first);
    let end = std::io::Read::read(&mut client, &mut [0]).expect_err("a reset");
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    // A client that sends is known to be connected.
    assert!(!first.is_empty() || start.elapsed() >= ms(39), "reset after {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_27_a_connection_is_made_before_it_is_reset() {
    let origin = echo().await;
    // An `http` proxy waits for the first bytes before anything else.
    for (upstream, first) in [(origin.address.to_string(), ""), (origin.url(), "GET / HTTP/1.1\r\n")] {
        for toxic in [
            json!({"type": "reset_peer"}),
            json!({"type": "reset_peer", "stream": "upstream"}),
            json!({"type": "connect", "attributes": {"mode": "reset_on_accept"}}),
        ] {
            let proxied = Proxied::with(json!({"upstream": upstream})).await;
            proxied.add(toxic).await;
            let address = proxied.address;
            let clients: Vec<_> = (0..5)
                .map(|_| {
                    std::thread::spawn(move || {
                        (0..10).for_each(|_| connects_and_is_reset(address, first.as_bytes()))
                    })
                })
                .collect();
            let joined =
                tokio::task::spawn_blocking(|| clients.into_iter().all(|client| client.join().is_ok()));
            assert!(joined.await.unwrap());
        }
    }
}

/// Whether a client from this address, which is one of the host's own, is let through.
async fn passes(proxied: &Proxied, from: &str) -> bool {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut client = socket.connect(proxied.address).await.unwrap();
    // A connection that is reset may be so before or after.
    let _ = client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    hear(&mut client, GUARD).await.text().starts_with("HTTP/1.1 200")
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn r2_32_a_toxic_can_be_for_some_clients_only() {
    let origin =
        Origin::answering_once("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
    let bytes = json!({"type": "reset_peer"});
    let connect = json!({"type": "connect", "attributes": {"mode": "reset_on_accept"}});
    let exchange = json!({"type": "fail", "attributes": {"status": 503}});
    let tcp = origin.address.to_string();
    for (upstream, toxic) in [
        (&tcp, &bytes),
        (&tcp, &connect),
        (&origin.url(), &bytes),
        (&origin.url(), &connect),
        (&origin.url(), &exchange),
    ] {
        let proxied = Proxied::with(json!({"upstream": upstream})).await;
        for (client, two, three) in
            [("127.0.0.2", false, true), ("127.0.0.2/31", false, false), ("127.0.1.0/24", true, true)]
        {
            let mut toxic = toxic.clone();
            toxic["name"] = json!("some");
            toxic["match"] = json!({"client": client});
            proxied.add(toxic.clone()).await;
            let passed = (passes(&proxied, "127.0.0.2").await, passes(&proxied, "127.0.0.3").await);
            assert_eq!(passed, (two, three), "{upstream} {toxic}");
            proxied.remove("some").await;
        }
    }
}

#[tokio::test]
async fn r2_32_a_byte_toxic_can_match_nothing_of_requests() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    for (matching, path, hint) in [
        (json!({"client": "127.0.0.1", "path": "/v1/*"}), "match", "only `client` can be matched"),
        (json!({"client": "somewhere"}), "match.client", "10.0.0.0/8"),
    ] {
        let toxic = json!({"type": "latency", "match": matching}).to_string();
        let (status, said) = call(&proxied.aconite, "POST", "/v1/proxies/p/toxics", &toxic).await;
        assert_eq!(status, 400, "{said}");
        assert!(said.contains(path) && said.contains(hint), "{said}");
    }
}

#[tokio::test]
async fn tox_10_a_reset_is_econnreset_for_both_sides() {
    for stream in ["upstream", "downstream"] {
        for delay in [0, 300] {
            let (ended, mut ends) = mpsc::unbounded_channel();
            let origin = Origin::running(move |mut caller: Caller| {
                let ended = ended.clone();
                async move {
                    let end = loop {
                        match caller.stream.read_u8().await {
                            Ok(byte) => caller.say([byte]).await,
                            Err(error) => break error.kind(),
                        }
                    };
                    ended.send(end).unwrap();
                }
            })
            .await;
            let proxied = before(&origin).await;
            let mut client = proxied.connect().await;
            round_trip(&mut client).await;
            let start = Instant::now();
            proxied
                .add(json!({"type": "reset_peer", "stream": stream, "attributes": {"timeout": delay}}))
                .await;
            let end = timeout(GUARD, client.read_u8()).await.unwrap().unwrap_err().kind();
            assert_eq!(end, ErrorKind::ConnectionReset, "{stream} {delay}");
            assert!(start.elapsed() >= ms(delay), "{stream} {delay}");
            let end = timeout(GUARD, ends.recv()).await.unwrap();
            assert_eq!(end, Some(ErrorKind::ConnectionReset), "{stream} {delay}");
        }
    }
}

/// The manual says what so many took the attribute for, and what to use instead.
#[test]
fn tox_09_the_manual_says_that_the_time_is_a_delay() {
    let manual = printed(&run(&["explain", "reset_peer"]));
    assert!(manual.contains("the delay before the reset, not a period"), "{manual}");
    assert!(manual.contains("window"), "{manual}");
}
