//! Answers before the answer: 100 Continue, 103 Early Hints, and a refusal while the client still sends.
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{OK, get};
use crate::support::{GUARD, Origin, Proxied, hear, hear_until};

#[tokio::test]
async fn http_01_expect_100_continue_is_forwarded_and_relayed() {
    let origin = Origin::running(|mut caller| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(caller.byte().await.unwrap());
        }
        assert!(String::from_utf8_lossy(&head).to_ascii_lowercase().contains("expect: 100-continue"));
        caller.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        let mut body = [0; 5];
        caller.stream.read_exact(&mut body).await.unwrap();
        caller.say(OK).await;
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
}

#[tokio::test]
async fn http_01_a_silent_upstream_does_not_hold_the_body_for_ever() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut interim = [0; 25];
    tokio::time::timeout(GUARD, client.read_exact(&mut interim)).await.unwrap().unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
}

#[tokio::test]
async fn http_03_a_100_in_the_same_segment_is_not_the_final_answer() {
    let origin =
        Origin::answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
    let proxied = Proxied::http(&origin).await;
    let heard =
        proxied.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").await;
    assert!(heard.text().ends_with("\r\n\r\nok"), "{}", heard.text());
    assert!(heard.text().contains("HTTP/1.1 200 OK"), "{}", heard.text());
    assert_eq!(proxied.journal().await[0].status, Some(200));
}

#[tokio::test]
async fn http_04_early_hints_are_never_the_final_answer() {
    let origin = Origin::answering(
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw(get("/")).await;
    assert_eq!((heard.status(), heard.body()), (200, b"hello".to_vec()));
}

#[tokio::test]
async fn http_11_an_early_refusal_reaches_a_client_that_is_still_sending() {
    let origin = Origin::running(|mut caller| async move {
        let mut some = [0; 512];
        caller.stream.read_exact(&mut some).await.unwrap();
        caller
            .say("HTTP/1.1 413 Payload Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
            .await;
        caller.reset();
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 28000000\r\n\r\n").await.unwrap();
    let (mut read, mut write) = client.split();
    let sending = async {
        let block = vec![7; 64 * 1024];
        // The refusal may end the connection at any moment of this.
        for _ in 0..400 {
            if write.write_all(&block).await.is_err() {
                break;
            }
        }
    };
    let reading = async {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count) = read.read(&mut piece).await {
            if count == 0 || bytes.ends_with(b"big") {
                break;
            }
            bytes.extend_from_slice(&piece[..count]);
        }
        bytes
    };
    let ((), bytes) = tokio::time::timeout(GUARD, async { tokio::join!(sending, reading) }).await.unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 413") && text.ends_with("big"), "{text}");
}

#[tokio::test]
async fn http_01_a_refusal_instead_of_the_100_is_the_answer() {
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno";
    let origin = Origin::running(move |mut caller| async move {
        hear_until(&mut caller.stream, "\r\n\r\n").await;
        caller.say(refusal).await;
        // Not a byte of the body may come any more than the answer needs.
        caller.byte().await;
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client
        .write_all(
            b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n",
        )
        .await
        .unwrap();
    let answer = hear_until(&mut client, "\r\n\r\nno").await;
    assert!(answer.starts_with(b"HTTP/1.1 401 "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(origin.received(), "", "a body was sent that nobody had asked for");
}

/// A toxic that says another status says it once: in the place of the final answer.
#[tokio::test]
async fn http_03_an_injected_status_replaces_the_final_one_alone() {
    let origin =
        Origin::answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
    let proxied = Proxied::http(&origin).await;
    let fail = json!({"status": 503, "body": "down", "reach_upstream": true});
    proxied.add(json!({"type": "fail", "attributes": fail})).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(hear_until(&mut client, "\r\n\r\n").await, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hi").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.status(), heard.body()), (503, b"down".to_vec()));
    assert_eq!(heard.text().matches("HTTP/1.1 ").count(), 1, "{}", heard.text());
    assert!(origin.received().ends_with("hi"), "{}", origin.received());
    assert_eq!(proxied.journal().await[0].status, Some(503));
}
