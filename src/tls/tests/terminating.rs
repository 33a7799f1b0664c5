//! Clients of ours.

use super::*;

/// What the proxy does with a client: mint for the name that it asks for.
async fn serve(
    terminator: &Terminator,
    authority: &Authority,
    io: TcpStream,
    fallback: &str,
    alpn: &[&[u8]],
) -> Result<server::TlsStream<TcpStream>, AcceptError> {
    let hello = terminator.hello(io, fallback, PATIENCE).await?;
    let leaf = authority.leaf(hello.host()).unwrap();
    hello.finish(alpn, leaf).await
}

#[tokio::test]
async fn prx_01_the_name_in_the_hello_decides() {
    let authority = Authority::in_memory().unwrap();
    let (near, far) = pair().await;
    let connector = client(&[authority.certificate()], BOTH);
    let client = connector.connect(name("api.example.test"), near);
    let server = async {
        let terminator = Terminator::new().unwrap();
        let hello = terminator.hello(far, "203.0.113.52", PATIENCE).await?;
        assert_eq!(hello.host(), "api.example.test");
        assert_eq!(hello.server_name(), Some("api.example.test"));
        assert_eq!(hello.alpn(), [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert!(hello.offers(ALPN_H2) && !hello.offers(b"http/1.0"));
        let leaf = authority.leaf(hello.host()).unwrap();
        hello.finish(BOTH, leaf).await
    };
    let (client, server) = tokio::join!(client, server);
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert!(client.is_h2() && server.is_h2());
    client.write_all(b"question").await.unwrap();
    let mut question = [0; 8];
    server.read_exact(&mut question).await.unwrap();
    assert_eq!(&question, b"question");
}

#[tokio::test]
async fn prx_07_a_client_that_names_nobody_gets_the_fallback() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    for host in ["127.0.0.1", "2001:db8::1"] {
        let (near, far) = pair().await;
        let connector = client(&[authority.certificate()], &[]);
        let (client, server) = tokio::join!(
            connector.connect(name(host), near),
            serve(&terminator, &authority, far, host, BOTH)
        );
        assert_eq!(client.unwrap().alpn(), None, "none was offered");
        server.unwrap();
    }
}

#[tokio::test]
async fn h2_05_alpn_is_what_both_sides_have() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    for (offered, served, agreed) in [
        (BOTH, BOTH, Some(ALPN_H2)),
        (&[ALPN_HTTP1, ALPN_H2], BOTH, Some(ALPN_H2)),
        (BOTH, &[ALPN_HTTP1], Some(ALPN_HTTP1)),
        (&[ALPN_H2], BOTH, Some(ALPN_H2)),
        (BOTH, &[], None),
    ] {
        let (near, far) = pair().await;
        let connector = client(&[authority.certificate()], offered);
        let (client, server) = tokio::join!(
            connector.connect(name("a.test"), near),
            serve(&terminator, &authority, far, "a.test", served)
        );
        assert_eq!(client.unwrap().alpn(), agreed);
        assert_eq!(server.unwrap().alpn(), agreed);
    }
    let (near, far) = pair().await;
    let connector = client(&[authority.certificate()], &[ALPN_H2]);
    let (client, server) = tokio::join!(
        connector.connect(name("a.test"), near),
        serve(&terminator, &authority, far, "a.test", &[ALPN_HTTP1])
    );
    assert!(client.is_err());
    let Err(AcceptError::Handshake { source, .. }) = server else { panic!("no protocol in common") };
    assert_eq!(source, rustls::Error::NoApplicationProtocol);
}

#[tokio::test]
async fn tls_08_a_client_without_our_root_is_told_apart() {
    let authority = Authority::in_memory().unwrap();
    let real = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    let (near, far) = pair().await;
    let connector = client(&[real.certificate()], BOTH);
    let (client, server) = tokio::join!(
        connector.connect(name("api.example.test"), near),
        serve(&terminator, &authority, far, "-", BOTH)
    );
    assert!(client.is_err());
    let error = server.unwrap_err();
    assert_eq!(
        error.to_string(),
        "client does not trust the local CA: it refused the certificate for `api.example.test` (alert 48, UnknownCA)"
    );
}

