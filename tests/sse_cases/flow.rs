//! When bytes leave: at once, and never more than is read.
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::Semaphore,
    time::timeout,
};

use super::{CHAT, END, HEAD, QUIET, ask, chunk, delta, idle_edit, on_permit};
use crate::support::{End, GUARD, Heard, Origin, Proxied, hear, hear_until};

#[tokio::test]
async fn sse_11_the_proxy_has_no_heartbeat_of_its_own() {
    let (origin, go) = on_permit(Arc::new(vec![HEAD.into(), chunk(delta("a"))])).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
    go.add_permits(2);
    hear_until(&mut client, chunk(delta("a"))).await;
    let heard = hear(&mut client, Duration::from_millis(700)).await;
    assert_eq!((heard.text().as_str(), heard.end), ("", End::Silence));
}

#[tokio::test]
async fn sse_17_a_large_event_leaves_before_it_is_complete() {
    let large = format!("data: {{\"b64\":\"{}\"}}\n\n", "A".repeat(4 << 20));
    let small = delta("a");
    let (start, rest) = large.split_at(256 << 10);
    let pieces = |part: &str| part.as_bytes().chunks(16 << 10).flat_map(chunk).collect::<Vec<u8>>();
    let edit = json!({"type": "edit", "attributes": {"ops": [
        {"path": "$.b64", "set": "gone"}]}});
    let edit_small = json!({"name": "small", "type": "edit", "attributes": {"ops": [
        {"path": "$.choices[0].delta.content", "set": "!"}]}});
    for toxic in [false, true] {
        let said = vec![
            [HEAD.as_bytes(), &pieces(start)].concat(),
            [pieces(rest), chunk(&small), END.into()].concat(),
        ];
        let (origin, go) = on_permit(Arc::new(said)).await;
        let proxied = Proxied::with(json!({"upstream": origin.url(), "max_edit_bytes": 64 << 10})).await;
        if toxic {
            proxied.add(edit.clone()).await;
            proxied.add(edit_small.clone()).await;
        }
        let mut client = proxied.connect().await;
        client.write_all(ask(CHAT, "Connection: close\r\n").as_bytes()).await.unwrap();
        go.add_permits(1);
        let mut bytes = hear_until(&mut client, "AAAA").await;
        go.add_permits(1);
        let heard = hear(&mut client, GUARD).await;
        bytes.extend(heard.bytes);
        let heard = Heard { bytes, end: heard.end };
        let expected = format!("{large}{}", if toxic { delta("!") } else { small.clone() });
        assert!(heard.body() == expected.as_bytes(), "{toxic}: {} bytes", heard.body().len());
        assert!(heard.bytes.ends_with(END.as_bytes()), "{toxic}");
        let exchange = proxied.journal().await.remove(0);
        assert_eq!(exchange.events, 2, "{toxic}");
        if toxic {
            let edit = &exchange.toxics[0];
            assert_eq!((edit.struck, edit.reason.as_deref()), (false, Some("event_too_large")), "{edit:?}");
            assert!(exchange.toxics[1].struck, "{:?}", exchange.toxics);
        }
    }
}

#[tokio::test]
async fn sse_17_what_nobody_reads_is_not_hoarded() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 256;
    for toxic in [false, true] {
        let (sent, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counter, stalled) = (Arc::clone(&sent), Arc::clone(&count));
        let origin = Origin::running(move |mut caller| {
            let (counter, stalled) = (Arc::clone(&counter), Arc::clone(&stalled));
            async move {
                caller.request().await;
                caller.say([HEAD.as_bytes(), &chunk("data: ")].concat()).await;
                let piece = chunk(vec![b'A'; PIECE]);
                for _ in 0..PIECES {
                    if timeout(Duration::from_secs(1), caller.stream.write_all(&piece)).await.is_err() {
                        break;
                    }
                    counter.fetch_add(1, SeqCst);
                }
                stalled.add_permits(1);
            }
        })
        .await;
        let proxied = Proxied::with(json!({"upstream": origin.url(), "max_edit_bytes": 64 << 10})).await;
        if toxic {
            proxied.add(idle_edit()).await;
        }
        let mut client = proxied.connect().await;
        client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
        timeout(GUARD, count.acquire()).await.unwrap().unwrap().forget();
        // The rest is what four socket buffers hold.
        assert!(sent.load(SeqCst) < 32, "{toxic}: {} MiB were taken", sent.load(SeqCst));
    }
}

/// Hears each event before the next one is sent.
async fn one_by_one(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    go: &Semaphore,
    events: &[String],
) {
    let request = ask(CHAT, "").replacen("Host: x", &format!("Host: {host}"), 1);
    client.write_all(request.as_bytes()).await.unwrap();
    go.add_permits(1);
    hear_until(&mut client, "\r\n\r\n").await;
    for event in events {
        go.add_permits(1);
        hear_until(&mut client, event).await;
    }
}

