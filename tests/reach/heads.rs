//! Heads that do not say clearly where they go or how they are framed.
use serde_json::json;

use super::{OK, assert_error, forward};
use crate::support::{Origin, Proxied};

#[tokio::test]
async fn a_15_a_request_names_its_host_once() {
    let origin = Origin::answering(OK).await;
    let http = Proxied::http(&origin).await;
    let forward = forward(json!({"map": {"x.test": origin.url()}})).await;
    for (proxied, target) in [(&http, "/"), (&forward, "http://x.test/")] {
        for fields in [
            "",
            "Host: x.test\r\nHost: x.test\r\n",
            "Host: x.test\r\nhost: other.test\r\n",
            "Host: x.test, other.test\r\n",
            "Host: x.test/other\r\n",
            "Host: user@x.test\r\n",
            "Host: x test\r\n",
        ] {
            let request = format!("GET {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
            let heard = proxied.raw(&request).await;
            assert_error(&heard, 400, "bad_host");
        }
    }
    assert_eq!(origin.connections(), 0);
    for request in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x_y.test:\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n",
    ] {
        assert_eq!(http.raw(request).await.status(), 200, "{request}");
    }
    let heard = http.raw("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").await;
    assert_error(&heard, 400, "bad_host");
}

#[tokio::test]
async fn a_15_chunked_comes_once_and_alone() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for (fields, status) in [
        ("Transfer-Encoding: chunked, chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: identity, chunked\r\n", 501),
        ("Transfer-Encoding: Chunked\r\n", 200),
    ] {
        let request =
            format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\n\r\n1\r\na\r\n0\r\n\r\n");
        let heard = proxied.raw(&request).await;
        assert_eq!(heard.status(), status, "{fields}: {}", heard.text());
    }
    assert!(!origin.received().to_ascii_lowercase().contains("gzip"), "{}", origin.received());
}
