//! Request lines and headers.
use serde_json::json;

use super::{OK, get};
use crate::support::{End, Origin, Proxied};

#[tokio::test]
async fn http_19_repeated_headers_keep_their_number_order_and_case() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nx-y: 1\r\nX-Y: 2\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let request = "GET / HTTP/1.1\r\nHost: x\r\nX-ReQuest: 1\r\nx-request: 2\r\nConnection: close\r\n\r\n";
    let heard = proxied.raw(request).await;
    assert_eq!(heard.header("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(heard.header("x-y"), ["1", "2"]);
    for line in ["Set-Cookie: a=1", "set-cookie: b=2", "x-y: 1", "X-Y: 2"] {
        assert!(heard.head().contains(line), "{line}: {}", heard.head());
    }
    let received = origin.received();
    assert!(received.contains("X-ReQuest: 1\r\nx-request: 2\r\n"), "{received}");
}

#[tokio::test]
async fn http_21_and_22_request_targets_leave_as_they_came() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for target in [
        "/collections/a%2Fb/points/%E4%B8%AD?x=%2520+%20&y",
        "/a/./b",
        "/a%20b",
        "/a?",
        "/v1//chat/completions",
        "//cms/x",
    ] {
        assert_eq!(proxied.raw(get(target)).await.status(), 200, "{target}");
        assert!(
            origin.received().contains(&format!("GET {target} HTTP/1.1\r\n")),
            "{target}: {}",
            origin.received()
        );
    }
}

#[tokio::test]
async fn http_30_hop_by_hop_headers_stay_on_their_hop() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied
        .raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close, X-Internal\r\nX-Internal: 1\r\nTE: trailers, deflate\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Stays: 1\r\n\r\n")
        .await;
    assert_eq!((heard.status(), heard.end), (200, End::Closed));
    let received = origin.received().to_ascii_lowercase();
    for gone in ["x-internal", "keep-alive", "proxy-connection", "connection:", "deflate"] {
        assert!(!received.contains(gone), "{gone}: {received}");
    }
    assert!(received.contains("te: trailers\r\n") && received.contains("x-stays: 1\r\n"), "{received}");
    assert_eq!(proxied.raw(get("/")).await.status(), 200);
    assert_eq!(origin.connections(), 1, "the client's close is not the upstream's");
}

#[tokio::test]
async fn smuggling_shapes_are_refused_and_nothing_is_forwarded() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for request in [
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
    ] {
        let heard = proxied.raw(request).await;
        assert_eq!((heard.status(), heard.end), (400, End::Closed), "{request:?}: {}", heard.text());
    }
    assert_eq!(origin.received(), "");
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(300 * 1024));
    assert_eq!(proxied.raw(large).await.status(), 431);
    assert_eq!(origin.received(), "");
}

#[tokio::test]
async fn http_23_a_base_path_is_joined_once_for_all_four_slashes() {
    let origin = Origin::answering(OK).await;
    for base in ["/v1", "/v1/"] {
        let proxied = Proxied::with(json!({"upstream": format!("{}{base}", origin.url())})).await;
        // As a client's base URL with and without `/v1`, and with and without a slash at its end, makes them.
        for (asked, sent) in [
            ("/embeddings", "/v1/embeddings"),
            ("/v1/embeddings", "/v1/embeddings"),
            ("/openai/v1/embeddings", "/v1/openai/v1/embeddings"),
            ("/v1", "/v1"),
            ("/v1/", "/v1/"),
            ("/", "/v1/"),
            ("/v11/a%2Fb?q=%2520", "/v1/v11/a%2Fb?q=%2520"),
        ] {
            let before = origin.received().len();
            assert_eq!(proxied.raw(get(asked)).await.status(), 200, "{base} {asked}");
            let received = origin.received().split_off(before);
            assert!(received.starts_with(&format!("GET {sent} HTTP/1.1\r\n")), "{base} {asked}: {received}");
        }
    }
}

/// Clients are told to wait in all the ways in which providers, gateways and bugs say it.
#[tokio::test]
async fn http_28_any_retry_after_can_be_injected() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    for (retry_after, more, said, in_ms) in [
        (json!("inf"), json!({}), "inf", vec![]),
        (json!(date), json!({}), date, vec![]),
        (json!("1e400"), json!({}), "1e400", vec![]),
        (json!("-1"), json!({}), "-1", vec![]),
        (json!(2), json!({"retry-after-ms": "abc"}), "2", vec!["abc"]),
    ] {
        let attributes = json!({"cause": "rate_limit", "retry_after": retry_after, "headers": more});
        proxied.add(json!({"name": "limit", "type": "fail", "attributes": attributes})).await;
        let request = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
        let heard = proxied.raw(request).await;
        assert_eq!(heard.status(), 429, "{retry_after}");
        assert_eq!(heard.header("retry-after"), [said], "{}", heard.head());
        assert_eq!(heard.header("retry-after-ms"), in_ms, "{}", heard.head());
        assert!(String::from_utf8(heard.body()).unwrap().contains("\"error\""), "{}", heard.text());
        proxied.remove("limit").await;
    }
    assert_eq!(origin.connections(), 0);
    // One of the upstream's own passes as it is.
    let own = "HTTP/1.1 429 Too Many Requests\r\nretry-after: inf\r\nretry-after-ms: abc\r\ncontent-length: 0\r\n\r\n";
    let heard = Proxied::http(&Origin::answering(own).await).await.raw(get("/")).await;
    assert_eq!(
        (heard.header("retry-after"), heard.header("retry-after-ms")),
        (vec!["inf".into()], vec!["abc".into()])
    );
}
