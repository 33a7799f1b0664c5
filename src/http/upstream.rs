//! Asking upstreams: connections, protocol, and the one repetition that is safe.
use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode, Version};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::AlertDescription;
use thiserror::Error;

use super::{
    body::{Again, Body, Source},
    dial::{DialError, OffLimits},
    pool::{Connection, HostPool, Http1, Http2, SharedPool},
    target::Origin,
    upstream_io::UpstreamIo,
};
use crate::{
    steady::Steady,
    tls::{self, connect::ConnectError},
    workers,
};

/// How upstreams are reached by one proxy.
#[derive(Clone)]
pub(crate) struct Upstreams {
    pub(crate) pool: SharedPool,
    /// TLS as the proxy's settings have it; its number keeps identities apart.
    pub(crate) connector: Arc<tls::connect::Connector>,
    pub(crate) identity: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) off_limits: OffLimits,
}

/// Why an upstream gave no answer.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("TLS with {origin} failed: {}", tls::with_causes(source))]
    Tls { origin: Origin, source: ConnectError },
    #[error("no response from {origin}: {}", tls::with_causes(source))]
    Broken { origin: Origin, source: hyper::Error },
    #[error("the response of {origin} {}", what_is_wrong(source))]
    Unreadable { origin: Origin, source: hyper::Error },
}

impl UpstreamError {
    /// The status of the proxy's own answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Dial(error) => error.status(),
            Self::Tls { .. } | Self::Broken { .. } | Self::Unreadable { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    /// The code with which an upstream in HTTP/2 reset the stream instead of answering.
    pub(crate) fn reset(&self) -> Option<h2::Reason> {
        let Self::Broken { source, .. } = self else { return None };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(source);
        while let Some(current) = cause {
            if let Some(h2) = current.downcast_ref::<h2::Error>() {
                return h2.reason().filter(|_| h2.is_reset() && h2.is_remote());
            }
            cause = current.source();
        }
        None
    }

    /// A word for `x-aconite-error` and the journal.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Dial(error) => error.code(),
            Self::Tls { .. } => "upstream_tls",
            Self::Broken { .. } => "upstream_broken",
            Self::Unreadable { .. } => "bad_response",
        }
    }
}

/// An answer, and how it was come by.
pub(crate) struct Answer {
    pub(crate) response: Response<Source>,
    /// Which of the upstream's addresses gave it; none did if it is simulated.
    pub(crate) address: Option<SocketAddr>,
    /// Whether a kept connection turned out to be dead before.
    pub(crate) stale: bool,
}

impl Upstreams {
    /// Sends a request, in the client's version of HTTP where the upstream speaks it.
    ///
    /// If a kept connection dies without a byte of an answer, a request that can be sent again is, once, on a new
    /// connection (RFC 9110, section 9.2.2; RFC 9112, section 9.3.1).
    ///
    /// # Errors
    /// If there is no connection, or no answer on it.
    pub(crate) async fn send(
        &self,
        origin: &Origin,
        http2: bool,
        build: impl Fn(bool) -> Request<()>,
        mut body: Body,
    ) -> Result<Answer, UpstreamError> {
        let pool = self.pool.host(origin, self.identity);
        let mut stale = false;
        if let Some(connection) = pool.take(http2) {
            // Another proxy may have made it.
            self.may_use(&origin.into(), connection.address())?;
            let again = body.again();
            match self.send_on(connection, &pool, &build, body).await {
                Ok(answer) => return Ok(answer),
                Err(Failure { unsent: Some(unsent), .. }) => body = *unsent,
                Err(failure) => match again.filter(|_| failure.nothing_came).and_then(Again::body) {
                    Some(again) => body = again,
                    None => return Err(failure.into_error(origin)),
                },
            }
            stale = true;
        }
        let connection = Box::pin(self.connect(origin, &pool, http2)).await?;
        match self.send_on(connection, &pool, &build, body).await {
            Ok(answer) => Ok(Answer { stale, ..answer }),
            Err(failure) => Err(failure.into_error(origin)),
        }
    }

