//! Real bug reports about forward proxies and TLS, over real sockets. Named by case.
use std::time::Duration;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;

use crate::{
    support::{GUARD, Heard, Proxied, hear},
    tls_support::{Asked, from_pem, name, read_head, trusting},
};

mod clients;
mod hosts;
mod trust;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn ok(_: &Asked) -> String {
    OK.to_owned()
}

async fn forward(fields: Value) -> Proxied {
    let mut spec = fields;
    spec["protocol"] = json!("forward");
    Proxied::with(spec).await
}

/// A tunnel, and the head of the answer to CONNECT.
async fn tunnel(proxied: &Proxied, target: &str) -> (TcpStream, String) {
    let mut client = proxied.connect().await;
    let head = connect(&mut client, target, "").await;
    (client, head)
}

async fn connect(client: &mut TcpStream, target: &str, headers: &str) -> String {
    client
        .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n").as_bytes())
        .await
        .unwrap();
    timeout(GUARD, read_head(client)).await.unwrap().expect("an answer to CONNECT")
}

/// TLS inside a tunnel, for a client that trusts the local CA.
async fn intercepted(proxied: &Proxied, target: &str, server_name: &str) -> TlsStream<TcpStream> {
    let (client, head) = tunnel(proxied, target).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let connector = trusting(from_pem(proxied.aconite.ca_pem()), &[]);
    timeout(GUARD, connector.connect(name(server_name), client)).await.unwrap().unwrap()
}

fn get(host: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

async fn speak(client: &mut TcpStream, request: &str) -> Heard {
    client.write_all(request.as_bytes()).await.unwrap();
    hear(client, Duration::from_millis(700)).await
}
