//! Requests to upstreams: connections, protocol, and retries that are safe.
mod error;
pub(crate) mod http1_body;
pub(crate) mod io;
pub(crate) mod pool;
pub(crate) mod unreachable;

use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode, Version, response};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
    upgrade::Upgraded,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::AlertDescription;
use tokio::net::TcpStream;

use super::{
    body::{Body, BodySource},
    target::Origin,
};
use crate::{
    dial::{DialError, Dialer},
    steady::Steady,
    tls::{self, connect::ConnectError, files::FromFiles},
    workers,
};
use error::SendError;
pub(crate) use error::UpstreamError;
use http1_body::Http1Body;
use io::{Io, Socket, UpstreamIo};
use pool::{Connection, HostPool, Http1, Http2, SharedPool};

/// How upstreams are reached by one proxy.
#[derive(Clone)]
pub(crate) struct Upstreams {
    pub(crate) pool: SharedPool,
    pub(crate) tls: Arc<TlsFiles>,
    pub(crate) dialer: Dialer,
}

/// The TLS identities of a proxy, one after the other as its files change.
pub(crate) type TlsFiles = FromFiles<TlsIdentity>;

/// TLS as the proxy's settings and files have it.
pub(crate) struct TlsIdentity {
    /// No two identities share connections.
    number: usize,
    connector: tls::connect::Connector,
}

impl TlsIdentity {
    pub(crate) fn new(connector: tls::connect::Connector) -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        Self { number: NUMBERS.fetch_add(1, Relaxed), connector }
    }
}

/// An answer, and how it was come by.
pub(crate) struct Answer {
    pub(crate) response: Response<BodySource>,
    /// Which of the upstream's addresses gave it; none did if it is simulated.
    pub(crate) address: Option<SocketAddr>,
    /// What became of a first attempt, if there was one.
    pub(crate) retried: Option<&'static str>,
    /// The connection, if the response is a `101`. The response has no body then.
    pub(crate) switching: Option<Switching>,
}

/// A connection to an upstream on which HTTP/1 is over.
pub(crate) struct Switching {
    incoming: Incoming,
    /// What still drives it, if anything has to.
    connection: Option<Box<Http1>>,
}

/// In which version of HTTP a request is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum VersionPolicy {
    /// HTTP/1.1, unless the upstream refuses it.
    Http1,
    /// HTTP/2 if the upstream agrees to it in the TLS handshake, else HTTP/1.1.
    Negotiated,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

/// On which connections a request may be sent.
#[derive(Clone, Copy)]
pub(crate) enum Link<'a> {
    /// On those that other requests use too, kept or new.
    Shared,
    /// On one of its own, with something around its bytes.
    Own(&'a (dyn Fn(TcpStream) -> Box<dyn Io> + Send + Sync)),
}

impl VersionPolicy {
    fn alpn(self) -> &'static [&'static [u8]] {
        match self {
            Self::Http1 => &[tls::ALPN_HTTP1],
            Self::Negotiated => &[tls::ALPN_H2, tls::ALPN_HTTP1],
            Self::Http2 => &[tls::ALPN_H2],
        }
    }
}

impl Upstreams {
    /// Sends a request.
    ///
    /// If it is certain enough that the upstream has not processed it, and its body is still available, it is sent once
    /// more on another connection (RFC 9110, section 9.2.2; RFC 9112, section 9.3.1; RFC 9113, section 8.7).
    ///
    /// # Errors
    /// If there is no connection, or no response on it.
    pub(crate) async fn send(
        &self,
        origin: &Origin,
        speak: VersionPolicy,
        link: Link<'_>,
        build: impl Fn(bool) -> Request<()>,
        mut body: Body,
    ) -> Result<Answer, UpstreamError> {
        let pool = match link {
            Link::Shared => self.pool.host(origin, self.tls.current().number),
            Link::Own(_) => Arc::default(),
        };
        let mut retried = None;
        let mut kept = pool.take(speak);
        loop {
            let connection = match kept.take() {
                Some(connection) => {
                    // Another proxy may have made it.
                    self.dialer.may_use(&origin.into(), connection.address())?;
                    connection
                }
                None => Box::pin(self.connect(origin, &pool, speak, link)).await?,
            };
            let again = body.again();
            let mut failure = match self.send_on(connection, &pool, &build, body).await {
                Ok(answer) => return Ok(Answer { retried, ..answer }),
                Err(failure) => failure,
            };
            if speak != VersionPolicy::Http1 && failure.is_unsent() {
                // A neighbour may have made a new one meanwhile.
                kept = pool.take(speak);
            }
            let (outcome, sent) = (failure.outcome(), failure.is_sent());
            let again = failure.again(again);
            match again {
                Some(again) if retried.is_none() => body = again,
                _ => return Err(failure.into_error(origin, sent)),
            }
            retried = Some(outcome);
        }
    }

