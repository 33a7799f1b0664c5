//! Real bug reports about Toxiproxy, over real sockets. Named by case.
use std::{net::SocketAddr, time::Duration};

use aconite::Aconite;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::{GUARD, Origin, Proxied, hear};

mod calls;
mod effects;
mod leaks;
mod removal;

/// Within this an admin call answers, whatever the connections do.
const PROMPT: Duration = Duration::from_secs(1);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sends back what it gets.
pub(crate) async fn echo() -> Origin {
    Origin::running(|mut caller| async move {
        while let Some(byte) = caller.byte().await {
            if caller.stream.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    })
    .await
}

/// Sends without end, whatever the other side reads.
async fn flood() -> Origin {
    Origin::running(|mut caller| async move {
        let block = vec![7; 64 * 1024];
        while caller.stream.write_all(&block).await.is_ok() {}
    })
    .await
}

/// Sends so many bytes and finishes.
async fn source(count: usize) -> Origin {
    Origin::running(move |mut caller| async move {
        // A client may leave before the end.
        let _ = caller.stream.write_all(&vec![7; count]).await;
    })
    .await
}

async fn before(origin: &Origin) -> Proxied {
    Proxied::with(json!({"upstream": origin.address.to_string()})).await
}

async fn round_trip(client: &mut TcpStream) {
    client.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    timeout(GUARD, client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"ping");
}

/// One call to Toxiproxy's API.
pub(crate) async fn call(aconite: &Aconite, method: &str, path: &str, body: &str) -> (u16, String) {
    call_at(&aconite.admin_address().to_string(), method, path, body).await
}

pub(crate) async fn call_at(admin: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let heard = hear(&mut stream, GUARD).await;
    (heard.status(), String::from_utf8(heard.body()).unwrap())
}

fn named(name: &str, listen: SocketAddr, upstream: &Origin) -> String {
    json!({"name": name, "listen": listen.to_string(), "upstream": upstream.address.to_string()}).to_string()
}
