//! Where a request ends: what leaves that in doubt is refused, and nothing of it reaches the upstream.
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::support::{End, Heard, Origin, Proxied, hear, hear_until};

mod endings;
mod requests;
mod responses;
mod trailers;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Both framings, in the two orders, and what would be smuggled.
const PAIRS: [&str; 3] = [
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\nX: y\r\ncontent-length: 4\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "\r\nPOST / HTTP/1.1\nTRANSFER-ENCODING:chunked\nCONTENT-LENGTH:4\nHost: x\n\n0\r\n\r\n",
];
/// Lines that would be both framings in a head.
const LOOKALIKE: &str = "\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";

#[track_caller]
fn assert_refused(heard: &Heard, status: u16, code: &str) {
    let said = (heard.status(), heard.end, heard.header("x-aconite-error"), heard.header("connection"));
    let expected = (status, End::Closed, vec![code.to_owned()], vec!["close".to_owned()]);
    assert_eq!(said, expected, "{}", heard.text());
    let body: serde_json::Value = serde_json::from_slice(&heard.body()).unwrap();
    assert_eq!(body["error"]["source"], "aconite", "{body}");
    assert_eq!(heard.text().matches("HTTP/1.1").count(), 1, "{}", heard.text());
}

async fn say_slowly(stream: &mut (impl AsyncWrite + Unpin), bytes: &str) {
    for byte in bytes.bytes() {
        stream.write_all(&[byte]).await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn both_framings_are_refused_in_either_order() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for pair in PAIRS {
        assert_refused(&proxied.raw(pair).await, 400, "bad_framing");
        let mut client = proxied.connect().await;
        say_slowly(&mut client, pair.split("0\r\n\r\n").next().unwrap()).await;
        assert_refused(&hear(&mut client, Duration::from_secs(5)).await, 400, "bad_framing");
    }
    assert_eq!(origin.received(), "");
}

#[tokio::test]
async fn both_framings_are_refused_on_a_connection_that_was_used_before() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for first in [
        "GET /first HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        format!("POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{LOOKALIKE}", LOOKALIKE.len()),
        "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
            .to_owned(),
    ] {
        for pair in PAIRS {
            let mut client = proxied.connect().await;
            client.write_all(first.as_bytes()).await.unwrap();
            hear_until(&mut client, "ok").await;
            client.write_all(pair.as_bytes()).await.unwrap();
            let heard = hear(&mut client, Duration::from_secs(5)).await;
            assert_refused(&heard, 400, "bad_framing");
        }
    }
    let received = origin.received();
    assert_eq!((received.matches("/first").count(), received.contains("/smuggled")), (9, false));
}

#[tokio::test]
async fn both_framings_are_refused_inside_a_tunnel_and_in_front_of_it() {
    let spec = json!({"protocol": "forward", "map": {"api.example.test": "sim://openai"}});
    let proxied = Proxied::with(spec).await;
    let mut client = proxied.tunnel("api.example.test").await;
    client.write_all(PAIRS[0].as_bytes()).await.unwrap();
    assert_refused(&hear(&mut client, Duration::from_secs(5)).await, 400, "bad_framing");
    let connect =
        "CONNECT api.example.test:443 HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_refused(&proxied.raw(connect).await, 400, "bad_framing");
}

#[tokio::test]
async fn what_a_body_says_is_no_head() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let length = LOOKALIKE.len();
    let mut client = proxied.connect().await;
    let sized = format!("POST /sized HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    let chunked =
        format!("POST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n");
    let rounds = [
        vec![format!("{sized}{LOOKALIKE}")],
        vec![sized.clone(), LOOKALIKE.to_owned()],
        vec![sized, "\r\n".to_owned(), LOOKALIKE[2..].to_owned()],
        vec![chunked.clone(), LOOKALIKE.to_owned(), "\r\n0\r\n\r\n".to_owned()],
        vec![format!("{chunked}{LOOKALIKE}\r\n"), "0\r\n\r\n".to_owned()],
    ];
    for pieces in rounds.iter().chain(&rounds) {
        for piece in pieces {
            client.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        hear_until(&mut client, "ok").await;
    }
    let refused = proxied.journal().await.iter().filter(|each| each.status != Some(200)).count();
    assert_eq!((refused, proxied.journal().await.len()), (0, 10));
}

#[tokio::test]
async fn heads_that_cannot_be_read_are_refused_in_the_proxys_own_name() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let large = |size: usize| "a".repeat(size);
    for (request, status, code) in [
        (
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
            400,
            "bad_request",
        ),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET / HTTP/1.1\r\nBad Header: 1\r\n\r\n".to_owned(), 400, "bad_request"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", large(70_000)), 414, "uri_too_long"),
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", large(300 * 1024)), 431, "head_too_large"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(2_001)), 431, "head_too_large"),
    ] {
        assert_refused(&proxied.raw(request).await, status, code);
    }
    assert_eq!(origin.received(), "");
}

/// An upstream's own empty 400 looks like one of hyper's, and is not ours to change.
#[tokio::test]
async fn an_upstreams_400_stays_its_own() {
    let answer = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = hear_until(&mut client, "\r\n\r\n").await;
        assert_eq!(String::from_utf8_lossy(&heard), answer);
    }
}
