//! R-F12: an answer of the name server that has gone stale: the upstream's name leads where nobody is any more, or
//! somebody else.
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{End, Heard, Origin, Proxied, acceptor, eventually, hear};

const NEW: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nnew";
const OLD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nold";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn stale(address: Option<&Origin>) -> Value {
    let address = address.map(|origin| origin.address.to_string());
    json!({"name": "stale", "type": "connect", "attributes": {"mode": "stale_address", "address": address}})
}

#[track_caller]
fn assert_timeout(heard: &Heard, since: Instant) {
    let said = (heard.status(), heard.header("x-aconite-error"), heard.header("x-aconite-toxics"));
    let expected = (504, vec!["upstream_connect_timeout".to_owned()], vec!["stale".to_owned()]);
    assert_eq!(said, expected, "{}", heard.text());
    assert!((300..1_500).contains(&since.elapsed().as_millis()), "{:?}", since.elapsed());
}

#[tokio::test]
async fn r_f12_nobody_answers_at_a_stale_address() {
    let origin = Origin::answering(NEW).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "connect_timeout": "300ms"})).await;
    proxied.add(stale(None)).await;
    let since = Instant::now();
    assert_timeout(&proxied.raw(GET).await, since);
    assert_eq!(origin.connections(), 0);
    proxied.remove("stale").await;
    assert_eq!(proxied.raw(GET).await.body(), b"new");
}

#[tokio::test]
async fn r_f12_a_stale_address_may_be_somebody_elses_now() {
    let (origin, old) = (Origin::answering(NEW).await, Origin::answering(OLD).await);
    let proxied = Proxied::http(&origin).await;
    assert_eq!(proxied.raw(GET).await.body(), b"new");
    proxied.add(stale(Some(&old))).await;
    assert_eq!(proxied.raw(GET).await.body(), b"old");
    // Who asks is still asking for the upstream.
    let host = format!("Host: {}\r\n", origin.address);
    assert!(old.received().contains(&host), "{}", old.received());
    let attempts = proxied.journal().await.remove(1).attempts;
    assert_eq!(attempts[0].provider, old.address.to_string());
    // No connection of one is used for the other.
    proxied.remove("stale").await;
    assert_eq!(proxied.raw(GET).await.body(), b"new");
    assert_eq!((origin.connections(), old.connections()), (1, 1));
}

