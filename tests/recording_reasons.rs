//! Each toxic whose conditions a request meets is in the journal: it acted, it still may, or there is a reason.
use std::{sync::Arc, time::Duration};

use aconite::{
    model::{Exchange, ExchangeFilter, Strike, StrikeState, Switch},
    toxics::{Catalogue, Level, ToxicSpec},
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Notify};

use crate::support::{End, GUARD, Origin, Proxied, hear, hear_until};

const SSE: &str = "data: {\"n\":1}\n\ndata: {\"n\":2}\n\ndata: [DONE]\n\n";
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// Media types and bodies; `upgrade` stands for no body at all.
const FORMS: [(&str, &str); 6] = [
    ("application/json", r#"{"data":[{"embedding":[1.0,2.0]}]}"#),
    ("text/event-stream", SSE),
    ("application/x-ndjson", "{\"n\":1}\n{\"n\":2}\n"),
    ("application/octet-stream", "bytes"),
    ("text/event-stream", ""),
    ("upgrade", ""),
];

fn response(form: &str, body: &str) -> String {
    if form == "upgrade" {
        return "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_owned();
    }
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {form}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn request(form: &str, body: &str) -> String {
    if form == "upgrade" {
        return "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_owned();
    }
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: {form}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// What is in the journal of one exchange under one toxic; `None` if the toxic cannot be added.
async fn under(toxic: &Value, form: &str, body: &str, of_connection: bool) -> Option<Vec<Exchange>> {
    let origin = Origin::answering_once(response(form, body)).await;
    let proxied = Proxied::http(&origin).await;
    let toxic: ToxicSpec = serde_json::from_value(toxic.clone()).unwrap();
    proxied.aconite.client().add_toxic("p", &toxic).await.ok()?;
    // A toxic may refuse the connection, or reset it at any time.
    if let Ok(mut client) = TcpStream::connect(proxied.address).await {
        let _ = client.write_all(request(form, body).as_bytes()).await;
        while is_awaited(&proxied, &mut client, of_connection).await {}
    }
    Some(proxied.journal().await)
}

/// Whether the response is still to come, after a while. A toxic that has acted may hold it back for ever, and after a
/// `101` the connection stays open.
async fn is_awaited(proxied: &Proxied, client: &mut TcpStream, of_connection: bool) -> bool {
    let heard = hear(client, Duration::from_millis(500)).await;
    if of_connection || heard.end != End::Silence || !heard.bytes.is_empty() {
        return false;
    }
    let filter = ExchangeFilter::default();
    let exchanges = proxied.aconite.client().exchanges(&filter).await.unwrap().exchanges;
    !exchanges.iter().flat_map(|exchange| &exchange.toxics).any(|strike| strike.struck)
}

#[tokio::test]
async fn r2_16_each_toxic_says_on_each_form_of_body_why_it_did_not_act() {
    let mut running = tokio::task::JoinSet::new();
    for definition in Catalogue::default().definitions() {
        let (kind, level, documents_too) = (definition.kind, definition.level, definition.documents_too);
        let attributes = definition.example();
        running.spawn(async move {
            for (stream, (form, body)) in
                ["downstream", "upstream"].into_iter().flat_map(|stream| FORMS.map(|form| (stream, form)))
            {
                let toxic = json!({"name": "t", "type": kind, "stream": stream, "attributes": attributes});
                let of_connection = matches!(level, Level::Bytes | Level::Connect);
                let Some(journal) = under(&toxic, form, body, of_connection).await else { continue };
                let case = format!("{kind} {stream} on {form} {body:?}");
                assert!(journal.len() == 1 || of_connection, "{case}: {journal:?}");
                for Exchange { toxics, .. } in journal {
                    let [strike] = &*toxics else { panic!("{case}: {toxics:?}") };
                    assert_eq!((&*strike.name, &*strike.kind), ("t", kind), "{case}");
                    assert!(strike.struck != strike.reason.is_some(), "{case}: {strike:?}");
                    let state = if strike.struck { StrikeState::Struck } else { StrikeState::Skipped };
                    assert_eq!(strike.state, state, "{case}");
                    let expected = match (level, form) {
                        (Level::Bytes, _) => "on_connection",
                        (Level::Events | Level::Document, "upgrade") if stream == "downstream" => "upgraded",
                        (Level::Events | Level::Document, _) if body.is_empty() => "no_body",
                        (Level::Events, "application/json") if !documents_too => "not_a_stream",
                        (Level::Events, "application/octet-stream") => "not_a_stream",
                        (Level::Document, "application/json") => continue,
                        (Level::Document, _) => "not_a_document",
                        _ => continue,
                    };
                    let reason = strike.reason.as_deref().unwrap_or("it acted");
                    // What needs no event may act at the end of nothing.
                    assert!(reason == expected || (strike.struck && body.is_empty()), "{case}: {reason}");
                }
            }
        });
    }
    while let Some(result) = running.join_next().await {
        result.unwrap();
    }
}

/// Of the last exchange: the toxics, by name.
async fn strikes(proxied: &Proxied) -> Vec<(String, Option<String>)> {
    let exchange = proxied.journal().await.pop().unwrap();
    let mut strikes: Vec<_> =
        exchange.toxics.into_iter().map(|strike| (strike.name, strike.reason)).collect();
    strikes.sort();
    strikes
}

fn expected(strikes: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    strikes.iter().map(|(name, reason)| ((*name).to_owned(), reason.map(str::to_owned))).collect()
}

#[tokio::test]
async fn r2_21_toxics_that_are_not_in_effect_say_so() {
    let origin = Origin::answering_once(response("application/json", "{}")).await;
    let proxied = Proxied::http(&origin).await;
    let client = proxied.aconite.client();
    client.set_chaos(false, &Switch::default()).await.unwrap();
    for (name, more) in [
        ("a", json!({})),
        ("b", json!({"enabled": false})),
        ("c", json!({"window": {"after": "1h"}})),
        ("d", json!({"match": {"path": "/other"}})),
    ] {
        let mut toxic = json!({"name": name, "type": "delay", "attributes": {"delay": 1}});
        toxic.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        proxied.add(toxic).await;
    }
    proxied.add(json!({"name": "e", "type": "latency", "attributes": {"latency": 1}})).await;
    assert_eq!(proxied.raw(GET).await.status(), 200);
    let off = Some("chaos_off");
    assert_eq!(strikes(&proxied).await, expected(&[("a", off), ("c", off), ("e", off)]));
    client.set_chaos(true, &Switch::default()).await.unwrap();
    assert_eq!(proxied.raw(GET).await.status(), 200);
    let on = [("a", None), ("c", Some("outside_window")), ("e", Some("on_connection"))];
    assert_eq!(strikes(&proxied).await, expected(&on));
}

/// The kill switch is turned on while a stream is in progress, to which the toxic then applies.
#[tokio::test]
async fn r2_21_a_toxic_that_comes_into_effect_during_an_exchange_says_so() {
    let more = Arc::new(Notify::new());
    let asked = Arc::clone(&more);
    let origin = Origin::running(move |mut caller| {
        let more = Arc::clone(&more);
        async move {
            caller.request().await;
            caller.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n").await;
            more.notified().await;
            caller.say("data: 2\n\n").await;
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let api = proxied.aconite.client();
    api.set_chaos(false, &Switch::default()).await.unwrap();
    let toxic = json!({"name": "c", "type": "cut", "attributes": {"at": {"events": 9}, "how": "fin"}});
    proxied.add(toxic).await;
    let mut client = proxied.connect().await;
    client.write_all(GET.as_bytes()).await.unwrap();
    hear_until(&mut client, "data: 1\n\n").await;
    let shown = async || {
        let exchanges = api.exchanges(&ExchangeFilter::default()).await.unwrap().exchanges;
        let Strike { state, reason, .. } = exchanges[0].toxics[0].clone();
        (state, reason)
    };
    assert_eq!(shown().await, (StrikeState::Skipped, Some("chaos_off".to_owned())));
    api.set_chaos(true, &Switch::default()).await.unwrap();
    let armed = async { while shown().await != (StrikeState::Armed, None) {} };
    tokio::time::timeout(GUARD, armed).await.expect("it is never armed");
    asked.notify_one();
    hear(&mut client, GUARD).await;
    assert_eq!(strikes(&proxied).await, expected(&[("c", Some("not_reached"))]));
}

#[tokio::test]
async fn toxics_whose_turn_did_not_come_say_so() {
    let origin = Origin::answering_once(response("text/event-stream", SSE)).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "exclusive": true})).await;
    proxied.add(json!({"name": "a", "type": "delay", "attributes": {"delay": 1}})).await;
    proxied.add(json!({"name": "b", "type": "drop"})).await;
    proxied.raw(GET).await;
    assert_eq!(strikes(&proxied).await, expected(&[("a", None), ("b", Some("exclusive"))]));
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"name": "a", "type": "fail", "attributes": {"status": 503}})).await;
    proxied.add(json!({"name": "b", "type": "drop"})).await;
    proxied.raw(GET).await;
    assert_eq!(strikes(&proxied).await, expected(&[("a", None), ("b", Some("no_response"))]));
}

