//! Real bug reports about Toxiproxy, over real sockets. Named by case.
use std::{
    io::ErrorKind,
    net::SocketAddr,
    time::{Duration, Instant},
};

use aconite::{Aconite, model::ProxySpec};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

use crate::support::{Caller, End, GUARD, Origin, Proxied, hear};

/// Within this an admin call answers, whatever the connections do.
const PROMPT: Duration = Duration::from_secs(1);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sends back what it gets.
async fn echo() -> Origin {
    Origin::running(|mut caller| async move {
        while let Some(byte) = caller.byte().await {
            if caller.stream.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    })
    .await
}

/// Sends without end, whatever the other side reads.
async fn flood() -> Origin {
    Origin::running(|mut caller| async move {
        let block = vec![7; 64 * 1024];
        while caller.stream.write_all(&block).await.is_ok() {}
    })
    .await
}

/// Sends so many bytes and finishes.
async fn source(count: usize) -> Origin {
    Origin::running(move |mut caller| async move {
        // A client may leave before the end.
        let _ = caller.stream.write_all(&vec![7; count]).await;
    })
    .await
}

async fn before(origin: &Origin) -> Proxied {
    Proxied::with(json!({"upstream": origin.address.to_string()})).await
}

async fn round_trip(client: &mut TcpStream) {
    client.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    timeout(GUARD, client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"ping");
}

/// One call to Toxiproxy's API.
async fn call(aconite: &Aconite, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(aconite.admin_address()).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let heard = hear(&mut stream, GUARD).await;
    (heard.status(), String::from_utf8(heard.body()).unwrap())
}

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
    for _ in 0..40 {
        clients.push(proxied.connect().await);
    }
    for (at, client) in clients.drain(..20).enumerate() {
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

#[tokio::test]
async fn tox_05_short_uploads_leave_nothing_behind() {
    let origin = Origin::running(|mut caller| async move {
        let mut all = Vec::new();
        if caller.stream.read_to_end(&mut all).await.is_ok() {
            let _ = caller.stream.write_all(all.len().to_string().as_bytes()).await;
        }
    })
    .await;
    let proxied = before(&origin).await;
    proxied
        .add(json!({"type": "latency", "stream": "upstream", "toxicity": 0.05, "attributes": {"latency": 300}}))
        .await;
    let body = vec![1; 100_000];
    for _ in 0..10 {
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = proxied.connect().await;
            client.write_all(&body).await.unwrap();
            client.shutdown().await.unwrap();
            clients.push(client);
        }
        for client in &mut clients {
            assert_eq!(hear(client, GUARD).await.bytes, b"100000");
        }
    }
    nothing_open(&proxied).await;
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
async fn tox_06_latency_is_paid_once_and_not_for_each_piece() {
    const SIZE: usize = 20_000_000;
    let origin = source(SIZE).await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "latency", "attributes": {"latency": 300}})).await;
    let start = Instant::now();
    let mut client = proxied.connect().await;
    let heard = hear(&mut client, GUARD).await;
    let took = start.elapsed();
    assert_eq!((heard.bytes.len(), heard.end), (SIZE, End::Closed));
    // For each piece of 64 KiB it would be 90 s.
    assert!(took >= ms(300) && took < ms(5_000), "{took:?}");
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

/// An address on which nothing listens, as far as can be known.
async fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn named(name: &str, listen: SocketAddr, upstream: &Origin) -> String {
    json!({"name": name, "listen": listen.to_string(), "upstream": upstream.address.to_string()}).to_string()
}

