//! What is left of connections that are over: nothing.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::timeout,
};

use super::{before, call_at, ms};
use crate::{
    cli_support::Server,
    support::{End, GUARD, Origin, Proxied, hear, many_files},
};

/// Says how much came, once the client has finished.
async fn counting() -> Origin {
    Origin::running(|mut caller| async move {
        let mut all = Vec::new();
        if caller.stream.read_to_end(&mut all).await.is_ok() {
            let _ = caller.stream.write_all(all.len().to_string().as_bytes()).await;
        }
    })
    .await
}

/// A proxy of its own process, so that its files and its memory are its own.
async fn server(origin: &Origin, toxic: &Value) -> (Server, String) {
    let server = Server::start(&[]);
    let spec = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": origin.address.to_string()});
    let (status, made) = call_at(server.admin(), "POST", "/proxies", &spec.to_string()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(call_at(server.admin(), "POST", "/proxies/p/toxics", &toxic.to_string()).await.0, 200);
    let made: Value = serde_json::from_str(&made).unwrap();
    (server, made["listen"].as_str().unwrap().to_owned())
}

/// So many connections, some at a time, each with the same upload.
async fn upload(address: &str, connections: usize, at_once: usize, body: Vec<u8>) {
    let (body, turns) = (Arc::new(body), Arc::new(Semaphore::new(at_once)));
    let mut uploads = JoinSet::new();
    for _ in 0..connections {
        let (address, body) = (address.to_owned(), Arc::clone(&body));
        let turn = Arc::clone(&turns).acquire_owned().await.unwrap();
        uploads.spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&body).await.unwrap();
            client.shutdown().await.unwrap();
            let heard = hear(&mut client, GUARD * 2).await;
            assert_eq!((heard.text(), heard.end), (body.len().to_string(), End::Closed));
            drop(turn);
        });
    }
    timeout(Duration::from_secs(300), uploads.join_all()).await.expect("an upload hangs");
}

/// 2,000 uploads of 100 KB, one in twenty held for three seconds: what waits is held, and nothing else, and not for
/// longer. The allocator keeps a little of what was freed, so "falls back" is: further rounds need less than what
/// would be left if none of the bodies that wait, ten MiB a round, were given back.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn tox_05_memory_is_what_is_in_flight_and_is_given_back() {
    const MIB: usize = 1 << 20;
    let origin = counting().await;
    let toxic =
        json!({"type": "latency", "stream": "upstream", "toxicity": 0.05, "attributes": {"latency": 3000}});
    many_files();
    let (server, address) = server(&origin, &toxic).await;
    let before = server.memory("VmRSS");
    let mut after = Vec::new();
    for round in 0..3 {
        upload(&address, 2000, 250, vec![1; 100_000]).await;
        // All bodies together are 190 MiB, those that wait about ten.
        let peak = server.memory("VmHWM").saturating_sub(before);
        assert!(peak < 64 * MIB, "round {round}: {} MiB more at the peak", peak / MIB);
        none_left(&server).await;
        // The allocator gives back while something goes on, a little later than it was given.
        let mut least = server.memory("VmRSS");
        for _ in 0..20 {
            tokio::time::sleep(ms(50)).await;
            none_left(&server).await;
            least = least.min(server.memory("VmRSS"));
        }
        after.push(least);
    }
    let grown = after[2].saturating_sub(after[0]);
    assert!(grown < 16 * MIB, "{} MiB more after two further rounds", grown / MIB);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn tox_05_of_10_000_connections_nothing_is_left() {
    let origin = counting().await;
    let (server, address) = server(&origin, &json!({"type": "latency", "attributes": {"latency": 1}})).await;
    upload(&address, 1000, 100, vec![1; 10]).await;
    none_left(&server).await;
    let (files, memory) = (server.open_files(), server.memory("VmRSS"));
    upload(&address, 10_000, 100, vec![1; 10]).await;
    none_left(&server).await;
    let deadline = Instant::now() + GUARD;
    while server.open_files() > files && Instant::now() < deadline {
        tokio::time::sleep(ms(20)).await;
    }
    assert!(server.open_files() <= files, "{} open files, {files} before", server.open_files());
    // A task that is left holds its connection's state, some KiB each; here that would be tens of MiB.
    let grown = server.memory("VmRSS").saturating_sub(memory) >> 20;
    assert!(grown < 16, "{grown} MiB more");
}

/// Waits until a server has no connection left.
async fn none_left(server: &Server) {
    let closing = async {
        while call_at(server.admin(), "GET", "/v1/connections", "").await.1.contains("\"peer\"") {
            tokio::time::sleep(ms(20)).await;
        }
    };
    timeout(GUARD, closing).await.expect("connections are left");
}

/// Waits until the proxy has no connection left.
async fn nothing_open(proxied: &Proxied) {
    let closing = async {
        while !proxied.aconite.client().connections().await.unwrap().is_empty() {
            tokio::time::sleep(ms(5)).await;
        }
    };
    timeout(GUARD, closing).await.expect("connections are left");
}

#[tokio::test]
async fn tox_14_a_client_that_has_finished_gets_its_answer() {
    let origin = Origin::running(|mut caller| async move {
        let mut count = 0;
        while caller.byte().await.is_some() {
            count += 1;
        }
        tokio::time::sleep(ms(200)).await;
        caller.say(format!("GOT {count}")).await;
    })
    .await;
    let proxied = before(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"0123456789").await.unwrap();
    client.shutdown().await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.text().as_str(), heard.end), ("GOT 10", End::Closed));
    nothing_open(&proxied).await;
}

/// A half-closed connection whose other end vanishes is over, on both sides.
#[tokio::test]
async fn tox_14_a_half_closed_connection_does_not_outlive_its_peer() {
    for vanishes in ["client", "upstream"] {
        let (seen, mut ends) = mpsc::unbounded_channel();
        let (go, gone) = (Arc::new(Semaphore::new(0)), vanishes == "upstream");
        let permits = Arc::clone(&go);
        let origin = Origin::running(move |mut caller| {
            let (seen, permits) = (seen.clone(), Arc::clone(&permits));
            async move {
                while caller.byte().await.is_some() {}
                seen.send("half").unwrap();
                if gone {
                    permits.acquire().await.unwrap().forget();
                    return caller.reset();
                }
                // Goes on talking to whoever is there.
                while caller.stream.write_all(b"still here").await.is_ok() {
                    tokio::time::sleep(ms(5)).await;
                }
                seen.send("over").unwrap();
            }
        })
        .await;
        let proxied = before(&origin).await;
        let mut client = proxied.connect().await;
        client.write_all(b"0123456789").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(timeout(GUARD, ends.recv()).await.unwrap(), Some("half"));
        if gone {
            go.add_permits(1);
            assert_eq!(hear(&mut client, GUARD).await.end, End::Reset, "{vanishes}");
        } else {
            client.set_zero_linger().unwrap();
            drop(client);
            assert_eq!(timeout(GUARD, ends.recv()).await.expect("the upstream talks on"), Some("over"));
        }
        nothing_open(&proxied).await;
    }
}
