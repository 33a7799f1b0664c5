//! Who may use the proxy, and where it leads.
use std::{collections::HashSet, time::Duration};

use aconite::Aconite;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{OK, connect, forward, get, speak};
use crate::{
    cli_support::{Server, aconite, file, printed},
    support::{GUARD, Origin, Proxied},
    tls_support::{ask, from_pem, name, read_head, trusting},
};

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
    assert!(journal.contains("/y"), "{journal}");
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
            client.read_exact(&mut body).await.unwrap();
        }
        let right = format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(credentials));
        let head = connect(&mut client, "x.test:80", &right).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{credentials}: {head}");
        let heard = speak(&mut client, &get("x.test")).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{credentials}");
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
        // And which one it was is written down.
        let attempts = &proxied.journal().await[0].attempts;
        assert_eq!(attempts[0].address.as_deref(), Some(&*local.to_string()), "{attempts:?}");
    }
}

#[tokio::test]
async fn prx_14_the_address_that_answered_is_told_of_live_connections() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local = listener.local_addr().unwrap();
    let proxied = Proxied::with(json!({"upstream": format!("localhost:{}", local.port())})).await;
    let mut client = proxied.connect().await;
    client.write_all(b"x").await.unwrap();
    let (mut upstream, _) = timeout(GUARD, listener.accept()).await.unwrap().unwrap();
    timeout(GUARD, upstream.read_u8()).await.unwrap().unwrap();
    let connections = proxied.aconite.client().connections().await.unwrap();
    assert_eq!(connections[0].upstream.as_deref(), Some(&*format!("localhost:{}", local.port())));
    assert_eq!(connections[0].upstream_address.as_deref(), Some(&*local.to_string()));
}