#[tokio::test]
async fn r2_22_a_stream_in_progress_shows_what_is_armed_and_what_has_passed() {
    let more = Arc::new(Notify::new());
    let asked = Arc::clone(&more);
    let origin = Origin::running(move |mut caller| {
        let more = Arc::clone(&more);
        async move {
            caller.request().await;
            caller.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").await;
            caller.say("data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n").await;
            more.notified().await;
            caller.say("data: 5\n\n".repeat(9)).await;
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"name": "c", "type": "cut", "attributes": {"at": {"events": 9}, "how": "fin"}})).await;
    let mut client = proxied.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    hear_until(&mut client, "data: 4\n\n").await;
    let filter = ExchangeFilter::default();
    let exchange = proxied.aconite.client().exchanges(&filter).await.unwrap().exchanges.pop().unwrap();
    assert_eq!((exchange.events, exchange.bytes_out, exchange.ending), (4, 36, None));
    let armed = Strike {
        name: "c".into(),
        kind: "cut".into(),
        roll: exchange.toxics[0].roll,
        waits_for: Some(json!({"events": 9})),
        ..Strike::default()
    };
    assert_eq!(exchange.toxics, std::slice::from_ref(&armed));
    asked.notify_one();
    hear(&mut client, GUARD).await;
    drop(client);
    let exchange = proxied.journal().await.pop().unwrap();
    assert_eq!((exchange.events, exchange.bytes_out), (9, 81));
    let at = exchange.toxics[0].at;
    assert!(at.is_some());
    let struck = Strike { struck: true, state: StrikeState::Struck, at, waits_for: None, ..armed };
    assert_eq!(exchange.toxics, [struck]);
}
