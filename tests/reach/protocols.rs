//! Clients that speak another protocol than the port does.
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{OK, assert_error, forward};
use crate::{
    support::{End, GUARD, Origin, Proxied, hear},
    tls_support::{from_pem, name, trusting},
};

/// What the journal has of a connection that never was a request.
async fn assert_told(proxied: &Proxied, method: &str, code: &str) {
    let last = proxied.journal().await.pop().expect("an entry");
    assert_eq!((&*last.method, last.error.as_deref()), (method, Some(code)), "{last:?}");
}

async fn plain() -> (Origin, Proxied) {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    (origin, proxied)
}

#[tokio::test]
async fn r2_17_connect_at_an_http_proxy_is_told_what_it_needs() {
    let (origin, proxied) = plain().await;
    for request in [
        "CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test:443\r\n\r\n",
        "CONNECT api.example.test:443 HTTP/1.0\r\n\r\n",
    ] {
        let heard = proxied.raw(request).await;
        assert_error(&heard, 400, "not_a_forward_proxy");
        assert!(heard.text().contains("`protocol: forward`"), "{}", heard.text());
        assert_told(&proxied, "CONNECT", "not_a_forward_proxy").await;
    }
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn r2_17_tls_at_a_plain_port_ends_in_an_alert() {
    let (origin, http) = plain().await;
    let forward = forward(json!({"credentials": "u:p"})).await;
    for proxied in [&http, &forward] {
        let connector = trusting(from_pem(proxied.aconite.ca_pem()), &[]);
        let handshake = connector.connect(name("localhost"), proxied.connect().await);
        let error = tokio::time::timeout(GUARD, handshake).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("HandshakeFailure"), "{error}");
        assert_told(proxied, "TLS", "wrong_protocol").await;
    }
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn r2_17_socks_is_refused_in_its_own_words() {
    let (origin, http) = plain().await;
    let forward = forward(json!({})).await;
    for proxied in [&http, &forward] {
        for (greeting, answer, method) in [
            (&b"\x05\x01\x00"[..], &b"\x05\xff"[..], "SOCKS5"),
            (b"\x05\x02\x00\x02", b"\x05\xff", "SOCKS5"),
            (b"\x04\x01\x00\x50\x7f\x00\x00\x01u\x00", b"\x00\x5b\x00\x00\x00\x00\x00\x00", "SOCKS4"),
        ] {
            let heard = proxied.raw(greeting).await;
            assert_eq!((&*heard.bytes, heard.end), (answer, End::Closed), "{method}");
            assert_told(proxied, method, "wrong_protocol").await;
        }
    }
    assert_eq!(origin.connections(), 0);
}

/// Plain HTTP at a port that has TLS is answered in plain HTTP.
#[tokio::test]
async fn r2_17_plain_http_at_a_tls_port_is_answered() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "tls": {}})).await;
    let heard = proxied.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_error(&heard, 400, "wrong_protocol");
    assert!(heard.text().contains("https://"), "{}", heard.text());
    assert_told(&proxied, "HTTP", "wrong_protocol").await;
    assert_eq!(origin.connections(), 0);
}

/// A client that knows beforehand that it can speak HTTP/2 to its proxy is served, with the same rules.
#[tokio::test]
async fn r2_17_http2_at_a_forward_port_is_served() {
    let origin = Origin::answering(OK).await;
    let proxied = forward(json!({"credentials": "user:word", "map": {"x.test": origin.url()}})).await;
    let stream = proxied.connect().await;
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let driving = tokio::spawn(connection);
    let mut ask = async |method: &str, uri: &str, credentials: Option<&str>| {
        let mut request = http::Request::builder().method(method).uri(uri);
        if let Some(credentials) = credentials {
            request = request.header("proxy-authorization", credentials);
        }
        let (response, _) = client.send_request(request.body(()).unwrap(), true).unwrap();
        let response = tokio::time::timeout(GUARD, response).await.unwrap().unwrap();
        let error = response.headers().get("x-aconite-error").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), error)
    };
    let refused = (407, Some("proxy_authentication".to_owned()));
    assert_eq!(ask("GET", "http://x.test/", None).await, refused);
    assert_eq!(ask("POST", "http://x.test/", Some("Basic eA==")).await, refused);
    assert_eq!(origin.connections(), 0, "nothing reaches the target");
    assert_eq!(ask("GET", "http://x.test/", Some("basic dXNlcjp3b3Jk")).await, (200, None));
    let connect = ask("CONNECT", "x.test:443", Some("basic dXNlcjp3b3Jk")).await;
    assert_eq!(connect, (501, Some("connect_over_http2".to_owned())));
    assert!(!origin.received().to_ascii_lowercase().contains("proxy-authorization"));
    driving.abort();
}

/// Bytes that are nothing known get an answer, or the end of the connection, and never reach an upstream.
#[tokio::test]
async fn r2_17_noise_reaches_nobody() {
    let (origin, proxied) = plain().await;
    let forward = forward(json!({})).await;
    for proxied in [&proxied, &forward] {
        for noise in
            [&b"\x00\x00\x00\x08\x04\xd2\x16\x2f"[..], b"SSH-2.0-OpenSSH_9\r\n", b"\x16\x02\x00\x00\r\n\r\n"]
        {
            let mut client = proxied.connect().await;
            client.write_all(noise).await.unwrap();
            let heard = hear(&mut client, Duration::from_millis(700)).await;
            assert!(heard.bytes.is_empty() || heard.status() == 400, "{noise:?}: {}", heard.text());
        }
    }
    assert_eq!(origin.connections(), 0);
}