#[tokio::test]
async fn sse_19_each_event_arrives_before_the_next_is_sent() {
    let events: Vec<String> = (0..5).map(|n| delta(&format!("event {n}"))).collect();
    let said: Vec<_> = std::iter::once(HEAD.into()).chain(events.iter().map(chunk)).collect();
    let said = Arc::new(said);
    let toxics = [
        None,
        Some(idle_edit()),
        Some(json!({"type": "cut", "attributes": {"at": {"events": 99}}})),
        Some(json!({"type": "garble", "attributes": {"at": {"events": 99}, "how": "half_json"}})),
        Some(json!({"type": "drop", "attributes": {"which": "terminator"}})),
        Some(json!({"type": "stream_error", "attributes": {"at": {"events": 99}, "cause": "overloaded"}})),
        Some(json!({"type": "noop"})),
    ];
    for toxic in toxics {
        let (origin, go) = on_permit(Arc::clone(&said)).await;
        let base = Proxied::http(&origin).await;
        let map = json!({"api.test": origin.url()});
        let forward =
            Proxied::with(json!({"protocol": "forward", "intercept": ["api.test"], "map": map})).await;
        if let Some(toxic) = &toxic {
            base.add(toxic.clone()).await;
            forward.add(toxic.clone()).await;
        }
        one_by_one(base.connect().await, "x", &go, &events).await;
        one_by_one(forward.tunnel("api.test").await, "api.test", &go, &events).await;
    }
}

#[tokio::test]
async fn sse_31_comments_pass_while_events_are_held() {
    for hold in [false, true] {
        let said =
            vec![[HEAD.as_bytes(), &chunk(delta("held"))].concat(), chunk(": ping\n"), chunk(": pong\n")];
        let (origin, go) = on_permit(Arc::new(said)).await;
        let proxied = Proxied::http(&origin).await;
        let slow = json!({"first": "1h", "hold_comments": hold});
        proxied.add(json!({"type": "slow_stream", "attributes": slow})).await;
        let mut client = proxied.connect().await;
        client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
        go.add_permits(2);
        if hold {
            let heard = hear(&mut client, QUIET).await;
            assert_eq!((heard.body(), heard.end), (vec![], End::Silence));
        } else {
            let first = hear_until(&mut client, ": ping\n\r\n").await;
            assert!(!String::from_utf8_lossy(&first).contains("held"));
            go.add_permits(1);
            hear_until(&mut client, ": pong\n\r\n").await;
        }
    }
}

#[tokio::test]
async fn sse_32_silence_ends_no_stream() {
    let said = vec![[HEAD.as_bytes(), &chunk(delta("a"))].concat(), [chunk(delta("b")), END.into()].concat()];
    let (origin, go) = on_permit(Arc::new(said)).await;
    let limits =
        json!({"upstream": origin.url(), "header_timeout": 200, "idle_timeout": 200, "connect_timeout": 200});
    let proxied = Proxied::with(limits).await;
    let mut client = proxied.connect().await;
    client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
    go.add_permits(1);
    let heard = hear(&mut client, Duration::from_secs(1)).await;
    assert_eq!((heard.body(), heard.end), (delta("a").into_bytes(), End::Silence));
    go.add_permits(1);
    hear_until(&mut client, END).await;
}

/// Silence that a toxic makes is not an end: the connection stays, in both directions, until the toxic goes.
#[tokio::test]
async fn sse_32_silence_that_was_asked_for_keeps_the_connection() {
    let (first, second) = (delta("a"), delta("b"));
    for (toxic, goes_on) in [
        (json!({"name": "t", "type": "pause", "attributes": {"at": {"events": 1}, "for": "1h"}}), true),
        (json!({"name": "t", "type": "cut", "attributes": {"at": {"events": 1}, "how": "hang"}}), false),
    ] {
        let said = vec![[HEAD.as_bytes(), &chunk(&first)].concat(), [chunk(&second), END.into()].concat()];
        let (origin, go) = on_permit(Arc::new(said)).await;
        let proxied = Proxied::http(&origin).await;
        proxied.add(toxic.clone()).await;
        let mut client = proxied.connect().await;
        client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
        go.add_permits(2);
        hear_until(&mut client, chunk(&first)).await;
        let heard = hear(&mut client, QUIET).await;
        assert_eq!((heard.text().as_str(), heard.end), ("", End::Silence), "{toxic}");
        // What the client says is still taken.
        client.write_all(ask(CHAT, "").as_bytes()).await.unwrap();
        assert_eq!(hear(&mut client, QUIET).await.end, End::Silence, "{toxic}");
        if goes_on {
            proxied.remove("t").await;
            hear_until(&mut client, [chunk(&second), END.into()].concat()).await;
        }
    }
}
