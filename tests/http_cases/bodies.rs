//! Bodies: their framing, their coding, their pace.
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{OK, get};
use crate::support::{End, GUARD, Origin, Proxied, eventually, hear};

#[tokio::test]
async fn http_06_answers_without_a_body_end_with_their_head() {
    for (request, answer, kept) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", None),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n", Some("1234")),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 1234\r\n\r\n", Some("1234")),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", None),
    ] {
        let origin = Origin::answering(answer).await;
        let proxied = Proxied::http(&origin).await;
        // What acts on bodies has nothing to act on.
        for (kind, attributes) in [
            ("cut", json!({"at": {"bytes": 0}, "how": "rst"})),
            ("edit", json!({"ops": [{"path": "$.a", "set": 1}]})),
            ("slow_stream", json!({"first": "1h"})),
        ] {
            proxied.add(json!({"type": kind, "attributes": attributes})).await;
        }
        let mut client = proxied.connect().await;
        for _ in 0..2 {
            client
                .write_all(format!("{request} /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let heard = hear(&mut client, Duration::from_millis(300)).await;
            assert_eq!(heard.end, End::Silence, "{request} {answer}");
            assert_eq!(heard.body(), b"", "{request} {answer}: {}", heard.text());
            assert_eq!(heard.header("content-length").first().map(String::as_str), kept, "{}", heard.text());
        }
        assert_eq!(origin.connections(), 1, "{request} {answer}: the connection is used again");
    }
}

#[tokio::test]
async fn http_07_a_body_that_was_read_whole_has_one_framing_header() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1,\r\n6\r\n\"b\":2}\r\n0\r\n\r\n",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied
        .add(json!({"type": "edit", "attributes": {"ops": [{"op": "replace", "path": "/b", "value": 33}]}}))
        .await;
    let heard = proxied.raw(get("/v1/x")).await;
    assert_eq!(heard.body(), b"{\"a\":1,\"b\":33}");
    let framing = heard.header("content-length").len() + heard.header("transfer-encoding").len();
    assert_eq!(framing, 1, "{}", heard.head());
}

#[tokio::test]
async fn http_08_a_chunked_upload_gets_no_length_of_the_proxys_making() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for piece in [
        &b"POST /v1/audio/transcriptions HTTP/1.1\r\nHo"[..],
        b"st: x\r\ntransfer-encoding: chunked\r\ncontent-type: multipart/form-data; boundary=x\r\nconnec",
        b"tion: close\r\n\r\n4\r\n\x00\xff\r\n\r\n3\r\n--x\r\n0\r\n\r\n",
    ] {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
    let received = origin.received();
    assert!(!received.to_ascii_lowercase().contains("content-length"), "{received}");
    assert!(received.contains("multipart/form-data; boundary=x"), "{received}");
}

#[tokio::test]
async fn http_24_header_and_bytes_agree_about_the_coding() {
    use std::io::Write;
    let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coded.write_all(b"{\"error\":{\"message\":\"slow\"}}").unwrap();
    let coded = coded.finish().unwrap();
    for status in ["429 Too Many Requests", "200 OK"] {
        let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        coded.len()
    )
    .into_bytes();
        answer.extend_from_slice(&coded);
        let coded = coded.clone();
        let origin = Origin::answering(answer).await;
        let proxied = Proxied::http(&origin).await;
        let untouched = proxied.raw(get("/v1/x")).await;
        assert_eq!(
            (untouched.header("content-encoding"), untouched.body()),
            (vec!["gzip".to_owned()], coded)
        );
        let edit =
            json!({"type": "edit", "attributes": {"ops": [{"path": "$.error.message", "set": "fast"}]}});
        proxied.add(edit).await;
        let edited = proxied.raw(get("/v1/x")).await;
        assert_eq!(edited.status().to_string(), status[..3]);
        assert_eq!(
            (edited.header("content-encoding"), edited.body()),
            (vec![], b"{\"error\":{\"message\":\"fast\"}}".to_vec())
        );
    }
}

#[tokio::test]
async fn http_32_a_slow_upload_arrives_as_it_is_sent() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for piece in
        ["POST /v1/files HTTP/1.1\r\nHo", "st: x\r\nContent-Length: 3\r\n", "Connection: close\r\n\r\n"]
    {
        client.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.write_all(b"1").await.unwrap();
    eventually("the first byte at the upstream before the second is sent", || {
        origin.received().ends_with("\r\n\r\n1") || origin.received().contains("\r\n\r\n")
    })
    .await;
    client.write_all(b"23").await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
}

#[tokio::test]
async fn http_32_a_head_that_takes_too_long_is_answered_408_and_a_body_never_is() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "header_timeout": "300ms"})).await;
    let mut client = proxied.connect().await;
    for _ in 0..2 {
        client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n").await.unwrap();
        for byte in [b"1", b"2", b"3"] {
            tokio::time::sleep(Duration::from_millis(250)).await;
            client.write_all(byte).await.unwrap();
        }
        let mut answer = vec![0; OK.len()];
        client.read_exact(&mut answer).await.unwrap();
        assert!(answer.ends_with(b"\r\n\r\nok"));
    }
    client.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let started = std::time::Instant::now();
    let heard = hear(&mut client, GUARD).await;
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!((heard.status(), heard.end), (408, End::Closed));
    assert!(heard.text().contains("x-aconite-error: head_timeout\r\n"), "{}", heard.text());
}

#[tokio::test]
async fn http_33_an_answer_that_ends_with_its_connection_is_complete() {
    let origin = Origin::answering_once(
        "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"object\":\"list\",\"data\":[]}",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for _ in 0..2 {
        client.write_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = hear(&mut client, Duration::from_millis(300)).await;
        assert_eq!(heard.body(), b"{\"object\":\"list\",\"data\":[]}", "{}", heard.text());
        assert!(heard.text().ends_with("0\r\n\r\n"), "{}", heard.text());
    }
    assert_eq!(origin.connections(), 2, "such a connection is not kept");
}

#[tokio::test]
async fn http_33_an_upstream_that_says_close_is_not_used_again() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for turn in 1..=2 {
        client.write_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = hear(&mut client, Duration::from_millis(300)).await;
        // The client's connection is another one, and stays.
        assert_eq!((heard.status(), heard.body(), heard.end), (200, b"ok".to_vec(), End::Silence), "{turn}");
        assert_eq!(heard.header("connection"), Vec::<String>::new(), "{turn}");
        assert_eq!(origin.connections(), turn);
    }
}
