//! Each way into a forward proxy asks for its credentials.
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{OK, assert_error, forward};
use crate::support::{Origin, hear_until};

/// A request in absolute form for every kind of client.
fn absolute(host: &str, fields: &str) -> [String; 5] {
    [
        format!("GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"),
        format!(
            "POST http://{host}/x HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: 4\r\nConnection: close\r\n\r\nbody"
        ),
        format!(
            "POST http://{host}/x HTTP/1.1\r\nHost: {host}\r\n{fields}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
        ),
        format!("GET http://{host}/x HTTP/1.0\r\n{fields}\r\n"),
        format!(
            "GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
        ),
    ]
}

#[tokio::test]
async fn r2_01_a_request_in_absolute_form_needs_the_credentials_too() {
    let origin = Origin::answering(OK).await;
    let spec = json!({"credentials": "user:word", "map": {"mapped.test": origin.url()}, "intercept": ["*"]});
    let proxied = forward(spec).await;
    let basic = |text: &str| format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text));
    let wrong = [
        String::new(),
        basic("user:wrong"),
        basic("user:"),
        "Proxy-Authorization: Bearer x\r\n".to_owned(),
        // The credentials in a field that is for the origin are not for the proxy.
        basic("user:word").replace("Proxy-", ""),
        basic("user:word") + &basic("user:word"),
    ];
    let direct = origin.address.to_string();
    for host in [&*direct, "mapped.test"] {
        for request in wrong.iter().flat_map(|fields| absolute(host, fields)) {
            let heard = proxied.raw(&request).await;
            assert_error(&heard, 407, "proxy_authentication");
            assert!(heard.header("proxy-authenticate")[0].starts_with("Basic realm="), "{request}");
        }
        assert_eq!(origin.connections(), 0, "nothing reaches the target");
    }
    for host in [&*direct, "mapped.test"] {
        for request in absolute(host, &basic("user:word")) {
            assert_eq!(proxied.raw(&request).await.status(), 200, "{request}");
        }
    }
    assert_eq!(origin.received().matches(" /x HTTP/1.1\r\n").count(), 10);
    assert!(!origin.received().to_ascii_lowercase().contains("proxy-authorization"));
    let refused = proxied.journal().await.into_iter().filter(|each| each.status == Some(407));
    assert_eq!(refused.count(), 2 * wrong.len() * 5, "each refusal is in the journal");
}

/// The second try comes on the same connection, as clients do it.
#[tokio::test]
async fn r2_01_a_407_keeps_the_connection_in_absolute_form() {
    let origin = Origin::answering(OK).await;
    let proxied = forward(json!({"credentials": "user:word"})).await;
    let mut client = proxied.connect().await;
    for (fields, status) in
        [("", "407"), ("Proxy-Authorization: basic  dXNlcjp3b3Jk\r\n", "200"), ("", "407")]
    {
        let host = origin.address;
        let request = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let last = if status == "200" { "ok" } else { "}}" };
        let answer = String::from_utf8(hear_until(&mut client, last).await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

/// Credentials that could never be meant.
#[tokio::test]
async fn a_15_credentials_that_mean_nothing_are_refused_with_words() {
    let proxied = forward(json!({})).await;
    let client = proxied.aconite.client();
    for (credentials, said) in [
        ("", "leave the field out"),
        (":", "USER:PASSWORD"),
        ("nocolon", "USER:PASSWORD"),
        ("user:***", "write the password itself"),
    ] {
        let spec =
            json!({"name": "c", "protocol": "forward", "listen": "127.0.0.1:0", "credentials": credentials});
        let error =
            client.create_proxy(&serde_json::from_value(spec).unwrap()).await.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("credentials"), "{credentials}: {error}");
    }
}
