//! Responses whose framing or header section is odd: what can be forwarded is, and the rest is refused with its reason.
use aconite_api::model::{How, Side};
use http::Request;
use serde_json::Value;

use crate::{
    h2_cases::{client, complete},
    http_cases::get,
    support::{Origin, Proxied},
};

fn get_over_h2() -> Request<()> {
    Request::builder().uri("http://x/").body(()).unwrap()
}

/// Status, body and one header field as a client of HTTP/1.1 and one of HTTP/2 get them.
async fn both(answer: impl Into<Vec<u8>>, field: &str) -> [(u16, Vec<u8>, Option<String>); 2] {
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw_patiently(get("/")).await;
    let over_1 = (heard.status(), heard.body(), heard.header(field).first().cloned());
    let (sender, _ended) = client(proxied.connect().await).await;
    let (head, body) = crate::h2_cases::whole(&sender, get_over_h2()).await.unwrap();
    let value = head.headers.get(field).map(|value| value.to_str().unwrap().to_owned());
    for exchange in proxied.journal().await {
        let end = exchange.ending.unwrap();
        assert!(end.side != Side::Client, "{exchange:?}");
    }
    [over_1, (head.status.as_u16(), body, value)]
}

#[tokio::test]
async fn r2_02_chunked_overrides_a_length() {
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Content-Length: 3000\r\nTransfer-Encoding: chunked",
        "Content-Length: x\r\nTransfer-Encoding: chunked",
        "Content-Length: 1\r\nContent-Length: 2\r\nTransfer-Encoding: CHUNKED",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        for (status, body, length) in both(answer, "content-length").await {
            assert_eq!((status, body, length), (200, b"hello".to_vec(), None), "{head}");
        }
    }
}

#[tokio::test]
async fn r2_02_a_chunked_response_says_so_once() {
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        let [(_, _, over_1), (_, _, over_2)] = both(answer, "transfer-encoding").await;
        assert_eq!((over_1.as_deref(), over_2), (Some("chunked"), None), "{head}");
    }
}

/// The connection stays open: it is the length that ends the body.
#[tokio::test]
async fn r2_02_identity_is_no_coding_and_the_length_counts() {
    for head in [
        "Transfer-Encoding: identity\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: Identity",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello");
        for (status, body, length) in both(answer, "content-length").await {
            assert_eq!((status, body, length), (200, b"hello".to_vec(), Some("5".to_owned())), "{head}");
        }
    }
}

#[tokio::test]
async fn r2_02_a_body_that_is_shorter_than_its_length_beside_identity_is_cut_off() {
    let origin = Origin::answering_once(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 50\r\n\r\nhello",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied.raw_patiently(get("/")).await;
    let end = proxied.journal().await[0].ending.unwrap();
    assert_eq!((end.side, end.how), (Side::Upstream, How::Fin));
}

#[tokio::test]
async fn r2_02_a_repeated_length_is_said_once() {
    for head in ["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5"] {
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\nhello");
        for (status, body, length) in both(answer, "content-length").await {
            assert_eq!((status, body, length), (200, b"hello".to_vec(), Some("5".to_owned())), "{head}");
        }
    }
}

async fn refused(answer: impl Into<Vec<u8>>) -> String {
    let origin = Origin::answering_once(answer).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw_patiently(get("/")).await;
    assert_eq!(heard.header("x-aconite-error"), ["bad_response"], "{}", heard.text());
    assert_eq!(heard.status(), 502, "{}", heard.text());
    let body: Value = serde_json::from_slice(&heard.body()).unwrap();
    let exchange = &proxied.journal().await[0];
    let end = exchange.ending.unwrap();
    assert_eq!(
        (exchange.error.as_deref(), end.side, end.how),
        (Some("bad_response"), Side::Proxy, How::Error)
    );
    body["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_15_framing_that_leaves_the_end_in_doubt_is_refused_with_its_reason() {
    for (head, reason) in [
        ("Transfer-Encoding: chunked, chunked", "only once"),
        ("Transfer-Encoding: chunked, gzip", "the last coding"),
        ("Content-Length: 1\r\nContent-Length: 2", "content-length"),
        ("Content-Length: x", "content-length"),
    ] {
        let text = refused(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n0\r\n\r\n")).await;
        assert!(text.contains(reason), "{head}: {text}");
    }
}

#[tokio::test]
async fn a_15_an_unasked_for_101_is_refused_with_its_reason() {
    let switched =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x01\x02";
    assert!(refused(switched).await.contains("asked for no upgrade"));
    for (status, _, error) in both(switched, "x-aconite-error").await {
        assert_eq!((status, error.as_deref()), (502, Some("bad_response")));
    }
}

#[tokio::test]
async fn r2_11_many_small_fields_pass_in_both_directions() {
    for count in [150, 1_000] {
        let fields: String = (0..count).map(|number| format!("x-{number}: {number}\r\n")).collect();
        let origin =
            Origin::answering(format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok")).await;
        let proxied = Proxied::http(&origin).await;
        let heard = proxied
            .raw_patiently(format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}Connection: close\r\n\r\n"))
            .await;
        assert_eq!(heard.status(), 200, "{count}: {}", heard.text());
        assert_eq!(heard.head().matches("\r\nx-").count(), count);
        assert_eq!(origin.received().matches("\r\nx-").count(), count);
        let (sender, _ended) = client(proxied.connect().await).await;
        let mut request = get_over_h2();
        for number in 0..count {
            let name = http::HeaderName::try_from(format!("x-{number}")).unwrap();
            request.headers_mut().insert(name, number.into());
        }
        let (head, ..) = complete(&sender, request, "").await.unwrap();
        assert_eq!(
            (head.status.as_u16(), head.headers.contains_key(format!("x-{}", count - 1))),
            (200, true)
        );
        assert_eq!(origin.received().matches("\r\nx-").count(), 2 * count);
    }
}

#[tokio::test]
async fn r2_11_a_response_beyond_the_limits_is_refused_with_its_reason() {
    for fields in ["x: y\r\n".repeat(2_001), format!("x: {}\r\n", "y".repeat(300 * 1024))] {
        let text = refused(format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok")).await;
        assert!(text.contains("256 KiB") && text.contains("2000 fields"), "{text}");
    }
}

#[tokio::test]
async fn r2_13_old_ways_to_write_a_field_are_read() {
    for (field, name, value) in [
        ("Access-Control-Allow-Credentials : true", "access-control-allow-credentials", "true"),
        ("X-Tab\t: true", "x-tab", "true"),
        ("X-Folded: one\r\n two\r\n\tthree", "x-folded", "one two three"),
        ("X-Folded:\r\n one", "x-folded", " one"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{field}\r\ncontent-length: 2\r\n\r\nok");
        for (status, body, found) in both(answer, name).await {
            assert_eq!((status, body), (200, b"ok".to_vec()), "{field}");
            assert_eq!(found.as_deref().map(str::trim), Some(value.trim()), "{field}");
        }
    }
}

#[tokio::test]
async fn r2_13_what_cannot_be_read_is_refused_with_its_reason() {
    for (head, reason) in [
        ("HTTP/1.1 200 OK\r\nX: a\x01b\r\ncontent-length: 2", "header"),
        ("HTTP/1.1 200 OK\r\nX y: a\r\ncontent-length: 2", "header"),
        ("HTTP/1.1 abc OK\r\ncontent-length: 2", "status"),
        ("HTTP/3.7 200 OK\r\ncontent-length: 2", "version"),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked", "transfer-encoding"),
    ] {
        let text = refused(format!("{head}\r\n\r\nok")).await;
        assert!(text.contains(reason), "{head}: {text}");
    }
}
