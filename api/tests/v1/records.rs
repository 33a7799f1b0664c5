//! What passed and what passes: the journal, connections, the feed, the switch.
use std::sync::{Arc, atomic::Ordering};

use aconite_api::model;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::time::timeout;
use tower::ServiceExt;

use super::{problem, with_proxy};
use crate::app::{App, HANG};

#[tokio::test]
async fn the_switch_says_who_and_why() {
    let app = with_proxy().await;
    let answer = app.post("/v1/chaos/disable", r#"{"operator":"ann","reason":"lunch"}"#).await.json();
    assert_eq!(
        (&answer["enabled"], &answer["by"], &answer["reason"]),
        (&json!(false), &json!("ann"), &json!("lunch"))
    );
    assert_eq!(answer["active_rules"], 2);
    assert_eq!(
        answer["rules"][0],
        json!({"proxy": "p", "id": "corrupt_upstream", "type": "corrupt", "probability": 0.1})
    );
    assert_eq!(app.get("/v1/chaos").await.json(), answer);
    assert_eq!(app.post("/v1/chaos/enable", "").await.json()["enabled"], true);
    app.control.is_production.store(true, Ordering::Relaxed);
    assert_eq!(problem(&app.post("/v1/chaos/enable", "{}").await).0, 403);
}

fn exchange(id: u64, status: u16) -> model::Exchange {
    model::Exchange { id, proxy: "p".to_owned(), status: Some(status), ..model::Exchange::default() }
}

#[tokio::test]
async fn the_journal_is_read_by_pages_and_filters() {
    let app = App::new();
    app.control.record(exchange(1, 200));
    app.control.record(exchange(2, 429));
    let ids = async |path: &str| {
        let json = app.get(path).await.json();
        let ids = json["exchanges"].as_array().unwrap().iter().map(|each| each["id"].as_u64().unwrap());
        (ids.collect::<Vec<_>>(), json["next"].as_u64().unwrap())
    };
    assert_eq!(ids("/v1/exchanges").await, (vec![1, 2], 2));
    assert_eq!(ids("/v1/exchanges?status=429&proxy=p").await, (vec![2], 2));
    assert_eq!(ids("/v1/exchanges?since=2").await, (vec![], 2));
    assert_eq!(app.get("/v1/exchanges/2").await.json()["status"], 429);
    assert_eq!(app.call("DELETE", "/v1/exchanges", "").await.status, 204);
    assert_eq!(ids("/v1/exchanges").await, (vec![], 0));
}

#[tokio::test]
async fn the_journal_can_be_waited_for() {
    let app = Arc::new(App::new());
    let waiting = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.get("/v1/exchanges?wait=1").await.json() }
    });
    timeout(HANG, app.control.waits.notified()).await.expect("the journal is waited for");
    assert_eq!(app.get("/v1/exchanges?wait=0").await.status, 200, "nobody else waits");
    app.control.record(exchange(1, 200));
    app.control.settled.notify_one();
    assert_eq!(waiting.await.unwrap()["exchanges"][0]["id"], 1);
}

#[tokio::test]
async fn connections_are_listed_and_reset() {
    let app = App::new();
    app.control.connect(model::Connection {
        id: 7,
        proxy: "p".to_owned(),
        peer: "127.0.0.1:5".to_owned(),
        upstream: None,
        upstream_address: None,
        bytes_in: 1,
        bytes_out: 2,
        age_ms: 3,
        toxics: vec!["t".to_owned()],
    });
    assert_eq!(app.get("/v1/connections").await.json()["connections"][0]["id"], 7);
    assert_eq!(app.call("DELETE", "/v1/connections/7", "").await.status, 204);
    assert_eq!(app.get("/v1/connections").await.json(), json!({"connections": []}));
}

#[tokio::test]
async fn the_feed_tells_what_happens() {
    let app = App::new();
    let request = Request::get("/v1/events").header("host", "localhost").body(Body::empty()).unwrap();
    let response = app.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut next =
        async || String::from_utf8(body.frame().await.unwrap().unwrap().into_data().unwrap().into()).unwrap();
    assert_eq!(next().await, ": live\n\n");
    app.control.happen("toxic.struck", json!({"toxic": "t"}));
    assert_eq!(
        next().await,
        concat!(
            "event: toxic.struck\n",
            r#"data: {"event":"toxic.struck","at":"2026-11-30T00:00:00Z","detail":{"toxic":"t"}}"#,
            "\n\n"
        )
    );
    for number in 0..20 {
        app.control.happen("proxy", json!(number));
    }
    assert_eq!(next().await, "event: missed\ndata: {\"missed\":4}\n\n");
    assert!(next().await.contains(r#""detail":4"#));
}
