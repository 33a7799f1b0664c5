//! Handshakes over real sockets, both sides ours or one side foreign.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use rustls::{
    ClientConfig, HandshakeKind, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, ServerName},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{
    accept::{AcceptError, Terminator},
    authority::{Authority, certificate_path},
    connect::{ConnectError, Connector, ConnectorError, UpstreamTls},
    identity::{self, IdentityError},
    *,
};

mod originating;
mod terminating;

const PATIENCE: Duration = Duration::from_secs(20);
const BOTH: &[&[u8]] = &[ALPN_H2, ALPN_HTTP1];

/// A client that trusts `roots` alone.
fn client(roots: &[&CertificateDer<'static>], alpn: &[&[u8]]) -> TlsConnector {
    let mut trusted = RootCertStore::empty();
    for root in roots {
        trusted.add((*root).clone()).unwrap();
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// A connected pair: the client's end and the proxy's.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

fn name(host: &str) -> ServerName<'static> {
    host::parse(host).unwrap()
}

/// A certificate that is its own authority, in files.
struct SelfSigned {
    cert: PathBuf,
    key: PathBuf,
    certificate: CertificateDer<'static>,
}

impl SelfSigned {
    fn new(dir: &Path, stem: &str, host: &str) -> Self {
        Self::shaped(dir, stem, host, |_| ())
    }

    fn shaped(dir: &Path, stem: &str, host: &str, shape: impl FnOnce(&mut rcgen::CertificateParams)) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new([host.to_owned()]).unwrap();
        shape(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        let own = Self {
            cert: dir.join(format!("{stem}.pem")),
            key: dir.join(format!("{stem}-key.pem")),
            certificate: certificate.der().clone(),
        };
        fs::write(&own.cert, certificate.pem()).unwrap();
        fs::write(&own.key, key.serialize_pem()).unwrap();
        own
    }

    fn served(&self) -> Arc<CertifiedKey> {
        identity::read(&self.cert, &self.key).unwrap()
    }
}