    /// Whether the upstream speaks HTTP/2, found out by connecting if need be; the connection is kept.
    ///
    /// # Errors
    /// If there is no connection.
    pub(crate) async fn speaks_http2(&self, origin: &Origin) -> Result<bool, UpstreamError> {
        let pool = self.pool.host(origin, self.tls.current().number);
        if let Some(known) = pool.speaks_http2() {
            return Ok(known);
        }
        Ok(match self.connect(origin, &pool, VersionPolicy::Negotiated, Link::Shared).await? {
            Connection::Http1(connection) => {
                pool.keep_fresh(connection);
                false
            }
            Connection::Http2(_) => true,
        })
    }

    async fn connect(
        &self,
        origin: &Origin,
        pool: &Arc<HostPool>,
        speak: VersionPolicy,
        link: Link<'_>,
    ) -> Result<Connection, UpstreamError> {
        const REFUSED: AlertDescription = AlertDescription::NoApplicationProtocol;
        match self.connect_by(origin, pool, speak, link).await {
            Err(UpstreamError::Tls { source: ConnectError::Refused { alert: REFUSED, .. }, .. })
                if speak == VersionPolicy::Http1 =>
            {
                pool.only_http2();
                self.connect_by(origin, pool, VersionPolicy::Http2, link).await
            }
            Ok(Connection::Http1(connection)) if speak == VersionPolicy::Negotiated => {
                pool.only_http1();
                Ok(Connection::Http1(connection))
            }
            result => result,
        }
    }

    async fn connect_by(
        &self,
        origin: &Origin,
        pool: &Arc<HostPool>,
        speak: VersionPolicy,
        link: Link<'_>,
    ) -> Result<Connection, UpstreamError> {
        let (stream, address) = self.dialer.dial(&origin.into()).await?;
        let stream = match link {
            Link::Shared => Socket::Tcp(stream),
            Link::Own(around) => Socket::Toxic(around(stream)),
        };
        if !origin.tls {
            let io = UpstreamIo::plain(stream);
            return match speak {
                VersionPolicy::Http2 => self.handshake_http2(io, origin, pool, address).await,
                VersionPolicy::Http1 | VersionPolicy::Negotiated => {
                    self.handshake_http1(io, origin, address).await
                }
            };
        }
        let server_name = origin.server_name.as_ref().unwrap_or(&origin.host);
        let tls = self.tls.current();
        let handshake = tls.connector.connect(stream, server_name, speak.alpn());
        let limit = self.dialer.connect_timeout;
        let tls = tokio::time::timeout(limit, handshake)
            .await
            .map_err(|_| DialError::Timeout { host: origin.host.to_string(), limit })?;
        let tls = tls.map_err(|source| UpstreamError::Tls { origin: origin.clone(), source })?;
        let http2 = speak == VersionPolicy::Http2 || tls.get_ref().1.alpn_protocol() == Some(tls::ALPN_H2);
        let io = UpstreamIo::tls(tls);
        if http2 {
            self.handshake_http2(io, origin, pool, address).await
        } else {
            self.handshake_http1(io, origin, address).await
        }
    }

