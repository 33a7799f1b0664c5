//! What is told of toxics that do not strike, of bodies, refusals and failures.
use aconite::{
    model::{End, ExchangeFilter, How, Side},
    toxics::ToxicSpec,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::support::{Origin, Proxied, hear_until};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// The live feed, from its greeting on.
async fn feed(proxied: &Proxied) -> TcpStream {
    let mut feed = TcpStream::connect(proxied.aconite.admin_address()).await.unwrap();
    feed.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    hear_until(&mut feed, ": live\n\n").await;
    feed
}

/// The particulars of the next event of this kind.
async fn next(feed: &mut TcpStream, kind: &str) -> Value {
    hear_until(feed, format!("event: {kind}\ndata: ")).await;
    let line = hear_until(feed, "\n").await;
    serde_json::from_slice::<Value>(&line).unwrap()["detail"].take()
}

#[tokio::test]
async fn toxics_that_do_not_strike_are_told_with_the_reason() {
    let origin = Origin::answering_once(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut feed = feed(&proxied).await;
    for (toxic, reason, of) in [
        (
            json!({"name": "a", "type": "fail", "toxicity": 0, "attributes": {"status": 503}}),
            "toxicity",
            "exchange",
        ),
        (
            json!({"name": "b", "type": "fail", "budget": {"skip": 9}, "attributes": {"status": 503}}),
            "budget.skip",
            "exchange",
        ),
        (
            json!({"name": "c", "type": "latency", "toxicity": 0, "attributes": {"latency": 5}}),
            "toxicity",
            "connection",
        ),
        (
            json!({"name": "d", "type": "connect", "toxicity": 0, "attributes": {"mode": "close_on_accept"}}),
            "toxicity",
            "connection",
        ),
    ] {
        let name = toxic["name"].as_str().unwrap().to_owned();
        proxied.add(toxic).await;
        assert_eq!(proxied.raw(GET).await.status(), 200, "{name}");
        // Connections of the requests before, if any is open yet, are told of as well.
        let told = loop {
            let told = next(&mut feed, "toxic.passed").await;
            if told["toxic"] == json!(name) {
                break told;
            }
        };
        assert_eq!(told["reason"], json!(reason), "{told}");
        assert!(told[of].is_u64(), "{told}");
        proxied.remove(&name).await;
    }
}

#[tokio::test]
async fn bytes_of_requests_are_counted_however_the_body_is_read() {
    let origin = Origin::answering_once(OK).await;
    let proxied = Proxied::http(&origin).await;
    let body = format!("\"{}\"", "x".repeat(2_998));
    let with_length = format!("Content-Length: 3000\r\n\r\n{body}");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\nbb8\r\n{body}\r\n0\r\n\r\n");
    // At first nobody needs to read the body, then a condition does.
    for toxic in [
        None,
        Some(json!({"type": "delay", "match": {"body": [{"path": "$.x"}]}, "attributes": {"delay": 1}})),
    ] {
        if let Some(toxic) = toxic {
            proxied.add(toxic).await;
        }
        for kind in ["application/json", "text/plain"] {
            for framing in [&with_length, &chunked] {
                let head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: ";
                assert_eq!(proxied.raw(format!("{head}{kind}\r\n{framing}")).await.status(), 200);
            }
        }
    }
    let counted: Vec<_> = proxied.journal().await.iter().map(|each| each.bytes_in).collect();
    assert_eq!(counted, [3_000; 8]);
}

#[tokio::test]
async fn a_failure_is_told_with_its_cause() {
    let plain = Origin::running(|mut caller| async move { caller.say(OK).await }).await;
    let url = format!("https://{}", plain.address);
    let proxied = Proxied::with(json!({"upstream": url})).await;
    let heard = proxied.raw(GET).await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upstream_tls".to_owned()]));
    let body: Value = serde_json::from_slice(&heard.body()).unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    let cause = message.split_once(" failed: ").map_or("", |(_, cause)| cause);
    assert!(
        cause.to_lowercase().contains("corrupt message") || cause.contains("InvalidMessage"),
        "{message}"
    );
}

#[tokio::test]
async fn what_is_refused_is_in_the_journal_with_the_reason() {
    let origin = Origin::answering_once(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "in_band": true})).await;
    for (request, error) in [
        (
            "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "bad_framing",
        ),
        (
            "GET /b?key=k HTTP/1.1\r\nHost: x\r\nx-aconite-toxic: nonsense\r\nConnection: close\r\n\r\n",
            "bad_toxic",
        ),
    ] {
        assert_eq!(proxied.raw(request).await.header("x-aconite-error"), [error]);
    }
    let forward = Proxied::with(json!({"protocol": "forward"})).await;
    forward.raw("GET /c HTTP/1.1\r\nHost: h.test:80\r\nConnection: close\r\n\r\n").await;
    let mut journal = proxied.journal().await;
    journal.extend(forward.journal().await);
    let told: Vec<_> = journal
        .iter()
        .map(|each| (&*each.path, &*each.host, each.status, each.error.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            ("/a", "x", Some(400), "bad_framing"),
            ("/b?key=REDACTED", "127.0.0.1", Some(400), "bad_toxic"),
            ("/c", "h.test", Some(400), "not_a_proxy_request"),
        ]
    );
    let ending = End { side: Side::Proxy, how: How::Error };
    assert!(journal.iter().all(|each| each.ending == Some(ending)), "{journal:?}");
    assert!(origin.received().is_empty(), "{}", origin.received());
}

