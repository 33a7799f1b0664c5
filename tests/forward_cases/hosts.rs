//! Who is meant: CONNECT, the TLS server name, Host, and how each is spelt.
use serde_json::json;
use tokio::{net::TcpStream, time::timeout};

use super::{OK, connect, forward, get, intercepted, ok, speak, tunnel};
use crate::{
    cli_support::{Server, file},
    support::{GUARD, Origin, Proxied},
    tls_support::{Identity, TlsOrigin, ask, from_pem, name, trusting},
};

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

/// The names of all three are in one line of the log, so that it can be seen which of them is the odd one out.
#[tokio::test(flavor = "multi_thread")]
async fn prx_03_the_log_names_all_three_hosts() {
    let line = said_of_a_misdirected("third.test").await;
    for said in [r#""connect":"allowed.test""#, r#""server_name":"other.test""#, r#""host":"third.test""#] {
        assert!(line.contains(said), "{said}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prx_08_the_log_shows_both_spellings_of_a_host() {
    let line = said_of_a_misdirected("xn--xgs754b.example.test").await;
    assert!(line.contains(r#""host":"xn--xgs754b.example.test (模型.example.test)""#), "{line}");
}

/// What the log says of a request for this host in a tunnel to `allowed.test` with the server name `other.test`.
async fn said_of_a_misdirected(host: &str) -> String {
    let allowed = Origin::answering(OK).await;
    let config = format!(
        "proxies:\n  - {{name: f, listen: '127.0.0.1:0', protocol: forward, map: {{allowed.test: '{}'}}}}\n",
        allowed.url()
    );
    let home = tempfile::TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", &config);
    let server = Server::start(&["-c", config.to_str().unwrap()]);
    let (_, ca) = server.request("GET", "/v1/ca.pem", "");
    let mut client = TcpStream::connect(server.proxy("f")).await.unwrap();
    connect(&mut client, "allowed.test:443", "").await;
    let connector = trusting(from_pem(&ca), &[]);
    let mut client = timeout(GUARD, connector.connect(name("other.test"), client)).await.unwrap().unwrap();
    let answer = ask(&mut client, &get(host)).await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    assert_eq!(allowed.connections(), 0);
    server.line("a request asks for another host than its tunnel")
}
