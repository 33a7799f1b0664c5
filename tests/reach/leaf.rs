//! Which certificate a client is shown, and how its first message may come.
use std::{net::SocketAddr, time::Duration};

use aconite::Aconite;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpStream,
    time::timeout,
};

use super::{OK, forward};
use crate::{
    support::{GUARD, Origin, Proxied, hear_until},
    tls_support::{ask, from_pem, name, trusting},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn r2_05_the_leaf_is_for_the_server_name_else_for_the_address_connected_to() {
    let origin = Origin::answering(OK).await;
    for (listen, addresses) in [
        ("0.0.0.0:0", &["127.0.0.1", "127.0.0.2"][..]),
        ("[::]:0", &["127.0.0.1", "::1"]),
        ("127.0.0.1:0", &["127.0.0.1"]),
    ] {
        let spec =
            json!({"name": "p", "protocol": "http", "listen": listen, "upstream": origin.url(), "tls": {}});
        let aconite = Aconite::builder().proxy(serde_json::from_value(spec).unwrap()).start().await.unwrap();
        let port = aconite.proxy_address("p").unwrap().port();
        let connector = trusting(from_pem(aconite.ca_pem()), &[]);
        for address in addresses {
            let address = SocketAddr::new(address.parse().unwrap(), port);
            // Without IPv6 there is nothing to connect to.
            let Ok(_) = TcpStream::connect(address).await else { continue };
            let ip = ServerName::IpAddress(address.ip().into());
            for asked in [name("localhost"), name("openai.test"), ip] {
                let stream = TcpStream::connect(address).await.unwrap();
                let handshake = timeout(GUARD, connector.connect(asked.clone(), stream)).await.unwrap();
                let mut client =
                    handshake.unwrap_or_else(|error| panic!("{listen} {address} {asked:?}: {error}"));
                assert!(ask(&mut client, GET).await.starts_with("HTTP/1.1 200"));
            }
        }
    }
}

/// A client whose first message is as large as a list of application protocols makes it, sent in pieces.
async fn hello_of(size: usize) -> Vec<u8> {
    let protocols: Vec<Vec<u8>> = (0..size / 201).map(|at| format!("{at:0>200}").into_bytes()).collect();
    let protocols: Vec<&[u8]> = protocols.iter().map(Vec::as_slice).chain([&b"http/1.1"[..]]).collect();
    let connector = trusting(Vec::new(), &protocols);
    let (near, mut far): (DuplexStream, DuplexStream) = tokio::io::duplex(256 * 1024);
    let _handshake = tokio::spawn(connector.connect(name("api.example.test"), near));
    let mut hello = vec![far.read_u8().await.unwrap()];
    while let Ok(Ok(byte)) = timeout(Duration::from_millis(50), far.read_u8()).await {
        hello.push(byte);
    }
    hello
}

/// Whether the proxy goes on with a handshake that begins so: a record of type handshake, a ServerHello in it.
async fn is_answered(stream: &mut TcpStream, hello: &[u8], piece: usize) -> bool {
    for part in hello.chunks(piece) {
        stream.write_all(part).await.unwrap();
        if piece < 100 {
            tokio::task::yield_now().await;
        }
    }
    let mut answer = [0; 6];
    timeout(GUARD, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    answer[0] == 22 && answer[5] == 2
}

#[tokio::test]
async fn r2_05_a_client_hello_of_any_size_cut_anyhow() {
    let origin = Origin::answering(OK).await;
    let plain = Proxied::with(json!({"upstream": origin.url(), "tls": {}})).await;
    let mapped = forward(json!({"map": {"api.example.test": origin.url()}})).await;
    // CONNECT names an address alone: the name in the handshake tells.
    let looked_at = forward(json!({"map": {"api.example.test": origin.url()}, "intercept": []})).await;
    for size in [100, 10_000, 20_000, 60_000] {
        let hello = hello_of(size).await;
        assert!(hello.len() > size, "{size}: {}", hello.len());
        for piece in [1, 1_000, 16_389, 100_000] {
            if piece == 1 && size > 10_000 {
                continue;
            }
            assert!(is_answered(&mut plain.connect().await, &hello, piece).await, "{size} {piece}");
            for (proxied, target) in [(&mapped, "api.example.test:443"), (&looked_at, "127.0.0.1:9")] {
                let mut client = proxied.connect().await;
                client.set_nodelay(true).unwrap();
                client.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
                hear_until(&mut client, "\r\n\r\n").await;
                assert!(is_answered(&mut client, &hello, piece).await, "{target} {size} {piece}");
            }
        }
    }
}
