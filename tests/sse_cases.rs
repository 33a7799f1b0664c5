//! Real bug reports about streamed answers, each turned into bytes on a socket. Named by case.
use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, sync::Semaphore};

use crate::support::{Caller, GUARD, Heard, Origin, Proxied, hear};

mod coding;
mod endings;
mod flow;
mod framing;

const CHAT: &str = "/v1/chat/completions";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";
const QUIET: Duration = Duration::from_millis(300);

fn ask(path: &str, more: &str) -> String {
    let body = r#"{"model":"m","stream":true}"#;
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{more}\r\n{body}", body.len())
}

fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:X}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A whole answer, one chunk for each piece.
fn streamed<T: AsRef<[u8]>>(pieces: &[T]) -> Vec<u8> {
    let chunks: Vec<u8> = pieces.iter().flat_map(chunk).collect();
    [HEAD.as_bytes(), &chunks, END.as_bytes()].concat()
}

fn delta(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn ending(exchange: &aconite::model::Exchange) -> (Value, Value) {
    let end = serde_json::to_value(exchange.ending).unwrap();
    (end["side"].clone(), end["how"].clone())
}

/// An edit that finds nothing to do: the bytes take the way through the events all the same.
fn idle_edit() -> Value {
    json!({"name": "idle", "type": "edit", "attributes": {"ops": [{"path": "$.not_there", "set": 1}]}})
}

/// Says each piece when the test lets it.
async fn on_permit(pieces: Arc<Vec<Vec<u8>>>) -> (Origin, Arc<Semaphore>) {
    let go = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&go);
    let origin = Origin::running(move |mut caller: Caller| {
        let (pieces, permits) = (Arc::clone(&pieces), Arc::clone(&permits));
        async move {
            caller.request().await;
            for piece in pieces.iter() {
                permits.acquire().await.unwrap().forget();
                caller.say(piece).await;
            }
            caller.byte().await;
        }
    })
    .await;
    (origin, go)
}

/// What is left of a body once a toxic has struck.
async fn struck(path: &str, body: &str, toxic: Value) -> (Heard, aconite::model::Exchange) {
    let origin = Origin::answering(streamed(&[body])).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(toxic).await;
    let heard = proxied.raw(ask(path, "")).await;
    let exchange = proxied.journal().await.remove(0);
    (heard, exchange)
}

/// The answer, however long it takes.
async fn patiently(proxied: &Proxied, more: &str) -> Heard {
    let mut client = proxied.connect().await;
    client.write_all(ask(CHAT, more).as_bytes()).await.unwrap();
    hear(&mut client, GUARD).await
}
