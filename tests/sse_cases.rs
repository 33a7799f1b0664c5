//! Real bug reports about streamed answers, each turned into bytes on a socket. Named by case.
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::Semaphore,
    time::timeout,
};

use crate::support::{Caller, End, GUARD, Heard, Origin, Proxied, acceptor, hear, hear_until};

const CHAT: &str = "/v1/chat/completions";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";
const QUIET: Duration = Duration::from_millis(300);

fn ask(path: &str, more: &str) -> String {
    let body = r#"{"model":"m","stream":true}"#;
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{more}\r\n{body}", body.len())
}

fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:X}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A whole answer, one chunk for each piece.
fn streamed<T: AsRef<[u8]>>(pieces: &[T]) -> Vec<u8> {
    let chunks: Vec<u8> = pieces.iter().flat_map(chunk).collect();
    [HEAD.as_bytes(), &chunks, END.as_bytes()].concat()
}

fn delta(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn ending(exchange: &aconite::model::Exchange) -> (Value, Value) {
    let end = serde_json::to_value(exchange.ending).unwrap();
    (end["side"].clone(), end["how"].clone())
}

/// An edit that finds nothing to do: the bytes take the way through the events all the same.
fn idle_edit() -> Value {
    json!({"name": "idle", "type": "edit", "attributes": {"ops": [{"path": "$.not_there", "set": 1}]}})
}

/// Says each piece when the test lets it.
async fn on_permit(pieces: Arc<Vec<Vec<u8>>>) -> (Origin, Arc<Semaphore>) {
    let go = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&go);
    let origin = Origin::running(move |mut caller: Caller| {
        let (pieces, permits) = (Arc::clone(&pieces), Arc::clone(&permits));
        async move {
            caller.request().await;
            for piece in pieces.iter() {
                permits.acquire().await.unwrap().forget();
                caller.say(piece).await;
            }
            caller.byte().await;
        }
    })
    .await;
    (origin, go)
}

#[tokio::test]
async fn sse_04_05_08_09_10_11_13_16_34_and_35_framing_passes_as_it_came_and_is_counted_right() {
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let rows: Vec<(&str, String, u64, u64)> = vec![
        ("SSE-04, one CR LF is no blank line", "data: 1\rdata: 2\r\n".into(), 0, 17),
        ("SSE-04, CR LF LF is one", "data: 1\rdata: 2\r\n\n".into(), 1, 0),
        ("SSE-05, no blank line", format!("{}{finish}\n", delta("a")), 1, finish.len() as u64 + 1),
        ("SSE-05, no line end", format!("{}{finish}", delta("a")), 1, finish.len() as u64),
        ("SSE-08, no space", "data:{\"choices\":[{\"delta\":{\"content\":\"好\"}}]}\n\n".into(), 1, 0),
        ("SSE-09, odd fields", "data:  two\n\ndata\n\ndata: foo\ndata: bar\n\n".into(), 3, 0),
        ("SSE-10, comment", format!(": OPENROUTER PROCESSING\n\n{}", delta("a")), 1, 0),
        ("SSE-11, comment and blank line", format!("id: 1\n{}: ping\n\n{}", delta("a"), delta("b")), 2, 0),
        ("SSE-13, empty data", format!("{}data:\n\n{}", delta("a"), delta("b")), 3, 0),
        ("SSE-16, U+2028", delta("a\u{2028}b\u{85}"), 1, 0),
        (
            "SSE-34, comments in the block",
            ": x-cost=0.0001\n: x-tokens=37\ndata: [DONE]\n\n:\n\n".into(),
            1,
            0,
        ),
        ("SSE-35, ids", "id: 7\ndata: a\n\nid\ndata: b\n\nevent: x\nid: 9\n\n".into(), 2, 0),
    ];
    for (case, body, events, tail) in rows {
        let bytewise: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        for (cut, answer) in [("whole", streamed(&[&body])), ("byte by byte", streamed(&bytewise))] {
            let origin = Origin::answering(answer).await;
            let proxied = Proxied::http(&origin).await;
            for toxic in [false, true] {
                if toxic {
                    proxied.add(idle_edit()).await;
                }
                let heard = proxied.raw(ask(CHAT, "Connection: close\r\n")).await;
                assert_eq!(String::from_utf8_lossy(&heard.body()), body, "{case}, {cut}, {toxic}");
                assert!(heard.text().ends_with(END), "{case}, {cut}, {toxic}: {}", heard.text());
                let journal = proxied.journal().await;
                let exchange = journal.last().unwrap();
                let counted = (exchange.events, exchange.unterminated_tail, exchange.bytes_out);
                assert_eq!(counted, (events, tail, body.len() as u64), "{case}, {cut}, {toxic}");
                assert_eq!(ending(exchange), (json!("upstream"), json!("clean")), "{case}, {cut}, {toxic}");
            }
        }
    }
}

