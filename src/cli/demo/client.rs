//! The demonstration's client: plain HTTP, and what an SDK would see of it.
use std::{
    error::Error,
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use aconite_dialects::{Decoder, EventFormat, Shape};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

type BoxError = Box<dyn Error + Send + Sync>;

/// How the client reaches a provider.
pub(super) enum ClientPath {
    /// By a reverse proxy's address.
    BaseUrl(SocketAddr),
    /// By a forward proxy, through TLS that it opens.
    HttpsProxy { proxy: SocketAddr, host: &'static str, connector: TlsConnector },
}

/// What the client saw of one request.
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) events: u64,
    pub(super) ending: AnswerEnd,
    /// Whether the protocol's own end came.
    pub(super) finished: bool,
    /// The provider's own error inside of the stream.
    pub(super) error: Option<String>,
    /// Events whose data should be JSON and is not.
    pub(super) broken_json: u64,
    pub(super) first_event: Duration,
    pub(super) body: String,
    took: Duration,
    toxics: Option<String>,
}

/// How the answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AnswerEnd {
    /// With a valid end of the HTTP message.
    Complete,
    /// The connection closed first.
    Closed,
    /// The connection was reset.
    Reset,
}

impl ClientPath {
    pub(super) fn base_url(proxy: SocketAddr) -> Self {
        Self::BaseUrl(proxy)
    }

    /// Through `proxy` to `host`, trusting the local CA and nobody else's word for it.
    pub(super) fn https_proxy(proxy: SocketAddr, host: &'static str, ca_pem: &str) -> Result<Self, BoxError> {
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        Ok(Self::HttpsProxy { proxy, host, connector: Arc::new(config).into() })
    }

    /// Sends a request and reads the answer to whatever end it has.
    pub(super) async fn ask(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Result<Seen, BoxError> {
        match self {
            Self::BaseUrl(proxy) => {
                exchange(TcpStream::connect(proxy).await?, "localhost", path, headers, body).await
            }
            Self::HttpsProxy { proxy, host, connector } => {
                let mut stream = TcpStream::connect(proxy).await?;
                stream
                    .write_all(format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").as_bytes())
                    .await?;
                let mut answer = Vec::new();
                while !answer.ends_with(b"\r\n\r\n") {
                    answer.push(stream.read_u8().await?);
                }
                if !answer.starts_with(b"HTTP/1.1 200") {
                    return Err(format!("CONNECT: {}", String::from_utf8_lossy(&answer).trim()).into());
                }
                let stream = connector.connect((*host).try_into()?, stream).await?;
                exchange(stream, host, path, headers, body).await
            }
        }
    }
}

impl fmt::Display for ClientPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BaseUrl(proxy) | Self::HttpsProxy { proxy, .. } => write!(f, "http://{proxy}"),
        }
    }
}

async fn exchange<S>(
    stream: S,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Result<Seen, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "it tells how long a real call took")]
    let started = Instant::now();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    #[expect(clippy::disallowed_methods, reason = "it ends with the answer: nothing else holds the sender")]
    let driver = tokio::spawn(connection);
    let mut request =
        Request::post(path).header(header::HOST, host).header(header::CONTENT_TYPE, "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from(body.to_string())))?).await?;
    let mut seen = Seen {
        status: response.status().as_u16(),
        events: 0,
        ending: AnswerEnd::Complete,
        finished: false,
        error: None,
        broken_json: 0,
        first_event: Duration::ZERO,
        body: String::new(),
        took: Duration::ZERO,
        toxics: response
            .headers()
            .get("x-aconite-toxics")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
    };
    seen.read(response.into_body(), started).await;
    driver.abort();
    Ok(seen)
}

impl Seen {
    async fn read(&mut self, mut body: Incoming, started: Instant) {
        let mut decoder = Decoder::new(EventFormat::Sse, usize::MAX);
        while let Some(frame) = body.frame().await {
            match frame.map(|frame| frame.into_data()) {
                Ok(Ok(bytes)) => {
                    self.body.push_str(&String::from_utf8_lossy(&bytes));
                    decoder.push(bytes);
                    self.count(&mut decoder, started);
                }
                Ok(Err(_trailers)) => {}
                Err(error) => {
                    self.ending = if is_reset(&error) { AnswerEnd::Reset } else { AnswerEnd::Closed };
                    break;
                }
            }
        }
        self.took = started.elapsed();
    }

    fn count(&mut self, decoder: &mut Decoder, started: Instant) {
        while let Some(event) = decoder.next() {
            if !event.is_event() {
                continue;
            }
            if self.events == 0 {
                self.first_event = started.elapsed();
            }
            self.events += 1;
            self.finished |= Shape::UNKNOWN.is_terminator(&event);
            let data = event.data();
            let broken =
                &*data != b"[DONE]" && serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_err();
            self.broken_json += u64::from(broken);
            if let Ok(data) = serde_json::from_slice::<Value>(&data)
                && let Some(error) = data.get("error")
            {
                self.error = Some(error.to_string());
            }
        }
    }
}

/// A text in one line, not too long.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut characters = line.chars();
    let mut short: String = characters.by_ref().take(110).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

fn is_reset(error: &hyper::Error) -> bool {
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(current) = cause {
        let io = current.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset) {
            return true;
        }
        cause = current.source();
    }
    false
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, events, ending, finished, .. } = self;
        write!(f, "{status}, ")?;
        if *events == 0 {
            f.write_str(&shortened(&self.body))?;
        } else {
            write!(f, "{events} events, the first after {} ms, ", self.first_event.as_millis())?;
            if self.broken_json > 0 {
                write!(f, "{} of them not JSON, ", self.broken_json)?;
            }
            if let Some(error) = &self.error {
                write!(f, "an error, {}, ", shortened(error))?;
            }
            f.write_str(match ending {
                AnswerEnd::Complete if *finished => "and the regular end",
                AnswerEnd::Complete => {
                    "and a valid end of the HTTP answer, but not the provider's last event"
                }
                AnswerEnd::Closed => "then the connection closed without the last chunk",
                AnswerEnd::Reset => "then the connection was reset",
            })?;
        }
        write!(f, " ({} ms", self.took.as_millis())?;
        match &self.toxics {
            Some(toxics) => write!(f, "; x-aconite-toxics: {toxics})"),
            None => f.write_str(")"),
        }
    }
}