/// The certificate has to be the name's: it is the name that is asked for.
#[tokio::test]
async fn r_f12_tls_to_a_stale_address_asks_for_the_upstreams_name() {
    let names = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&names);
    let old = Origin::running(move |caller| {
        let log = std::sync::Arc::clone(&log);
        async move {
            if let Ok(mut stream) = acceptor().accept(caller.stream).await {
                log.lock().unwrap().push(stream.get_ref().1.server_name().map(str::to_owned));
                stream.write_all(OLD.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        }
    })
    .await;
    let spec = json!({"upstream": "https://localhost:1", "upstream_tls": {"insecure": true}});
    let proxied = Proxied::with(spec).await;
    proxied.add(stale(Some(&old))).await;
    assert_eq!(proxied.raw(GET).await.body(), b"old");
    assert_eq!(*names.lock().unwrap(), [Some("localhost".to_owned())]);
    let strict = Proxied::with(json!({"upstream": "https://localhost:1"})).await;
    strict.add(stale(Some(&old))).await;
    let heard = strict.raw(GET).await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upstream_tls".to_owned()]));
}

#[tokio::test]
async fn r_f12_tcp_connections_end_at_a_stale_address() {
    let (origin, old) = (Origin::answering(NEW).await, Origin::answering(OLD).await);
    let spec = json!({"upstream": origin.address.to_string(), "connect_timeout": "300ms"});
    let proxied = Proxied::with(spec).await;
    proxied.add(stale(None)).await;
    let since = Instant::now();
    let heard = proxied.raw("").await;
    assert_eq!((heard.end, heard.text()), (End::Closed, String::new()));
    assert!((300..1_500).contains(&since.elapsed().as_millis()), "{:?}", since.elapsed());
    proxied.remove("stale").await;
    proxied.add(stale(Some(&old))).await;
    assert_eq!(proxied.raw(GET).await.body(), b"old");
    assert_eq!(origin.connections(), 0);
}

#[tokio::test]
async fn r_f12_tunnels_lead_to_a_stale_address() {
    let (origin, old) = (Origin::answering(NEW).await, Origin::answering(OLD).await);
    let proxied = Proxied::with(json!({"protocol": "forward", "connect_timeout": "300ms"})).await;
    let connect =
        format!("CONNECT localhost:{0} HTTP/1.1\r\nHost: localhost:{0}\r\n\r\n", origin.address.port());
    proxied.add(stale(None)).await;
    let heard = proxied.raw(&connect).await;
    assert_eq!(
        (heard.status(), heard.header("x-aconite-error")),
        (504, vec!["upstream_connect_timeout".to_owned()])
    );
    proxied.remove("stale").await;
    proxied.add(stale(Some(&old))).await;
    let mut client = proxied.connect().await;
    client.write_all(connect.as_bytes()).await.unwrap();
    client.write_all(GET.as_bytes()).await.unwrap();
    let heard = hear(&mut client, Duration::from_millis(700)).await;
    assert!(heard.text().starts_with("HTTP/1.1 200 ") && heard.text().ends_with("old"), "{}", heard.text());
    eventually("the request at the old address", || old.received().contains("GET /")).await;
    assert_eq!(origin.connections(), 0);
}

/// What `match` says of the host holds for tunnels too; what only a request can say is left to the requests in them.
#[tokio::test]
async fn tunnels_are_struck_by_the_host_that_they_lead_to() {
    let origin = Origin::answering(NEW).await;
    let proxied = Proxied::with(json!({"protocol": "forward"})).await;
    let port = origin.address.port();
    let connect = |headers: &str| format!("CONNECT localhost:{port} HTTP/1.1\r\n{headers}\r\n");
    let refuse = |matching: Value| json!({"name": "r", "type": "connect", "match": matching});
    for (matching, headers, status) in [
        (json!({"host": "localhost"}), "", 502),
        (json!({"host": "other.test"}), "", 200),
        (json!({"method": "POST"}), "", 200),
        (json!({"host": "localhost", "path": "*"}), "", 200),
        (json!({"host": "localhost", "streaming": false}), "", 200),
        (json!({"scene": "s"}), "", 200),
        (json!({"scene": "s"}), "x-aconite-scene: s\r\n", 502),
    ] {
        proxied.add(refuse(matching.clone())).await;
        assert_eq!(proxied.raw(connect(headers)).await.status(), status, "{matching} {headers}");
        proxied.remove("r").await;
    }
}

#[tokio::test]
async fn what_acts_before_a_request_has_none_to_match() {
    let toxic = |mode: &str| {
        let toxic = json!({"type": "connect", "match": {"model": "m"}, "attributes": {"mode": mode}});
        serde_json::from_value(toxic).unwrap()
    };
    let tcp = Proxied::with(json!({"upstream": "127.0.0.1:1"})).await;
    let forward = Proxied::with(json!({"protocol": "forward"})).await;
    for (proxied, mode) in [(&tcp, "refuse"), (&forward, "close_on_accept"), (&forward, "tls_alert")] {
        let error = proxied.aconite.client().add_toxic("p", &toxic(mode)).await.unwrap_err();
        assert!(error.to_string().contains("before there is a request"), "{mode}: {error}");
    }
    forward.aconite.client().add_toxic("p", &toxic("refuse")).await.unwrap();
}

#[tokio::test]
async fn a_stale_address_must_be_an_address() {
    let proxied = Proxied::with(json!({"upstream": "127.0.0.1:1"})).await;
    for (attributes, reason) in [
        (json!({"mode": "stale_address", "address": "localhost"}), "no IP address"),
        (json!({"mode": "refuse", "address": "127.0.0.1"}), "stale_address"),
    ] {
        let toxic = serde_json::from_value(json!({"type": "connect", "attributes": attributes})).unwrap();
        let error = proxied.aconite.client().add_toxic("p", &toxic).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}
