//! What the tests over real sockets share: origins that say exactly what they are told, raw clients, running proxies.
use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use aconite::{
    Aconite,
    model::{Exchange, ExchangeFilter, ProxySpec},
    toxics::ToxicSpec,
};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// How long anything may take before a test fails instead of hanging.
pub(crate) const GUARD: Duration = Duration::from_secs(20);

/// An upstream whose every connection runs the same script.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<u8>>>,
    accepting: JoinHandle<()>,
}

/// One connection to an origin.
pub(crate) struct Caller {
    pub(crate) stream: TcpStream,
    /// Which connection it is, from 0.
    pub(crate) number: usize,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Origin {
    pub(crate) async fn running<F, R>(script: F) -> Self
    where
        F: Fn(Caller) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let (count, log) = (Arc::clone(&connections), Arc::clone(&received));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, SeqCst);
                tokio::spawn(script(Caller { stream, number, received: Arc::clone(&log) }));
            }
        });
        Self { address, connections, received, accepting }
    }

    /// Answers every request with the same bytes, for as long as the connection lasts.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::running(move |mut caller| {
            let answer = Arc::clone(&answer);
            async move {
                while caller.request().await.is_some() {
                    if caller.stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Answers one request with these bytes, then closes.
    pub(crate) async fn answering_once(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::running(move |mut caller| {
            let answer = Arc::clone(&answer);
            async move {
                caller.request().await;
                caller.stream.write_all(&answer).await.unwrap();
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Everything that was received so far, on all connections.
    pub(crate) fn received(&self) -> String {
        String::from_utf8_lossy(&self.received_bytes()).into_owned()
    }

    pub(crate) fn received_bytes(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Caller {
    /// Reads a request with whatever body its head announces; `None` at the end of the connection.
    pub(crate) async fn request(&mut self) -> Option<Vec<u8>> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(self.byte().await?);
        }
        let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
            let mut body = vec![0; length.trim().parse().unwrap()];
            self.stream.read_exact(&mut body).await.ok()?;
            self.received.lock().unwrap().extend_from_slice(&body);
            request.extend(body);
        } else if head.contains("transfer-encoding: chunked") {
            self.chunks(&mut request).await?;
        }
        Some(request)
    }

    /// By their sizes, since their content may look like an end; the trailers too (RFC 9112, 7.1).
    async fn chunks(&mut self, request: &mut Vec<u8>) -> Option<()> {
        loop {
            let size = self.line(request).await?;
            let size = size.trim_end().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).unwrap_or_else(|error| panic!("{size:?}: {error}"));
            if size == 0 {
                while !self.line(request).await?.trim_end().is_empty() {}
                return Some(());
            }
            for _ in 0..size + 2 {
                request.push(self.byte().await?);
            }
        }
    }

    async fn line(&mut self, request: &mut Vec<u8>) -> Option<String> {
        let start = request.len();
        while !request[start..].ends_with(b"\n") {
            request.push(self.byte().await?);
        }
        Some(String::from_utf8_lossy(&request[start..]).into_owned())
    }

    pub(crate) async fn byte(&mut self) -> Option<u8> {
        let byte = self.stream.read_u8().await.ok()?;
        self.received.lock().unwrap().push(byte);
        Some(byte)
    }

    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Breaks the connection.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// An instance with one proxy, `p`.
pub(crate) struct Proxied {
    pub(crate) aconite: Aconite,
    pub(crate) address: SocketAddr,
}

impl Proxied {
    /// In front of an origin, by plain HTTP.
    pub(crate) async fn http(origin: &Origin) -> Self {
        Self::with(json!({"upstream": origin.url()})).await
    }

    /// As configured.
    pub(crate) async fn with(spec: Value) -> Self {
        let mut spec = spec;
        spec["name"] = json!("p");
        spec["listen"] = json!("127.0.0.1:0");
        let spec: ProxySpec = serde_json::from_value(spec).unwrap();
        let aconite = Aconite::builder().seed(42).proxy(spec).start().await.unwrap();
        let address = aconite.proxy_address("p").unwrap();
        Self { aconite, address }
    }

    pub(crate) async fn add(&self, toxic: Value) {
        let toxic: ToxicSpec = serde_json::from_value(toxic).unwrap();
        self.aconite.client().add_toxic("p", &toxic).await.unwrap();
    }

    pub(crate) async fn remove(&self, toxic: &str) {
        self.aconite.client().remove_toxic("p", toxic).await.unwrap();
    }

    /// Sends bytes and reads until the proxy closes, or says nothing for `quiet`.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Heard {
        let mut client = self.connect().await;
        client.write_all(bytes.as_ref()).await.unwrap();
        hear(&mut client, Duration::from_millis(700)).await
    }

    /// The same, however long it takes.
    pub(crate) async fn raw_patiently(&self, bytes: impl AsRef<[u8]>) -> Heard {
        let mut client = self.connect().await;
        client.write_all(bytes.as_ref()).await.unwrap();
        hear(&mut client, GUARD).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Through CONNECT and the TLS that the proxy opens.
    pub(crate) async fn tunnel(&self, host: &str) -> TlsStream<TcpStream> {
        let mut stream = self.connect().await;
        let connect = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
        stream.write_all(connect.as_bytes()).await.unwrap();
        let answer = hear_until(&mut stream, "\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(self.aconite.ca_pem().as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let name = host.to_owned().try_into().unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// The journal, once nothing is under way.
    pub(crate) async fn journal(&self) -> Vec<Exchange> {
        let filter = ExchangeFilter { wait: Some(1), ..ExchangeFilter::default() };
        let exchanges = self.aconite.client().exchanges(&filter).await.unwrap();
        exchanges.exchanges
    }
}

/// The server's side of TLS, with a certificate for `localhost` that nobody trusts.
pub(crate) fn acceptor() -> TlsAcceptor {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// What a raw client heard, and how it ended.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// FIN.
    Closed,
    Reset,
    /// Nothing for as long as was waited, and the connection is open.
    Silence,
}

impl Heard {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn head(&self) -> String {
        self.text().split("\r\n\r\n").next().unwrap_or_default().to_owned()
    }

    pub(crate) fn status(&self) -> u16 {
        self.text().split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// A header's values, in order.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let head = self.head();
        let pairs = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
    }

    /// The body, taken out of its chunks if it came in chunks.
    pub(crate) fn body(&self) -> Vec<u8> {
        let at =
            self.bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(self.bytes.len(), |at| at + 4);
        let body = &self.bytes[at..];
        if self.header("transfer-encoding").iter().any(|value| value.eq_ignore_ascii_case("chunked")) {
            dechunked(body)
        } else {
            body.to_vec()
        }
    }
}

/// The data of all chunks that came whole.
pub(crate) fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(at) = body.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            // Trailers may follow.
            break;
        }
        let Some(chunk) = body.get(at + 2..at + 2 + size) else { break };
        data.extend_from_slice(chunk);
        body = body.get(at + 4 + size..).unwrap_or_default();
    }
    data
}

/// Reads until the other side ends, or is silent for `quiet`.
pub(crate) async fn hear(stream: &mut (impl AsyncRead + Unpin), quiet: Duration) -> Heard {
    let mut bytes = Vec::new();
    let end = loop {
        let mut piece = [0; 16 * 1024];
        match timeout(quiet, stream.read(&mut piece)).await {
            Err(_) => break End::Silence,
            Ok(Ok(0)) => break End::Closed,
            Ok(Ok(count)) => bytes.extend_from_slice(&piece[..count]),
            Ok(Err(_)) => break End::Reset,
        }
    };
    Heard { bytes, end }
}

/// Reads until what has been read ends with these bytes.
pub(crate) async fn hear_until(stream: &mut (impl AsyncRead + Unpin), last: impl AsRef<[u8]>) -> Vec<u8> {
    let last = last.as_ref();
    let mut bytes = Vec::new();
    let reading = async {
        while !bytes.ends_with(last) {
            bytes.push(stream.read_u8().await.ok()?);
        }
        Some(())
    };
    let found = timeout(GUARD, reading).await.ok().flatten().is_some();
    let (last, heard) = (String::from_utf8_lossy(last), String::from_utf8_lossy(&bytes));
    assert!(found, "{last:?} never came after {heard:?}");
    bytes
}

/// An address that refuses connections for as long as the socket is kept, since nobody else can listen on its port.
pub(crate) fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Waits until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + GUARD;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Lets this process, and those that it starts, open as many files as the system allows: where few are the default,
/// a test with thousands of connections would measure that.
pub(crate) fn many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
}
