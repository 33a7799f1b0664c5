//! The admin API and other addresses that only the configuration may name.
use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{OK, assert_error, forward};
use crate::support::{Origin, Proxied, hear, hear_until};

/// The spellings of an address of this machine.
fn spellings(address: SocketAddr) -> [String; 5] {
    let port = address.port();
    [
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
    ]
}

#[tokio::test]
async fn a_01_a_request_cannot_bring_an_address() {
    let (origin, internal) = (Origin::answering(OK).await, Origin::answering(OK).await);
    let http = Proxied::with(json!({"upstream": origin.url(), "in_band": true})).await;
    let forward = forward(json!({"in_band": true, "map": {"x.test": origin.url()}})).await;
    for proxied in [&http, &forward] {
        for address in [proxied.aconite.admin_address(), internal.address] {
            for spelling in [
                address.to_string(),
                format!("[::ffff:127.0.0.1]:{}", address.port()),
                "127.0.0.1".to_owned(),
            ] {
                for toxic in [
                    format!("connect; mode=stale_address; address={spelling}"),
                    format!("CONNECT; address={spelling}; mode=stale_address"),
                    format!("connect; mode=\"stale_address\"; address=\"{spelling}\""),
                ] {
                    let request = format!(
                        "POST http://x.test/v1/chaos HTTP/1.1\r\nHost: x.test\r\nx-aconite-toxic: {toxic}\r\ncontent-length: 2\r\nConnection: close\r\n\r\n{{}}"
                    );
                    assert_error(&proxied.raw(request).await, 400, "bad_toxic");
                }
            }
        }
        assert!(proxied.aconite.client().chaos().await.unwrap().enabled);
    }
    assert_eq!((origin.connections(), internal.connections()), (0, 0));
    // Two headers are not a way around it.
    let request = "GET / HTTP/1.1\r\nHost: x\r\nx-aconite-toxic: delay; delay=1\r\nx-aconite-toxic: delay; delay=1\r\nConnection: close\r\n\r\n";
    assert_error(&http.raw(request).await, 400, "bad_toxic");
}

/// An address that resolves to the admin API is not one that the configuration writes.
#[tokio::test]
async fn a_01_no_entrance_of_a_forward_proxy_reaches_the_admin_api() {
    let proxied = forward(json!({"intercept": ["*"]})).await;
    let admin = proxied.aconite.admin_address();
    for authority in spellings(admin) {
        for request in [
            format!("GET http://{authority}/v1/proxies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            format!("GET http://{authority}/v1/proxies HTTP/1.0\r\n\r\n"),
            format!(
                "GET http://{authority}/v1/events HTTP/1.1\r\nHost: {authority}\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
            ),
        ] {
            assert_error(&proxied.raw(request).await, 403, "admin_api");
        }
        let mut client = proxied.connect().await;
        client.write_all(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let head = String::from_utf8(hear_until(&mut client, "\r\n\r\n").await).unwrap();
        // Nothing is opened for an IP address; a name is looked up when the request inside the tunnel comes.
        let is_name = authority.to_ascii_lowercase().starts_with("localhost");
        assert_eq!(head.starts_with("HTTP/1.1 200"), is_name, "{authority}: {head}");
        if is_name {
            let inside = format!("GET / HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
            client.write_all(inside.as_bytes()).await.unwrap();
            assert_error(&hear(&mut client, Duration::from_millis(700)).await, 403, "admin_api");
        } else {
            assert!(head.starts_with("HTTP/1.1 403"), "{authority}: {head}");
        }
    }
}

/// What the configuration writes, the operator wants.
#[tokio::test]
async fn a_01_an_upstream_that_is_written_as_the_admin_api_works() {
    let proxied = forward(json!({})).await;
    let admin = proxied.aconite.admin_address();
    let client = proxied.aconite.client();
    let get = "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (name, protocol, upstream) in [
        ("a", "http", format!("http://{admin}")),
        ("b", "http", format!("http://localhost:{}", admin.port())),
        ("c", "tcp", admin.to_string()),
    ] {
        let spec = json!({"name": name, "listen": "127.0.0.1:0", "protocol": protocol, "upstream": upstream});
        let created = client.create_proxy(&serde_json::from_value(spec).unwrap()).await.unwrap();
        let mut stream = tokio::net::TcpStream::connect(&created.listen).await.unwrap();
        stream.write_all(get.as_bytes()).await.unwrap();
        let heard = hear(&mut stream, Duration::from_millis(700)).await;
        assert_eq!(heard.status(), 200, "{name}: {}", heard.text());
    }
}