#[tokio::test]
async fn tls_08_hanging_up_on_the_certificate_counts_too() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    let (mut near, far) = pair().await;
    let connector = client(&[authority.certificate()], BOTH);
    let mut session = rustls::ClientConnection::new(Arc::clone(connector.config()), name("a.test")).unwrap();
    let mut opening = Vec::new();
    session.write_tls(&mut opening).unwrap();
    let client = async {
        near.write_all(&opening).await.unwrap();
        near.read_exact(&mut [0; 5]).await.unwrap();
        drop(near);
    };
    let ((), server) = tokio::join!(client, serve(&terminator, &authority, far, "-", BOTH));
    let Err(AcceptError::NotTrusted { host, alert: None }) = server else { panic!("{:?}", server.err()) };
    assert_eq!(host, "a.test");
}

#[tokio::test]
async fn what_is_not_tls_is_told_apart_and_answered_by_an_alert() {
    let terminator = Terminator::new().unwrap();
    let (mut near, far) = pair().await;
    near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let refused = terminator.hello(far, "-", PATIENCE).await;
    assert!(matches!(refused, Err(AcceptError::NotTls(_))));
    drop(refused);
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer.first(), Some(&21), "an alert record: {answer:?}");
}

#[tokio::test]
async fn silence_is_waited_for_only_so_long() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    let moment = Duration::from_millis(50);
    let (_near, far) = pair().await;
    let silent = terminator.hello(far, "-", moment).await;
    assert!(matches!(silent, Err(AcceptError::Timeout(told)) if told == moment));

    let (mut near, far) = pair().await;
    let connector = client(&[authority.certificate()], BOTH);
    let mut session = rustls::ClientConnection::new(Arc::clone(connector.config()), name("a.test")).unwrap();
    let mut opening = Vec::new();
    session.write_tls(&mut opening).unwrap();
    near.write_all(&opening).await.unwrap();
    let hello = terminator.hello(far, "-", moment).await.unwrap();
    let leaf = authority.leaf("a.test").unwrap();
    let stalled = hello.finish(BOTH, leaf).await;
    assert!(matches!(stalled, Err(AcceptError::Timeout(_))));
}

#[tokio::test]
async fn clients_of_both_living_versions_are_served() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut trusted = RootCertStore::empty();
        trusted.add(authority.certificate().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let (near, far) = pair().await;
        let (client, server) = tokio::join!(
            connector.connect(name("a.test"), near),
            serve(&terminator, &authority, far, "-", BOTH)
        );
        client.unwrap();
        let spoken = server.unwrap().get_ref().1.protocol_version();
        assert_eq!(spoken, Some(version.version));
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_hello_is_no_distrust() {
    let terminator = Terminator::new().unwrap();
    let (near, far) = pair().await;
    drop(near);
    let gone = terminator.hello(far, "-", PATIENCE).await;
    assert!(matches!(gone, Err(AcceptError::Io(_))));
}

#[tokio::test]
async fn a_refusal_reaches_the_client_as_an_alert() {
    let terminator = Terminator::new().unwrap();
    let (near, far) = pair().await;
    let server = async {
        let hello = terminator.hello(far, "-", PATIENCE).await.unwrap();
        hello.refuse(AlertDescription::InternalError).await.unwrap()
    };
    let connector = client(&[], BOTH);
    let (client, _open) = tokio::join!(connector.connect(name("a.test"), near), server);
    let alert = alert_in(&client.unwrap_err());
    assert_eq!(alert, Some(AlertDescription::InternalError));
}

#[tokio::test]
async fn sessions_resume_but_not_past_a_bad_certificate() {
    let authority = Authority::in_memory().unwrap();
    let terminator = Terminator::new().unwrap();
    let connector = client(&[authority.certificate()], BOTH);
    let visit = async |bad: bool| {
        let (near, far) = pair().await;
        let server = async {
            let hello = terminator.hello(far, "-", PATIENCE).await?;
            let mut stream = if bad {
                let leaf = authority.leaf_expired(hello.host()).unwrap();
                hello.finish_fresh(BOTH, leaf).await?
            } else {
                let leaf = authority.leaf(hello.host()).unwrap();
                hello.finish(BOTH, leaf).await?
            };
            // The client learns its ticket while it reads.
            stream.write_all(b"!").await.map_err(AcceptError::Io)?;
            stream.flush().await.map_err(AcceptError::Io)?;
            Ok(stream)
        };
        let client = async {
            let mut stream = connector.connect(name("a.test"), near).await?;
            stream.read_exact(&mut [0]).await?;
            Ok::<_, io::Error>(stream.get_ref().1.handshake_kind())
        };
        let (client, server) = tokio::join!(client, server);
        (client, server.err())
    };
    let (kind, _) = visit(false).await;
    assert_eq!(kind.unwrap(), Some(HandshakeKind::Full));
    let (kind, _) = visit(false).await;
    assert_eq!(kind.unwrap(), Some(HandshakeKind::Resumed));
    let (refused, seen) = visit(true).await;
    assert!(refused.is_err());
    let Some(AcceptError::NotTrusted { alert, .. }) = seen else { panic!("{seen:?}") };
    assert_eq!(alert, Some(AlertDescription::CertificateExpired));
}

#[tokio::test]
async fn a_certificate_from_files_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let own = SelfSigned::new(dir.path(), "own", "files.test");
    let (near, far) = pair().await;
    let connector = client(&[&own.certificate], &[]);
    let server = async {
        let terminator = Terminator::new().unwrap();
        let hello = terminator.hello(far, "-", PATIENCE).await?;
        hello.finish(&[], identity::read(&own.cert, &own.key).unwrap()).await
    };
    let (client, server) = tokio::join!(connector.connect(name("files.test"), near), server);
    client.unwrap();
    server.unwrap();
}

