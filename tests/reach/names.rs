//! One host in all its spellings: with a final dot, in capitals, as A-labels.
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{OK, assert_error, forward};
use crate::support::{Origin, Proxied, hear, hear_until};

async fn connected(proxied: &Proxied, target: &str) -> tokio::net::TcpStream {
    let mut client = proxied.connect().await;
    client.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let head = String::from_utf8(hear_until(&mut client, "\r\n\r\n").await).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
    client
}

fn get(target: &str, host: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn r2_06_a_host_is_mapped_in_every_spelling() {
    let origin = Origin::answering(OK).await;
    let spellings =
        ["api.example.test", "api.example.test.", "API.Example.TEST", "Api.example.test."].map(str::to_owned);
    for rule in ["api.example.test", "API.example.test.", "*.Example.test"] {
        let proxied = forward(json!({"map": {rule: origin.url()}})).await;
        for host in &spellings {
            let heard = proxied.raw(get(&format!("http://{host}/x"), host)).await;
            assert_eq!(heard.status(), 200, "{rule} {host}: {}", heard.text());
            // Inside a tunnel Host may be spelt otherwise than in CONNECT.
            for inside in &spellings {
                let mut client = connected(&proxied, &format!("{host}:443")).await;
                client.write_all(get("/x", inside).as_bytes()).await.unwrap();
                let heard = hear(&mut client, Duration::from_millis(700)).await;
                assert_eq!(heard.status(), 200, "{rule} {host} {inside}: {}", heard.text());
            }
        }
        let journal = proxied.journal().await;
        assert!(journal.iter().all(|each| each.host == "api.example.test"), "{journal:?}");
    }
}

#[tokio::test]
async fn r2_06_a_host_is_intercepted_in_every_spelling() {
    let proxied = forward(json!({"intercept": ["API.example.test."], "connect_timeout": "1s"})).await;
    proxied
        .add(json!({"type": "fail", "match": {"host": "Api.Example.test."}, "attributes": {"status": 503}}))
        .await;
    for target in ["api.example.test:443", "API.example.test.:443"] {
        for inside in ["api.example.test", "api.example.test."] {
            let mut client = connected(&proxied, target).await;
            client.write_all(get("/x", inside).as_bytes()).await.unwrap();
            let heard = hear(&mut client, Duration::from_secs(2)).await;
            assert_eq!(heard.status(), 503, "{target} {inside}: {}", heard.text());
        }
    }
}

#[tokio::test]
async fn r2_06_tls_in_a_tunnel_is_for_the_host_in_every_spelling() {
    let origin = Origin::answering(OK).await;
    let proxied = forward(json!({"map": {"api.example.test": origin.url()}})).await;
    for target in ["api.example.test.:443", "API.EXAMPLE.TEST:443"] {
        let client = connected(&proxied, target).await;
        let trusted = crate::tls_support::from_pem(proxied.aconite.ca_pem());
        let connector = crate::tls_support::trusting(trusted, &[]);
        let mut client =
            connector.connect(crate::tls_support::name("api.example.test"), client).await.unwrap();
        let answer = crate::tls_support::ask(&mut client, &get("/x", "Api.example.test.")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
    }
}

#[tokio::test]
async fn r2_10_patterns_in_map_work() {
    let (wide, narrow) = (Origin::answering(OK).await, Origin::answering(OK).await);
    let proxied =
        forward(json!({"map": {"*.example.test": wide.url(), "*.eu.example.test": narrow.url()}})).await;
    assert_eq!(proxied.raw(get("http://a.example.test/", "a.example.test")).await.status(), 200);
    assert_eq!((wide.connections(), narrow.connections()), (1, 0));
    let mut client = connected(&proxied, "a.eu.example.test:443").await;
    client.write_all(get("/", "a.eu.example.test").as_bytes()).await.unwrap();
    assert_eq!(hear(&mut client, Duration::from_millis(700)).await.status(), 200);
    assert_eq!((wide.connections(), narrow.connections()), (1, 1));
}

#[tokio::test]
async fn r2_10_an_upstream_that_means_nothing_is_refused_with_what_to_write() {
    let proxied = forward(json!({})).await;
    let client = proxied.aconite.client();
    for (protocol, upstream, said) in [
        ("http", "unix:/x.sock", "Unix sockets are not supported"),
        ("http", "http://localhost:99999", "a number from 1 to 65535"),
        ("http", "localhost:99999", "a number from 1 to 65535"),
        ("tcp", "localhost:99999", "a number from 1 to 65535"),
        ("tcp", "unix:/x.sock", "a number from 1 to 65535"),
        ("tcp", "a b:1", "neither a host name nor an IP address"),
        ("tcp", "one.com", "has no port"),
        ("tcp", "[::1]", "has no port"),
    ] {
        let spec = json!({"name": "u", "protocol": protocol, "listen": "127.0.0.1:0", "upstream": upstream});
        let error =
            client.create_proxy(&serde_json::from_value(spec).unwrap()).await.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("upstream"), "{upstream}: {error}");
    }
    for (protocol, upstream) in
        [("tcp", "localhost:http"), ("http", "localhost:http"), ("http", "[::1]"), ("http", "one.com")]
    {
        let spec = json!({"name": "u", "protocol": protocol, "listen": "127.0.0.1:0", "upstream": upstream});
        let created = client.create_proxy(&serde_json::from_value(spec).unwrap()).await.unwrap();
        assert_eq!(created.upstream, upstream, "as it is written");
        client.delete_proxy("u").await.unwrap();
    }
    // Toxiproxy's routes take a host without a port.
    for upstream in ["one.com", "[::1]"] {
        let created: Result<serde_json::Value, _> = client
            .send(
                http::Method::POST,
                "/proxies",
                &json!({"name": "t", "listen": "127.0.0.1:0", "upstream": upstream}),
            )
            .await;
        assert_eq!(created.unwrap()["upstream"], upstream);
        client.delete_proxy("t").await.unwrap();
    }
}

#[tokio::test]
async fn a_15_a_target_that_means_nothing_is_refused() {
    let origin = Origin::answering(OK).await;
    let proxied = forward(json!({"map": {"*": origin.url()}})).await;
    for (target, code) in [
        ("ftp://x.test/file", "unsupported_scheme"),
        ("ws://x.test/", "unsupported_scheme"),
        ("http://x.test:99999/", "bad_target"),
        ("http://x.test:0/", "bad_target"),
        ("http://x.test:+80/", "bad_target"),
        ("http://a..b/", "bad_target"),
    ] {
        let heard = proxied.raw(get(target, "x.test")).await;
        assert_eq!(heard.status(), 400, "{target}: {}", heard.text());
        // What hyper cannot read at all is its own.
        let said = heard.header("x-aconite-error");
        assert!(said == [code] || said == ["bad_request"], "{target}: {said:?}");
    }
    for target in ["x.test:+443", ":+443", "x.test:0", "x.test:", "x.test", "x.test:443x", "x.test:99999"] {
        let heard = proxied.raw(format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        assert_error(&heard, 400, "bad_connect");
    }
    assert_eq!(origin.connections(), 0);
    // User and password stay with the proxy.
    let heard = proxied.raw(get("http://user:word@x.test/", "x.test")).await;
    assert_eq!(heard.status(), 200);
    let received = origin.received();
    assert!(received.contains("Host: x.test\r\n") && !received.contains("word"), "{received}");
}
