//! What Toxiproxy 2.12 answered, request by request, and what is answered here.
//!
//! A line of `toxiproxy-2.12.jsonl` is an exchange with the real server, in order; where this API means to differ, `ours`
//! says how and why. `cut` answers were recorded up to that length; of a `detail` only the prefix is compared, for
//! it is Go's own text. Ports that the system chose are written `FREE`.
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::app::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    status: u16,
    answer: String,
    #[serde(default)]
    cut: bool,
    #[serde(default)]
    detail: bool,
    ours: Option<Ours>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ours {
    status: u16,
    answer: String,
    #[serde(default)]
    cut: bool,
    why: String,
}

#[tokio::test]
async fn the_recorded_exchanges_are_answered_as_toxiproxy_answered_them() {
    let app = App::new();
    for (name, port) in [("n1", 18_001), ("rs", 18_002)] {
        let body = format!(r#"{{"name":"{name}","listen":"127.0.0.1:{port}","upstream":"127.0.0.1:18000"}}"#);
        assert_eq!(app.post("/proxies", &body).await.status, 201);
    }
    let lines = include_str!("toxiproxy-2.12.jsonl").lines();
    let mut count = 0;
    for (number, line) in (1..).zip(lines) {
        let exchange: Exchange = serde_json::from_str(line).unwrap();
        let headers: Vec<_> = exchange.headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let answer = app.call_with(&exchange.method, &exchange.path, &exchange.body, &headers).await;
        let ours = exchange.ours.unwrap_or(Ours {
            status: exchange.status,
            answer: exchange.answer,
            cut: false,
            why: String::new(),
        });
        let place = format!("line {number}: {} {} {}", exchange.method, exchange.path, ours.why);
        assert_eq!(answer.status.as_u16(), ours.status, "{place}: {}", answer.body);
        let given = without_free_ports(&answer.body);
        if exchange.detail {
            assert!(given.starts_with(r#"{"error":"bad request body: "#), "{place}: {given}");
            let tail = |text: &str| text.rsplit_once(r#"","status""#).unwrap().1.to_owned();
            assert_eq!(tail(&given), tail(&ours.answer), "{place}");
        } else if exchange.cut || ours.cut {
            assert!(given.starts_with(&ours.answer), "{place}:\n{given}\n{}", ours.answer);
        } else {
            assert_eq!(given, ours.answer, "{place}");
        }
        count += 1;
    }
    assert_eq!(count, 82);
}

/// The fake gives out ports from 40001 to 40999.
fn without_free_ports(body: &str) -> String {
    let mut pieces = body.split(":40");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| match piece.split_at_checked(3) {
        Some((digits, rest)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => out + ":FREE" + rest,
        _ => out + ":40" + piece,
    })
}
