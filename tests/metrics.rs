//! `/metrics`: what proxies, exchanges, events and toxics did, and how that is written.
use std::time::Duration;

use aconite::{
    Aconite,
    model::{ProxySpec, Switch},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{sleep, timeout},
};

mod scrape;

use crate::support::{Caller, GUARD, Origin, Proxied, eventually, hear_until};
use scrape::{Scrape, fetch, scrape, scrape_at_rest};

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: 1\n\ndata: 2\n\ndata: 3\n\n";

/// The samples whose lines begin so.
async fn samples(aconite: &Aconite, beginning: &str) -> Vec<String> {
    let (_, text) = fetch(aconite, None).await;
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
    sleep(Duration::from_millis(50)).await;
    proxied.remove("slow").await;
    hear_until(&mut client, "z").await;
    let (after, more) = held(&proxied.aconite, "latency").await;
    assert!(more > count && (0.05..2.0).contains(&(after - sum)), "{after} {more}");
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const P: (&str, &str) = ("proxy", "p");

/// A value of proxy `p` for each class of status: `1xx` to `5xx`, `none`.
fn by_status(scrape: &Scrape, name: &str) -> [Option<f64>; 6] {
    ["1xx", "2xx", "3xx", "4xx", "5xx", "none"].map(|status| scrape.value(name, &[P, ("status", status)]))
}

/// How many exchanges of proxy `p` have ended.
fn ended(scrape: &Scrape) -> [Option<f64>; 6] {
    by_status(scrape, "aconite_exchanges_total")
}

/// An upstream that sends these pieces of one response, each after so many milliseconds, and closes.
async fn in_pieces(pieces: &'static [(u64, &'static str)]) -> Origin {
    Origin::running(move |mut caller: Caller| async move {
        caller.request().await;
        for (after, piece) in pieces {
            sleep(Duration::from_millis(*after)).await;
            caller.say(piece).await;
        }
    })
    .await
}

#[tokio::test]
async fn exchanges_count_by_the_class_of_their_status() {
    let origin = Origin::running(|mut caller| async move {
        while let Some(request) = caller.request().await {
            let request = String::from_utf8(request).unwrap();
            let status = request.split(['/', ' ']).nth(2).unwrap();
            let more = if status == "101" {
                "upgrade: x\r\nconnection: upgrade\r\n"
            } else {
                "content-length: 0\r\n"
            };
            caller.say(format!("HTTP/1.1 {status} X\r\n{more}\r\n")).await;
            if status == "101" {
                return;
            }
        }
    })
    .await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "in_band": true})).await;
    assert_eq!(ended(&scrape(&proxied.aconite).await), [Some(0.0); 6]);
    let ask = async |method: &str, status: u16, fields: &str| {
        proxied
            .raw(format!("{method} /{status} HTTP/1.1\r\nHost: x\r\nConnection: close{fields}\r\n\r\n"))
            .await
            .status()
    };
    for status in [200, 204, 206, 304, 404, 429, 500, 999] {
        assert_eq!(ask("GET", status, "").await, status);
    }
    assert_eq!(ask("GET", 101, ", upgrade\r\nUpgrade: x").await, 101);
    assert_eq!(ask("GET", 200, "\r\nx-aconite-toxic: hang; for=20ms").await, 0);
    for method in ["GET", "HEAD"] {
        assert_eq!(ask(method, 200, "\r\nx-aconite-toxic: fail; cause=overloaded").await, 503);
    }
    let scrape = scrape(&proxied.aconite).await;
    let each = [1.0, 3.0, 1.0, 2.0, 4.0, 1.0].map(Some);
    assert_eq!(ended(&scrape), each);
    assert_eq!(by_status(&scrape, "aconite_exchange_duration_seconds_count"), each);
    assert_eq!(scrape.value("aconite_connections_total", &[P]), Some(12.0));
    assert_eq!(scrape.value("aconite_exchanges_in_flight", &[]), Some(0.0));
    let hang = [P, ("type", "hang")];
    assert_eq!(scrape.value("aconite_toxics_struck_total", &hang), Some(1.0));
    assert_eq!(scrape.value("aconite_event_gap_seconds_count", &[P]), None);
    let first_bytes = scrape.value("aconite_first_byte_seconds_count", &[P]);
    assert_eq!(first_bytes, Some(1.0), "only one response, of the toxic, has a body");
}