/// What is left of a body once a toxic has struck.
async fn struck(path: &str, body: &str, toxic: Value) -> (Heard, aconite::model::Exchange) {
    let origin = Origin::answering(streamed(&[body])).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(toxic).await;
    let heard = proxied.raw(ask(path, "")).await;
    let exchange = proxied.journal().await.remove(0);
    (heard, exchange)
}

#[tokio::test]
async fn sse_05_before_the_blank_line_is_not_before_the_event() {
    let (first, last) = (delta("a"), delta("z"));
    let body = format!("{first}{last}");
    for (at, left, tail) in [
        (json!({"bytes": body.len() - 1}), &body[..body.len() - 1], last.len() as u64 - 1),
        (json!({"events": 1}), first.as_str(), 0),
    ] {
        let toxic = json!({"type": "cut", "attributes": {"at": at, "how": "clean"}});
        let (heard, exchange) = struck(CHAT, &body, toxic).await;
        assert_eq!(String::from_utf8_lossy(&heard.body()), left, "{at}");
        assert_eq!((exchange.events, exchange.unterminated_tail), (1, tail), "{at}");
    }
}

#[tokio::test]
async fn sse_10_13_and_34_toxics_on_events_leave_what_is_none_alone() {
    let comment = ": OPENROUTER PROCESSING\n\n";
    let set =
        json!({"type": "edit", "attributes": {"ops": [{"path": "$.choices[0].delta.content", "set": "!"}]}});
    let rows = [
        (
            "SSE-10: a comment is not the event after which to cut",
            format!("{comment}{comment}{}{}", delta("a"), delta("b")),
            json!({"type": "cut", "attributes": {"at": {"events": 1}, "how": "clean"}}),
            format!("{comment}{comment}{}", delta("a")),
        ),
        (
            "SSE-10: a comment is not edited",
            format!("{comment}{}{comment}", delta("a")),
            set.clone(),
            format!("{comment}{}{comment}", delta("!")),
        ),
        (
            "SSE-13: empty data is skipped, the rest is edited",
            format!("{}data:\n\n{}", delta("a"), delta("b")),
            set,
            format!("{}data:\n\n{}", delta("!"), delta("!")),
        ),
        (
            "SSE-34: comments stay where [DONE] goes",
            format!("{}: x-cost=0.0001\n: x-tokens=37\ndata: [DONE]\n\n:\n\n", delta("a")),
            json!({"type": "drop", "attributes": {"which": "terminator"}}),
            format!("{}: x-cost=0.0001\n: x-tokens=37\n:\n\n", delta("a")),
        ),
    ];
    for (case, body, toxic, left) in rows {
        let (heard, exchange) = struck(CHAT, &body, toxic).await;
        assert_eq!(String::from_utf8_lossy(&heard.body()), left, "{case}");
        assert!(heard.text().ends_with(END), "{case}");
        assert!(exchange.toxics[0].struck, "{case}: {:?}", exchange.toxics);
    }
}

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

/// The answer, however long it takes.
async fn patiently(proxied: &Proxied, more: &str) -> Heard {
    let mut client = proxied.connect().await;
    client.write_all(ask(CHAT, more).as_bytes()).await.unwrap();
    hear(&mut client, GUARD).await
}