    async fn handshake_http1(
        &self,
        io: UpstreamIo,
        origin: &Origin,
        address: SocketAddr,
    ) -> Result<Connection, UpstreamError> {
        let read = io.read_counter();
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_header_size(MAX_HEADER_SECTION)
            .max_headers(MAX_HEADERS)
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|source| UpstreamError::Broken { origin: origin.clone(), source, sent: false })?;
        let driver = Box::pin(connection.with_upgrades());
        Ok(Connection::Http1(Box::new(Http1 {
            sender,
            driver,
            steady: Steady::new(),
            reused: false,
            worker: workers::here(),
            address,
            read,
        })))
    }

    async fn handshake_http2(
        &self,
        io: UpstreamIo,
        origin: &Origin,
        pool: &Arc<HostPool>,
        address: SocketAddr,
    ) -> Result<Connection, UpstreamError> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .adaptive_window(true)
            .max_header_list_size(MAX_HEADER_SECTION as u32)
            // How many more the upstream takes is in its settings, which come first.
            .initial_max_send_streams(1)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|source| UpstreamError::Broken { origin: origin.clone(), source, sent: false })?;
        #[expect(clippy::disallowed_methods, reason = "it ends with the last sender, or the connection")]
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 connection to an upstream ended");
            }
        });
        let connection = Http2 { sender, address };
        pool.share(connection.clone());
        Ok(Connection::Http2(connection))
    }

    async fn send_on(
        &self,
        connection: Connection,
        pool: &Arc<HostPool>,
        build: &impl Fn(bool) -> Request<()>,
        body: Body,
    ) -> Result<Answer, SendError> {
        match connection {
            Connection::Http2(Http2 { mut sender, address }) => {
                let mut request = build(true).map(|()| body);
                *request.version_mut() = Version::HTTP_2;
                let response = sender.try_send_request(request).await.map_err(|mut failed| SendError {
                    unsent: failed.take_message().map(|request| Box::new(request.into_body())),
                    // hyper lets go of a request that waits for its stream when the connection ends.
                    nothing_came: failed.error().is_user(),
                    source: failed.into_error(),
                })?;
                let response = response.map(BodySource::Incoming);
                Ok(Answer { response, address: Some(address), retried: None, switching: None })
            }
            Connection::Http1(connection) => {
                let address = connection.address;
                let answer = self.send_http1(connection, pool, build(false).map(|()| body)).await?;
                Ok(Answer { address: Some(address), ..answer })
            }
        }
    }

    /// Drives the connection until the answer's head is there.
    async fn send_http1(
        &self,
        mut connection: Box<Http1>,
        pool: &Arc<HostPool>,
        request: Request<Body>,
    ) -> Result<Answer, SendError> {
        let before = connection.read.load(Relaxed);
        let outcome = {
            let mut answer = pin!(connection.sender.try_send_request(request));
            let Http1 { driver, steady, .. } = &mut *connection;
            let mut driving = true;
            let mut ask = |cx: &mut Context<'_>| {
                if driving && driver.as_mut().poll(cx).is_ready() {
                    driving = false;
                }
                match answer.as_mut().poll(cx) {
                    // The connection is over and will wake nobody; the answer's channel is closed too.
                    Poll::Pending if !driving => answer.as_mut().poll(cx),
                    other => other,
                }
            };
            poll_fn(|cx| steady.poll(cx, &mut ask)).await.map(|response| (response, driving))
        };
        match outcome {
            Ok((response, driving)) => {
                let (head, incoming) = response.into_parts();
                let (source, switching) = if head.status == StatusCode::SWITCHING_PROTOCOLS {
                    let connection = driving.then_some(connection);
                    (BodySource::Full(None), Some(Switching { incoming, connection }))
                } else {
                    let kept = driving.then(|| (connection, Arc::clone(pool)));
                    (BodySource::Layer(Box::new(Http1Body::new(incoming, kept))), None)
                };
                let response = Response::from_parts(head, source);
                Ok(Answer { response, address: None, retried: None, switching })
            }
            Err(mut failed) => Err(SendError {
                unsent: failed.take_message().map(|request| Box::new(request.into_body())),
                nothing_came: connection.reused && connection.read.load(Relaxed) == before,
                source: failed.into_error(),
            }),
        }
    }
}

/// The largest header section, in bytes, in either direction.
pub(crate) const MAX_HEADER_SECTION: usize = 256 * 1024;
/// The most header fields, in either direction.
pub(crate) const MAX_HEADERS: usize = 2000;

impl Switching {
    /// What the connection becomes after the `101` with this head.
    ///
    /// # Errors
    /// If it ended.
    pub(crate) async fn upgraded(self, head: response::Parts) -> Result<Upgraded, hyper::Error> {
        let Self { incoming, mut connection } = self;
        let mut response = Response::from_parts(head, incoming);
        let mut upgrade = pin!(hyper::upgrade::on(&mut response));
        poll_fn(|cx| {
            if connection.as_mut().is_some_and(|connection| connection.drive(cx).is_ready()) {
                connection = None;
            }
            upgrade.as_mut().poll(cx)
        })
        .await
    }
}
