//! Upstreams that are declared to speak HTTP/2 alone.
use aconite::{Aconite, model::ProxySpec};
use http::{Method, Request};
use serde_json::{Value, json};

use super::{client, complete, count, origin, serve_h2};
use crate::{
    support::{Origin, Proxied},
    tls_support::Identity,
};

const POST: &str = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";

#[tokio::test]
async fn every_client_reaches_an_upstream_of_http_2_without_tls() {
    let origin = origin(count).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "upstream_protocol": "http2"})).await;
    for body in
        ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
    {
        let heard = proxied.raw_patiently(format!("{POST}{body}")).await;
        assert_eq!((heard.status(), heard.body().len()), (200, 5), "{}", heard.text());
    }
    let (sender, _ended) = client(proxied.connect().await).await;
    let request = Request::builder().method(Method::POST).uri("http://x/").body(()).unwrap();
    let (head, count, _) = complete(&sender, request, "hello").await.unwrap();
    assert_eq!((head.status.as_u16(), count, origin.connections()), (200, 5, 1));
}

/// Also one whose TLS agrees to no protocol.
#[tokio::test]
async fn over_tls_http_2_is_the_only_offer() {
    for alpn in [&[&b"h2"[..], b"http/1.1"][..], &[]] {
        let identity = Identity::of(&["localhost"]);
        let acceptor = identity.server(alpn, &[]);
        let origin = Origin::running(move |caller| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(caller.stream).await {
                    serve_h2(stream, count).await;
                }
            }
        })
        .await;
        let url = format!("https://localhost:{}", origin.address.port());
        let tls = json!({"ca": identity.cert_file()});
        let proxied =
            Proxied::with(json!({"upstream": url, "upstream_tls": tls, "upstream_protocol": "http2"})).await;
        let heard = proxied.raw_patiently(format!("{POST}Content-Length: 5\r\n\r\nhello")).await;
        assert_eq!((heard.status(), heard.body().len()), (200, 5), "{}", heard.text());
    }
}

#[tokio::test]
async fn an_upgrade_to_it_is_refused_with_the_setting() {
    let origin = origin(count).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "upstream_protocol": "http2"})).await;
    let heard =
        proxied.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upgrade_failed".to_owned()]));
    assert!(heard.text().contains("`upstream_protocol`"), "{}", heard.text());
}

async fn error_of(spec: Value) -> String {
    let spec: ProxySpec = serde_json::from_value(spec).unwrap();
    match Aconite::builder().proxy(spec).start().await {
        Ok(_) => panic!("it is accepted"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn it_is_for_http_proxies_with_a_server_behind_them() {
    let listen = "127.0.0.1:0";
    for spec in [
        json!({"name": "p", "listen": listen, "upstream": "localhost:1", "upstream_protocol": "http2"}),
        json!({"name": "p", "listen": listen, "protocol": "forward", "upstream_protocol": "http2"}),
        json!({"name": "p", "listen": listen, "upstream": "sim://openai", "upstream_protocol": "http2"}),
    ] {
        let error = error_of(spec.clone()).await;
        assert!(error.contains("upstream_protocol"), "{spec}: {error}");
    }
    let unknown = json!({"name": "p", "upstream_protocol": "http3"});
    assert!(serde_json::from_value::<ProxySpec>(unknown).unwrap_err().to_string().contains("http2"));
}