#[tokio::test]
async fn sse_18_every_byte_comes_that_tls_delivered_before_its_end() {
    let event = format!("data: {}\n\n", "x".repeat(1_500_000));
    let answer = Arc::new(streamed(&[&event]));
    let acceptor = acceptor();
    let origin = Origin::running(move |caller| {
        let (answer, acceptor) = (Arc::clone(&answer), acceptor.clone());
        async move {
            let mut tls = acceptor.accept(caller.stream).await.unwrap();
            hear_until(&mut tls, r#""stream":true}"#).await;
            tls.write_all(&answer).await.unwrap();
            tls.shutdown().await.unwrap();
        }
    })
    .await;
    let url = format!("https://localhost:{}", origin.address.port());
    let proxied = Proxied::with(json!({"upstream": url, "upstream_tls": {"insecure": true}})).await;
    for round in 0..30 {
        let heard = patiently(&proxied, "Connection: close\r\n").await;
        assert_eq!((heard.status(), heard.body().len()), (200, event.len()), "round {round}");
        assert!(heard.bytes.ends_with(END.as_bytes()), "round {round}");
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
async fn sse_20_what_came_plain_stays_plain() {
    let body = delta("a").repeat(50);
    let origin = Origin::answering(streamed(&[&body])).await;
    let proxied = Proxied::http(&origin).await;
    for toxic in [false, true] {
        if toxic {
            proxied.add(idle_edit()).await;
        }
        let heard = proxied.raw(ask(CHAT, "Accept-Encoding: gzip, br, zstd\r\n")).await;
        assert_eq!(heard.header("content-encoding"), Vec::<String>::new(), "{toxic}");
        assert_eq!(heard.body(), body.as_bytes(), "{toxic}");
        assert!(origin.received().contains("Accept-Encoding: gzip, br, zstd\r\n"), "{}", origin.received());
    }
}

#[tokio::test]
async fn sse_22_an_event_is_dropped_out_of_a_compressed_stream() {
    let events = [delta("one"), delta("one two"), delta("one two three")];
    let mut coder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    let mut pieces = Vec::new();
    let mut taken = 0;
    for event in &events {
        coder.write_all(event.as_bytes()).unwrap();
        coder.flush().unwrap();
        pieces.push(coder.get_ref()[taken..].to_vec());
        taken = coder.get_ref().len();
    }
    pieces.push(coder.into_inner()[taken..].to_vec());
    pieces.retain(|piece| !piece.is_empty());
    let coded = pieces.concat();
    let plain = String::from_utf8(streamed(&[""; 0])).unwrap();
    let head = plain.trim_end_matches(END).to_owned();
    let head = head.replacen("\r\n\r\n", "\r\ncontent-encoding: br\r\n\r\n", 1);
    let chunks: Vec<u8> = pieces.iter().flat_map(chunk).collect();
    let origin = Origin::answering([head.as_bytes(), &chunks, END.as_bytes()].concat()).await;
    let proxied = Proxied::http(&origin).await;
    let untouched = proxied.raw(ask(CHAT, "Accept-Encoding: br\r\n")).await;
    assert_eq!((untouched.header("content-encoding"), untouched.body()), (vec!["br".to_owned()], coded));
    proxied.add(json!({"type": "drop", "attributes": {"at": {"events": 1}}})).await;
    let heard = proxied.raw(ask(CHAT, "Accept-Encoding: br\r\n")).await;
    assert_eq!(heard.header("content-encoding"), Vec::<String>::new());
    assert_eq!(String::from_utf8_lossy(&heard.body()), format!("{}{}", events[0], events[2]));
}

#[tokio::test]
async fn sse_24_ndjson_is_handled_line_by_line() {
    let line = |text: &str| format!("{{\"message\":{{\"content\":\"{text}\"}},\"done\":false}}\n");
    let (first, second) = (line("你"), line("好"));
    let both = format!("{first}{second}");
    let (left, right) = both.as_bytes().split_at(12);
    for (case, pieces) in
        [("one chunk", vec![both.as_bytes()]), ("a line over two chunks", vec![left, right])]
    {
        let answer =
            String::from_utf8(HEAD.into()).unwrap().replace("text/event-stream", "application/x-ndjson");
        let chunks: Vec<u8> = pieces.iter().flat_map(chunk).collect();
        let origin = Origin::answering([answer.as_bytes(), &chunks, END.as_bytes()].concat()).await;
        let proxied = Proxied::http(&origin).await;
        let heard = proxied.raw(ask("/api/chat", "")).await;
        assert_eq!(String::from_utf8_lossy(&heard.body()), both, "{case}");
        assert_eq!(proxied.journal().await[0].events, 2, "{case}");
        proxied.add(json!({"type": "drop", "attributes": {"at": {"events": 1}, "which": "any"}})).await;
        let heard = proxied.raw(ask("/api/chat", "")).await;
        assert_eq!(String::from_utf8_lossy(&heard.body()), first, "{case}");
    }
}

#[tokio::test]
async fn sse_25_a_page_in_place_of_a_stream_passes() {
    let page = "<html>502 Bad Gateway</html>";
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}", page.len());
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    for toxic in [false, true] {
        if toxic {
            proxied.add(idle_edit()).await;
        }
        let heard = proxied.raw(ask(CHAT, "")).await;
        assert_eq!((heard.status(), heard.body()), (200, page.into()), "{toxic}");
        assert_eq!(heard.header("content-type"), ["text/html"], "{toxic}");
        assert_eq!(heard.header("content-length"), [page.len().to_string()], "{toxic}");
    }
}

#[tokio::test]
async fn sse_26_an_error_in_the_stream_has_the_providers_shape() {
    let frame = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let origin = Origin::answering(streamed(&[frame])).await;
    let heard = Proxied::http(&origin).await.raw(ask("/v1/messages", "")).await;
    assert_eq!((heard.status(), String::from_utf8_lossy(&heard.body()).as_ref()), (200, frame));
    let toxic = json!({"type": "stream_error", "attributes": {"at": {"events": 1}, "cause": "overloaded"}});
    for (path, shape) in [
        ("/v1/messages", "event: error\ndata: {\"type\":\"error\",\"error\":{"),
        (CHAT, "data: {\"error\":{"),
    ] {
        let first = delta("a");
        let (heard, _) = struck(path, &format!("{first}{}", delta("b")), toxic.clone()).await;
        let body = String::from_utf8(heard.body()).unwrap();
        let error = body.strip_prefix(&first).unwrap_or_else(|| panic!("{path}: {body}"));
        assert!(error.starts_with(shape) && error.ends_with("\n\n"), "{path}: {error}");
    }
}

#[tokio::test]
async fn sse_27_an_upstream_that_breaks_off_is_not_made_a_success() {
    for path in [CHAT, "/v1/responses", "/v1/messages"] {
        let go = Arc::new(Semaphore::new(0));
        let permits = Arc::clone(&go);
        let deltas = [delta("1"), delta("2"), delta("3")].concat();
        let said = [HEAD.as_bytes(), &chunk(&deltas)].concat();
        let origin = Origin::running(move |mut caller| {
            let (said, permits) = (said.clone(), Arc::clone(&permits));
            async move {
                caller.request().await;
                caller.say(said).await;
                permits.acquire().await.unwrap().forget();
                caller.reset();
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        client.write_all(ask(path, "").as_bytes()).await.unwrap();
        hear_until(&mut client, chunk(&deltas)).await;
        go.add_permits(1);
        let heard = hear(&mut client, GUARD).await;
        assert_eq!((heard.text().as_str(), heard.end), ("", End::Reset), "{path}");
        let exchange = proxied.journal().await.remove(0);
        assert_eq!(ending(&exchange), (json!("upstream"), json!("rst")), "{path}");
        assert_eq!(exchange.events, 3, "{path}");
    }
}

#[tokio::test]
async fn sse_29_a_cut_adds_no_connection_close_and_the_upstreams_own_is_not_copied() {
    let answer = String::from_utf8(streamed(&[delta("a"), delta("b")])).unwrap();
    let closing = answer.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
    for (how, end) in [("fin", End::Closed), ("rst", End::Reset)] {
        for answer in [answer.clone(), closing.clone()] {
            let origin = Origin::answering_once(answer).await;
            let proxied = Proxied::http(&origin).await;
            proxied.add(json!({"type": "cut", "attributes": {"at": {"events": 1}, "how": how}})).await;
            let heard = proxied.raw(ask(CHAT, "")).await;
            assert_eq!(heard.header("connection"), Vec::<String>::new(), "{how}: {}", heard.head());
            assert_eq!((heard.body(), heard.end), (delta("a").into_bytes(), end), "{how}");
            assert!(!heard.bytes.ends_with(END.as_bytes()), "{how}");
        }
    }
}

#[tokio::test]
async fn sse_30_a_clean_cut_inside_an_event_is_not_an_abrupt_one() {
    let body = delta("世界");
    let at = body.find('世').unwrap() + 2;
    for (how, end) in [("clean", End::Silence), ("fin", End::Closed)] {
        let toxic = json!({"type": "cut", "attributes": {"at": {"bytes": at}, "how": how}});
        let (heard, _) = struck(CHAT, &body, toxic).await;
        assert_eq!((heard.body().as_slice(), heard.end), (&body.as_bytes()[..at], end), "{how}");
        assert_eq!(heard.bytes.ends_with(END.as_bytes()), how == "clean", "{how}");
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

#[tokio::test]
async fn sse_33_headers_for_proxies_pass() {
    let answer = String::from_utf8(streamed(&[delta("a")])).unwrap();
    let more = "\r\nx-accel-buffering: no\r\ncache-control: no-cache, no-transform\r\n\r\n";
    let origin = Origin::answering(answer.replacen("\r\n\r\n", more, 1)).await;
    let heard = Proxied::http(&origin).await.raw(ask(CHAT, "")).await;
    assert_eq!(heard.header("x-accel-buffering"), ["no"]);
    assert_eq!(heard.header("cache-control"), ["no-cache, no-transform"]);
}

#[tokio::test]
async fn sse_35_last_event_id_passes_after_a_cut() {
    let origin = Origin::answering(streamed(&["id: 7\ndata: a\n\n", "id: 8\ndata: b\n\n"])).await;
    let proxied = Proxied::http(&origin).await;
    proxied
        .add(
            json!({"type": "cut", "budget": {"times": 1}, "attributes": {"at": {"events": 1}, "how": "rst"}}),
        )
        .await;
    let cut = proxied.raw(ask(CHAT, "")).await;
    assert_eq!((cut.body(), cut.end), (b"id: 7\ndata: a\n\n".to_vec(), End::Reset));
    let again = proxied.raw(ask(CHAT, "Last-Event-ID: 7\r\n")).await;
    assert_eq!(again.body(), b"id: 7\ndata: a\n\nid: 8\ndata: b\n\n");
    assert!(origin.received().contains("\r\nLast-Event-ID: 7\r\n"), "{}", origin.received());
}

#[tokio::test]
async fn sse_36_each_framing_ends_as_it_came() {
    let body = delta("a");
    let head =
        |more: String| format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}\r\n{body}");
    let length = |length: usize| head(format!("content-length: {length}\r\n"));
    // Exact.
    let origin = Origin::answering(length(body.len())).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw(ask(CHAT, "")).await;
    assert_eq!(
        (heard.header("content-length"), heard.body()),
        (vec![body.len().to_string()], body.clone().into())
    );
    // Exact, and changed on the way.
    let set = json!({"ops": [{"path": "$.choices[0].delta.content", "set": "longer"}]});
    proxied.add(json!({"type": "edit", "attributes": set})).await;
    let heard = proxied.raw(ask(CHAT, "")).await;
    assert_eq!((heard.header("content-length"), heard.body()), (vec![], delta("longer").into()));
    assert!(heard.bytes.ends_with(END.as_bytes()), "{}", heard.text());
    // Short.
    let origin = Origin::answering_once(length(body.len() + 50)).await;
    let heard = patiently(&Proxied::http(&origin).await, "").await;
    assert_eq!(heard.header("content-length"), [(body.len() + 50).to_string()]);
    assert_eq!((heard.body(), heard.end), (body.clone().into(), End::Closed));
    // Until the end of the connection.
    let origin = Origin::answering_once(head(String::new())).await;
    let heard = Proxied::http(&origin).await.raw(ask(CHAT, "")).await;
    assert_eq!(heard.body(), body.as_bytes());
    assert!(heard.bytes.ends_with(END.as_bytes()), "{}", heard.text());
}
