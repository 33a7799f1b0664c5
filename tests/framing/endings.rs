//! Requests that their client spoils or gives up: the upstream is not blamed.
use std::time::Duration;

use aconite_api::model::{Exchange, How, Side};
use h2::Reason;
use http::{Method, Request};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::OK;
use crate::{
    h2_cases::{begin, client},
    support::{GUARD, Origin, Proxied, hear, hear_until},
};

/// Reads what comes, and answers nothing before the request is whole.
async fn origin() -> Origin {
    Origin::answering(OK).await
}

#[track_caller]
fn assert_not_the_upstream(exchange: &Exchange) {
    assert!(exchange.error.as_deref() != Some("upstream_broken"), "{exchange:?}");
    assert!(exchange.attempts.iter().all(|attempt| attempt.outcome != "upstream_broken"), "{exchange:?}");
}

#[tokio::test]
async fn a_11_a_chunk_that_cannot_be_read_is_a_bad_request() {
    let origin = origin().await;
    let proxied = Proxied::http(&origin).await;
    for bad in ["ZZ\r\n", "ffffffffffffffffff\r\n", "5\r\nhelloXX", "-1\r\n"] {
        for (first, length) in [("5\r\nhello\r\n", 8), ("", 3)] {
            let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut client = proxied.connect().await;
            client.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
            // So that a part of it is on its way before the rest turns out to be bad.
            crate::support::eventually("the request begins", || origin.received().contains("POST")).await;
            client.write_all(bad.as_bytes()).await.unwrap();
            let heard = hear(&mut client, GUARD).await;
            let told = (heard.status(), heard.header("x-aconite-error"));
            assert_eq!(told, (400, vec!["request_broken".to_owned()]), "{bad} {length}: {}", heard.text());
        }
    }
    for exchange in proxied.journal().await {
        assert_eq!((exchange.status, exchange.error.as_deref()), (Some(400), Some("request_broken")));
        assert_not_the_upstream(&exchange);
    }
}

#[tokio::test]
async fn a_11_a_client_that_leaves_in_the_middle_of_its_upload_has_ended_it() {
    let origin = origin().await;
    let proxied = Proxied::http(&origin).await;
    for (number, framing) in ["Content-Length: 4000000", "Content-Length: 100", "Transfer-Encoding: chunked"]
        .into_iter()
        .enumerate()
    {
        for reset in [false, true] {
            let mut client = proxied.connect().await;
            let path = format!("/{number}-{reset}");
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n5\r\nhello\r\n"
            );
            client.write_all(head.as_bytes()).await.unwrap();
            crate::support::eventually("it begins", || origin.received().contains(&path)).await;
            if reset {
                client.set_zero_linger().unwrap();
                drop(client);
            } else {
                client.shutdown().await.unwrap();
                hear(&mut client, Duration::from_secs(5)).await;
            }
        }
    }
    let journal = proxied.journal().await;
    assert_eq!(journal.len(), 6);
    for exchange in journal {
        assert_eq!(exchange.ending.unwrap().side, Side::Client, "{exchange:?}");
        assert_not_the_upstream(&exchange);
    }
}

/// Its response is cut off too, as the upstream's connection cannot go on.
#[tokio::test]
async fn a_11_a_response_that_ends_because_the_upload_broke_was_ended_by_the_client() {
    let origin = Origin::running(|mut caller| async move {
        hear_until(&mut caller.stream, "\r\n\r\n").await;
        caller.say("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun").await;
        while caller.byte().await.is_some() {}
    })
    .await;
    for broken in ["Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n{broken}");
        client.write_all(head.as_bytes()).await.unwrap();
        hear_until(&mut client, "begun").await;
        client.shutdown().await.unwrap();
        hear(&mut client, GUARD).await;
        let exchange = &proxied.journal().await[0];
        assert_eq!(
            (exchange.status, exchange.ending.unwrap().side),
            (Some(200), Side::Client),
            "{exchange:?}"
        );
    }
}

#[tokio::test]
async fn a_11_a_wrong_length_in_http_2_is_the_clients() {
    let origin = origin().await;
    let proxied = Proxied::http(&origin).await;
    for (said, sent) in [(5, 3), (5, 50), (0, 1)] {
        let (sender, _ended) = client(proxied.connect().await).await;
        let request = Request::builder().method(Method::POST).uri("http://x/").header("content-length", said);
        let (response, _sending) = begin(&sender, request.body(()).unwrap(), vec![b'a'; sent], true).await;
        let error = timeout(GUARD, response).await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Some(Reason::PROTOCOL_ERROR), "{said} {sent}: {error}");
    }
    for exchange in proxied.journal().await {
        let end = exchange.ending.unwrap();
        assert_eq!((end.side, end.how == How::Clean), (Side::Client, false), "{exchange:?}");
        assert_eq!(exchange.status, None, "nobody was told one: {exchange:?}");
        assert_not_the_upstream(&exchange);
    }
}

#[tokio::test]
async fn a_11_an_upstream_that_breaks_off_is_still_blamed() {
    let origin = Origin::running(|mut caller| async move {
        hear_until(&mut caller.stream, "\r\n\r\n").await;
        caller.reset();
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw_patiently("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upstream_broken".to_owned()]));
}
