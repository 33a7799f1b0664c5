//! Streams of one connection: windows, resets and their codes, toxicity.
use std::{future::poll_fn, time::Duration};

use aconite::model::{How, Side};
use bytes::Bytes;
use h2::{Reason, server::SendResponse};
use http::Response;
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use super::{answer, begin, call, client, complete, count, origin, read};
use crate::support::{GUARD, Origin, Proxied};

/// Waits for the client's reset, and tells with which code it came.
async fn told(mut respond: SendResponse<Bytes>, codes: mpsc::UnboundedSender<Reason>) {
    if let Ok(code) = poll_fn(|context| respond.poll_reset(context)).await {
        codes.send(code).unwrap();
    }
}

#[tokio::test]
async fn h2_01_uploads_that_were_given_up_take_no_window_with_them() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (codes, mut resets) = mpsc::unbounded_channel();
    let origin = origin(move |request, respond| {
        let (started, codes) = (started.clone(), codes.clone());
        async move {
            if request.uri().path() == "/small" {
                return count(request, respond).await;
            }
            // It takes the head, and never reads what follows.
            started.send(()).unwrap();
            told(respond, codes).await;
            drop(request);
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    for turn in 0..20 {
        let (_response, mut sending) = begin(&sender, call("x", "/large"), vec![1; 1_000_000], false).await;
        timeout(GUARD, starts.recv()).await.unwrap().unwrap();
        sending.send_reset(Reason::CANCEL);
        let code = timeout(Duration::from_secs(5), resets.recv()).await;
        assert_eq!(code.unwrap_or_else(|_| panic!("turn {turn}: not told")), Some(Reason::CANCEL));
    }
    let (head, count, _) = complete(&sender, call("x", "/small"), vec![1; 100_000]).await.unwrap();
    assert_eq!((head.status.as_u16(), count), (200, 100_000));
    assert_eq!(origin.connections(), 1);
}

/// The upstream lets in not a byte: the proxy has the upload in its hands when it is given up.
#[tokio::test]
async fn h2_01_uploads_that_were_never_let_in_take_no_window_with_them() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (codes, mut resets) = mpsc::unbounded_channel();
    let origin = Origin::running(move |caller| {
        let (started, codes) = (started.clone(), codes.clone());
        async move {
            let mut server = h2::server::Builder::new();
            let mut connection = server.initial_window_size(0).handshake(caller.stream).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                if request.uri().path() == "/small" {
                    connection.set_initial_window_size(65_535).unwrap();
                    tokio::spawn(count(request, respond));
                    continue;
                }
                started.send(()).unwrap();
                let codes = codes.clone();
                tokio::spawn(async move {
                    told(respond, codes).await;
                    drop(request);
                });
            }
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    for turn in 0..20 {
        let (_response, mut sending) = begin(&sender, call("x", "/large"), vec![1; 1_000_000], false).await;
        timeout(GUARD, starts.recv()).await.unwrap().unwrap();
        sending.send_reset(Reason::CANCEL);
        let code = timeout(Duration::from_secs(5), resets.recv()).await;
        assert_eq!(code.unwrap_or_else(|_| panic!("turn {turn}: not told")), Some(Reason::CANCEL));
    }
    let (head, count, _) = complete(&sender, call("x", "/small"), vec![1; 100_000]).await.unwrap();
    assert_eq!((head.status.as_u16(), count), (200, 100_000));
    assert_eq!(origin.connections(), 1);
    // Nothing is left of the twenty that were given up.
    let journal = proxied.journal().await;
    assert_eq!(journal.len(), 21);
    assert!(journal[..20].iter().all(|exchange| exchange.ending.is_some_and(|end| end.side == Side::Client)));
}

#[tokio::test]
async fn h2_02_a_clients_code_reaches_the_upstream_while_it_still_sends() {
    for code in [Reason::CANCEL, Reason::NO_ERROR, Reason::REFUSED_STREAM, Reason::INTERNAL_ERROR] {
        let (started, mut starts) = mpsc::unbounded_channel();
        let (ends, mut ended) = mpsc::unbounded_channel();
        let origin = origin(move |request, _respond| {
            let (started, ends) = (started.clone(), ends.clone());
            async move {
                started.send(()).unwrap();
                ends.send(read(&mut request.into_body()).await).unwrap();
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let (_response, mut sending) = begin(&sender, call("x", "/x"), "half", false).await;
        timeout(GUARD, starts.recv()).await.unwrap().unwrap();
        sending.send_reset(code);
        let end =
            timeout(Duration::from_secs(5), ended.recv()).await.expect("the upstream waits on").unwrap();
        let error = end.expect_err("half a request was passed off as a whole one");
        assert_eq!(error.reason(), Some(code), "{error}");
    }
}

#[tokio::test]
async fn h2_02_a_clients_cancel_reaches_the_upstream() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (codes, mut resets) = mpsc::unbounded_channel();
    let origin = origin(move |_request, respond| {
        started.send(()).unwrap();
        told(respond, codes.clone())
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (_response, mut sending) = begin(&sender, call("x", "/slow"), "question", true).await;
    timeout(GUARD, starts.recv()).await.unwrap().unwrap();
    sending.send_reset(Reason::CANCEL);
    let code = timeout(Duration::from_secs(5), resets.recv()).await.expect("the upstream works on");
    assert_eq!(code, Some(Reason::CANCEL));
}

#[tokio::test]
async fn h2_02_an_upstreams_reset_keeps_its_code() {
    // NO_ERROR alone does not say that anything is missing; a length that was announced does.
    for (code, length) in [
        (Reason::CANCEL, None),
        (Reason::INTERNAL_ERROR, None),
        (Reason::ENHANCE_YOUR_CALM, None),
        (Reason::REFUSED_STREAM, None),
        (Reason::CANCEL, Some(500)),
        (Reason::NO_ERROR, Some(500)),
    ] {
        let origin = origin(move |_request, mut respond| async move {
            let mut head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            if let Some(length) = length {
                head.headers_mut().insert("content-length", length.into());
            }
            let mut sending = respond.send_response(head, false).unwrap();
            sending.send_data("part".into(), false).unwrap();
            // The data must be on its way before: a reset drops what waits.
            tokio::time::sleep(Duration::from_millis(50)).await;
            sending.send_reset(code);
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let error = complete(&sender, call("x", "/x"), "question").await.unwrap_err();
        assert_eq!(error.reason(), Some(code));
        assert!(error.is_reset() && error.is_remote(), "{error}");
    }
}

/// A reset without an answer is not an answer of the proxy's either: `REFUSED_STREAM` tells a client that it may ask again.
#[tokio::test]
async fn h2_02_an_upstreams_reset_before_its_answer_keeps_its_code() {
    for code in [Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::ENHANCE_YOUR_CALM, Reason::REFUSED_STREAM] {
        let origin = origin(move |_request, mut respond| async move { respond.send_reset(code) }).await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let error = complete(&sender, call("x", "/x"), "question").await.unwrap_err();
        assert_eq!(error.reason(), Some(code));
        assert!(error.is_reset() && error.is_remote(), "{error}");
        let exchange = &proxied.journal().await[0];
        let end = exchange.ending.unwrap();
        assert_eq!((exchange.status, end.side, end.how), (None, Side::Upstream, How::Rst), "{exchange:?}");
        // The connection goes on, on both sides.
        complete(&sender, call("x", "/x"), "question").await.unwrap_err();
        if code != Reason::REFUSED_STREAM {
            // Of that one there is a second attempt, on a new connection.
            assert_eq!(origin.connections(), 1);
        }
    }
}

/// Answered in full before the request was, and then `NO_ERROR`: the answer counts (RFC 9113, section 8.1).
#[tokio::test]
async fn h2_02_an_early_answer_is_whole_although_its_stream_is_reset() {
    for together in [false, true] {
        let origin = origin(move |_request, mut respond| async move {
            let head = Response::builder().status(413).body(()).unwrap();
            let mut sending = respond.send_response(head, false).unwrap();
            sending.send_data("too big".into(), true).unwrap();
            if together {
                // Whoever drops half a request behind a whole answer sends this reset along with the answer.
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            respond.send_reset(Reason::NO_ERROR);
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let (response, _sending) = begin(&sender, call("x", "/x"), vec![1; 30_000], false).await;
        let (head, mut body) = timeout(GUARD, response).await.unwrap().unwrap().into_parts();
        let reading = async {
            let mut count = 0;
            while let Some(data) = body.data().await {
                match data {
                    Ok(data) => count += data.len(),
                    // The proxy says the same, and this library gives it as an error.
                    Err(error) if error.reason() == Some(Reason::NO_ERROR) => break,
                    Err(error) => panic!("{together}: {error}"),
                }
            }
            count
        };
        let count = timeout(GUARD, reading).await.expect("the answer does not end");
        assert_eq!((head.status.as_u16(), count), (413, 7), "{together}");
        let (side, how) = proxied.journal().await[0].ending.map(|end| (end.side, end.how)).unwrap();
        assert_eq!((side, how), (Side::Upstream, How::Clean), "{together}");
    }
}

#[tokio::test]
async fn h2_03_answers_that_were_given_up_hold_no_window_of_the_others() {
    const SIZE: usize = 64 * 1024;
    let origin = origin(|_request, respond| async move { answer(respond, vec![7; SIZE]) }).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let sender = sender.clone();
        calls.spawn(async move {
            let (response, mut sending) = begin(&sender, call("x", "/x"), "question", true).await;
            let mut body = response.await.unwrap().into_body();
            if number % 2 == 0 {
                let first = body.data().await.unwrap().unwrap();
                body.flow_control().release_capacity(first.len()).unwrap();
                sending.send_reset(Reason::CANCEL);
                return 0;
            }
            read(&mut body).await.unwrap()
        });
    }
    let all = timeout(GUARD, calls.join_all()).await.expect("an answer is stuck");
    let whole = all.iter().filter(|count| **count == SIZE).count();
    assert_eq!(whole, 32);
}

#[tokio::test]
async fn h2_13_toxicity_is_for_a_connection_or_for_each_call() {
    let origin = origin(count).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, ended) = client(proxied.connect().await).await;
    proxied
        .add(json!({"type": "fail", "name": "some", "toxicity": 0.5, "attributes": {"status": 503}}))
        .await;
    let mut failed = 0;
    for _ in 0..40 {
        let (head, _, trailers) = complete(&sender, call("x", "/x"), "1").await.unwrap();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        failed += usize::from(status.is_none_or(|status| status != "0"));
    }
    assert!((1..40).contains(&failed), "{failed} of 40 calls on one connection failed");
    proxied.remove("some").await;
    // The connection is idle: it ends all the same, and visibly.
    proxied.add(json!({"type": "reset_peer", "attributes": {"timeout": 20}})).await;
    let end = timeout(GUARD, ended).await.expect("an idle connection is spared").unwrap();
    let error = end.unwrap_err();
    assert_eq!(
        error.get_io().map(std::io::Error::kind),
        Some(std::io::ErrorKind::ConnectionReset),
        "{error}"
    );
}
