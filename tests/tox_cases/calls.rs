//! Toxiproxy's calls: names, ports, loose input, many at once.
use std::{io::ErrorKind, net::SocketAddr};

use aconite::model::ProxySpec;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{before, call, echo, named, round_trip};
use crate::support::{End, GUARD, hear};

/// An address on which nothing listens, as far as can be known.
async fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
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
    // Below zero is not a delay at all.
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
