//! What must not be recorded: secrets, and more than there is room for.
use aconite::{Aconite, model::ExchangeFilter};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::{Origin, Proxied, hear_until};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

#[tokio::test]
async fn a_06_long_strings_of_a_request_are_cut_in_the_journal() {
    let origin = Origin::answering_once(OK).await;
    let proxied = Proxied::http(&origin).await;
    // Toxics on messages read the model first.
    proxied.add(json!({"type": "fail", "match": {"model": "other"}, "attributes": {"status": 503}})).await;
    let (long, model) = ("t".repeat(40_000), "m".repeat(1_000_000));
    let body = format!(r#"{{"model":"{model}"}}"#);
    let request = format!(
        "POST /v1/chat/completions?{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-aconite-test-id: {long}\r\nx-aconite-scene: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        "p".repeat(20_000),
        "s".repeat(1_025),
        body.len()
    );
    assert_eq!(proxied.raw_patiently(&request).await.status(), 200);
    let filter = ExchangeFilter { test_id: Some(long), wait: Some(1), ..ExchangeFilter::default() };
    let found = proxied.aconite.client().exchanges(&filter).await.unwrap().exchanges;
    let [exchange] = &*found else { panic!("{found:?}") };
    for text in
        [Some(&exchange.path), exchange.model.as_ref(), exchange.scene.as_ref(), exchange.test_id.as_ref()]
    {
        let text = text.unwrap();
        assert!(text.ends_with('…') && text.len() == 1_027, "{text}");
    }
}

#[tokio::test]
async fn a_14_user_and_password_of_a_target_go_nowhere() {
    let origin = Origin::answering_once(OK).await;
    let forward = Proxied::with(json!({"protocol": "forward"})).await;
    let host = origin.address;
    let heard = forward
        .raw(format!("GET http://user:hunter22@{host}/a?X-Amz-Signature=hunter22 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
        .await;
    assert_eq!(heard.status(), 200);
    let keeping = Proxied::with(json!({"upstream": origin.url(), "preserve_host": true})).await;
    keeping.raw("GET /b HTTP/1.1\r\nHost: user:hunter22@x.test\r\nConnection: close\r\n\r\n").await;
    let refused = forward.raw("CONNECT user:hunter22@x.test:443 HTTP/1.1\r\nHost: x.test\r\n\r\n").await;
    assert_eq!(refused.header("x-aconite-error"), ["bad_connect"]);
    assert!(!String::from_utf8_lossy(&refused.body()).contains("hunter22"), "{refused:?}");
    let received = origin.received();
    assert!(
        received.contains(&format!("host: {host}\r\n")) || received.contains(&format!("Host: {host}\r\n")),
        "{received}"
    );
    assert_eq!(received.matches("hunter22").count(), 1, "the query alone: {received}");
    let journal = [forward.journal().await, keeping.journal().await].concat();
    let text = serde_json::to_string(&journal).unwrap();
    assert!(journal.len() >= 2 && !text.contains("hunter22"), "{text}");
}

#[tokio::test]
async fn a_14_a_key_that_the_bound_of_capture_cuts_is_redacted() {
    let origin = Origin::answering_once(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    let key = "sk-secret-key-of-some-length";
    let body = format!("{}{key}", ".".repeat(64 * 1024 - 10));
    let head = format!(
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert_eq!(proxied.raw_patiently(head + &body).await.status(), 200);
    let exchange = proxied.journal().await.pop().unwrap();
    let kept = exchange.request_body.unwrap();
    assert!(kept.ends_with("...REDACTED") && !kept.contains("sk-"), "{}", &kept[kept.len() - 40..]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_14_only_its_owner_can_read_the_journal_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("journal.jsonl");
    let aconite = Aconite::builder().journal_file(&file).start().await.unwrap();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    drop(aconite);
}

#[tokio::test]
async fn a_16_an_upstream_cannot_speak_as_the_proxy() {
    let origin = Origin::running(|mut caller| async move {
        let request = caller.request().await.unwrap_or_default();
        let switch = request.windows(9).any(|bytes| bytes.eq_ignore_ascii_case(b"websocket"));
        let head = if switch {
            "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket"
        } else {
            "200 OK\r\ncontent-length: 0\r\nconnection: close"
        };
        caller
            .say(format!("HTTP/1.1 {head}\r\nx-aconite-toxics: theirs\r\nX-Aconite-Error: theirs\r\n\r\n"))
            .await;
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"name": "mine", "type": "latency", "attributes": {"latency": 1}})).await;
    for upgrade in ["", "Connection: upgrade\r\nUpgrade: websocket\r\n"] {
        let mut client = proxied.connect().await;
        client.write_all(format!("GET / HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n").as_bytes()).await.unwrap();
        let heard =
            String::from_utf8(hear_until(&mut client, "\r\n\r\n").await).unwrap().to_ascii_lowercase();
        assert!(heard.contains("\r\nx-aconite-toxics: mine\r\n"), "{heard}");
        assert!(heard.contains("\r\nx-upstream-aconite-toxics: theirs\r\n"), "{heard}");
        assert!(heard.contains("\r\nx-upstream-aconite-error: theirs\r\n"), "{heard}");
        assert!(!heard.contains("\r\nx-aconite-error"), "{heard}");
    }
}
