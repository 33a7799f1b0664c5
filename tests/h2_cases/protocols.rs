//! Which protocol is spoken: ALPN, tunnels, WebSocket.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use aconite_toxics::How;
use bytes::Bytes;
use h2::{RecvStream, SendStream, client::SendRequest, ext::Protocol};
use http::{Method, Request, Response};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{answer, call, client, complete, count, origin, read, serve_h2};
use crate::{
    support::{GUARD, Origin, Proxied, hear, hear_until},
    tls_support::{Identity, from_pem, name, read_head, trusting},
};

/// The answer to CONNECT was read; what follows is the tunnel's.
async fn tunnel(proxied: &Proxied, target: &str) -> TcpStream {
    let mut stream = proxied.connect().await;
    stream
        .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let head = timeout(GUARD, read_head(&mut stream)).await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream
}

#[tokio::test]
async fn h2_05_what_is_offered_in_a_tunnel_is_what_the_upstream_speaks() {
    const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
    for (spoken, agreed) in [(BOTH, &b"h2"[..]), (&BOTH[1..], b"http/1.1")] {
        let identity = Identity::of(&["localhost"]);
        let acceptor = identity.server(spoken, &[]);
        let origin = Origin::running(move |caller| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(caller.stream).await {
                    serve_h2(stream, count).await;
                }
            }
        })
        .await;
        let tls = json!({"ca": identity.cert_file()});
        let proxied =
            Proxied::with(json!({"protocol": "forward", "intercept": ["localhost"], "upstream_tls": tls}))
                .await;
        let authority = format!("localhost:{}", origin.address.port());
        let stream = tunnel(&proxied, &authority).await;
        let connector = trusting(from_pem(proxied.aconite.ca_pem()), BOTH);
        let stream = timeout(GUARD, connector.connect(name("localhost"), stream)).await.unwrap().unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(agreed));
        if agreed == b"h2" {
            let (sender, _ended) = client(stream).await;
            let (head, count, trailers) = complete(&sender, call(&authority, "/x"), "12345").await.unwrap();
            assert_eq!((head.status.as_u16(), count), (200, 5));
            assert_eq!(trailers["grpc-status"], "0");
        }
    }
}

#[tokio::test]
async fn h2_05_a_kept_connection_of_another_client_hides_no_protocol() {
    const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
    let identity = Identity::of(&["localhost"]);
    let acceptor = identity.server(BOTH, &[]);
    let origin = Origin::running(move |caller| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(caller.stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                return serve_h2(stream, count).await;
            }
            while read_head(&mut stream).await.is_some_and(|head| !head.is_empty()) {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n1.1").await.unwrap();
            }
        }
    })
    .await;
    let tls = json!({"ca": identity.cert_file()});
    let proxied =
        Proxied::with(json!({"protocol": "forward", "intercept": ["localhost"], "upstream_tls": tls})).await;
    let authority = format!("localhost:{}", origin.address.port());
    let roots = from_pem(proxied.aconite.ca_pem());
    for alpn in [&BOTH[1..], BOTH, &BOTH[1..]] {
        let stream = tunnel(&proxied, &authority).await;
        let connector = trusting(roots.clone(), alpn);
        let mut stream = timeout(GUARD, connector.connect(name("localhost"), stream)).await.unwrap().unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn[0]));
        if alpn.len() == 1 {
            let ask = format!("GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            stream.write_all(ask.as_bytes()).await.unwrap();
            let head = timeout(GUARD, read_head(&mut stream)).await.unwrap().unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        } else {
            let (sender, _ended) = client(stream).await;
            let (head, count, _) = complete(&sender, call(&authority, "/x"), "12345").await.unwrap();
            assert_eq!((head.status.as_u16(), count), (200, 5));
        }
    }
}

#[tokio::test]
async fn a_client_of_http_1_is_served_in_it_on_both_sides_unless_the_upstream_refuses() {
    const BOTH: &[&[u8]] = &[b"h2", b"http/1.1"];
    for (spoken, used) in [(BOTH, "1.1"), (&BOTH[..1], "2")] {
        let identity = Identity::of(&["localhost"]);
        let acceptor = identity.server(spoken, &[]);
        let origin = Origin::running(move |caller| {
            let acceptor = acceptor.clone();
            async move {
                let Ok(mut stream) = acceptor.accept(caller.stream).await else { return };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    serve_h2(stream, |_, respond| async { answer(respond, b"2".to_vec()) }).await;
                } else {
                    let _ = read_head(&mut stream).await;
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n1.1").await.unwrap();
                    stream.shutdown().await.unwrap();
                }
            }
        })
        .await;
        let url = format!("https://localhost:{}", origin.address.port());
        let proxied =
            Proxied::with(json!({"upstream": url, "upstream_tls": {"ca": identity.cert_file()}})).await;
        for _ in 0..2 {
            let heard = proxied.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
            assert_eq!((heard.status(), heard.body()), (200, used.as_bytes().to_vec()));
        }
    }
}

fn plain(path: &str) -> Request<()> {
    Request::builder().method(Method::POST).uri(format!("http://x{path}")).body(()).unwrap()
}

