//! Real bug reports about JSON bodies and non-ASCII text, each turned into bytes on a socket. Named by case.
use serde_json::{Value, json};

use crate::support::{Heard, Origin, Proxied, dechunked};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// An edit of the request.
fn edit(path: &str, value: &Value) -> Value {
    json!({"type": "edit", "stream": "upstream", "attributes": {"ops": [{"path": path, "set": value}]}})
}

/// What the upstream was sent, and what became of the toxic.
async fn sent(body: &str, toxic: Option<Value>) -> (String, aconite::model::Exchange) {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    if let Some(toxic) = toxic {
        proxied.add(toxic).await;
    }
    let heard = proxied.raw(post("/v1/chat/completions", body)).await;
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{body}: {}", heard.text());
    let received = origin.received();
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body.as_bytes()) } else { body.as_bytes().to_vec() };
    let received = String::from_utf8(body).unwrap();
    (received, proxied.journal().await.remove(0))
}

#[tokio::test]
async fn json_01_03_and_05_only_the_edited_value_changes() {
    for (case, body, path, value, edited) in [
        (
            "JSON-01",
            r#"{"model": "m",  "response_format":{"json_schema":{"schema":{"properties":{"zebra":{},"apple":{},"m\u0061ngo":{}}}}}}"#,
            "$.model",
            json!("n"),
            r#"{"model": "n",  "response_format":{"json_schema":{"schema":{"properties":{"zebra":{},"apple":{},"m\u0061ngo":{}}}}}}"#,
        ),
        (
            "JSON-03",
            r#"{"vector":[-0.086097434,0.033505224,1.0,1e2,-0.0,1E400]}"#,
            "$.vector[1]",
            json!(7),
            r#"{"vector":[-0.086097434,7,1.0,1e2,-0.0,1E400]}"#,
        ),
        (
            "JSON-05",
            r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"m"}"#,
            "$.model",
            json!("n"),
            r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"n"}"#,
        ),
    ] {
        assert_eq!(sent(body, None).await.0, body, "{case}");
        let (received, exchange) = sent(body, Some(edit(path, &value))).await;
        assert_eq!(received, edited, "{case}");
        assert!(exchange.toxics[0].struck, "{case}: {:?}", exchange.toxics);
    }
}

#[tokio::test]
async fn json_04_what_is_not_strict_json_passes_and_the_journal_says_so() {
    for body in [r#"{"x":NaN,"y":-Infinity}"#, r#"{"x":1,}"#] {
        let (received, exchange) = sent(body, Some(edit("$.x", &json!(1)))).await;
        assert_eq!(received, body);
        let toxic = &exchange.toxics[0];
        assert_eq!((toxic.struck, toxic.reason.as_deref()), (false, Some("not_json")), "{body}: {toxic:?}");
    }
    let body = r#"{"vector":[1.79e308,0],"score":null}"#;
    let (received, _) = sent(body, Some(edit("$.score", &json!(1)))).await;
    assert_eq!(received, r#"{"vector":[1.79e308,0],"score":1}"#);
}

#[tokio::test]
async fn json_05_and_07_bodies_are_matched_as_clients_read_them() {
    let lone = r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"m"}"#;
    let twice = r#"{"model":"a","stream":false,"model":"b","stream":true}"#;
    for (case, body, model, matches) in [
        ("JSON-05", lone, "m", true),
        ("JSON-07, the last one counts", twice, "b", true),
        ("JSON-07, the first one does not", twice, "a", false),
    ] {
        let mark = json!({"type": "headers", "stream": "upstream", "match": {"model": model}, "attributes": {"set": {"x-met": "1"}}});
        let origin = Origin::answering(OK).await;
        let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
        proxied.add(mark).await;
        assert_eq!(proxied.raw(post("/v1/chat/completions", body)).await.status(), 200, "{case}");
        assert_eq!(origin.received().contains("x-met: 1"), matches, "{case}: {}", origin.received());
        assert!(origin.received().ends_with(body), "{case}: {}", origin.received());
        assert_eq!(proxied.journal().await[0].request_body.as_deref(), Some(body), "{case}");
    }
}

#[tokio::test]
async fn cjk_01_text_of_any_bytes_passes_exactly_and_nothing_panics() {
    let text = format!("a{}", "好".repeat(200));
    let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-name: {text}\r\ncontent-length: {}\r\n\r\n{event}",
        event.len()
    );
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    let body = format!("{{\"model\":\"{text}\",\"stream\":true}}");
    for limit in [60, 120, 200, 500] {
        let path = format!("/v1/chat/completions?q={}", &text[..limit / 3 * 3 + 1]);
        let request =
            post(&path, &body).replacen("Host: x\r\n", &format!("Host: x\r\nX-Name: {text}\r\n"), 1);
        let heard: Heard = proxied.raw(request).await;
        assert_eq!(heard.status(), 200, "{limit}: {}", heard.text());
        assert_eq!(heard.header("x-name"), [text.as_str()], "{limit}");
        assert_eq!(heard.body(), event.as_bytes(), "{limit}");
        let received = origin.received();
        assert!(received.contains(&format!("POST {path} HTTP/1.1\r\n")), "{limit}: {received}");
        assert!(received.contains(&format!("X-Name: {text}\r\n")) && received.ends_with(&body), "{limit}");
    }
    let journal = proxied.journal().await;
    assert_eq!((journal.len(), journal[0].model.as_deref()), (4, Some(text.as_str())));
    assert_eq!(journal[0].response_body.as_deref(), Some(event.as_str()));
}