    /// Whether the upstream speaks HTTP/2, found out by connecting if need be; the connection is kept.
    ///
    /// # Errors
    /// If there is no connection.
    pub(crate) async fn speaks_http2(&self, origin: &Origin) -> Result<bool, UpstreamError> {
        let pool = self.pool.host(origin, self.identity);
        if let Some(known) = pool.speaks_http2() {
            return Ok(known);
        }
        Ok(match self.connect(origin, &pool, true).await? {
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
        http2: bool,
    ) -> Result<Connection, UpstreamError> {
        const REFUSED: AlertDescription = AlertDescription::NoApplicationProtocol;
        match self.connect_by(origin, pool, if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] }).await
        {
            Err(UpstreamError::Tls { source: ConnectError::Refused { alert: REFUSED, .. }, .. })
                if !http2 =>
            {
                pool.only_http2();
                self.connect_by(origin, pool, &[b"h2"]).await
            }
            Ok(Connection::Http1(connection)) if http2 => {
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
        alpn: &[&[u8]],
    ) -> Result<Connection, UpstreamError> {
        let (stream, address) = self.dial(&origin.into()).await?;
        if !origin.tls {
            return self.handshake_http1(UpstreamIo::plain(stream), origin, address).await;
        }
        let handshake =
            self.connector.connect(stream, origin.server_name.as_ref().unwrap_or(&origin.host), alpn);
        let tls = tokio::time::timeout(self.connect_timeout, handshake)
            .await
            .map_err(|_| DialError::Timeout { host: origin.host.to_string(), limit: self.connect_timeout })?;
        let tls = tls.map_err(|source| UpstreamError::Tls { origin: origin.clone(), source })?;
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = UpstreamIo::tls(tls);
        if http2 {
            self.handshake_http2(io, origin, pool, address).await
        } else {
            self.handshake_http1(io, origin, address).await
        }
    }

    /// Sends on an HTTP/2 connection without TLS, for a client that speaks it with prior knowledge (gRPC).
    ///
    /// # Errors
    /// If there is no connection, or no answer on it.
    pub(crate) async fn send_h2c(
        &self,
        origin: &Origin,
        build: impl Fn(bool) -> Request<()>,
        body: Body,
    ) -> Result<Answer, UpstreamError> {
        let pool = self.pool.host(origin, self.identity);
        let connection = match pool.take(true) {
            Some(connection @ Connection::Http2(_)) => {
                self.may_use(&origin.into(), connection.address())?;
                connection
            }
            _ => {
                let (stream, address) = self.dial(&origin.into()).await?;
                self.handshake_http2(UpstreamIo::plain(stream), origin, &pool, address).await?
            }
        };
        self.send_on(connection, &pool, &build, body).await.map_err(|failure| failure.into_error(origin))
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
            .map_err(|source| UpstreamError::Broken { origin: origin.clone(), source })?;
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
            .handshake(TokioIo::new(io))
            .await
            .map_err(|source| UpstreamError::Broken { origin: origin.clone(), source })?;
        // Ends when the last sender is gone or the upstream closes.
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
    ) -> Result<Answer, Failure> {
        match connection {
            Connection::Http2(Http2 { mut sender, address }) => {
                let mut request = build(true).map(|()| body);
                *request.version_mut() = Version::HTTP_2;
                let response = sender.try_send_request(request).await.map_err(|mut failed| Failure {
                    unsent: failed.take_message().map(|request| Box::new(request.into_body())),
                    nothing_came: false,
                    source: failed.into_error(),
                })?;
                let response = response.map(Source::Incoming);
                Ok(Answer { response, address: Some(address), stale: false })
            }
            Connection::Http1(connection) => {
                let address = connection.address;
                let response = self.send_http1(connection, pool, build(false).map(|()| body)).await?;
                Ok(Answer { response, address: Some(address), stale: false })
            }
        }
    }

    /// Drives the connection until the answer's head is there.
    async fn send_http1(
        &self,
        mut connection: Box<Http1>,
        pool: &Arc<HostPool>,
        request: Request<Body>,
    ) -> Result<Response<Source>, Failure> {
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
                let kept = driving.then(|| (connection, Arc::clone(pool)));
                let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
                Ok(response.map(|incoming| Source::http1(incoming, kept, switching)))
            }
            Err(mut failed) => Err(Failure {
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

struct Failure {
    /// The request's body, if nothing of the request was sent.
    unsent: Option<Box<Body>>,
    /// The connection had been used before, and not a byte came for this request.
    nothing_came: bool,
    source: hyper::Error,
}

impl Failure {
    fn into_error(self, origin: &Origin) -> UpstreamError {
        let (origin, source) = (origin.clone(), self.source);
        if source.is_parse() {
            UpstreamError::Unreadable { origin, source }
        } else {
            UpstreamError::Broken { origin, source }
        }
    }
}

fn what_is_wrong(error: &hyper::Error) -> String {
    if error.is_parse_too_large() {
        let kib = MAX_HEADER_SECTION / 1024;
        return format!("has a header section of more than {kib} KiB or {MAX_HEADERS} fields");
    }
    let causes = tls::with_causes(error);
    format!("is not valid HTTP/1.1 and cannot be forwarded: {causes}")
}

/// What an upstream's connection becomes after its `101`; `connection` is what still drives it, if anything has to.
pub(crate) async fn upgraded(
    response: &mut Response<Incoming>,
    mut connection: Option<Box<Http1>>,
) -> Result<hyper::upgrade::Upgraded, hyper::Error> {
    let mut upgrade = pin!(hyper::upgrade::on(response));
    poll_fn(|cx| {
        if connection.as_mut().is_some_and(|connection| connection.drive(cx).is_ready()) {
            connection = None;
        }
        upgrade.as_mut().poll(cx)
    })
    .await
}