#[tokio::test]
async fn tls_01_python_with_strict_verification_is_content() {
    let Some(python) = strict_python() else {
        println!("left out: there is no Python 3.13 or later here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(dir.path()).unwrap();
    let terminator = Terminator::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = "import socket, ssl, sys\n\
        context = ssl.create_default_context(cafile=sys.argv[1])\n\
        assert context.verify_flags & ssl.VERIFY_X509_STRICT\n\
        with socket.create_connection(('127.0.0.1', int(sys.argv[2]))) as tcp:\n\
        \x20   with context.wrap_socket(tcp, server_hostname=sys.argv[3]) as tls:\n\
        \x20       print(tls.version())\n";
    let long = format!("{}.{}.example.test", "a".repeat(63), "b".repeat(63));
    for host in ["api.example.test", "127.0.0.1", "::1", "xn--xgs754b.test", &long] {
        let python = tokio::process::Command::new(&python)
            .args(["-c", script])
            .arg(certificate_path(dir.path()))
            .args([&port.to_string(), host])
            .env_remove("SSL_CERT_FILE")
            .env_remove("SSL_CERT_DIR")
            .output();
        let server = async {
            let (far, _) = listener.accept().await.unwrap();
            serve(&terminator, &authority, far, host, BOTH).await.map(drop)
        };
        let both = async { tokio::join!(python, server) };
        let (python, server) =
            tokio::time::timeout(PATIENCE, both).await.expect("Python connects and goes on");
        let Output { stdout, stderr, .. } = python.unwrap();
        let complaint = String::from_utf8_lossy(&stderr);
        assert_eq!(String::from_utf8_lossy(&stdout), "TLSv1.3\n", "{host}: {complaint}");
        server.unwrap();
    }
}

/// A Python that verifies strictly by default: 3.13 and later do.
fn strict_python() -> Option<PathBuf> {
    let versions = std::env::var_os("HOME")
        .map(|home| Path::new(&home).join(".pyenv/versions"))
        .and_then(|dir| fs::read_dir(dir).ok());
    let installed =
        versions.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("bin/python3")));
    installed.chain(["python3".into()]).find(|candidate| {
        std::process::Command::new(candidate)
            .args(["-c", "import sys; sys.exit(sys.version_info < (3, 13))"])
            .status()
            .is_ok_and(|status| status.success())
    })
}
