//! Real bug reports about text that is not ASCII, and text that is none. Named by case.
use std::{fmt::Write as _, time::Duration};

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    cli_support::{Server, aconite, file, printed},
    json_cases::post,
    support::{Caller, End, GUARD, Heard, Origin, Proxied, hear},
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// One ASCII byte, so that no limit that is a multiple of three falls between two characters.
fn text() -> String {
    format!("a{}", "好".repeat(200))
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

/// Where a stream is cut is the network's doing: what is recorded of it is the text, not the cuts.
#[tokio::test]
async fn cjk_01_recordings_are_whole_wherever_bodies_are_cut() {
    let said = text();
    let origin = Origin::running(move |mut caller: Caller| {
        let said = text();
        async move {
            caller.request().await;
            caller
                .say("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
                .await;
            for piece in said.as_bytes().chunks(2) {
                caller.say([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).await;
                // A piece for itself, so that it is not read together with the next.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            caller.say("0\r\n\r\n").await;
        }
    })
    .await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    let mut client = proxied.connect().await;
    let head = "POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    for piece in said.as_bytes().chunks(4) {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        client.write_all(&chunk).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.write_all(b"0\r\n\r\n").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!(heard.body(), said.as_bytes());
    let exchange = &proxied.journal().await[0];
    assert_eq!(exchange.response_body.as_deref(), Some(said.as_str()));
    assert_eq!(exchange.request_body.as_deref(), Some(said.as_str()));
}

/// A record has a bound, and keeps to it without cutting a character in two.
#[tokio::test]
async fn cjk_01_a_long_recording_ends_between_characters() {
    let long = format!("a{}", "好".repeat(30_000));
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{long}",
        long.len()
    );
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    let heard = proxied.raw(post("/v1/x", &long)).await;
    assert!(heard.body() == long.as_bytes(), "{} bytes", heard.body().len());
    let exchange = &proxied.journal().await[0];
    for recorded in [&exchange.request_body, &exchange.response_body] {
        let recorded = recorded.as_deref().unwrap();
        assert!((60_000..=64 * 1024).contains(&recorded.len()), "{} bytes", recorded.len());
        assert!(long.starts_with(recorded), "{:?}", recorded.chars().rev().take(5).collect::<String>());
    }
}

/// What is not a text at all: forwarded to the byte, shown as well as it can be.
#[tokio::test]
async fn cjk_01_bytes_that_are_no_text_are_forwarded_exactly_and_shown_lossily() {
    let bad = b"a\xe5\xa5\xbd\xe5\xa5\xff\x80".as_slice();
    let answer = [b"HTTP/1.1 200 OK\r\nx-name: ", bad, b"\r\ncontent-length: 8\r\n\r\n", bad].concat();
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    proxied.add(json!({"type": "noop"})).await;
    proxied.add(json!({"type": "delay", "match": {"header": {"x-name": "a*"}, "path": "/v1/*"}, "attributes": {"delay": 1}})).await;
    let request = [
        b"POST /v1/%E5%A5%FF?q=%ff HTTP/1.1\r\nHost: x\r\nX-Name: ".as_slice(),
        bad,
        b"\r\nContent-Length: 8\r\nConnection: close\r\n\r\n",
        bad,
    ]
    .concat();
    let heard = proxied.raw(&request).await;
    assert_eq!((heard.status(), heard.body()), (200, bad.to_vec()), "{}", heard.text());
    assert!(heard.bytes.windows(bad.len() + 8).any(|part| part == [b"x-name: ", bad].concat()));
    let received = origin.received_bytes();
    assert!(received.ends_with(&[b"\r\n\r\n", bad].concat()), "{}", origin.received());
    assert!(received.windows(bad.len() + 8).any(|part| part == [b"X-Name: ", bad].concat()));
    assert!(received.starts_with(b"POST /v1/%E5%A5%FF?q=%ff HTTP/1.1\r\n"), "{}", origin.received());
    let exchange = &proxied.journal().await[0];
    assert_eq!(exchange.path, "/v1/%E5%A5%FF?q=%ff");
    let shown = String::from_utf8_lossy(bad);
    assert_eq!(exchange.response_body.as_deref(), Some(&*shown));
    assert_eq!(exchange.request_body.as_deref(), Some(&*shown));
}

/// A path that is not ASCII breaks RFC 3986, and clients send it: text passes as it came.
#[tokio::test]
async fn cjk_01_a_path_with_raw_text_passes_and_one_that_is_no_text_is_refused() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let path = "/v1/模型/好?q=世";
    let heard = proxied.raw(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
    assert_eq!(heard.status(), 200, "{}", heard.text());
    assert!(origin.received().starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{}", origin.received());
    assert_eq!(proxied.journal().await[0].path, path);
    let heard =
        proxied.raw(b"GET /v1/\xe5\xa5?q=\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!((heard.status(), heard.end), (400, End::Closed), "{}", heard.text());
    assert_eq!(origin.received().matches("GET").count(), 1);
}

/// The proxy's own words about other people's text: errors, the journal in a terminal, logs, labels of metrics.
#[tokio::test(flavor = "multi_thread")]
async fn cjk_01_what_the_proxy_says_itself_holds_any_text() {
    let text = text();
    let name = "代理";
    let origin = Origin::answering(OK).await;
    let config = json!({"proxies": [
        {"name": name, "listen": "127.0.0.1:0", "upstream": origin.url(), "in_band": true,
         "toxics": [{"name": "慢", "type": "delay", "attributes": {"delay": 1}}]},
        {"name": "down", "listen": "127.0.0.1:0", "upstream": "http://127.0.0.1:9"},
        {"name": "f", "listen": "127.0.0.1:0", "protocol": "forward", "map": {"模型.test": origin.url()}},
    ]});
    let home = tempfile::TempDir::new().unwrap();
    let config = file(home.path(), "a.json", &config.to_string());
    let mut command = aconite(home.path());
    command.env("RUST_LOG", "trace");
    command.args(["serve", "--admin", "127.0.0.1:0", "-c", config.to_str().unwrap()]);
    let server = Server::from(command, home);
    let mut said = String::new();
    for limit in [60, 120, 200, 500] {
        let cut = &text[..limit / 3 * 3 + 1];
        for (proxy, headers) in [
            (name, String::new()),
            (name, format!("x-aconite-toxic: {cut}; delay={cut}\r\n")),
            (name, format!("x-aconite-scene: {cut}\r\nx-aconite-test-id: {cut}\r\n")),
            ("down", String::new()),
            ("f", String::new()),
        ] {
            let target = if proxy == "f" { "http://模型.test" } else { "" };
            let request = format!(
                "GET {target}/v1/{cut} HTTP/1.1\r\nHost: {cut}\r\n{headers}Connection: close\r\n\r\n"
            );
            let heard = speak(server.proxy(proxy), request.as_bytes()).await;
            assert!([200, 400, 421, 502].contains(&heard.status()), "{proxy} {headers}: {}", heard.text());
            writeln!(said, "{proxy} {} {headers}", heard.status()).unwrap();
        }
        // A tunnel to nowhere, one in no character set, and one with no end.
        for target in [cut.as_bytes(), b"\xe5\xa5:443", "模型.test:443".as_bytes()] {
            let request = [b"CONNECT ", target, b" HTTP/1.1\r\n\r\n"].concat();
            let heard = speak(server.proxy("f"), &request).await;
            assert!([200, 400, 502].contains(&heard.status()), "{}", heard.text());
        }
    }
    assert!(said.contains("代理 200") && said.contains("down 502") && said.contains(" 400 "), "{said}");
    let told = printed(&server.run(&["journal", "--wait"]));
    assert!(told.contains(name) && told.contains("慢!"), "{told}");
    let (status, metrics) = server.request("GET", "/metrics", "");
    assert!(
        status == 200 && metrics.contains("代理") && metrics.contains("慢") | metrics.contains("delay"),
        "{metrics}"
    );
    // As the web page asks for them.
    for path in ["/v1/exchanges", "/v1/proxies", "/v1/connections", "/proxies"] {
        assert_eq!(server.request("GET", path, "").0, 200, "{path}");
    }
    for path in [format!("/v1/toxics/{}", "%E5%A5%BD".repeat(100)), "/v1/proxies/%E5%A5".to_owned()] {
        assert_eq!(server.request("GET", &path, "").0, 404, "{path}");
    }
    server.signal("TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

async fn speak(address: &str, request: &[u8]) -> Heard {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(request).await.unwrap();
    hear(&mut client, Duration::from_millis(700)).await
}
