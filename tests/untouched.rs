//! What no toxic changes leaves as it came: its bytes, its length, its coding. And bodies that are read, within bounds.
use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{GUARD, Heard, Origin, Proxied, dechunked, hear, hear_until};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const MIB: usize = 1 << 20;

fn coded(coding: &str, plain: &[u8]) -> Vec<u8> {
    let fast = flate2::Compression::fast();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), fast);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), fast);
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 24);
            encoder.write_all(plain).unwrap();
            encoder.into_inner()
        }
        "zstd" => zstd::encode_all(plain, 1).unwrap(),
        _ => plain.to_vec(),
    }
}

/// A message with its length, or in chunks of so many bytes.
fn message(first: &str, fields: &str, body: &[u8], chunk: Option<usize>) -> Vec<u8> {
    let Some(size) = chunk else {
        let head = format!("{first}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        return [head.as_bytes(), body].concat();
    };
    let mut message = format!("{first}\r\n{fields}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(size.max(1)) {
        message.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        message.extend_from_slice(piece);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    message
}

fn post(fields: &str, body: &[u8], chunk: Option<usize>) -> Vec<u8> {
    let fields = format!("Host: x\r\nConnection: close\r\n{fields}");
    message("POST /v1/chat/completions HTTP/1.1", &fields, body, chunk)
}

fn response(fields: &str, body: &[u8], chunk: Option<usize>) -> Vec<u8> {
    message("HTTP/1.1 200 OK", fields, body, chunk)
}

const CHAT: &str = "Content-Type: application/json\r\n";
const BODY: &str = r#"{"model": "gpt-4o", "stream": false, "n": [1.0, 2]}"#;

fn fail(matching: &Value) -> Value {
    json!({"type": "fail", "match": matching, "attributes": {"status": 418}})
}

fn edit(stream: &str, path: &str) -> Value {
    json!({"type": "edit", "stream": stream, "attributes": {"ops": [{"path": path, "set": "longer than it was"}]}})
}

/// Whether a request has come to its end, by its length or its last chunk.
fn is_whole(sent: &[u8]) -> bool {
    let Some(at) = sent.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&sent[..at]).to_ascii_lowercase();
    match head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        Some(length) => sent.len() >= at + 4 + length.parse::<usize>().unwrap(),
        None => !head.contains("chunked") || sent.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// What the upstream got and the client heard.
struct Passed {
    sent: Vec<u8>,
    heard: Heard,
    toxics: Vec<aconite::model::Strike>,
}

impl Passed {
    async fn through(request: &[u8], answer: Vec<u8>, toxics: &[Value]) -> Self {
        let sent = Arc::<Mutex<Vec<u8>>>::default();
        let (log, answer) = (Arc::clone(&sent), Arc::new(answer));
        let origin = Origin::running(move |mut caller| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let mut block = vec![0; 64 * 1024];
                while !is_whole(&log.lock().unwrap()) {
                    let Ok(count @ 1..) = caller.stream.read(&mut block).await else { return };
                    log.lock().unwrap().extend_from_slice(&block[..count]);
                }
                caller.say(&*answer).await;
            }
        })
        .await;
        let proxied = Proxied::with(json!({"upstream": origin.url()})).await;
        for toxic in toxics {
            proxied.add(toxic.clone()).await;
        }
        let heard = proxied.raw_patiently(request).await;
        let toxics = proxied.journal().await.remove(0).toxics;
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        Self { sent, heard, toxics }
    }

    /// The request's head and its body out of its chunks.
    fn request(&self) -> (String, Vec<u8>) {
        let at = self.sent.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let (head, body) =
            (String::from_utf8_lossy(&self.sent[..at]).to_ascii_lowercase(), &self.sent[at + 4..]);
        let chunked = head.contains("transfer-encoding: chunked");
        (head, if chunked { dechunked(body) } else { body.to_vec() })
    }

    fn reason(&self) -> Option<&str> {
        self.toxics.first()?.reason.as_deref()
    }
}

