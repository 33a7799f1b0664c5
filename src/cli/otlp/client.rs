//! The HTTP client of an exporter. It knows no proxy, so nothing of the environment can lead exports astray.
use std::{
    io,
    pin::pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::{Builder, Runtime},
};

use super::settings::{Destination, Signal};
use crate::tls::{
    self,
    connect::{Connector, UpstreamTls},
};

/// Bytes of a collector's answer that are read at most.
const ANSWER: usize = 64 * 1024;

/// Sends what one exporter hands it, each time over a connection of its own: there is one in a second at most.
pub(super) struct Client {
    signal: Signal,
    timeout: Duration,
    within: Mutex<Within>,
    failing: AtomicBool,
}

struct Within {
    runtime: Runtime,
    /// Made when it is first needed: to read the system's roots takes a while.
    tls: Option<Connector>,
}

impl Client {
    /// # Errors
    /// If the system has no more files.
    pub(super) fn new(signal: Signal, destination: &Destination) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            signal,
            timeout: destination.timeout,
            within: Mutex::new(Within { runtime, tls: None }),
            failing: AtomicBool::new(false),
        })
    }

    /// Blocks until there is an answer, or the time is over.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut within = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        let Within { runtime, tls } = &mut *within;
        if request.uri().scheme_str() == Some("https") && tls.is_none() {
            *tls = Some(Connector::new(&UpstreamTls::default())?);
        }
        let sent = async { tokio::time::timeout(self.timeout, deliver(request, tls.as_ref())).await };
        match runtime.block_on(sent) {
            Ok(result) => result,
            Err(_) => Err(format!("no answer within {:?}", self.timeout).into()),
        }
    }

    /// Tells when exporting begins to fail, and when it goes well again; never each time.
    fn tell(&self, uri: &Uri, result: &Result<Response<Bytes>, HttpError>) {
        let trouble = match result {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("status {}", answer.status().as_u16())),
            Err(error) => Some(tls::with_causes(error.as_ref())),
        };
        let things = self.signal.things();
        let collector = uri.authority().map_or("", |authority| authority.as_str());
        match trouble {
            Some(error) if !self.failing.swap(true, Relaxed) => {
                tracing::warn!(
                    collector,
                    error,
                    "cannot export {things}; they are lost until this is mended"
                );
            }
            None if self.failing.swap(false, Relaxed) => {
                tracing::info!(collector, "{things} are exported again")
            }
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        // The thread that comes here is a batch processor's, which has nothing else to do.
        let result = self.send(request);
        self.tell(&uri, &result);
        result
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("signal", &self.signal).finish_non_exhaustive()
    }
}

async fn deliver(mut request: Request<Bytes>, tls: Option<&Connector>) -> Result<Response<Bytes>, HttpError> {
    let uri = std::mem::take(request.uri_mut());
    let authority = uri.authority().ok_or("the endpoint names no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let secure = uri.scheme_str() == Some("https");
    let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
    request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let stream = TcpStream::connect((host, port)).await?;
    match tls.filter(|_| secure) {
        Some(tls) => exchange(tls.connect(stream, host, &[b"http/1.1".as_slice()]).await?, request).await,
        None => exchange(stream, request).await,
    }
}

async fn exchange(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await?;
    let answer = async {
        let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
        Ok::<_, HttpError>(Response::from_parts(head, body))
    };
    let mut answer = pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // All that the connection has to give is with the answer now.
        _ = connection => answer.await,
    }
}