#[tokio::test]
async fn prx_16_many_starts_at_once_on_port_0_do_not_collide() {
    let starts = (0..200).map(|_| {
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

/// Who may use the proxy is not by that who may command it.
#[tokio::test]
async fn r_s4_a_forward_proxy_does_not_lead_to_an_admin_api_without_token() {
    let proxied =
        forward(json!({"intercept": ["localhost"], "map": {"mapped.test": "http://127.0.0.1:9"}})).await;
    let port = proxied.aconite.admin_address().port();
    for host in ["localhost", "127.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]"] {
        let authority = format!("{host}:{port}");
        let request =
            format!("GET http://{authority}/v1/proxies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let heard = proxied.raw(request).await;
        let refused = (403, vec!["admin_api".to_owned()]);
        assert_eq!((heard.status(), heard.header("x-aconite-error")), refused, "{host}: {}", heard.text());
        let mut client = proxied.connect().await;
        let head = connect(&mut client, &authority, "").await;
        if head.starts_with("HTTP/1.1 200") {
            // The tunnel was there before it was known where to.
            let inside =
                format!("GET /v1/proxies HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
            assert_eq!(speak(&mut client, &inside).await.status(), 403, "{host}");
        } else {
            assert!(head.starts_with("HTTP/1.1 403"), "{host}: {head}");
        }
    }
    assert_eq!(proxied.aconite.client().proxies().await.unwrap().len(), 1, "it is there for who asks itself");
    // Nor by a connection that another proxy was allowed to make, and keeps.
    let admin = format!("127.0.0.1:{port}");
    let spec = json!({"name": "to_admin", "listen": "127.0.0.1:0", "upstream": format!("http://{admin}")});
    let created =
        proxied.aconite.client().create_proxy(&serde_json::from_value(spec).unwrap()).await.unwrap();
    let mut client = TcpStream::connect(&created.listen).await.unwrap();
    let request = "GET /v1/chaos HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(speak(&mut client, request).await.status(), 200);
    // Longer than its worker has it for itself.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let request = format!("GET http://{admin}/v1/proxies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(proxied.raw(request).await.status(), 403);
    // A token guards it: then it may be reached in any way.
    let spec = json!({"name": "p", "listen": "127.0.0.1:0", "protocol": "forward"});
    let aconite =
        Aconite::builder().token("t").proxy(serde_json::from_value(spec).unwrap()).start().await.unwrap();
    let mut client = TcpStream::connect(aconite.proxy_address("p").unwrap()).await.unwrap();
    let request =
        format!("GET {}/v1/proxies HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", aconite.admin_url());
    let heard = speak(&mut client, &request).await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (401, vec![]), "{}", heard.text());
}

/// The proxy's own connections heed no proxy variables: else it would come back to itself.
#[tokio::test(flavor = "multi_thread")]
async fn prx_13_the_proxys_own_environment_leads_nowhere() {
    let origin = Origin::answering(OK).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "proxies:\n  - {{name: f, listen: '127.0.0.1:{port}', protocol: forward}}\n  - {{name: h, listen: '127.0.0.1:0', upstream: '{}'}}\n",
        origin.url()
    );
    let home = tempfile::TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", &config);
    let mut command = aconite(home.path());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, format!("http://127.0.0.1:{port}"));
    }
    command.args(["serve", "--admin", "127.0.0.1:0", "-c", config.to_str().unwrap()]);
    let server = Server::from(command, home);
    for proxy in ["h", "f"] {
        let mut client = TcpStream::connect(server.proxy(proxy)).await.unwrap();
        let target = if proxy == "f" { origin.url() } else { String::new() };
        let host = origin.address;
        let request = format!("GET {target}/{proxy} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let heard = speak(&mut client, &request).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{proxy}: {}", heard.text());
    }
    let (_, journal) = server.request("GET", "/v1/exchanges", "");
    assert_eq!(journal.matches("\"method\"").count(), 2, "a request came by twice: {journal}");
    // Nor does the command line ask for the admin API by way of it.
    let mut command = server.command(&["list"]);
    command.env("HTTP_PROXY", format!("http://127.0.0.1:{port}"));
    assert!(printed(&command.output().unwrap()).contains("h\t"));
}

/// What the proxy was asked with, and what it was answered with: not in the log either, at any level.
#[tokio::test(flavor = "multi_thread")]
async fn prx_05_credentials_are_in_no_log() {
    let origin = Origin::answering(OK).await;
    let config = format!(
        "proxies:\n  - {{name: f, listen: '127.0.0.1:0', protocol: forward, credentials: 'user:w0rd', map: {{api.test: '{}'}}}}\n",
        origin.url()
    );
    let home = tempfile::TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", &config);
    let mut command = aconite(home.path());
    command.env("RUST_LOG", "trace");
    command.args(["serve", "--admin", "127.0.0.1:0", "-c", config.to_str().unwrap()]);
    let server = Server::from(command, home);
    let secret = STANDARD.encode("user:w0rd");
    for given in [secret.clone(), STANDARD.encode("user:wr0ng")] {
        let mut client = TcpStream::connect(server.proxy("f")).await.unwrap();
        let header = format!("Proxy-Authorization: Basic {given}\r\nAuthorization: Bearer {given}\r\n");
        connect(&mut client, "api.test:80", &header).await;
        let request =
            format!("GET /x?key=s3cret HTTP/1.1\r\nHost: api.test\r\n{header}Connection: close\r\n\r\n");
        speak(&mut client, &request).await;
    }
    // One that is logged for sure, with all of it: another host than its tunnel's.
    let mut client = TcpStream::connect(server.proxy("f")).await.unwrap();
    let header = format!("Proxy-Authorization: Basic {secret}\r\nAuthorization: Bearer {secret}\r\n");
    connect(&mut client, "api.test:80", &header).await;
    let request =
        format!("GET /x?key=s3cret HTTP/1.1\r\nHost: other.test\r\n{header}Connection: close\r\n\r\n");
    assert_eq!(speak(&mut client, &request).await.status(), 421);
    server.signal("TERM");
    let (_, log) = server.ended();
    assert!(log.contains("other.test"), "{log}");
    for told in [secret.as_str(), "w0rd", "wr0ng", &STANDARD.encode("user:wr0ng"), "s3cret"] {
        assert!(!log.contains(told), "{told} is in the log: {log}");
    }
}
