//! Connections that come back to where they left.
use std::{net::IpAddr, time::Duration};

use aconite::Aconite;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::assert_error;
use crate::support::{GUARD, Heard, hear};

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

async fn running(specs: &[Value]) -> Aconite {
    let specs = specs.iter().map(|spec| serde_json::from_value(spec.clone()).unwrap());
    specs.fold(Aconite::builder(), aconite::Builder::proxy).start().await.unwrap()
}

/// Makes the upstreams of proxies, which had none yet, the listeners of others.
async fn pointed(aconite: &Aconite, ways: &[(&str, String)]) {
    for (name, upstream) in ways {
        aconite.client().patch_proxy(name, &json!({"upstream": upstream})).await.unwrap();
    }
}

async fn ask(aconite: &Aconite, name: &str) -> Heard {
    let mut client = TcpStream::connect(aconite.proxy_address(name).unwrap()).await.unwrap();
    client.write_all(GET.as_bytes()).await.unwrap();
    hear(&mut client, Duration::from_secs(10)).await
}

/// Waits until no client's connection is open.
async fn all_end(aconite: &Aconite) {
    let end = async {
        while !aconite.client().connections().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(GUARD, end).await.unwrap();
}

/// An address of this machine on another interface than loopback, if it has one. Nothing is sent.
fn other_interface() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket
        .local_addr()
        .ok()
        .map(|address| address.ip())
        .filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test]
async fn a_09_a_proxy_does_not_reach_itself_by_any_address() {
    let spec = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "listen": "0.0.0.0:0", "upstream": "127.0.0.1:9"});
    let aconite = running(&[spec("h", "http"), spec("t", "tcp")]).await;
    let hosts = ["127.0.0.2".to_owned(), "localhost".to_owned(), "0.0.0.0".to_owned()];
    let interface = other_interface().map(|ip| ip.to_string());
    for host in hosts.into_iter().chain(interface) {
        for name in ["h", "t"] {
            let port = aconite.proxy_address(name).unwrap().port();
            pointed(&aconite, &[(name, format!("{host}:{port}"))]).await;
        }
        assert_error(&ask(&aconite, "h").await, 508, "loop");
        let heard = ask(&aconite, "t").await;
        assert_eq!(heard.text(), "", "{host}");
    }
    all_end(&aconite).await;
}

#[tokio::test]
async fn a_09_a_loop_over_several_proxies_ends_at_once() {
    for protocol in ["http", "tcp"] {
        for count in [2, 3, 5] {
            let name = |at: usize| format!("p{}", at % count);
            let specs: Vec<_> = (0..count)
                .map(|at| {
                    json!({"name": name(at), "protocol": protocol, "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"})
                })
                .collect();
            let aconite = running(&specs).await;
            for at in 0..count {
                let next = aconite.proxy_address(&name(at + 1)).unwrap();
                pointed(&aconite, &[(&name(at), next.to_string())]).await;
            }
            // Once with new connections, once with kept ones.
            for _ in 0..3 {
                let heard = ask(&aconite, "p0").await;
                if protocol == "http" {
                    // The proxy that closed the loop answered; the others forwarded its response.
                    assert_eq!(heard.status(), 508);
                    assert_eq!(heard.header("x-upstream-aconite-error"), ["loop"]);
                } else {
                    assert_eq!(heard.text(), "", "{count}");
                }
            }
            if protocol == "tcp" {
                all_end(&aconite).await;
            }
            let connections = aconite.client().connections().await.unwrap();
            assert!(connections.len() <= 3 * count, "{protocol} {count}: {}", connections.len());
        }
    }
}

/// Proxies share kept connections: one that another proxy has made to this proxy is not used to reach it.
#[tokio::test]
async fn a_09_a_proxy_does_not_reach_itself_over_a_connection_that_another_has_made() {
    let spec = |name: &str| json!({"name": name, "protocol": "http", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"});
    let aconite = running(&[spec("other"), spec("own")]).await;
    let own = aconite.proxy_address("own").unwrap().to_string();
    pointed(&aconite, &[("other", own.clone()), ("own", own)]).await;
    let heard = ask(&aconite, "other").await;
    assert_eq!((heard.status(), heard.header("x-upstream-aconite-error")), (508, vec!["loop".to_owned()]));
    assert_error(&ask(&aconite, "own").await, 508, "loop");
}

/// A chain that ends elsewhere is none, whatever was configured before.
#[tokio::test]
async fn a_09_a_chain_of_proxies_works() {
    let origin = crate::support::Origin::answering(super::OK).await;
    let spec = |name: &str| json!({"name": name, "protocol": "http", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:9"});
    let aconite = running(&[spec("a"), spec("b"), spec("c")]).await;
    let at = |name: &str| aconite.proxy_address(name).unwrap().to_string();
    pointed(&aconite, &[("a", at("b")), ("b", at("c")), ("c", origin.address.to_string())]).await;
    assert_eq!(ask(&aconite, "a").await.status(), 200);
    // The other way round.
    pointed(&aconite, &[("c", at("b")), ("b", at("a")), ("a", origin.address.to_string())]).await;
    assert_eq!(ask(&aconite, "c").await.status(), 200);
    assert_eq!(ask(&aconite, "b").await.status(), 200);
}
