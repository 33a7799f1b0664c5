//! Real bug reports about forward proxies and TLS, over real sockets. Named by case.
use std::{collections::HashSet, time::Duration};

use aconite::Aconite;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;

use crate::{
    cli_support::Server,
    support::{GUARD, Heard, Origin, Proxied, hear},
    tls_support::{Asked, Identity, TlsOrigin, ask, from_pem, name, read_head, trusting},
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn ok(_: &Asked) -> String {
    OK.to_owned()
}

async fn forward(fields: Value) -> Proxied {
    let mut spec = fields;
    spec["protocol"] = json!("forward");
    Proxied::with(spec).await
}

/// A tunnel, and the head of the answer to CONNECT.
async fn tunnel(proxied: &Proxied, target: &str) -> (TcpStream, String) {
    let mut client = proxied.connect().await;
    let head = connect(&mut client, target, "").await;
    (client, head)
}

async fn connect(client: &mut TcpStream, target: &str, headers: &str) -> String {
    client
        .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n").as_bytes())
        .await
        .unwrap();
    timeout(GUARD, read_head(client)).await.unwrap().expect("an answer to CONNECT")
}

/// TLS inside a tunnel, for a client that trusts the local CA.
async fn intercepted(proxied: &Proxied, target: &str, server_name: &str) -> TlsStream<TcpStream> {
    let (client, head) = tunnel(proxied, target).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let connector = trusting(from_pem(proxied.aconite.ca_pem()), &[]);
    timeout(GUARD, connector.connect(name(server_name), client)).await.unwrap().unwrap()
}

fn get(host: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

async fn speak(client: &mut TcpStream, request: &str) -> Heard {
    client.write_all(request.as_bytes()).await.unwrap();
    hear(client, Duration::from_millis(700)).await
}

#[tokio::test]
async fn prx_01_the_server_name_decides_the_leaf_and_connect_decides_the_address() {
    let identity = Identity::of(&["api.example.test"]);
    let origin = TlsOrigin::running(identity.server(&[], &[]), ok).await;
    let ca = identity.cert_file();
    let proxied = forward(json!({"intercept": ["api.example.test"], "upstream_tls": {"ca": ca}})).await;
    let mut client = intercepted(&proxied, &origin.address.to_string(), "api.example.test").await;
    let answer = ask(&mut client, &get("api.example.test")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    let asked = origin.asked();
    assert_eq!(asked[0].server_name.as_deref(), Some("api.example.test"));
    assert_eq!(asked[0].host(), "api.example.test");
    let exchange = &proxied.journal().await[0];
    assert_eq!(exchange.host, "api.example.test");
    assert!(exchange.attempts[0].provider.contains(&origin.address.port().to_string()), "{exchange:?}");
}

#[tokio::test]
async fn prx_03_a_host_that_is_not_the_tunnels_is_421_and_never_dialled() {
    let (allowed, third) = (Origin::answering(OK).await, Origin::answering(OK).await);
    let proxied = forward(json!({"map": {"allowed.test": allowed.url()}})).await;
    for host in ["third.test".to_owned(), third.address.to_string()] {
        let mut client = intercepted(&proxied, "allowed.test:443", "other.test").await;
        let answer = ask(&mut client, &get(&host)).await;
        assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
        for name in [host.split(':').next().unwrap(), "allowed.test", "other.test"] {
            assert!(answer.contains(name), "{name}: {answer}");
        }
    }
    assert_eq!((allowed.connections(), third.connections()), (0, 0));
    for host in ["allowed.test", "other.test"] {
        let mut client = intercepted(&proxied, "allowed.test:443", "other.test").await;
        let answer = ask(&mut client, &get(host)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(third.connections(), 0);
}

#[tokio::test]
async fn prx_04_server_name_and_host_are_the_upstreams_on_every_connection() {
    let identity = Identity::of(&["localhost"]);
    let origin = TlsOrigin::running(identity.server(&[], &[]), ok).await;
    let upstream = |preserve: bool| {
        let tls = json!({"ca": identity.cert_file()});
        json!({"upstream": origin.url(), "preserve_host": preserve, "upstream_tls": tls})
    };
    for (preserve, host) in
        [(false, format!("localhost:{}", origin.address.port())), (true, "127.0.0.1:8080".to_owned())]
    {
        let before = origin.asked().len();
        let proxied = Proxied::with(upstream(preserve)).await;
        for _ in 0..3 {
            // The origin closes each connection, so that each request needs a new one.
            let heard = proxied.raw(get("127.0.0.1:8080")).await;
            assert_eq!(heard.status(), 200, "{}", heard.text());
        }
        let asked = origin.asked().split_off(before);
        assert_eq!(asked.len(), 3);
        for one in asked {
            assert_eq!((one.server_name.as_deref(), one.host()), (Some("localhost"), host.as_str()));
        }
    }
}

#[tokio::test]
async fn prx_05_credentials_for_the_proxy_go_no_further() {
    const REFUSAL: &str = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=\"origin\"\r\ncontent-length: 6\r\n\r\norigin";
    let origin = Origin::answering(REFUSAL).await;
    let secret = STANDARD.encode("user:word");
    let proxied =
        forward(json!({"map": {"api.test": origin.url()}, "credentials": "user:word", "capture": true}))
            .await;
    let credentials = format!("Proxy-Authorization: Basic {secret}\r\n");
    let mut client = proxied.connect().await;
    let head = connect(&mut client, "api.test:443", &credentials).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let connector = trusting(from_pem(proxied.aconite.ca_pem()), &[]);
    let mut client = connector.connect(name("api.test"), client).await.unwrap();
    let request = format!("GET /x HTTP/1.1\r\nHost: api.test\r\n{credentials}Connection: close\r\n\r\n");
    let answer = ask(&mut client, &request).await;
    assert!(answer.starts_with("HTTP/1.1 407") && answer.ends_with("origin"), "{answer}");
    assert!(answer.contains("realm=\"origin\""), "{answer}");
    let request =
        format!("GET http://api.test/y HTTP/1.1\r\nHost: api.test\r\n{credentials}Connection: close\r\n\r\n");
    assert!(proxied.raw(request).await.text().ends_with("origin"));
    let received = origin.received();
    assert!(received.contains("GET /x") && received.contains("GET /y"), "{received}");
    assert!(!received.to_ascii_lowercase().contains("proxy-authorization"), "{received}");
    let journal = serde_json::to_string(&proxied.journal().await).unwrap();
    assert!(!journal.contains(&secret) && !journal.contains("user:word"), "{journal}");
}

#[tokio::test]
async fn prx_06_a_407_keeps_the_connection_for_the_second_try() {
    let origin = Origin::answering(OK).await;
    for credentials in ["u@x:p:w", "ünï:wörd", "plain:%40"] {
        let map = json!({"x.test": origin.url()});
        let proxied = forward(json!({"map": map, "credentials": credentials})).await;
        let mut client = proxied.connect().await;
        for wrong in ["", "Proxy-Authorization: Basic d3Jvbmc6d3Jvbmc=\r\n"] {
            let head = connect(&mut client, "x.test:80", wrong).await.to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 407"), "{head}");
            assert!(head.contains("proxy-authenticate: basic realm=") && !head.contains("connection: close"));
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            tokio::io::AsyncReadExt::read_exact(&mut client, &mut body).await.unwrap();
        }
        let right = format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(credentials));
        let head = connect(&mut client, "x.test:80", &right).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{credentials}: {head}");
        let heard = speak(&mut client, &get("x.test")).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{credentials}");
    }
}

#[tokio::test]
async fn prx_07_ipv6_targets_come_with_and_without_brackets() {
    let origin = Origin::answering(OK).await;
    let mapped = json!({"::1": origin.url(), "2001:db8::1": origin.url()});
    let proxied = forward(json!({"map": mapped})).await;
    for target in ["::1:443", "[::1]:443", "2001:db8::1:443", "[2001:db8::1]:443"] {
        let address = target.strip_suffix(":443").unwrap().trim_matches(['[', ']']);
        // A client accepts only a leaf with that very address.
        let mut client = intercepted(&proxied, target, address).await;
        let answer = ask(&mut client, &get(&format!("[{address}]"))).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{target}: {answer}");
    }
    let v4_in_v6 = format!("[::ffff:127.0.0.1]:{}", origin.address.port());
    let (mut client, head) = tunnel(&proxied, &v4_in_v6).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(speak(&mut client, &get("x")).await.status(), 200);
}

#[tokio::test]
async fn prx_08_a_rule_in_unicode_matches_a_host_in_punycode() {
    const A_LABEL: &str = "xn--xgs754b.example.test";
    let origin = Origin::answering(OK).await;
    for rule in ["模型.example.test", A_LABEL] {
        let proxied = forward(json!({"map": {rule: origin.url()}})).await;
        let mut client = intercepted(&proxied, &format!("{A_LABEL}:443"), A_LABEL).await;
        let answer = ask(&mut client, &get(A_LABEL)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{rule}: {answer}");
        assert_eq!(proxied.journal().await[0].host, A_LABEL);
    }
}

#[tokio::test]
async fn prx_13_a_proxy_never_connects_to_itself() {
    let proxied = forward(json!({"intercept": []})).await;
    let own = proxied.address.port();
    let mut client = proxied.connect().await;
    let head = connect(&mut client, &format!("localhost:{own}"), "").await;
    assert!(head.starts_with("HTTP/1.1 508"), "{head}");
    let mut client = proxied.connect().await;
    let head = connect(&mut client, &format!("127.0.0.1:{own}"), "").await;
    assert!(head.starts_with("HTTP/1.1 508"), "{head}");
    for host in ["localhost", "127.0.0.1"] {
        let heard = proxied
            .raw(format!(
                "GET http://{host}:{own}/ HTTP/1.1\r\nHost: {host}:{own}\r\nConnection: close\r\n\r\n"
            ))
            .await;
        assert_eq!(
            (heard.status(), heard.header("x-aconite-error")),
            (508, vec!["loop".to_owned()]),
            "{}",
            heard.text()
        );
    }
}

#[tokio::test]
async fn prx_14_localhost_is_reached_on_whichever_address_listens() {
    // Not every machine says that localhost is ::1 as well.
    for address in tokio::net::lookup_host("localhost:0").await.unwrap() {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let local = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await.unwrap();
            stream.write_all(OK.as_bytes()).await.unwrap();
        });
        let upstream = format!("http://localhost:{}", local.port());
        let proxied = Proxied::with(json!({"upstream": upstream})).await;
        let start = std::time::Instant::now();
        let heard = proxied.raw(get("x")).await;
        assert_eq!(heard.status(), 200, "{address}: {}", heard.text());
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        serving.await.unwrap();
    }
}

#[tokio::test]
async fn prx_16_many_starts_at_once_on_port_0_do_not_collide() {
    let starts = (0..50).map(|_| {
        tokio::spawn(async {
            let spec = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"});
            let spec = serde_json::from_value(spec).unwrap();
            Aconite::builder().proxy(spec).start().await.unwrap()
        })
    });
    let mut running = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        running.push(start.await.unwrap());
    }
    let mut addresses = HashSet::new();
    for aconite in &running {
        let address = aconite.proxy_address("p").unwrap();
        assert_eq!(aconite.client().proxy("p").await.unwrap().listen, address.to_string());
        assert_ne!(address.port(), 0);
        assert!(addresses.insert(address) && addresses.insert(aconite.admin_address()));
        TcpStream::connect(address).await.unwrap();
    }
}

#[tokio::test]
async fn prx_17_http_without_tls_in_a_tunnel_meets_all_toxics() {
    let origin = Origin::answering(OK).await;
    let proxied = forward(json!({"map": {"api.example.test": origin.url()}})).await;
    let through = async || {
        let mut client = proxied.connect().await;
        let headers = "connection: close\r\nproxy-connection: keep-alive\r\n";
        let head = connect(&mut client, "api.example.test:80", headers).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let request = "GET /x?y=1 HTTP/1.1\r\nhost: api.example.test\r\nconnection: close\r\n\r\n";
        speak(&mut client, request).await
    };
    let heard = through().await;
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
    assert!(origin.received().starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{}", origin.received());
    proxied.add(json!({"type": "fail", "attributes": {"status": 503}})).await;
    assert_eq!(through().await.status(), 503);
    assert_eq!(proxied.journal().await.last().unwrap().host, "api.example.test");
}

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
    let config = crate::cli_support::file(home.path(), "a.yaml", &config);
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
