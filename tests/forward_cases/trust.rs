//! Certificates: whose are verified, shown, passed on.
use aconite::Aconite;
use serde_json::json;
use tokio::{net::TcpStream, time::timeout};

use super::{OK, connect, forward, get, ok, speak, tunnel};
use crate::{
    cli_support::{Server, file},
    support::{GUARD, Origin, Proxied},
    tls_support::{Identity, TlsOrigin, ask, from_pem, name, trusting},
};

#[tokio::test]
async fn tls_06_an_upstream_is_verified_unless_its_route_says_otherwise() {
    let identity = Identity::of(&["localhost"]);
    let origin = TlsOrigin::running(identity.server(&[], &[]), ok).await;
    let proxied = Proxied::with(json!({"upstream": origin.url()})).await;
    let heard = proxied.raw(get("x")).await;
    assert_eq!(heard.status(), 502, "{}", heard.text());
    assert_eq!(origin.asked().len(), 0, "an unverified upstream was told something");
    let lax = json!({"upstream": origin.url(), "upstream_tls": {"insecure": true}});
    let proxied = Proxied::with(lax).await;
    assert_eq!(proxied.raw(get("x")).await.status(), 200);
    let shown = proxied.aconite.client().proxy("p").await.unwrap();
    assert!(shown.upstream_tls.unwrap().insecure);
}

/// Whoever follows the documents keeps their client's checks on.
#[test]
fn tls_06_no_document_says_to_switch_verification_off() {
    const SWITCHES: [&str; 9] = [
        "verify=False",
        "verify=false",
        "CERT_NONE",
        "NODE_TLS_REJECT_UNAUTHORIZED",
        "rejectUnauthorized",
        "InsecureSkipVerify",
        "danger_accept_invalid_certs",
        "curl -k",
        "curl --insecure",
    ];
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<_> = ["docs", "clients", "examples"].iter().map(|name| root.join(name)).collect();
    left.extend(["README.md", "SECURITY.md", "ARCHITECTURE.md"].iter().map(|name| root.join(name)));
    let mut read = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            read += 1;
            for switch in SWITCHES {
                assert!(!text.contains(switch), "{}: {switch}", path.display());
            }
        }
    }
    assert!(read > 10, "{read} documents");
}

#[tokio::test]
async fn tls_08_a_host_that_is_not_intercepted_keeps_its_own_certificate() {
    let identity = Identity::of(&["localhost"]);
    let origin = TlsOrigin::running(identity.server(&[], &[]), ok).await;
    let proxied = forward(json!({"intercept": ["other.test"]})).await;
    let target = format!("localhost:{}", origin.address.port());
    let pinning = trusting([identity.certificate.clone()], &[]);
    let (client, _) = tunnel(&proxied, &target).await;
    let mut client = timeout(GUARD, pinning.connect(name("localhost"), client)).await.unwrap().unwrap();
    assert!(ask(&mut client, &get("localhost")).await.ends_with("ok"));
    // Byte toxics act all the same.
    proxied.add(json!({"type": "limit_data", "attributes": {"bytes": 100}})).await;
    let (client, _) = tunnel(&proxied, &target).await;
    assert!(timeout(GUARD, pinning.connect(name("localhost"), client)).await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_08_a_pinning_client_is_told_apart_in_the_log_and_others_go_on() {
    let origin = Origin::answering(OK).await;
    let config = format!(
        "proxies:\n  - {{name: f, listen: '127.0.0.1:0', protocol: forward, map: {{pinned.test: '{}'}}}}\n",
        origin.url()
    );
    let home = tempfile::TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", &config);
    let server = Server::start(&["-c", config.to_str().unwrap()]);
    let (_, ca) = server.request("GET", "/v1/ca.pem", "");
    let foreign = Identity::of(&["pinned.test"]);
    let handshake = async |connector: tokio_rustls::TlsConnector| {
        let mut client = TcpStream::connect(server.proxy("f")).await.unwrap();
        connect(&mut client, "pinned.test:443", "").await;
        timeout(GUARD, connector.connect(name("pinned.test"), client)).await.unwrap()
    };
    assert!(handshake(trusting([foreign.certificate.clone()], &[])).await.is_err());
    server.logged("client does not trust the local CA");
    server.logged("pinned.test");
    let mut client = handshake(trusting(from_pem(&ca), &[])).await.unwrap();
    assert!(ask(&mut client, &get("pinned.test")).await.ends_with("ok"));
}

#[tokio::test]
async fn tls_09_each_route_presents_its_own_certificate() {
    let (server, one, two) = (Identity::of(&["localhost"]), Identity::of(&["one"]), Identity::of(&["two"]));
    let first = one.certificate.clone();
    let origin = TlsOrigin::running(server.server(&[], &[&one, &two]), move |asked| {
        let who = if asked.client.as_ref() == Some(&first) { "one" } else { "two" };
        format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{who}")
    })
    .await;
    let mut builder = Aconite::builder();
    for (name, client) in [("one", &one), ("two", &two)] {
        let tls = json!({"ca": server.cert_file(), "client_cert": client.cert_file(), "client_key": client.key_file()});
        let spec =
            json!({"name": name, "listen": "127.0.0.1:0", "upstream": origin.url(), "upstream_tls": tls});
        builder = builder.proxy(serde_json::from_value(spec).unwrap());
    }
    let aconite = builder.start().await.unwrap();
    // Several rounds, so that a session could be taken up again.
    for _ in 0..3 {
        for name in ["one", "two"] {
            let mut client = TcpStream::connect(aconite.proxy_address(name).unwrap()).await.unwrap();
            let heard = speak(&mut client, &get("x")).await;
            assert_eq!(String::from_utf8_lossy(&heard.body()), name, "{}", heard.text());
        }
    }
}
