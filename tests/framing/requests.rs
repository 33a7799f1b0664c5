//! Requests that go from one version of HTTP to another: each hop has a framing of its own.
use bytes::Bytes;
use http::{Method, Request};
use tokio::time::timeout;

use super::{OK, assert_refused};
use crate::{
    h2_cases::{client, complete},
    support::{GUARD, Origin, Proxied, hear_until},
};

fn over_h2(method: &Method) -> Request<()> {
    Request::builder().method(method).uri("http://x/").body(()).unwrap()
}

/// What the upstream receives of a request that ends with its HEADERS.
async fn without_a_body(method: &Method) -> String {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let mut sender = timeout(GUARD, sender.ready()).await.unwrap().unwrap();
    let (response, _) = sender.send_request(over_h2(method), true).unwrap();
    assert_eq!(timeout(GUARD, response).await.unwrap().unwrap().status(), 200);
    origin.received().to_ascii_lowercase()
}

#[tokio::test]
async fn r2_12_a_post_that_ends_with_its_head_says_that_it_is_empty() {
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        let received = without_a_body(&method).await;
        assert!(received.contains("\r\ncontent-length: 0\r\n"), "{received}");
        assert!(!received.contains("transfer-encoding"), "{received}");
    }
    for method in [Method::GET, Method::DELETE, Method::OPTIONS] {
        let received = without_a_body(&method).await;
        assert!(
            !received.contains("content-length") && !received.contains("transfer-encoding"),
            "{received}"
        );
    }
}

/// The fields of a request's head that say where its body ends.
fn framing(head: &str) -> Vec<&str> {
    let says = |line: &&str| line.starts_with("content-length:") || line.starts_with("transfer-encoding:");
    head.lines().filter(says).collect()
}

/// Whether the proxy knows that the body is empty when it sends the head depends on when the frame arrives.
#[tokio::test]
async fn r2_12_an_empty_data_frame_ends_a_request() {
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::GET] {
        let origin = Origin::answering(OK).await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let (head, count, _) = complete(&sender, over_h2(&method), "").await.unwrap();
        assert_eq!((head.status.as_u16(), count), (200, 2), "{method}");
        let received = origin.received().to_ascii_lowercase();
        let (head, body) = received.split_once("\r\n\r\n").unwrap();
        match (framing(head).as_slice(), body) {
            (["content-length: 0"], "") | (["transfer-encoding: chunked"], "0\r\n\r\n") => {}
            ([], "") if method == Method::GET => {}
            _ => panic!("{received:?}"),
        }
    }
}

/// hyper sends no body with a GET whose header section announces none.
#[tokio::test]
async fn a_get_over_http_2_keeps_its_body() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (head, ..) = complete(&sender, over_h2(&Method::GET), r#"{"query":{}}"#).await.unwrap();
    assert_eq!(head.status, 200);
    let received = origin.received();
    assert!(received.contains(r#"{"query":{}}"#), "{received}");
}

#[tokio::test]
async fn a_post_over_http_1_without_framing_stays_as_it_is() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw_patiently("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!(heard.status(), 200);
    let received = origin.received().to_ascii_lowercase();
    assert!(!received.contains("content-length") && !received.contains("transfer-encoding"), "{received}");
}

#[tokio::test]
async fn a_15_a_request_that_is_chunked_twice_is_refused() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for codings in ["chunked, chunked", "chunked\r\nTransfer-Encoding: chunked", "chunked, gzip, chunked"] {
        let request = format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {codings}\r\n\r\n0\r\n\r\n");
        let heard = proxied.raw_patiently(request).await;
        assert_refused(&heard, 400, "bad_framing");
    }
    assert_eq!(origin.received(), "");
}

#[tokio::test]
async fn an_upgrade_to_http_2_is_not_forwarded() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    let ask = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
    for _ in 0..2 {
        tokio::io::AsyncWriteExt::write_all(&mut client, ask.as_bytes()).await.unwrap();
        hear_until(&mut client, Bytes::from_static(b"ok")).await;
    }
    let received = origin.received().to_ascii_lowercase();
    assert!(!received.contains("upgrade") && !received.contains("http2-settings"), "{received}");
}
