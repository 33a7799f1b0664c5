//! Real bug reports about HTTP/2 and gRPC, over real sockets. Named by case.
use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client::SendRequest, server::SendResponse};
use http::{HeaderMap, Method, Request, Response};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    support::{GUARD, Origin, Proxied},
    tls_support::{Identity, from_pem, name, read_head, trusting},
};

type Ended = JoinHandle<Result<(), h2::Error>>;

/// An upstream that speaks HTTP/2 without TLS, and serves each stream in a task of its own.
async fn origin<F, R>(serve: F) -> Origin
where
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    Origin::running(move |caller| serve_h2(caller.stream, serve.clone())).await
}

async fn serve_h2<IO, F, R>(io: IO, serve: F)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> R,
    R: Future<Output = ()> + Send + 'static,
{
    let Ok(mut connection) = h2::server::handshake(io).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(serve(request, respond));
    }
}

async fn client<IO>(io: IO) -> (SendRequest<Bytes>, Ended)
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = h2::client::handshake(io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn call(host: &str, path: &str) -> Request<()> {
    let request = Request::builder().method(Method::POST).uri(format!("http://{host}{path}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

/// Sends a request with a body; the answer's head is still to come.
async fn begin(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
    end: bool,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let mut sender = timeout(GUARD, sender.clone().ready()).await.unwrap().unwrap();
    let (response, mut stream) = sender.send_request(request, false).unwrap();
    stream.send_data(body.into(), end).unwrap();
    (response, stream)
}

async fn read(body: &mut RecvStream) -> Result<usize, h2::Error> {
    let mut count = 0;
    while let Some(data) = body.data().await {
        let data = data?;
        count += data.len();
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(count)
}

/// One call, to its end: the answer's head, how long its body was, its trailers.
async fn complete(
    sender: &SendRequest<Bytes>,
    request: Request<()>,
    body: impl Into<Bytes>,
) -> Result<(http::response::Parts, usize, HeaderMap), h2::Error> {
    let whole = async {
        let (response, _sending) = begin(sender, request, body, true).await;
        let (head, mut body) = response.await?.into_parts();
        let count = read(&mut body).await?;
        let trailers = body.trailers().await?.unwrap_or_default();
        Ok((head, count, trailers))
    };
    timeout(GUARD, whole).await.expect("the call hangs")
}

/// Says how much came, as a gRPC server would.
async fn count(request: Request<RecvStream>, respond: SendResponse<Bytes>) {
    let mut body = request.into_body();
    if let Ok(count) = read(&mut body).await {
        answer(respond, vec![7; count]);
    }
}

fn answer(mut respond: SendResponse<Bytes>, body: Vec<u8>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    // A client may leave before the end.
    let Ok(mut sending) = respond.send_response(head, false) else { return };
    if sending.send_data(body.into(), false).is_ok() {
        let _ = sending.send_trailers(HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )]));
    }
}

/// Waits for the client's reset, and tells with which code it came.
async fn told(mut respond: SendResponse<Bytes>, codes: mpsc::UnboundedSender<Reason>) {
    if let Ok(code) = poll_fn(|context| respond.poll_reset(context)).await {
        codes.send(code).unwrap();
    }
}

#[tokio::test]
async fn h2_01_uploads_that_were_given_up_take_no_window_with_them() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (codes, mut resets) = mpsc::unbounded_channel();
    let origin = origin(move |request, respond| {
        let (started, codes) = (started.clone(), codes.clone());
        async move {
            if request.uri().path() == "/small" {
                return count(request, respond).await;
            }
            // It takes the head, and never reads what follows.
            started.send(()).unwrap();
            told(respond, codes).await;
            drop(request);
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    for turn in 0..20 {
        let (_response, mut sending) = begin(&sender, call("x", "/large"), vec![1; 1_000_000], false).await;
        timeout(GUARD, starts.recv()).await.unwrap().unwrap();
        sending.send_reset(Reason::CANCEL);
        let code = timeout(Duration::from_secs(5), resets.recv()).await;
        assert_eq!(code.unwrap_or_else(|_| panic!("turn {turn}: not told")), Some(Reason::CANCEL));
    }
    let (head, count, _) = complete(&sender, call("x", "/small"), vec![1; 100_000]).await.unwrap();
    assert_eq!((head.status.as_u16(), count), (200, 100_000));
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn h2_02_a_clients_cancel_reaches_the_upstream() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (codes, mut resets) = mpsc::unbounded_channel();
    let origin = origin(move |_request, respond| {
        started.send(()).unwrap();
        told(respond, codes.clone())
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let (_response, mut sending) = begin(&sender, call("x", "/slow"), "question", true).await;
    timeout(GUARD, starts.recv()).await.unwrap().unwrap();
    sending.send_reset(Reason::CANCEL);
    let code = timeout(Duration::from_secs(5), resets.recv()).await.expect("the upstream works on");
    assert_eq!(code, Some(Reason::CANCEL));
}

#[tokio::test]
async fn h2_02_an_upstreams_reset_keeps_its_code() {
    for code in [Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::ENHANCE_YOUR_CALM, Reason::REFUSED_STREAM] {
        let origin = origin(move |_request, mut respond| async move {
            let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            let mut sending = respond.send_response(head, false).unwrap();
            sending.send_data("part".into(), false).unwrap();
            // The data must be on its way before: a reset drops what waits.
            tokio::time::sleep(Duration::from_millis(50)).await;
            sending.send_reset(code);
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let (sender, _ended) = client(proxied.connect().await).await;
        let error = complete(&sender, call("x", "/x"), "question").await.unwrap_err();
        assert_eq!(error.reason(), Some(code));
        assert!(error.is_reset() && error.is_remote(), "{error}");
    }
}

#[tokio::test]
async fn h2_03_answers_that_were_given_up_hold_no_window_of_the_others() {
    const SIZE: usize = 64 * 1024;
    let origin = origin(|_request, respond| async move { answer(respond, vec![7; SIZE]) }).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    let mut calls = JoinSet::new();
    for number in 0..64 {
        let sender = sender.clone();
        calls.spawn(async move {
            let (response, mut sending) = begin(&sender, call("x", "/x"), "question", true).await;
            let mut body = response.await.unwrap().into_body();
            if number % 2 == 0 {
                let first = body.data().await.unwrap().unwrap();
                body.flow_control().release_capacity(first.len()).unwrap();
                sending.send_reset(Reason::CANCEL);
                return 0;
            }
            read(&mut body).await.unwrap()
        });
    }
    let all = timeout(GUARD, calls.join_all()).await.expect("an answer is stuck");
    let whole = all.iter().filter(|count| **count == SIZE).count();
    assert_eq!(whole, 32);
}

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

#[tokio::test]
async fn h2_07_a_websocket_over_http2_is_not_announced_and_fails_loudly() {
    let origin = origin(count).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, _ended) = client(proxied.connect().await).await;
    complete(&sender, call("x", "/x"), "1").await.unwrap();
    assert!(!sender.is_extended_connect_protocol_enabled());
    let mut request = Request::builder().method(Method::CONNECT).uri("http://x/realtime").body(()).unwrap();
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let mut ready = sender.clone().ready().await.unwrap();
    let refused = match ready.send_request(request, false) {
        Ok((response, _sending)) => match timeout(GUARD, response).await.expect("it is left to wait") {
            Ok(response) => response.status().is_client_error() || response.status().is_server_error(),
            Err(error) => error.reason().is_some(),
        },
        Err(_) => true,
    };
    assert!(refused);
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

#[tokio::test]
async fn h2_13_toxicity_is_for_a_connection_or_for_each_call() {
    let origin = origin(count).await;
    let proxied = Proxied::http(&origin).await;
    let (sender, ended) = client(proxied.connect().await).await;
    proxied
        .add(json!({"type": "fail", "name": "some", "toxicity": 0.5, "attributes": {"status": 503}}))
        .await;
    let mut failed = 0;
    for _ in 0..40 {
        let (head, _, trailers) = complete(&sender, call("x", "/x"), "1").await.unwrap();
        let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
        failed += usize::from(status.is_none_or(|status| status != "0"));
    }
    assert!((1..40).contains(&failed), "{failed} of 40 calls on one connection failed");
    proxied.remove("some").await;
    // The connection is idle: it ends all the same, and visibly.
    proxied.add(json!({"type": "reset_peer", "attributes": {"timeout": 20}})).await;
    let end = timeout(GUARD, ended).await.expect("an idle connection is spared").unwrap();
    let error = end.unwrap_err();
    assert_eq!(
        error.get_io().map(std::io::Error::kind),
        Some(std::io::ErrorKind::ConnectionReset),
        "{error}"
    );
}