/// Whoever looks while an exchange is under way sees no more than afterwards.
#[tokio::test]
async fn captured_bodies_never_show_the_requests_own_secrets() {
    let origin = Origin::running(|mut caller| async move {
        caller.request().await;
        caller.say("HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\nyour key sk-secret-1 is good").await;
        std::future::pending::<()>().await;
    })
    .await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    let body = r#"{"echo":"sk-secret-1 cookie-secret query-secret-3"}"#;
    let request = format!(
        "POST /x?key=query-secret-3 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-secret-1\r\nCookie: a=b; s=cookie-secret\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = proxied.connect().await;
    client.write_all(request.as_bytes()).await.unwrap();
    hear_until(&mut client, "is good").await;
    let shown = async || {
        let all = proxied.aconite.client().exchanges(&ExchangeFilter::default()).await.unwrap().exchanges;
        serde_json::to_string(&all).unwrap()
    };
    let under_way = shown().await;
    drop(client);
    proxied.journal().await;
    for text in [under_way, shown().await] {
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains("REDACTED REDACTED REDACTED") && text.contains("your key REDACTED is good"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn tls_modes_need_a_proxy_that_terminates_tls() {
    let client = |proxied: &Proxied| proxied.aconite.client();
    let toxic: ToxicSpec =
        serde_json::from_value(json!({"type": "connect", "attributes": {"mode": "tls_stall"}})).unwrap();
    for spec in [json!({"upstream": "127.0.0.1:1"}), json!({"upstream": "http://127.0.0.1:1"})] {
        let proxied = Proxied::with(spec).await;
        let error = client(&proxied).add_toxic("p", &toxic).await.unwrap_err();
        assert!(error.to_string().contains("TLS handshake"), "{error}");
    }
    for spec in [json!({"upstream": "http://127.0.0.1:1", "tls": {}}), json!({"protocol": "forward"})] {
        let proxied = Proxied::with(spec).await;
        client(&proxied).add_toxic("p", &toxic).await.unwrap();
    }
}

/// Nobody asks a body of declared length for its end. The journal has to know it all the same, and what toxics say of it.
#[tokio::test]
async fn a_whole_answer_that_a_toxic_only_watched_ends_clean_and_says_why() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for (at, reason) in [(json!({"events": 3}), "not_a_stream"), (json!({"bytes": 9}), "not_reached")] {
        proxied.add(json!({"type": "cut", "attributes": {"at": at, "how": "fin"}})).await;
        let heard = proxied.raw(GET).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
        let exchange = proxied.journal().await.pop().unwrap();
        assert_eq!(json!(exchange.ending), json!({"side": "upstream", "how": "clean"}), "{at}");
        assert_eq!(
            (exchange.toxics[0].struck, exchange.toxics[0].reason.as_deref()),
            (false, Some(reason)),
            "{at}"
        );
        proxied.remove("cut_downstream").await;
    }
}

/// Who reads the journal must not look for a fault in the client that the proxy itself cut off.
#[tokio::test]
async fn an_answer_that_the_proxy_gives_up_is_not_the_clients_doing() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await;
    for how in ["fin", "rst"] {
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        client.write_all(GET.as_bytes()).await.unwrap();
        hear_until(&mut client, "ok").await;
        let admin = proxied.aconite.client();
        if how == "rst" {
            let connections = admin.connections().await.unwrap();
            admin.reset_connection(connections[0].id).await.unwrap();
        } else {
            admin.patch_proxy("p", &json!({"enabled": false})).await.unwrap();
        }
        let exchange = proxied.journal().await.pop().unwrap();
        assert_eq!(json!(exchange.ending), json!({"side": "proxy", "how": how}));
    }
}