/// A client's extended CONNECT for this protocol, once it is known that it may.
pub(crate) async fn extended_connect(
    sender: &SendRequest<Bytes>,
    protocol: &'static str,
) -> (Response<RecvStream>, SendStream<Bytes>) {
    // The server's settings have come with the first answer.
    complete(sender, plain("/first"), "1").await.unwrap();
    assert!(sender.is_extended_connect_protocol_enabled());
    let request = Request::builder().method(Method::CONNECT).uri("http://x/realtime?model=m");
    let mut request = request.header("sec-websocket-version", "13").body(()).unwrap();
    request.extensions_mut().insert(Protocol::from_static(protocol));
    let mut ready = sender.clone().ready().await.unwrap();
    let (response, sending) = ready.send_request(request, false).unwrap();
    (timeout(GUARD, response).await.expect("it is left to wait").unwrap(), sending)
}

/// Answers what is not an upgrade, and for an upgrade what `upgraded` says; then says again what it hears.
pub(crate) async fn realtime(upgraded: &'static str) -> Origin {
    Origin::running(move |mut caller| async move {
        while let Some(request) = caller.request().await {
            if !String::from_utf8_lossy(&request).to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n")
            {
                caller.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                continue;
            }
            caller.say(upgraded).await;
            while let Some(byte) = caller.byte().await {
                caller.say([byte]).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn h2_07_a_websocket_over_http2_is_an_upgrade_to_the_upstream() {
    let origin = realtime(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: x\r\nsec-websocket-protocol: realtime\r\n\r\nhello",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (response, mut sending) = extended_connect(&sender, "websocket").await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["sec-websocket-protocol"], "realtime");
    for gone in ["upgrade", "connection", "sec-websocket-accept"] {
        assert!(!response.headers().contains_key(gone), "{gone}");
    }
    let asked = origin.received();
    assert!(asked.contains("GET /realtime?model=m HTTP/1.1\r\n"), "{asked}");
    let asked = asked.to_ascii_lowercase();
    for said in ["connection: upgrade\r\n", "sec-websocket-key: ", "sec-websocket-version: 13\r\n"] {
        assert_eq!(asked.matches(said).count(), 1, "{said}: {asked}");
    }
    let mut body = response.into_body();
    let mut heard = timeout(GUARD, body.data()).await.unwrap().unwrap().unwrap().to_vec();
    sending.send_data(Bytes::from_static(b"\x81\x02hi"), false).unwrap();
    while heard.len() < b"hello\x81\x02hi".len() {
        heard.extend(timeout(GUARD, body.data()).await.unwrap().unwrap().unwrap());
    }
    assert_eq!(heard, b"hello\x81\x02hi");
    // Other streams of the connection go on beside it, and its end is the upstream's.
    let (head, ..) = complete(&sender, plain("/beside"), "1").await.unwrap();
    assert_eq!(head.status.as_u16(), 200);
    sending.send_data(Bytes::new(), true).unwrap();
    assert_eq!(timeout(GUARD, read(&mut body)).await.unwrap().unwrap(), 0);
    let journal = proxied.journal().await;
    let exchange = journal.iter().find(|exchange| exchange.path.starts_with("/realtime")).unwrap();
    assert_eq!(exchange.ending.unwrap().how, How::Fin, "{exchange:?}");
}

/// Whatever the upstream's TLS would agree to, for this it is asked in HTTP/1.1.
#[tokio::test]
async fn h2_07_an_upstream_with_both_protocols_is_asked_for_the_upgrade_in_http_1_1() {
    let identity = Identity::of(&["localhost"]);
    let acceptor = identity.server(&[b"h2", b"http/1.1"], &[]);
    let origin = Origin::running(move |caller| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(caller.stream).await else { return };
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                return serve_h2(stream, count).await;
            }
            read_head(&mut stream).await.unwrap();
            let switched =
                "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nhello";
            stream.write_all(switched.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        }
    })
    .await;
    let upstream = format!("https://localhost:{}", origin.address.port());
    let proxied =
        Proxied::with(json!({"upstream": upstream, "upstream_tls": {"ca": identity.cert_file()}})).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (response, _sending) = extended_connect(&sender, "websocket").await;
    assert_eq!(response.status(), 200);
    assert_eq!(timeout(GUARD, response.into_body().data()).await.unwrap().unwrap().unwrap(), "hello");
}

#[tokio::test]
async fn h2_07_what_the_upstream_says_instead_of_switching_is_the_answer() {
    let origin = realtime("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (response, _sending) = extended_connect(&sender, "websocket").await;
    assert_eq!(response.status(), 403);
    assert_eq!(timeout(GUARD, response.into_body().data()).await.unwrap().unwrap().unwrap(), "no");
}

#[tokio::test]
async fn h2_07_other_protocols_over_http2_are_refused_and_the_setting_is_named() {
    let origin = realtime("").await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (response, _sending) = extended_connect(&sender, "connect-udp").await;
    assert_eq!(response.status(), 501);
    assert_eq!(response.headers()["x-aconite-error"], "extended_connect");
    let text = timeout(GUARD, response.into_body().data()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(&text).contains("HTTP/1.1"), "{text:?}");
    assert!(!origin.received().contains("realtime"));
}

#[tokio::test]
async fn h2_10_http2_without_tls_in_a_tunnel_meets_toxics() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let origin = origin(move |request, respond| {
        counted.fetch_add(1, SeqCst);
        count(request, respond)
    })
    .await;
    let map = json!({"milvus.example.test": origin.url()});
    let proxied = Proxied::with(json!({"protocol": "forward", "map": map})).await;
    let stream = tunnel(&proxied, "milvus.example.test:19530").await;
    let (sender, _ended) = client(stream).await;
    let ask = || call("milvus.example.test:19530", "/milvus.proto.milvus.MilvusService/Search");
    let (head, count, trailers) = complete(&sender, ask(), "12345").await.unwrap();
    assert_eq!((head.status.as_u16(), count), (200, 5));
    assert_eq!(trailers["grpc-status"], "0");
    proxied.add(json!({"type": "fail", "attributes": {"status": 503}})).await;
    let (head, _, trailers) = complete(&sender, ask(), "12345").await.unwrap();
    let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
    assert!(head.status == 503 || status.is_some_and(|status| status != "0"), "{head:?} {trailers:?}");
    assert_eq!(calls.load(SeqCst), 1, "the failed call went upstream");
}

#[tokio::test]
async fn h2_10_what_cannot_be_read_in_a_tunnel_is_piped() {
    let origin = Origin::running(|mut caller| async move {
        while let Some(byte) = caller.byte().await {
            caller.say([byte]).await;
        }
    })
    .await;
    let proxied = Proxied::with(json!({"protocol": "forward"})).await;
    let mut stream = tunnel(&proxied, &origin.address.to_string()).await;
    stream.write_all(b"\x00\x01\x02binary\xff").await.unwrap();
    let mut back = [0; 10];
    let reading = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut back);
    timeout(GUARD, reading).await.expect("nothing is piped").unwrap();
    assert_eq!(&back, b"\x00\x01\x02binary\xff");
}

/// A client that waits for 100 before an upstream in HTTP/2, which rarely sends one: no side waits for the other.
#[tokio::test]
async fn http_01_an_upstream_in_http_2_does_not_hold_the_body_for_ever() {
    let identity = Identity::of(&["localhost"]);
    let acceptor = identity.server(&[b"h2"], &[]);
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
    let proxied = Proxied::with(json!({"upstream": url, "upstream_tls": {"ca": identity.cert_file()}})).await;
    let mut client = proxied.connect().await;
    let head = "POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(hear_until(&mut client, "\r\n\r\n").await, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.status(), heard.body().len()), (200, 5), "{}", heard.text());
}

/// Frames by hand: no library sends two 103 before its 200.
#[tokio::test]
async fn http_04_early_hints_in_http_2_are_never_the_final_answer() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    // HEADERS with END_HEADERS on stream 1; `:status` as a literal with the static table's name (RFC 7541, 6.2.2).
    let head = |status: &str| [&[0, 0, 5, 1, 4, 0, 0, 0, 1, 0x08, 3][..], status.as_bytes()].concat();
    let said = [
        &SETTINGS[..],
        &SETTINGS_ACK,
        &head("103"),
        &head("103"),
        &head("200"),
        &[0, 0, 5, 0, 1, 0, 0, 0, 1],
        b"hello",
    ]
    .concat();
    let origin = Origin::running(move |mut caller| {
        let said = said.clone();
        async move {
            // Preface, SETTINGS and HEADERS have come once the path is there in clear or coded: the end of the
            // request's DATA is easier to see.
            hear_until(&mut caller.stream, "question").await;
            caller.say(said).await;
            caller.byte().await;
            std::future::pending::<()>().await;
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (head, count, _) = complete(&sender, call("x", "/x"), "question").await.unwrap();
    assert_eq!((head.status.as_u16(), count), (200, 5));
    assert_eq!(proxied.journal().await[0].status, Some(200));
}

/// Which protocol is spoken is not decided for hosts that are left alone: HTTP/2 in clear to them is piped, too.
#[tokio::test]
async fn tls_08_http2_without_tls_to_a_host_that_is_not_intercepted_is_piped() {
    let origin = origin(count).await;
    let proxied = Proxied::with(json!({"protocol": "forward", "intercept": ["other.test"]})).await;
    proxied.add(json!({"type": "fail", "attributes": {"status": 503}})).await;
    for host in ["localhost", "127.0.0.1"] {
        let authority = format!("{host}:{}", origin.address.port());
        let (sender, _ended) = client(tunnel(&proxied, &authority).await).await;
        let (head, count, trailers) = complete(&sender, call(&authority, "/x"), "12345").await.unwrap();
        assert_eq!((head.status.as_u16(), count), (200, 5), "{host}");
        assert_eq!(trailers["grpc-status"], "0", "{host}");
    }
    assert_eq!(proxied.journal().await.len(), 0, "what is left alone was looked into");
}
