//! Trailers: forwarded where the next hop can carry them, and dropped without harm where it cannot (RFC 9110, section 6.5).
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::json;

use super::OK;
use crate::{
    h2_cases::{client, complete, origin, read},
    support::{Origin, Proxied},
};

const TRAILED: &str = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n";

fn ask(te: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: x\r\n{te}Connection: close\r\n\r\n")
}

#[tokio::test]
async fn from_http_1_to_http_1_they_pass_if_the_client_wants_them() {
    let origin = Origin::answering(TRAILED).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw_patiently(ask("TE: trailers\r\n")).await;
    assert!(heard.text().ends_with("\r\n0\r\nx-sum: 7\r\n\r\n"), "{}", heard.text());
    let heard = proxied.raw_patiently(ask("")).await;
    assert!(heard.text().ends_with("hello\r\n0\r\n\r\n"), "{}", heard.text());
}

#[tokio::test]
async fn a_requests_pass_from_http_1_to_http_1() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let post = "POST / HTTP/1.1\r\nHost: x\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n";
    assert_eq!(proxied.raw_patiently(post).await.status(), 200);
    assert!(origin.received().ends_with("\r\n0\r\nx-sum: 7\r\n\r\n"), "{}", origin.received());
}

#[tokio::test]
async fn a_requests_pass_although_a_toxic_reads_or_edits_its_body() {
    let edit = |path: &str| json!({"type": "edit", "stream": "upstream", "attributes": {"ops": [{"path": path, "set": 2}]}});
    for (toxic, body) in [
        (json!({"type": "hang", "match": {"body": [{"path": "$.a", "equals": 5}]}}), "{\"a\":1}"),
        (edit("$.absent.a"), "{\"a\":1}"),
        (edit("$.a"), "{\"a\":2}"),
    ] {
        let origin = Origin::answering(OK).await;
        let proxied = Proxied::http(&origin).await;
        proxied.add(toxic.clone()).await;
        let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n7\r\n{\"a\":1}\r\n0\r\nx-sum: 7\r\n\r\n";
        assert_eq!(proxied.raw_patiently(post).await.status(), 200, "{toxic}");
        let received = origin.received();
        let whole = received.contains(&format!("\r\n7\r\n{body}\r\n"))
            && received.ends_with("\r\n0\r\nx-sum: 7\r\n\r\n");
        assert!(whole, "{toxic}: {received}");
    }
}

#[tokio::test]
async fn from_http_1_to_http_2_they_pass() {
    let origin = Origin::answering(TRAILED).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let request = Request::builder().method("POST").uri("http://x/").body(()).unwrap();
    let (_, count, trailers) = complete(&sender, request, "1").await.unwrap();
    assert_eq!((count, trailers.get("x-sum")), (5, Some(&HeaderValue::from_static("7"))));
}

#[tokio::test]
async fn from_http_2_to_http_1_they_pass_if_they_are_announced_and_wanted() {
    for announced in [true, false] {
        let origin = origin(move |request, mut respond| async move {
            read(&mut request.into_body()).await.unwrap();
            let mut head = Response::new(());
            if announced {
                head.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
            }
            let mut sending = respond.send_response(head, false).unwrap();
            sending.send_data(Bytes::from_static(b"hello"), false).unwrap();
            let trailers = [(http::HeaderName::from_static("x-sum"), HeaderValue::from_static("7"))];
            sending.send_trailers(HeaderMap::from_iter(trailers)).unwrap();
        })
        .await;
        let proxied =
            Proxied::with(serde_json::json!({"upstream": origin.url(), "upstream_protocol": "http2"})).await;
        for (te, wanted) in [("TE: trailers\r\n", true), ("", false)] {
            let heard = proxied.raw_patiently(ask(te)).await;
            assert_eq!((heard.status(), heard.body()), (200, b"hello".to_vec()), "{}", heard.text());
            let passed = heard.text().ends_with("0\r\nx-sum: 7\r\n\r\n");
            assert_eq!(passed, announced && wanted, "{}", heard.text());
        }
    }
}
