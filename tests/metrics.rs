//! `/metrics`: how long toxics held what they delayed.
use std::time::Duration;

use aconite::Aconite;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Origin, Proxied, eventually, hear, hear_until};

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n";

/// The samples whose lines begin so.
async fn samples(aconite: &Aconite, beginning: &str) -> Vec<String> {
    let mut admin = tokio::net::TcpStream::connect(aconite.admin_address()).await.unwrap();
    admin.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let heard = hear(&mut admin, Duration::from_secs(5)).await;
    assert_eq!(heard.status(), 200);
    let text = String::from_utf8(heard.body()).unwrap();
    text.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
}

fn value(line: &str) -> f64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The sum and the count for a type of toxic.
async fn held(aconite: &Aconite, kind: &str) -> (f64, f64) {
    let labels = format!("{{proxy=\"p\",type=\"{kind}\"}}");
    let one = |name: &'static str| {
        let beginning = format!("aconite_added_latency_seconds_{name}{labels}");
        async move { samples(aconite, &beginning).await.first().map_or(0.0, |line| value(line)) }
    };
    (one("sum").await, one("count").await)
}

#[tokio::test]
async fn r_f1_added_latency_of_exchanges_and_events_is_counted() {
    let origin = Origin::answering_once(EVENTS).await;
    let proxied = Proxied::http(&origin).await;
    let get = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    proxied.raw(get).await;
    assert_eq!(
        samples(&proxied.aconite, "aconite_added_latency_seconds_").await,
        [""; 0],
        "nothing was held"
    );
    proxied.add(json!({"type": "delay", "attributes": {"delay": 60}})).await;
    proxied.add(json!({"type": "slow_stream", "attributes": {"first": 0, "between": 30}})).await;
    let heard = proxied.raw(get).await;
    assert!(heard.text().contains("data: 3"), "{}", heard.text());
    let (sum, count) = held(&proxied.aconite, "delay").await;
    assert!(count == 1.0 && (0.06..0.2).contains(&sum), "{sum} {count}");
    let (sum, count) = held(&proxied.aconite, "slow_stream").await;
    assert!(
        count == 2.0 && (0.085..0.3).contains(&sum),
        "the second event for 30 ms, the third for 60: {sum} {count}"
    );
    let buckets =
        samples(&proxied.aconite, "aconite_added_latency_seconds_bucket{proxy=\"p\",type=\"delay\"").await;
    let classes: Vec<_> = buckets.iter().map(|line| value(line)).collect();
    assert_eq!(buckets.len(), 15, "{buckets:#?}");
    assert!(classes.is_sorted() && classes[4] == 0.0 && classes[14] == 1.0, "{buckets:#?}");
    assert!(buckets[4].contains("le=\"0.05\"") && buckets[14].contains("le=\"+Inf\""), "{buckets:#?}");
}

/// It moves while the connection lives, and a wait that a change ends counts for as long as it was.
#[tokio::test]
async fn r_f12_added_latency_of_bytes_is_counted_while_they_flow() {
    let echo = Origin::running(|mut caller| async move {
        while let Some(byte) = caller.byte().await {
            caller.say([byte]).await;
        }
    })
    .await;
    let proxied = Proxied::with(json!({"upstream": echo.address.to_string()})).await;
    proxied.add(json!({"name": "slow", "type": "latency", "attributes": {"latency": 40}})).await;
    let mut client = proxied.connect().await;
    for _ in 0..2 {
        client.write_all(b"x").await.unwrap();
        client.read_u8().await.unwrap();
    }
    let (sum, count) = held(&proxied.aconite, "latency").await;
    assert!(count == 2.0 && (0.08..0.2).contains(&sum), "{sum} {count}");
    proxied
        .aconite
        .client()
        .patch_toxic("p", "slow", &json!({"attributes": {"latency": 3_600_000}}))
        .await
        .unwrap();
    client.write_all(b"yz").await.unwrap();
    eventually("the bytes at the upstream", || echo.received().ends_with("yz")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    proxied.remove("slow").await;
    hear_until(&mut client, "z").await;
    let (after, more) = held(&proxied.aconite, "latency").await;
    assert!(more > count && (0.05..2.0).contains(&(after - sum)), "{after} {more}");
}
