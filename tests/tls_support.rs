//! What the tests with TLS share: origins that tell what they were asked for, clients with roots of their own.
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// A certificate that is its own authority, in files.
pub(crate) struct Identity {
    directory: TempDir,
    pub(crate) certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub(crate) fn of(names: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        fs::write(directory.path().join("cert.pem"), certificate.pem()).unwrap();
        fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        Self { directory, certificate: certificate.der().clone(), key }
    }

    pub(crate) fn cert_file(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    /// A server with this certificate; it wants one of `clients` to present itself, if there are any.
    pub(crate) fn server(&self, alpn: &[&[u8]], clients: &[&Self]) -> TlsAcceptor {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if clients.is_empty() {
            builder.with_no_client_auth()
        } else {
            let roots = roots(clients.iter().map(|client| client.certificate.clone()));
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        };
        let chain = vec![self.certificate.clone()];
        let mut config = builder.with_single_cert(chain, self.key.clone_key()).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).unwrap();
    }
    roots
}

/// A client that trusts these alone.
pub(crate) fn trusting(
    certificates: impl IntoIterator<Item = CertificateDer<'static>>,
    alpn: &[&[u8]],
) -> TlsConnector {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(certificates))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// The certificates of a PEM text.
pub(crate) fn from_pem(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

pub(crate) fn name(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned()).unwrap()
}

/// A request as a TLS origin saw it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The server name in the handshake.
    pub(crate) server_name: Option<String>,
    /// The certificate that the client presented.
    pub(crate) client: Option<CertificateDer<'static>>,
    pub(crate) head: String,
}

impl Asked {
    pub(crate) fn host(&self) -> &str {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(name, _)| name.eq_ignore_ascii_case("host")).map_or("", |(_, value)| value)
    }
}

/// An upstream with TLS and HTTP/1.1. It answers each connection once and closes it.
pub(crate) struct TlsOrigin {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl TlsOrigin {
    pub(crate) async fn running(
        acceptor: TlsAcceptor,
        answer: impl Fn(&Asked) -> String + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = Arc::clone(&asked);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_once(acceptor.clone(), stream, Arc::clone(&log), answer.clone()));
            }
        });
        Self { address, asked, accepting }
    }

    /// By a name that resolves to it.
    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for TlsOrigin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A handshake that fails is the client's to tell.
async fn answer_once(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    log: Arc<Mutex<Vec<Asked>>>,
    answer: impl Fn(&Asked) -> String,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let session = stream.get_ref().1;
    let server_name = session.server_name().map(str::to_owned);
    let client =
        session.peer_certificates().and_then(|chain| chain.first()).map(|one| one.clone().into_owned());
    let Some(head) = read_head(&mut stream).await else { return };
    let asked = Asked { server_name, client, head };
    let answer = answer(&asked);
    log.lock().unwrap().push(asked);
    // The other side may leave before the end.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Everything up to the empty line.
pub(crate) async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// Asks once, as a client that wants the connection closed; everything that came.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Some servers leave without a close_notify; what came before counts all the same.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