#[tokio::test]
async fn tox_11_a_taken_name_opens_no_port() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    let second = free().await;
    let (status, body) = call(&proxied.aconite, "POST", "/proxies", &named("p", second, &origin)).await;
    assert_eq!((status, body.trim()), (409, r#"{"error":"proxy already exists","status":409}"#));
    let refused = TcpStream::connect(second).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn tox_13_a_proxy_that_is_stuck_blocks_no_other_call() {
    let origin = flood().await;
    let proxied = before(&origin).await;
    proxied.add(json!({"type": "bandwidth", "attributes": {"rate": 0}})).await;
    let mut stuck = Vec::new();
    for _ in 0..100 {
        stuck.push(proxied.connect().await);
    }
    let other = named("b", "127.0.0.1:0".parse().unwrap(), &origin);
    let start = Instant::now();
    let (deleted, listed, created) = tokio::join!(
        call(&proxied.aconite, "DELETE", "/proxies/p", ""),
        call(&proxied.aconite, "GET", "/proxies", ""),
        call(&proxied.aconite, "POST", "/proxies", &other),
    );
    assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
    assert_eq!((deleted.0, listed.0, created.0), (204, 200, 201));
    for client in &mut stuck {
        assert_ne!(hear(client, GUARD).await.end, End::Silence, "a deleted proxy's connection lives on");
    }
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

#[tokio::test]
async fn tox_19_loose_input_is_taken_and_out_of_range_input_changes_nothing() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    let add = |toxic: Value| {
        let aconite = &proxied.aconite;
        async move { call(aconite, "POST", "/proxies/p/toxics", &toxic.to_string()).await }
    };
    let (status, body) =
        add(json!({"type": "latency", "stream": "UPSTREAM", "attributes": {"latency": 5, "zzz": 1}})).await;
    assert_eq!(status, 200, "{body}");
    let made: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&made["stream"], &made["name"]), (&json!("upstream"), &json!("latency_UPSTREAM")));
    for wrong in [json!("100"), json!(1.5)] {
        let (status, body) =
            add(json!({"type": "latency", "name": "bad", "attributes": {"latency": wrong}})).await;
        assert_eq!(status, 400, "{wrong}: {body}");
    }
    let (_, listed) = call(&proxied.aconite, "GET", "/proxies/p/toxics", "").await;
    assert!(!listed.contains("bad"), "{listed}");
    // Below zero is no delay at all.
    let (status, body) =
        add(json!({"type": "latency", "name": "below", "attributes": {"latency": -5}})).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"latency\":0"), "{body}");
    round_trip(&mut proxied.connect().await).await;
    let body = named("a/b", "127.0.0.1:0".parse().unwrap(), &origin);
    let (status, body) = call(&proxied.aconite, "POST", "/proxies", &body).await;
    if status == 201 {
        assert_eq!(call(&proxied.aconite, "DELETE", "/proxies/a%2Fb", "").await.0, 204);
    } else {
        assert_eq!(status, 400, "{body}");
    }
}

#[tokio::test]
async fn tox_24_calls_at_once_end_as_if_they_came_in_some_order() {
    let origin = echo().await;
    let proxied = before(&origin).await;
    let one = |name| json!({"name": name, "listen": "127.0.0.1:0", "upstream": origin.address.to_string()});
    let populate = json!([one("a"), one("b")]).to_string();
    for _ in 0..20 {
        let calls = async {
            tokio::join!(
                call(&proxied.aconite, "POST", "/populate", &populate),
                call(&proxied.aconite, "POST", "/populate", &populate),
                call(&proxied.aconite, "POST", "/reset", ""),
                call(&proxied.aconite, "DELETE", "/proxies/a", ""),
                call(&proxied.aconite, "GET", "/proxies", ""),
            )
        };
        let (first, second, reset, deleted, listed) =
            timeout(GUARD, calls).await.expect("the calls wait for each other");
        assert_eq!((first.0, second.0, reset.0, listed.0), (201, 201, 204, 200), "{first:?} {second:?}");
        assert!(matches!(deleted.0, 204 | 404), "{deleted:?}");
        let (_, listed) = call(&proxied.aconite, "GET", "/proxies", "").await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        for (name, proxy) in listed.as_object().unwrap() {
            let address: SocketAddr = proxy["listen"].as_str().unwrap().parse().unwrap();
            let reached = TcpStream::connect(address).await;
            round_trip(&mut reached.unwrap_or_else(|error| panic!("{name} is listed: {error}"))).await;
        }
        assert!(listed["b"].is_object() && listed["p"].is_object(), "{listed}");
    }
}

#[tokio::test]
async fn tox_25_a_port_is_free_once_its_proxy_is_deleted() {
    let (old, new) = (echo().await, echo().await);
    let proxied = before(&old).await;
    for turn in 0..5 {
        let mut open = Vec::new();
        let mut listening = if turn == 0 { "p".to_owned() } else { format!("b{}", turn - 1) };
        for _ in 0..50 {
            let mut client = proxied.connect().await;
            round_trip(&mut client).await;
            open.push(client);
        }
        let reached = new.connections();
        let client = proxied.aconite.client();
        client.delete_proxy(&listening).await.unwrap();
        listening = format!("b{turn}");
        let spec: ProxySpec = serde_json::from_str(&named(&listening, proxied.address, &new)).unwrap();
        client.create_proxy(&spec).await.unwrap();
        for client in &mut open {
            // What was open belongs to the proxy that is gone.
            let _ = client.write_all(b"late").await;
            let heard = hear(client, GUARD).await;
            assert_eq!(heard.bytes, b"", "turn {turn}");
            assert_ne!(heard.end, End::Silence, "turn {turn}");
        }
        assert_eq!(new.connections(), reached, "turn {turn}: an old connection came to the new upstream");
        round_trip(&mut proxied.connect().await).await;
        assert_eq!(new.connections(), reached + 1);
    }
}