#[tokio::test]
async fn r2_03_a_match_reads_requests_however_they_are_coded_and_named() {
    for matching in [
        json!({"model": "gpt-4o"}),
        json!({"streaming": false, "model": "gpt*"}),
        json!({"body": [{"path": "$.n[0]", "equals": 1}]}),
    ] {
        for coding in ["identity", "gzip", "deflate", "br", "zstd"] {
            for chunk in [None, Some(7)] {
                for kind in [CHAT, "", "Content-Type: application/x-www-form-urlencoded\r\n"] {
                    let fields = format!("{kind}Content-Encoding: {coding}\r\n");
                    let request = post(&fields, &coded(coding, BODY.as_bytes()), chunk);
                    let passed = Passed::through(&request, OK.into(), &[fail(&matching)]).await;
                    assert_eq!(passed.heard.status(), 418, "{matching} {fields} {chunk:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn r2_03_the_body_behind_an_expectation_is_asked_for_where_a_toxic_needs_it() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(fail(&json!({"model": "gpt-4o"}))).await;
    let mut client = proxied.connect().await;
    let request = post(&format!("{CHAT}Expect: 100-continue\r\n"), BODY.as_bytes(), None);
    let (head, body) = request.split_at(request.len() - BODY.len());
    client.write_all(head).await.unwrap();
    let interim = hear_until(&mut client, "\r\n\r\n").await;
    assert!(interim.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&interim));
    client.write_all(body).await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.status(), 418);
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn r2_03_what_cannot_be_read_passes_and_the_journal_says_why() {
    let matching = [json!({"model": "gpt-4o"}), json!({"body": [{"path": "$.n"}]})];
    let gzip = coded("gzip", BODY.as_bytes());
    let bomb = coded("gzip", &vec![b' '; 17 * MIB]);
    for (fields, body, reason) in [
        ("Content-Encoding: gzip\r\n", BODY.as_bytes(), "request_encoded"),
        ("Content-Encoding: gzip, gzip\r\n", &gzip, "request_encoded"),
        ("Content-Encoding: gzip\r\n", &gzip[..gzip.len() - 3], "request_encoded"),
        ("Content-Encoding: gzip\r\n", &bomb, "request_too_large"),
        (CHAT, b"{\"model\":", "request_not_json"),
        ("", b"  model=gpt-4o", "request_not_json"),
        ("Content-Type: multipart/form-data; boundary=x\r\n", b"{}", "request_not_json"),
    ] {
        for matching in &matching {
            let passed = Passed::through(&post(fields, body, None), OK.into(), &[fail(matching)]).await;
            assert_eq!(passed.heard.status(), 200, "{fields}");
            assert_eq!(passed.request().1, body, "{fields}");
            assert_eq!(passed.reason(), Some(reason), "{fields} {matching}");
            assert!(!passed.toxics[0].struck);
        }
    }
}

#[tokio::test]
async fn r2_04_a_large_upload_that_no_toxic_needs_passes() {
    let body = format!(r#"{{"model":"gpt-4o","text":"{}"}}"#, "x".repeat(17 * MIB));
    for (chunk, toxic, reason) in [
        (Some(MIB), json!({"type": "delay", "attributes": {"delay": 1}}), None),
        (Some(MIB), fail(&json!({"model": "other"})), Some("request_too_large")),
        (None, fail(&json!({"model": "other"})), Some("request_too_large")),
        (Some(MIB), fail(&json!({"model": "gpt-4o", "path": "/elsewhere"})), None),
        (Some(MIB), edit("upstream", "$.model"), Some("too_large")),
        (None, edit("upstream", "$.model"), Some("too_large")),
    ] {
        let request = post(CHAT, body.as_bytes(), chunk);
        let passed = Passed::through(&request, OK.into(), std::slice::from_ref(&toxic)).await;
        assert_eq!(passed.heard.status(), 200, "{toxic}: {}", passed.heard.text());
        let (head, sent) = passed.request();
        assert!(sent == body.as_bytes(), "{toxic}: {} bytes", sent.len());
        assert_eq!(head.contains("content-length"), chunk.is_none(), "{toxic}: {head}");
        assert_eq!(passed.reason(), reason, "{toxic}");
    }
}

#[tokio::test]
async fn r2_08_the_length_stays_or_is_the_new_one() {
    let answer = response(CHAT, BODY.as_bytes(), None);
    let edited = BODY.replace("\"gpt-4o\"", "\"longer than it was\"");
    for (path, expected) in [("$.absent", BODY), ("$.model", &edited)] {
        let toxics = [
            edit("upstream", path),
            json!({"type": "edit", "name": "down", "attributes": {"ops": [{"path": path, "set": "longer than it was"}]}}),
        ];
        let passed = Passed::through(&post(CHAT, BODY.as_bytes(), None), answer.clone(), &toxics).await;
        let (head, body) = passed.request();
        assert!(head.contains(&format!("content-length: {}", expected.len())), "{path}: {head}");
        assert_eq!(body, expected.as_bytes());
        assert_eq!(passed.heard.header("content-length"), [expected.len().to_string()], "{path}");
        assert_eq!(passed.heard.body(), expected.as_bytes());
        assert_eq!(
            passed.heard.header("x-aconite-toxics").is_empty(),
            path == "$.absent",
            "{}",
            passed.heard.head()
        );
    }
}

#[tokio::test]
async fn r2_23_a_coded_answer_that_nothing_changes_keeps_its_coding_and_its_bytes() {
    let gzip = coded("gzip", BODY.as_bytes());
    let twice = coded("gzip", &gzip);
    let trailing = [&gzip[..], b"trailing"].concat();
    for (name, coding, body, path, reason) in [
        ("complete", "gzip", &gzip[..], "$.absent", "no_match"),
        ("truncated", "gzip", &gzip[..gzip.len() - 5], "$.model", "encoded"),
        ("coded twice", "gzip, gzip", &twice, "$.model", "encoded"),
        ("with trailing bytes", "gzip", &trailing, "$.model", "encoded"),
        ("not coded", "br", BODY.as_bytes(), "$.model", "encoded"),
        ("unknown", "lz4", BODY.as_bytes(), "$.model", "encoded"),
    ] {
        let fields = format!("{CHAT}Content-Encoding: {coding}\r\n");
        for chunk in [None, Some(9)] {
            let answer = response(&fields, body, chunk);
            let toxics = [edit("downstream", path)];
            let passed = Passed::through(&post("", b"", None), answer, &toxics).await;
            assert_eq!(passed.heard.body(), body, "{name}");
            assert_eq!(passed.heard.header("content-encoding"), [coding], "{name}");
            assert_eq!(passed.heard.header("content-length").is_empty(), chunk.is_some(), "{name}");
            assert_eq!(passed.reason(), Some(reason), "{name}");
        }
    }
}

#[tokio::test]
async fn r2_23_a_coded_stream_that_ends_too_early_is_not_healed() {
    let events: String = (0..200).map(|n| format!("data: {{\"n\":{n}}}\n\n")).collect();
    let drop = json!({"type": "drop", "attributes": {"at": {"events": 1}}});
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let fields = format!("Content-Type: text/event-stream\r\nContent-Encoding: {coding}\r\n");
        let body = coded(coding, events.as_bytes());
        let truncated = &body[..body.len() - 5];
        let answer = response(&fields, truncated, Some(50));
        let passed = Passed::through(&post("", b"", None), answer, std::slice::from_ref(&drop)).await;
        if passed.heard.header("content-encoding") == [coding] {
            // Nothing of it could be decoded: it is a single block.
            assert_eq!(passed.heard.body(), truncated, "{coding}");
            assert_eq!(passed.reason(), Some("encoded"), "{coding}");
        } else {
            assert!(!passed.heard.bytes.ends_with(b"0\r\n\r\n"), "{coding}: {}", passed.heard.text());
        }
        let garbage = response(&fields, b"<html>not coded at all</html>", Some(50));
        let passed = Passed::through(&post("", b"", None), garbage, std::slice::from_ref(&drop)).await;
        assert_eq!(passed.heard.header("content-encoding"), [coding]);
        assert_eq!(passed.heard.body(), b"<html>not coded at all</html>", "{coding}");
        assert_eq!(passed.reason(), Some("encoded"), "{coding}");
    }
}

#[tokio::test]
async fn a_02_a_bomb_passes_as_it_came() {
    let zeros = vec![b'0'; 64 * MIB];
    for coding in ["gzip", "br", "zstd", "deflate"] {
        let bomb = coded(coding, &zeros);
        let fields = format!("{CHAT}Content-Encoding: {coding}\r\n");
        let passed = Passed::through(
            &post("", b"", None),
            response(&fields, &bomb, None),
            &[edit("downstream", "$.model")],
        )
        .await;
        assert!(passed.heard.body() == bomb, "{coding}");
        assert_eq!(passed.heard.header("content-encoding"), [coding]);
        assert_eq!(passed.reason(), Some("too_large"), "{coding}");
    }
}

/// Toxics that do not apply to what is generated, or find nothing to change.
fn idle() -> impl Strategy<Value = Value> {
    let op = json!([{"path": "$.absent.value", "set": 1}]);
    let fail = |more: Value| {
        let mut toxic = json!({"type": "fail", "attributes": {"status": 500}});
        toxic.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        toxic
    };
    prop::sample::select(vec![
        fail(json!({"match": {"model": "other"}})),
        fail(json!({"match": {"body": [{"path": "$.model", "equals": "other"}]}})),
        fail(json!({"match": {"streaming": true, "path": "/elsewhere"}})),
        fail(json!({"toxicity": 0.0})),
        fail(json!({"enabled": false})),
        json!({"type": "edit", "stream": "upstream", "match": {"model": "other"}, "attributes": {"ops": op}}),
        json!({"type": "edit", "stream": "upstream", "toxicity": 0.0, "attributes": {"ops": op}}),
        json!({"type": "edit", "toxicity": 0.0, "attributes": {"ops": op}}),
        json!({"type": "drop", "toxicity": 0.0, "attributes": {"at": {"events": 1}}}),
        json!({"type": "slow_stream", "match": {"model": "other"}, "attributes": {"between": 1}}),
        json!({"type": "hits", "attributes": {"how": "empty"}}),
        json!({"type": "embedding", "attributes": {"how": "zero"}}),
        json!({"type": "delay", "match": {"header": {"x-absent": "*"}}, "attributes": {"delay": 10}}),
    ])
}

fn payload() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    prop_oneof![
        Just(("application/json", BODY.as_bytes().to_vec())),
        Just(("application/json", b"{\"model\": oops".to_vec())),
        (0_usize..40)
            .prop_map(|n| ("text/event-stream", "data: {\"a\": 1}\n\n: c\n\n".repeat(n).into_bytes())),
        prop::collection::vec(any::<u8>(), 0..3_000).prop_map(|bytes| ("application/octet-stream", bytes)),
        prop::collection::vec(any::<u8>(), 0..300)
            .prop_map(|bytes| ("application/json; charset=utf-8", bytes)),
        (1_usize..90_000).prop_map(|n| ("application/json", format!("[{}1]", "1, ".repeat(n)).into_bytes())),
    ]
}

fn any_message() -> impl Strategy<Value = (String, Vec<u8>, Option<usize>)> {
    let coding = prop::sample::select(vec!["", "gzip", "deflate", "br", "zstd", "gzip, br", "lz4"]);
    let chunk = prop::option::of(1_usize..5_000);
    (payload(), coding, any::<bool>(), chunk).prop_map(|((kind, body), coding, honest, chunk)| {
        let body = if honest { coded(coding, &body) } else { body };
        let coding =
            if coding.is_empty() { String::new() } else { format!("Content-Encoding: {coding}\r\n") };
        (format!("Content-Type: {kind}\r\n{coding}X-Odd:  a b\r\n"), body, chunk)
    })
}

#[test]
fn whatever_does_not_apply_leaves_every_byte_as_it_is_without_toxics() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() };
    let toxics = prop::collection::vec(idle(), 1..4);
    let exchange = (any_message(), any_message(), toxics);
    TestRunner::new(config)
        .run(&exchange, |((fields, body, chunk), (answer_fields, answer, answer_chunk), toxics)| {
            let request = post(&fields, &body, chunk);
            let answer = response(&answer_fields, &answer, answer_chunk);
            let named = toxics.into_iter().enumerate().map(|(n, mut toxic)| {
                toxic["name"] = json!(format!("t{n}"));
                toxic
            });
            let toxics: Vec<_> = named.collect();
            let (with, without) = runtime.block_on(async {
                let without = Passed::through(&request, answer.clone(), &[]).await;
                (Passed::through(&request, answer, &toxics).await, without)
            });
            let port = |(head, body): (String, Vec<u8>)| {
                let lines = head.lines().filter(|line| !line.starts_with("host:"));
                (lines.map(str::to_owned).collect::<Vec<_>>(), body)
            };
            prop_assert_eq!(port(with.request()), port(without.request()));
            prop_assert_eq!(with.heard.end, without.heard.end);
            let head = |passed: &Passed| port((passed.heard.head(), passed.heard.body()));
            prop_assert_eq!(head(&with), head(&without));
            Ok(())
        })
        .unwrap();
}
