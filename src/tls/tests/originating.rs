//! Upstreams of ours.

use super::*;

/// An upstream that greets and, for each client, notes which certificate it showed.
struct Upstream {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    /// Asks for a client certificate from one of `clients`, if there are any.
    async fn start(own: Arc<CertifiedKey>, clients: &[&SelfSigned]) -> Self {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let builder = if clients.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for client in clients {
                roots.add(client.certificate.clone()).unwrap();
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
            builder.with_client_cert_verifier(verifier.build().unwrap())
        };
        let resolver = rustls::sign::SingleCertAndKey::from(own);
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
        config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                // A client that refuses the handshake ends only itself.
                if let Ok(mut stream) = acceptor.accept(io).await {
                    let shown = stream.get_ref().1.peer_certificates();
                    let shown = shown.map_or(Vec::new(), |chain| chain[0].to_vec());
                    let length = u32::try_from(shown.len()).unwrap().to_be_bytes();
                    let _ = stream.write_all(&[&length, &shown[..]].concat()).await;
                    let _ = stream.shutdown().await;
                }
            }
        });
        Self { address, task }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn visit(
        &self,
        connector: &Connector,
        host: &str,
    ) -> Result<client::TlsStream<TcpStream>, ConnectError> {
        connector.connect(self.dial().await, host, BOTH).await
    }
}

fn connector(settings: &UpstreamTls) -> Connector {
    Connector::new(settings).unwrap()
}

fn fixture(host: &str) -> (TempDir, SelfSigned) {
    let dir = tempfile::tempdir().unwrap();
    let own = SelfSigned::new(dir.path(), "upstream", host);
    (dir, own)
}

fn trusting(own: &SelfSigned) -> UpstreamTls {
    UpstreamTls { ca: Some(own.cert.clone()), ..UpstreamTls::default() }
}

#[tokio::test]
async fn tls_06_upstreams_are_verified_unless_told_otherwise() {
    let (_dir, own) = fixture("up.test");
    let upstream = Upstream::start(own.served(), &[]).await;

    let default = connector(&UpstreamTls::default());
    let refused = upstream.visit(&default, "up.test").await;
    assert!(matches!(refused, Err(ConnectError::Untrusted { host, .. }) if host == "up.test"));

    let trusting_it = connector(&trusting(&own));
    let stream = upstream.visit(&trusting_it, "up.test").await.unwrap();
    assert_eq!(stream.alpn(), Some(ALPN_HTTP1));
    let refused = upstream.visit(&trusting_it, "other.test").await;
    assert!(matches!(refused, Err(ConnectError::Untrusted { .. })), "name");

    let careless = connector(&UpstreamTls { insecure: true, ..UpstreamTls::default() });
    upstream.visit(&careless, "other.test").await.unwrap();
}

#[tokio::test]
async fn tls_06_a_chain_to_the_given_root_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(dir.path()).unwrap();
    let settings = UpstreamTls { ca: Some(certificate_path(dir.path())), ..UpstreamTls::default() };
    let ours = connector(&settings);
    for (leaf, good) in [
        (authority.leaf("up.test").unwrap(), true),
        (authority.leaf_expired("up.test").unwrap(), false),
        (authority.leaf_untrusted("up.test").unwrap(), false),
    ] {
        let upstream = Upstream::start(leaf, &[]).await;
        assert_eq!(upstream.visit(&ours, "up.test").await.is_ok(), good);
    }
}

#[tokio::test]
async fn tls_06_a_self_signed_authority_may_serve_if_it_is_named_itself() {
    let dir = tempfile::tempdir().unwrap();
    let as_openssl_does = |params: &mut rcgen::CertificateParams| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    };
    let own = SelfSigned::shaped(dir.path(), "own", "up.test", as_openssl_does);
    let upstream = Upstream::start(own.served(), &[]).await;
    let trusting_it = connector(&trusting(&own));
    upstream.visit(&trusting_it, "up.test").await.unwrap();
    let refused = upstream.visit(&trusting_it, "other.test").await;
    assert!(matches!(refused, Err(ConnectError::Untrusted { .. })), "name");

    let expired = SelfSigned::shaped(dir.path(), "expired", "up.test", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let upstream = Upstream::start(expired.served(), &[]).await;
    let refused = upstream.visit(&connector(&trusting(&expired)), "up.test").await;
    assert!(matches!(refused, Err(ConnectError::Untrusted { .. })), "time");
}

#[tokio::test]
async fn the_configured_name_takes_the_place_of_the_host() {
    let (_dir, own) = fixture("inner.test");
    let upstream = Upstream::start(own.served(), &[]).await;
    let renaming = connector(&UpstreamTls { server_name: Some("inner.test".to_owned()), ..trusting(&own) });
    upstream.visit(&renaming, "127.0.0.1").await.unwrap();
}

