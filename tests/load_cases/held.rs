//! What a stream costs while it waits for its next event.
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::watch, task::JoinSet};

use super::{serving, settled};
use crate::support::{Origin, hear_until, many_files};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
/// The streams at the first measurement, and at the second.
const FEW: usize = 200;
const MANY: usize = 1_000;
/// How many are opened at once: what the proxy needs for opening is not what a stream keeps.
const AT_ONCE: usize = 50;
/// What one stream may keep, in KiB. The goal is 24. hyper takes the most: four buffers of 8 KiB, of each of which a page or
/// two is used, a fifth while the request's header fields point into it, and 9 KiB for a channel to the upstream's connection.
const MOST: usize = 50;

fn event(number: usize) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{number}\"}}}}]}}\n\n")
}

/// Sends every stream as many events as it is told to.
async fn origin(wanted: watch::Receiver<usize>) -> Origin {
    Origin::running(move |mut caller| {
        let mut wanted = wanted.clone();
        async move {
            caller.request().await;
            caller.say(HEAD).await;
            let mut sent = 0;
            while wanted.wait_for(|wanted| *wanted > sent).await.is_ok() {
                caller.say(event(sent)).await;
                sent += 1;
            }
        }
    })
    .await
}

async fn open(address: String, last: usize) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"stream\": true}";
    client.write_all(request.as_bytes()).await.unwrap();
    hear_until(&mut client, event(last)).await;
    client
}

/// Streams through a toxic that finds nothing to change, each of which has carried events and waits for the next one.
/// The difference between many and few is what a stream costs: what the process needs anyway is in both.
#[tokio::test(flavor = "multi_thread")]
async fn a_18_a_stream_that_waits_costs_little_memory() {
    many_files();
    let (wanted, told) = watch::channel(4);
    let origin = origin(told).await;
    let idle = json!({"type": "edit", "attributes": {"ops": [{"path": "$.absent", "set": 1}]}});
    let server = serving(&json!([
        {"name": "p", "listen": "127.0.0.1:0", "upstream": origin.url(), "toxics": [idle]},
    ]));
    let mut streams = Vec::new();
    let mut memory = Vec::new();
    for count in [FEW, MANY] {
        while streams.len() < count {
            let mut opening = JoinSet::new();
            for _ in 0..AT_ONCE {
                opening.spawn(open(server.proxy("p").to_owned(), *wanted.borrow() - 1));
            }
            streams.extend(opening.join_all().await);
        }
        // Each has been idle, and goes on.
        let more = *wanted.borrow() + 4;
        wanted.send_replace(more);
        for stream in &mut streams {
            hear_until(stream, event(more - 1)).await;
        }
        memory.push(settled(&server).await);
    }
    let each = memory[1].saturating_sub(memory[0]) / (MANY - FEW);
    println!("{each} bytes for a stream");
    assert!(each <= MOST * 1024, "{} KiB for a stream", each / 1024);
}
