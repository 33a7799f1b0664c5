//! What is an event, and how bytes, comments, ids and framings pass.
use serde_json::json;

use super::{CHAT, END, HEAD, ask, chunk, delta, ending, idle_edit, patiently, streamed, struck};
use crate::support::{End, Origin, Proxied};

#[tokio::test]
async fn sse_04_05_08_09_10_11_13_16_34_and_35_framing_passes_as_it_came_and_is_counted_right() {
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let rows: Vec<(&str, String, u64, u64)> = vec![
        ("SSE-04, one CR LF is not a blank line", "data: 1\rdata: 2\r\n".into(), 0, 17),
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
        for (kind, attributes, left) in [
            ("drop", json!({"at": {"events": 1}, "which": "any"}), first.clone()),
            ("duplicate", json!({"at": {"events": 0}, "which": "any"}), format!("{first}{first}{second}")),
            ("cut", json!({"at": {"events": 1}, "how": "clean"}), first.clone()),
            ("pause", json!({"at": {"events": 1}, "for": "1h"}), first.clone()),
        ] {
            proxied.add(json!({"name": kind, "type": kind, "attributes": attributes})).await;
            let heard = proxied.raw(ask("/api/chat", "")).await;
            assert_eq!(String::from_utf8_lossy(&heard.body()), left, "{case}, {kind}");
            proxied.remove(kind).await;
        }
    }
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
    // Until the end of the connection; a client that knows no chunks gets it in the same way.
    let origin = Origin::answering_once(head(String::new())).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw(ask(CHAT, "")).await;
    assert_eq!(heard.body(), body.as_bytes());
    assert!(heard.bytes.ends_with(END.as_bytes()), "{}", heard.text());
    let heard = proxied.raw(ask(CHAT, "").replacen("HTTP/1.1", "HTTP/1.0", 1)).await;
    assert_eq!(heard.header("transfer-encoding"), Vec::<String>::new(), "{}", heard.head());
    assert_eq!((heard.body(), heard.end), (body.into(), End::Closed));
}

#[tokio::test]
async fn sse_09_a_changed_event_keeps_its_data_lines() {
    let body = "event: e\ndata: {\ndata:  \"a\": 1,\ndata:\"b\":2}\nid: 7\n\n";
    let set = json!({"type": "edit", "attributes": {"ops": [{"path": "$.a", "set": "好"}]}});
    let (heard, exchange) = struck(CHAT, body, set).await;
    assert_eq!(
        String::from_utf8_lossy(&heard.body()),
        "event: e\ndata: {\ndata:  \"a\": \"好\",\ndata:\"b\":2}\nid: 7\n\n"
    );
    assert!(exchange.toxics[0].struck && exchange.events == 1, "{exchange:?}");
}

#[tokio::test]
async fn sse_11_a_heartbeat_with_a_blank_line_is_a_fault_that_can_be_asked_for() {
    let body = format!("id: 1\n{}{}", delta("a"), delta("b"));
    let (heard, exchange) =
        struck(CHAT, &body, json!({"type": "reframe", "attributes": {"how": "heartbeat"}})).await;
    let expected = format!("id: 1\n{}: ping\n\nid: 2\n{}: ping\n\n", delta("a"), delta("b"));
    assert_eq!(String::from_utf8_lossy(&heard.body()), expected);
    assert!(heard.bytes.ends_with(END.as_bytes()));
    assert_eq!((exchange.events, exchange.unterminated_tail), (2, 0));
    assert!(exchange.toxics[0].struck, "{:?}", exchange.toxics);
}