#[tokio::test]
async fn an_exchange_counts_when_it_ends_for_as_long_as_it_took() {
    let origin =
        in_pieces(&[(40, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"), (40, "ab"), (60_000, "cd")]).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(GET.as_bytes()).await.unwrap();
    hear_until(&mut client, "ab").await;
    let before = scrape(&proxied.aconite).await;
    assert_eq!(ended(&before), [Some(0.0); 6], "it goes on");
    assert_eq!(before.value("aconite_exchanges_in_flight", &[]), Some(1.0));
    assert_eq!(before.value("aconite_connections_open", &[P]), Some(1.0));
    let first = before.value("aconite_first_byte_seconds_sum", &[P]).unwrap();
    assert!((0.08..5.0).contains(&first), "{first}");
    sleep(Duration::from_millis(40)).await;
    drop(client);
    let its_end = async {
        loop {
            let now = scrape(&proxied.aconite).await;
            if ended(&now)[1] == Some(1.0) {
                return now;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let after = timeout(GUARD, its_end).await.expect("it ends");
    let took = after.value("aconite_exchange_duration_seconds_sum", &[P, ("status", "2xx")]).unwrap();
    assert!((first + 0.04..10.0).contains(&took), "{took} after {first}");
    assert_eq!(after.value("aconite_first_byte_seconds_count", &[P]), Some(1.0));
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn gaps_are_those_between_events_as_they_are_sent() {
    // Four events, two of them together, one in halves, and one that never ends.
    let origin = in_pieces(&[
        (0, HEAD),
        (0, "data: 1\n\n"),
        (50, "data: 2\n\n: a comment\n\ndata: 3\n\n"),
        (20, "data"),
        (30, ": 4\n\ndata: 5\n"),
    ])
    .await;
    let proxied = Proxied::http(&origin).await;
    let gaps = async || {
        let scrape = scrape(&proxied.aconite).await;
        let of = |name: &str| scrape.value(&format!("aconite_event_gap_seconds_{name}"), &[P]).unwrap_or(0.0);
        let up_to = |bound| {
            let bucket = scrape.value("aconite_event_gap_seconds_bucket", &[P, ("le", bound)]);
            bucket.unwrap_or(0.0)
        };
        (of("count"), of("sum"), up_to("0.001"))
    };
    proxied.raw(GET).await;
    let (count, sum, together) = gaps().await;
    assert_eq!((count, together), (3.0, 1.0));
    assert!((0.09..5.0).contains(&sum), "{sum}");
    // What a toxic takes away is not sent, and what it holds is sent later.
    proxied
        .add(json!({"name": "drop", "type": "drop", "attributes": {"which": "any", "at": {"events": 1}}}))
        .await;
    proxied.add(json!({"type": "slow_stream", "attributes": {"first": 0, "between": 100}})).await;
    let heard = proxied.raw(GET).await.text();
    assert!(!heard.contains("data: 2") && heard.contains("data: 4"), "{heard}");
    let (more, longer, still) = gaps().await;
    assert_eq!((more, still), (5.0, 1.0), "{heard}");
    assert!((0.18..5.0).contains(&(longer - sum)), "{longer} {sum}");
}

#[tokio::test]
async fn a_body_without_events_has_no_gaps() {
    let pieces = &[
        (0, "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"),
        (0, "data: 1\n\n"),
        (10, "data: 2\n\n"),
    ];
    let origin = in_pieces(pieces).await;
    let proxied = Proxied::http(&origin).await;
    assert!(proxied.raw(GET).await.text().contains("data: 2\n\n"));
    let scrape = scrape(&proxied.aconite).await;
    assert_eq!(ended(&scrape)[1], Some(1.0));
    assert_eq!(scrape.value("aconite_event_gap_seconds_count", &[P]), None);
}

/// A change of the proxy keeps its series, its deletion ends them, and another proxy of its name starts from 0.
#[tokio::test]
async fn series_live_as_long_as_their_proxy() {
    let origin = Origin::answering_once(EVENTS).await;
    let proxied = Proxied::http(&origin).await;
    let client = proxied.aconite.client();
    proxied.add(json!({"type": "delay", "attributes": {"delay": 1}})).await;
    proxied.add(json!({"type": "fail", "toxicity": 0.0, "attributes": {"cause": "overloaded"}})).await;
    proxied.raw(GET).await;
    let counted = scrape(&proxied.aconite).await;
    let names = counted.names(P);
    assert_eq!(names.len(), 7 + 4 * 3, "seven names, and four histograms: {names:?}");
    for patch in [
        json!({"listen": "localhost:0"}),
        json!({"enabled": false}),
        json!({"upstream": "http://127.0.0.1:1"}),
    ] {
        client.patch_proxy("p", &patch).await.unwrap();
        let changed = scrape(&proxied.aconite).await;
        assert_eq!((changed.names(P), changed.len()), (names.clone(), counted.len()), "{patch}");
        assert_eq!(ended(&changed), ended(&counted), "{patch}");
        assert_eq!(changed.value("aconite_connections_total", &[P]), Some(1.0), "{patch}");
    }
    client.delete_proxy("p").await.unwrap();
    let left = scrape_at_rest(&proxied.aconite).await;
    assert!(left.names(P).is_empty() && left.len() == 2, "{left:?}");
    let again: ProxySpec =
        serde_json::from_value(json!({"name": "p", "listen": "127.0.0.1:0", "upstream": origin.url()}))
            .unwrap();
    client.create_proxy(&again).await.unwrap();
    let anew = scrape(&proxied.aconite).await;
    assert_eq!(ended(&anew), [Some(0.0); 6]);
    assert_eq!(anew.value("aconite_connections_total", &[P]), Some(0.0));
    assert_eq!(anew.names(P).len(), 5, "{anew:?}");
}

#[tokio::test]
async fn any_name_of_a_proxy_can_be_read_back() {
    let names = [
        "a \"b\" \\c",
        "\\",
        "\"",
        "\n",
        "\\n",
        "a\nb\r",
        "}",
        "} 1",
        "{x=\"y\",",
        "# EOF",
        "é代🦀",
        "\u{7f}\t\0",
        ",",
        "+Inf",
    ];
    let spec = |name: &str| -> ProxySpec {
        let protocol = if name.len().is_multiple_of(2) { "tcp" } else { "http" };
        let upstream = if protocol == "tcp" { "127.0.0.1:1" } else { "http://127.0.0.1:1" };
        let spec: Value =
            json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream, "protocol": protocol});
        serde_json::from_value(spec).unwrap()
    };
    let aconite = Aconite::builder().start().await.unwrap();
    for name in names {
        aconite.client().create_proxy(&spec(name)).await.unwrap();
    }
    let scrape = scrape_at_rest(&aconite).await;
    for name in names {
        let listener = aconite.proxy_address(name).unwrap().to_string();
        for direction in ["upstream", "downstream"] {
            let labels = [
                ("direction", direction),
                ("listener", &*listener),
                ("proxy", name),
                ("upstream", &*spec(name).upstream),
            ];
            assert_eq!(scrape.value("toxiproxy_proxy_sent_bytes_total", &labels), Some(0.0), "{name:?}");
        }
        assert_eq!(scrape.value("aconite_connections_open", &[("proxy", name)]), Some(0.0), "{name:?}");
        let http = scrape.value("aconite_exchanges_total", &[("proxy", name), ("status", "none")]);
        assert_eq!(http, (!name.len().is_multiple_of(2)).then_some(0.0), "{name:?}");
    }
}

/// Nothing that a client writes into a request becomes a series.
#[tokio::test]
async fn clients_cannot_make_series() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx").await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "in_band": true})).await;
    proxied.add(json!({"type": "fail", "toxicity": 0.0, "attributes": {"cause": "overloaded"}})).await;
    proxied.add(json!({"type": "hang", "window": {"after": "1h"}})).await;
    let ask = async |n: usize| {
        let request = format!(
            "CLIENT{n} /client{n}?client{n}=1 HTTP/1.1\r\nHost: client{n}\r\nConnection: close\r\n\
             x-aconite-toxic: headers; set={{\"x-client{n}\":\"client{n}\"}}\r\nx-aconite-test-id: client{n}\r\n\
             x-aconite-scene: client{n}\r\nUser-Agent: client{n}\r\n\r\n"
        );
        let heard = proxied.raw(request).await;
        assert_eq!(heard.header(&format!("x-client{n}")), [format!("client{n}")], "{}", heard.text());
    };
    ask(0).await;
    let before = scrape(&proxied.aconite).await;
    for kind in ["headers", "fail", "hang"] {
        assert!(before.names(("type", kind)).contains("aconite_toxics_struck_total"), "{before:?}");
    }
    for n in 1..6 {
        ask(n).await;
    }
    assert_eq!(scrape(&proxied.aconite).await.len(), before.len());
    let (_, text) = fetch(&proxied.aconite, None).await;
    assert!((0..6).all(|n| !text.to_lowercase().contains(&format!("client{n}"))), "{text}");
}

#[tokio::test]
async fn the_kill_switch_is_a_gauge() {
    let aconite = Aconite::builder().start().await.unwrap();
    assert_eq!(scrape(&aconite).await.value("aconite_chaos_enabled", &[]), Some(1.0));
    aconite.client().set_chaos(false, &Switch::default()).await.unwrap();
    assert_eq!(scrape(&aconite).await.value("aconite_chaos_enabled", &[]), Some(0.0));
}
