//! `x-aconite-toxic`: a toxic for one request alone.
use std::time::{Duration, Instant};

use aconite::model::Switch;
use serde_json::json;

use crate::support::{End, Heard, Origin, Proxied};

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n";

fn get(toxic: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: x\r\nx-aconite-toxic: {toxic}\r\nConnection: close\r\n\r\n")
}

async fn proxied(origin: &Origin) -> Proxied {
    Proxied::with(json!({"upstream": origin.url(), "in_band": true, "connect_timeout": "200ms"})).await
}

#[track_caller]
fn assert_struck(heard: &Heard, name: &str) {
    assert_eq!(heard.header("x-aconite-toxics"), [name], "{}", heard.text());
}

#[tokio::test]
async fn a_request_brings_toxics_of_every_level() {
    let origin = Origin::answering_once(STREAM).await;
    let proxied = proxied(&origin).await;
    let timed = |toxic: &'static str| {
        let request = get(toxic);
        let proxied = &proxied;
        async move {
            let since = Instant::now();
            (proxied.raw(request).await, since.elapsed())
        }
    };
    let (heard, took) = timed("delay; delay=300ms").await;
    assert_struck(&heard, "delay_downstream");
    assert!((300..1_500).contains(&took.as_millis()) && heard.status() == 200, "{took:?} {}", heard.text());
    let (heard, took) = timed("hang; for=300ms").await;
    assert_eq!((heard.bytes.len(), heard.end), (0, End::Closed));
    assert!(took >= Duration::from_millis(300), "{took:?}");
    let (heard, _) = timed("cut; at={\"events\": 2}; how=clean").await;
    assert_struck(&heard, "cut_downstream");
    assert!(heard.text().contains("data: 2") && !heard.text().contains("data: 3"), "{}", heard.text());
    // As on the command line, dots lead into objects.
    let (heard, _) = timed("cut; at.events=2; how=clean").await;
    assert!(heard.text().contains("data: 2") && !heard.text().contains("data: 3"), "{}", heard.text());
    let (heard, took) = timed("slow_stream; between=150ms").await;
    assert_struck(&heard, "slow_stream_downstream");
    assert!(
        took >= Duration::from_millis(300) && heard.text().contains("data: 3"),
        "{took:?} {}",
        heard.text()
    );
    let (heard, _) = timed("drop; which=any; at={\"events\": 1}").await;
    assert!(heard.text().contains("data: 1") && !heard.text().contains("data: 2"), "{}", heard.text());
    let (heard, _) = timed("connect; mode=refuse").await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upstream_connect".to_owned()]));
    let (heard, _) = timed("fail; cause=overloaded").await;
    assert_struck(&heard, "fail_downstream");
    // Nothing is left of them, and the upstream is told of none.
    let heard = proxied.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!((heard.status(), heard.header("x-aconite-toxics")), (200, vec![]));
    assert!(!origin.received().contains("x-aconite"), "{}", origin.received());
    let journal = proxied.journal().await;
    let struck = journal.iter().filter(|each| each.toxics.iter().any(|toxic| toxic.struck)).count();
    assert_eq!((struck, journal.len()), (8, 9));
}

#[tokio::test]
async fn what_acts_on_a_connection_is_refused() {
    let origin = Origin::answering_once(STREAM).await;
    let proxied = proxied(&origin).await;
    for toxic in
        ["latency; latency=100", "connect; mode=reset_on_accept", "connect; mode=tls_alert", "fial", "fail"]
    {
        let heard = proxied.raw(get(toxic)).await;
        assert_eq!(
            (heard.status(), heard.header("x-aconite-error")),
            (400, vec!["bad_toxic".to_owned()]),
            "{toxic}"
        );
    }
    assert_eq!(origin.connections(), 0);
}

/// R-S1, R-S4: what is switched off is off, whoever asks.
#[tokio::test]
async fn r_s1_the_kill_switch_stops_what_a_request_brings() {
    let origin = Origin::answering_once(STREAM).await;
    let proxied = proxied(&origin).await;
    let client = proxied.aconite.client();
    // One that is under way is let go.
    let (heard, ()) = tokio::join!(proxied.raw_patiently(get("delay; delay=1h")), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        client.set_chaos(false, &Switch::default()).await.unwrap();
    });
    assert_eq!(heard.status(), 200, "{}", heard.text());
    let heard = proxied.raw(get("fail; status=503")).await;
    assert_eq!((heard.status(), heard.header("x-aconite-toxics")), (200, vec![]));
    client.set_chaos(true, &Switch::default()).await.unwrap();
    assert_eq!(proxied.raw(get("fail; status=503")).await.status(), 503);
}
