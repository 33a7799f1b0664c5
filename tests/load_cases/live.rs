//! Connections of every kind that stay open while something else happens.
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::timeout,
};

use crate::{
    cli_support::Server,
    h2_cases,
    support::{GUARD, Origin, hear_until},
    tls_support::{from_pem, name, trusting},
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// In HTTP/1.0 the body is not in chunks, so that it can be compared as it is.
const ASK: &str = "GET /stream HTTP/1.0\r\nhost: intercepted.test\r\n\r\n";
const UPGRADE: &str = "GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
/// Events before and after what happens meanwhile.
const BEFORE: usize = 3;
const IN_ALL: usize = 6;

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Tcp,
    Http1Stream,
    Http2Stream,
    Tunnel,
    Intercepted,
    Upgraded,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Tcp, Self::Http1Stream, Self::Http2Stream, Self::Tunnel, Self::Intercepted, Self::Upgraded];
}

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that is open.
pub(super) enum Live {
    /// Sends back what it is sent.
    Echo(Box<dyn Io>),
    /// Has had the first events.
    Stream(Box<dyn Io>),
    Http2 {
        body: RecvStream,
        _sender: h2::client::SendRequest<Bytes>,
    },
}

fn events(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| format!("data: {{\"number\":{number}}}\n\n")).collect()
}

/// The upstream of all kinds, and when its streams go on.
pub(super) struct Stage {
    origin: Origin,
    on: watch::Sender<bool>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let (on, told) = watch::channel(false);
        let origin = Origin::running(move |mut caller| {
            let mut told = told.clone();
            async move {
                while let Some(first) = caller.byte().await {
                    if first != b'G' {
                        caller.say([first]).await;
                        continue;
                    }
                    let Some(request) = caller.request().await else { return };
                    if request.starts_with(b"ET /upgrade") {
                        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
                        caller.say(head).await;
                        continue;
                    }
                    caller.say([HEAD, &events(0..BEFORE)].concat()).await;
                    if told.wait_for(|on| *on).await.is_ok() {
                        caller.say(events(BEFORE..IN_ALL)).await;
                    }
                    return;
                }
            }
        })
        .await;
        Self { origin, on }
    }

    /// The proxies `tcp`, `http` and `forward`.
    pub(super) fn proxies(&self) -> Value {
        let (address, url) = (self.origin.address.to_string(), self.origin.url());
        json!([
            {"name": "tcp", "listen": "127.0.0.1:0", "upstream": address},
            {"name": "http", "listen": "127.0.0.1:0", "upstream": url},
            {"name": "forward", "listen": "127.0.0.1:0", "protocol": "forward", "map": {"intercepted.test": url}},
        ])
    }

    /// The streams come to their end.
    pub(super) fn go_on(&self) {
        self.on.send_replace(true);
    }

    /// Opens a connection, and uses it.
    pub(super) async fn open(&self, server: &Server, kind: Kind) -> Live {
        let proxy = match kind {
            Kind::Tcp => "tcp",
            Kind::Http1Stream | Kind::Http2Stream | Kind::Upgraded => "http",
            Kind::Tunnel | Kind::Intercepted => "forward",
        };
        let mut client = TcpStream::connect(server.proxy(proxy)).await.unwrap();
        match kind {
            Kind::Tcp => echoing(client).await,
            Kind::Http1Stream => streaming(client).await,
            Kind::Http2Stream => over_http2(client).await,
            Kind::Tunnel => {
                connect(&mut client, &self.origin.address.to_string()).await;
                echoing(client).await
            }
            Kind::Intercepted => {
                connect(&mut client, "intercepted.test:443").await;
                let (_, pem) = server.request("GET", "/v1/ca.pem", "");
                let tls = trusting(from_pem(&pem), &[]).connect(name("intercepted.test"), client);
                streaming(timeout(GUARD, tls).await.unwrap().unwrap()).await
            }
            Kind::Upgraded => {
                client.write_all(UPGRADE.as_bytes()).await.unwrap();
                let head = hear_until(&mut client, "\r\n\r\n").await;
                assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
                echoing(client).await
            }
        }
    }
}

async fn connect(client: &mut TcpStream, host: &str) {
    client.write_all(format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let head = hear_until(client, "\r\n\r\n").await;
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
}

async fn echoing(mut client: impl Io + 'static) -> Live {
    client.write_all(b"a").await.unwrap();
    hear_until(&mut client, "a").await;
    Live::Echo(Box::new(client))
}

async fn streaming(mut client: impl Io + 'static) -> Live {
    client.write_all(ASK.as_bytes()).await.unwrap();
    hear_until(&mut client, "\r\n\r\n").await;
    assert_eq!(hear_until(&mut client, events(2..BEFORE)).await, events(0..BEFORE).as_bytes());
    Live::Stream(Box::new(client))
}

async fn over_http2(client: TcpStream) -> Live {
    let (sender, _ended) = h2_cases::client(client).await;
    let mut sender = timeout(GUARD, sender.ready()).await.unwrap().unwrap();
    let request = http::Request::get("http://x/stream").body(()).unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    let mut body = timeout(GUARD, response).await.unwrap().unwrap().into_body();
    assert_eq!(read(&mut body, events(0..BEFORE).len()).await, events(0..BEFORE).as_bytes());
    Live::Http2 { body, _sender: sender }
}

/// So many bytes of a body, or all of it if it is shorter.
async fn read(body: &mut RecvStream, length: usize) -> BytesMut {
    let mut all = BytesMut::new();
    while all.len() < length
        && let Some(data) = timeout(GUARD, body.data()).await.unwrap()
    {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    all
}

impl Live {
    /// Uses it to its end. To be called when its stage goes on.
    pub(super) async fn finish(self) {
        let rest = events(BEFORE..IN_ALL);
        match self {
            Self::Echo(mut client) => {
                client.write_all(b"zebra").await.unwrap();
                assert_eq!(hear_until(&mut client, "ra").await, b"zebra");
            }
            Self::Stream(mut client) => {
                let heard = crate::support::hear(&mut client, GUARD).await;
                assert_eq!((heard.text(), heard.end), (rest, crate::support::End::Closed));
            }
            Self::Http2 { mut body, .. } => assert_eq!(read(&mut body, usize::MAX).await, rest.as_bytes()),
        }
    }
}
