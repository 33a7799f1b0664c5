//! Requests that an HTTP/2 upstream has not processed, and says so: they are sent again.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use aconite_api::model::ExchangeFilter;
use h2::Reason;
use http::Request;
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::Notify, task::JoinSet, time::timeout};

use super::{begin, call, client, complete, count, origin, serve_h2};
use crate::support::{Caller, GUARD, Origin, Proxied, refusing};

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn go_away(last: u8) -> [u8; 17] {
    [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, last, 0, 0, 0, 0]
}

const PREFACE: usize = 24;
const HEADERS: u8 = 1;

async fn skip(caller: &mut Caller, count: usize) {
    for _ in 0..count {
        caller.byte().await.unwrap();
    }
}

/// Reads a frame, and tells its type (RFC 9113, section 4.1).
async fn frame(caller: &mut Caller) -> u8 {
    let mut head = [0; 9];
    for byte in &mut head {
        *byte = caller.byte().await.unwrap();
    }
    skip(caller, usize::from(head[1]) * 256 + usize::from(head[2])).await;
    head[3]
}

/// Waits until so many exchanges are in progress.
async fn in_progress(proxied: &Proxied, number: usize) {
    let waiting = async {
        while proxied.aconite.client().exchanges(&ExchangeFilter::default()).await.unwrap().exchanges.len()
            < number
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(GUARD, waiting).await.expect("the calls do not begin");
}

#[tokio::test]
async fn r2_24_a_refused_stream_is_sent_again_with_its_whole_body() {
    for (content_type, length) in [("application/grpc", None), ("text/plain", Some(9))] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let origin = origin(move |request, mut respond| {
            let first = counted.fetch_add(1, SeqCst) == 0;
            async move {
                if first {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    count(request, respond).await;
                }
            }
        })
        .await;
        let proxied = Proxied::with(json!({"upstream": origin.url(), "upstream_protocol": "http2"})).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let mut request =
            Request::builder().method("POST").uri("http://x/").header("content-type", content_type);
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let (head, got, _) = complete(&sender, request.body(()).unwrap(), "123456789").await.unwrap();
        assert_eq!((head.status.as_u16(), got, calls.load(SeqCst)), (200, 9, 2), "{content_type}");
        let journal = proxied.journal().await;
        let outcomes: Vec<_> = journal[0].attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
        assert_eq!(outcomes, ["refused", "ok"]);
    }
}