#[tokio::test]
async fn prx_07_an_upstream_known_by_its_address() {
    let (_dir, own) = fixture("127.0.0.1");
    let upstream = Upstream::start(own.served(), &[]).await;
    let ours = connector(&trusting(&own));
    upstream.visit(&ours, "127.0.0.1").await.unwrap();
    assert!(upstream.visit(&ours, "127.0.0.2").await.is_err());
}

#[tokio::test]
async fn tls_09_no_session_is_resumed_under_another_identity() {
    let (dir, own) = fixture("up.test");
    let alice = SelfSigned::new(dir.path(), "alice", "alice.test");
    let bob = SelfSigned::new(dir.path(), "bob", "bob.test");
    let upstream = Upstream::start(own.served(), &[&alice, &bob]).await;
    let as_client = |who: &SelfSigned| {
        connector(&UpstreamTls {
            client_cert: Some(who.cert.clone()),
            client_key: Some(who.key.clone()),
            ..trusting(&own)
        })
    };
    let routes = [(as_client(&alice), &alice), (as_client(&bob), &bob)];
    for round in 0..3 {
        for (connector, who) in &routes {
            let mut stream = upstream.visit(connector, "up.test").await.unwrap();
            let mut seen = Vec::new();
            stream.read_to_end(&mut seen).await.unwrap();
            assert_eq!(seen[4..], *who.certificate, "round {round}");
            let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            assert_eq!(resumed, round > 0, "the cache is really at work");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_wants_a_certificate_says_so() {
    let (dir, own) = fixture("up.test");
    let alice = SelfSigned::new(dir.path(), "alice", "alice.test");
    let upstream = Upstream::start(own.served(), &[&alice]).await;
    let nobody = connector(&trusting(&own));
    let mut stream = upstream.visit(&nobody, "up.test").await.unwrap();
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(alert_in(&error), Some(AlertDescription::CertificateRequired));
}

#[tokio::test]
async fn upstreams_that_fail_are_told_apart() {
    let ours = connector(&UpstreamTls::default());
    let (near, mut far) = pair().await;
    far.write_all(b"220 this is not TLS\r\n").await.unwrap();
    let refused = ours.connect(near, "up.test", BOTH).await;
    assert!(matches!(refused, Err(ConnectError::Handshake { .. })));

    let (near, far) = pair().await;
    drop(far);
    let refused = ours.connect(near, "up.test", BOTH).await;
    assert!(matches!(refused, Err(ConnectError::Io { .. })));

    let (near, mut far) = pair().await;
    far.write_all(&[21, 3, 3, 0, 2, 2, 112]).await.unwrap();
    let refused = ours.connect(near, "up.test", BOTH).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "upstream `up.test` refused the TLS handshake (alert 112, UnrecognisedName)"
    );

    let (near, _far) = pair().await;
    let refused = ours.connect(near, "no host", BOTH).await;
    assert!(matches!(refused, Err(ConnectError::Host(_))));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let (dir, own) = fixture("up.test");
    let other = SelfSigned::new(dir.path(), "other", "up.test");
    let missing = dir.path().join("missing.pem");
    let with = |change: fn(&mut UpstreamTls, PathBuf), path: &Path| {
        let mut settings = trusting(&own);
        change(&mut settings, path.to_owned());
        Connector::new(&settings).err()
    };
    let refused = with(|settings, path| settings.ca = Some(path), &missing);
    let Some(ConnectorError::Identity(IdentityError::Read { path, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(path, missing);
    let refused = with(|settings, path| settings.ca = Some(path), &own.key);
    assert!(matches!(refused, Some(ConnectorError::Identity(IdentityError::NoCertificate(_)))));
    let refused = with(|settings, path| settings.client_key = Some(path), &own.key);
    assert!(matches!(refused, Some(ConnectorError::KeyWithoutCertificate)));
    let refused = with(|settings, path| settings.client_cert = Some(path), &own.cert);
    assert!(matches!(refused, Some(ConnectorError::Identity(IdentityError::Pem { .. }))));

    let settings = UpstreamTls {
        client_cert: Some(own.cert.clone()),
        client_key: Some(other.key),
        ..UpstreamTls::default()
    };
    let refused = Connector::new(&settings).err();
    assert!(matches!(refused, Some(ConnectorError::Identity(IdentityError::Unusable { .. }))));

    let both = dir.path().join("both.pem");
    let text = [fs::read(&own.cert).unwrap(), fs::read(&own.key).unwrap()].concat();
    fs::write(&both, text).unwrap();
    assert!(with(|settings, path| settings.client_cert = Some(path), &both).is_none());
}
