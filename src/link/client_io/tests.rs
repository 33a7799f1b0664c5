use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    Request, Response,
    body::{Body, Frame},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::Instant,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{
    super::{
        Counters, Lane,
        testing::{Fault, Plan, Watch, assert_reset, guarded, ms, noise, pair, read_all},
    },
    *,
};

type Give = fn(&SocketControl);
const FIN: Give = SocketControl::fin_after_flush;
const RESET: Give = SocketControl::reset;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A body that gives an order where its end should be, and never ends.
struct Unended {
    data: Option<Bytes>,
    control: SocketControl,
    order: Give,
}

impl Body for Unended {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.data.take() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => {
                (self.order)(&self.control);
                Poll::Pending
            }
        }
    }
}

fn socket(stream: TcpStream, faults: &[Fault]) -> (ToxicSocket<Watch>, SocketControl) {
    let lane = |faults| Lane::new(Instant::now(), Plan::of(faults).governor());
    ToxicSocket::new(stream, lane(&[]), lane(faults), Arc::new(Counters::default()))
}

/// Answers over HTTP/1.1; the task's result is whether hyper has let go of the connection with an error.
fn serve(io: ClientIo<Watch>, control: SocketControl, data: Vec<u8>, order: Give) -> JoinHandle<bool> {
    let data = Bytes::from(data);
    tokio::spawn(async move {
        let service = service_fn(move |_| {
            let body = Unended { data: Some(data.clone()), control: control.clone(), order };
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        http1::Builder::new().serve_connection(TokioIo::new(io), service).await.is_err()
    })
}

async fn plain(faults: &[Fault], data: &[u8], order: Give) -> (TcpStream, JoinHandle<bool>) {
    let (client, stream) = pair().await;
    let (socket, control) = socket(stream, faults);
    (client, serve(ClientIo::plain(socket, control.clone()), control, data.to_vec(), order))
}

async fn tls(
    faults: &[Fault],
    data: &[u8],
    order: Give,
) -> (tokio_rustls::client::TlsStream<TcpStream>, JoinHandle<bool>) {
    let (client, stream) = pair().await;
    let (socket, control) = socket(stream, faults);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let trust = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (acceptor, connector) = (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(trust)));
    let name = "localhost".try_into().unwrap();
    let (accepted, connected) =
        guarded(async { tokio::join!(acceptor.accept(socket), connector.connect(name, client)) }).await;
    let io = ClientIo::tls(accepted.unwrap(), control.clone());
    (connected.unwrap(), serve(io, control, data.to_vec(), order))
}

/// Asks, and reads until the connection ends.
async fn ask(client: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> (Vec<u8>, io::Result<usize>) {
    client.write_all(REQUEST).await.unwrap();
    read_all(client).await
}

/// One chunk, and no last one.
fn assert_unended(answer: &[u8], data: &[u8]) {
    let mut rest = format!("\r\n\r\n{:X}\r\n", data.len()).into_bytes();
    rest.extend_from_slice(data);
    rest.extend_from_slice(b"\r\n");
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(answer.ends_with(&rest), "{} bytes", answer.len());
}

#[tokio::test]
async fn a_fin_follows_everything_that_hyper_was_given() {
    let bulk = noise(1, 3_000_000);
    for faults in [&[][..], &[Fault::Delay(ms(60))]] {
        for data in [&b"hello"[..], &bulk] {
            let start = Instant::now();
            let (mut client, server) = plain(faults, data, FIN).await;
            let (answer, end) = ask(&mut client).await;
            end.unwrap();
            assert_unended(&answer, data);
            assert!(faults.is_empty() || start.elapsed() >= ms(60));
            drop(client);
            assert!(guarded(server).await.unwrap());
        }
    }
}

#[tokio::test]
async fn over_tls_a_close_notify_goes_before_the_fin() {
    for faults in [&[][..], &[Fault::Delay(ms(10))]] {
        let (mut client, server) = tls(faults, b"hello", FIN).await;
        let (answer, end) = ask(&mut client).await;
        // Without the alert this is an error.
        end.unwrap();
        assert_unended(&answer, b"hello");
        drop(client);
        assert!(guarded(server).await.unwrap());
    }
}

#[tokio::test]
async fn a_reset_follows_everything_that_hyper_was_given() {
    for faults in [&[][..], &[Fault::Delay(ms(10))]] {
        let (mut client, server) = plain(faults, b"hello", RESET).await;
        let (answer, end) = ask(&mut client).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_unended(&answer, b"hello");
        assert!(guarded(server).await.unwrap());

        let (mut client, server) = tls(faults, b"hello", RESET).await;
        let (answer, end) = ask(&mut client).await;
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_unended(&answer, b"hello");
        assert!(guarded(server).await.unwrap());
    }
}

#[tokio::test]
async fn a_reset_does_not_wait_for_a_client_that_takes_nothing() {
    for faults in [&[][..], &[Fault::Slice(10_000)]] {
        let (mut client, stream) = pair().await;
        let (socket, control) = socket(stream, faults);
        let io = ClientIo::plain(socket, control.clone());
        let server = serve(io, control.clone(), noise(2, 1_000_003).repeat(20), |_| {});
        client.write_all(REQUEST).await.unwrap();
        let mut head = [0; 15];
        guarded(client.read_exact(&mut head)).await.unwrap();
        control.reset();
        assert!(guarded(server).await.unwrap());
        assert_reset(&mut client).await;
    }
}

#[tokio::test]
async fn over_http2_too_nothing_that_hyper_was_given_is_cut() {
    let (client, stream) = pair().await;
    let (socket, control) = socket(stream, &[]);
    let io = ClientIo::plain(socket, control.clone());
    let data = Bytes::from(noise(3, 3_000_000));
    let sent = data.clone();
    let server = tokio::spawn(async move {
        let service = service_fn(move |_| {
            let body = Unended { data: Some(data.clone()), control: control.clone(), order: FIN };
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(io), service).await.is_err()
    });
    let handshake = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(4_000_000)
        .initial_connection_window_size(4_000_000)
        .handshake(TokioIo::new(client))
        .await;
    let (mut sender, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://localhost/").body(String::new()).unwrap();
    let mut body = guarded(sender.send_request(request)).await.unwrap().into_body();
    let mut got = Vec::new();
    while got.len() < sent.len() {
        let frame = guarded(body.frame()).await.unwrap().unwrap();
        got.extend_from_slice(&frame.into_data().unwrap());
    }
    assert!(got == sent);
    assert!(guarded(body.frame()).await.is_none_or(|frame| frame.is_err()));
    drop((body, sender));
    assert!(guarded(server).await.unwrap());
}