/// What has been processed, or may have been, is not sent twice.
#[tokio::test]
async fn r2_24_a_stream_is_sent_again_only_above_the_last_one_of_a_goaway() {
    for (last, again) in [(0, true), (1, false)] {
        let origin = Origin::running(move |mut caller| async move {
            if caller.number > 0 {
                return serve_h2(caller.stream, count).await;
            }
            caller.say(SETTINGS).await;
            skip(&mut caller, PREFACE).await;
            while frame(&mut caller).await != HEADERS {}
            caller.say(go_away(last)).await;
            let _ = caller.stream.shutdown().await;
            while caller.byte().await.is_some() {}
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let (head, got, _) = complete(&sender, call("x", "/x"), "12345").await.unwrap();
        if again {
            assert_eq!((head.status.as_u16(), got, origin.connections()), (200, 5, 2));
        } else {
            assert_eq!((head.headers["grpc-status"].as_bytes(), origin.connections()), (&b"14"[..], 1));
            assert_eq!(head.headers["x-aconite-error"], "upstream_broken");
        }
    }
}

/// How many streams an upstream takes is in its settings: none is sent above that, not even before they have come.
#[tokio::test]
async fn r2_24_a_burst_before_the_settings_waits_for_them() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let origin = Origin::running(move |caller| {
        let (begun, go, calls) = (Arc::clone(&begins), Arc::clone(&goes), Arc::clone(&counted));
        async move {
            caller.stream.readable().await.unwrap();
            begun.notify_one();
            if caller.number == 0 {
                go.notified().await;
            }
            let mut builder = h2::server::Builder::new();
            let Ok(mut connection) = builder.max_concurrent_streams(2).handshake(caller.stream).await else {
                return;
            };
            while let Some(Ok((request, respond))) = connection.accept().await {
                calls.fetch_add(1, SeqCst);
                tokio::spawn(count(request, respond));
            }
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let mut running = JoinSet::new();
    for number in 0..40 {
        let sender = sender.clone();
        running.spawn(async move { complete(&sender, call("x", "/x"), "12345").await });
        if number == 0 {
            timeout(GUARD, begun.notified()).await.unwrap();
        }
    }
    in_progress(&proxied, 40).await;
    go.notify_one();
    for result in timeout(GUARD, running.join_all()).await.unwrap() {
        let (head, got, trailers) = result.unwrap();
        assert_eq!((head.status.as_u16(), got, trailers["grpc-status"].as_bytes()), (200, 5, &b"0"[..]));
    }
    assert_eq!((calls.load(SeqCst), origin.connections()), (40, 1));
}

#[tokio::test]
async fn r2_24_requests_in_the_queue_of_an_upstream_that_restarts_are_sent_again() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
    let origin = Origin::running(move |caller| {
        let (begun, go) = (Arc::clone(&begins), Arc::clone(&goes));
        async move {
            if caller.number > 0 {
                return serve_h2(caller.stream, count).await;
            }
            let mut builder = h2::server::Builder::new();
            let mut connection: h2::server::Connection<_, bytes::Bytes> =
                builder.max_concurrent_streams(1).handshake(caller.stream).await.unwrap();
            let _first = connection.accept().await.unwrap().unwrap();
            begun.notify_one();
            tokio::select! {
                _ = connection.accept() => {}
                () = go.notified() => {}
            }
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let first = {
        let sender = sender.clone();
        tokio::spawn(async move { complete(&sender, call("x", "/first"), "1").await })
    };
    timeout(GUARD, begun.notified()).await.unwrap();
    let mut queued = JoinSet::new();
    for _ in 0..10 {
        let sender = sender.clone();
        queued.spawn(async move { complete(&sender, call("x", "/queued"), "12345").await });
    }
    in_progress(&proxied, 11).await;
    go.notify_one();
    for result in timeout(GUARD, queued.join_all()).await.unwrap() {
        let (head, got, _) = result.unwrap();
        assert_eq!((head.status.as_u16(), got, head.headers.get("x-aconite-error")), (200, 5, None));
    }
    // The upstream had that one.
    let (head, ..) = timeout(GUARD, first).await.unwrap().unwrap().unwrap();
    assert_eq!((head.status.as_u16(), head.headers["grpc-status"].as_bytes()), (200, &b"14"[..]));
}

#[tokio::test]
async fn r2_24_the_proxys_own_errors_are_in_grpcs_words_for_grpc() {
    let (_socket, address) = refusing();
    let proxied = Proxied::with(json!({"upstream": format!("http://{address}")})).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (response, _sending) = begin(&sender, call("x", "/x"), "1", true).await;
    let response = timeout(GUARD, response).await.unwrap().unwrap();
    let said = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(response.status(), 200);
    assert_eq!(said("content-type").as_deref(), Some("application/grpc"));
    assert_eq!(said("grpc-status").as_deref(), Some("14"));
    assert_eq!(said("x-aconite-error").as_deref(), Some("upstream_connect"));
    assert!(said("grpc-message").unwrap().starts_with("aconite: cannot connect to 127.0.0.1:"));
    assert!(response.body().is_end_stream(), "trailers alone");
    let exchange = &proxied.journal().await[0];
    assert_eq!(exchange.error.as_deref(), Some("upstream_connect"));
    let plain = Request::builder().method("POST").uri("http://x/").body(()).unwrap();
    let (head, ..) = complete(&sender, plain, "1").await.unwrap();
    assert_eq!(head.status, 502);
}
