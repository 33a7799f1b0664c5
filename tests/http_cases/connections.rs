//! Connections that are kept, shared by requests in a row, or over.
use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use aconite::Aconite;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Barrier, mpsc},
    task::JoinSet,
    time::timeout,
};

use super::{OK, get};
use crate::support::{End, GUARD, Origin, Proxied, eventually, hear, hear_until};

#[tokio::test]
async fn http_12_pipelined_requests_are_answered_in_order() {
    let origin = Origin::running(|mut caller| async move {
        while let Some(request) = caller.request().await {
            let path = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap().to_owned();
            caller.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len())).await;
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"type": "delay", "match": {"path": "/a"}, "attributes": {"delay": 150}})).await;
    let heard = proxied
        .raw("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    let text = heard.text();
    let (a, b) = (text.find("\r\n\r\n/a").unwrap(), text.find("\r\n\r\n/b").unwrap());
    assert!(a < b, "{text}");
}

#[tokio::test]
async fn http_13_each_request_to_a_forward_proxy_goes_where_it_says() {
    let allowed = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nA").await;
    let other = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nB").await;
    let map = json!({"allowed.test": allowed.url(), "other.test": other.url()});
    let proxied = Proxied::with(json!({"protocol": "forward", "map": map})).await;
    let heard = proxied
        .raw("POST http://allowed.test/a HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 0\r\n\r\nGET http://other.test/b HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
        .await;
    let text = heard.text();
    assert!(text.contains("\r\n\r\nA") && text.ends_with("\r\n\r\nB"), "{text}");
    assert!(!allowed.received().contains("/b"), "{}", allowed.received());
    // Each has its own toxics.
    proxied
        .add(json!({"type": "fail", "match": {"host": "other.test"}, "attributes": {"status": 503}}))
        .await;
    let heard = proxied
        .raw("POST http://allowed.test/a HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 0\r\n\r\nGET http://other.test/b HTTP/1.1\r\nHost: other.test\r\nConnection: close\r\n\r\n")
        .await;
    let text = heard.text();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("HTTP/1.1 503 "), "{text}");
}

/// Eight kept connections, all dead: the one that is tried first, and all others of its kind.
#[tokio::test]
async fn http_15_and_16_dead_kept_connections_are_never_the_clients_problem() {
    for how in ["fin", "rst", "fin after reading", "rst after reading"] {
        let together = Arc::new(Barrier::new(8));
        let (dead, mut dying) = mpsc::unbounded_channel();
        let origin = Origin::running(move |mut caller| {
            let (together, dead) = (Arc::clone(&together), dead.clone());
            async move {
                if caller.request().await.is_none() {
                    return;
                }
                let first = caller.number < 8;
                if first {
                    // So that no connection serves two of the eight.
                    together.wait().await;
                }
                caller.say(OK).await;
                if !first {
                    while caller.request().await.is_some() {
                        caller.say(OK).await;
                    }
                    return;
                }
                if how.ends_with("after reading") {
                    // It takes the next request and ends without a word.
                    caller.request().await;
                }
                if how.starts_with("rst") {
                    caller.reset();
                } else {
                    drop(caller);
                }
                dead.send(()).unwrap();
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let ask =
            async || proxied.raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.status();
        let all = tokio::join!(ask(), ask(), ask(), ask(), ask(), ask(), ask(), ask());
        assert_eq!(all, (200, 200, 200, 200, 200, 200, 200, 200), "{how}");
        assert_eq!(origin.connections(), 8, "{how}");
        if !how.ends_with("after reading") {
            for _ in 0..8 {
                dying.recv().await.unwrap();
            }
            // The ends are on their way to the proxy, or there: both must do.
        }
        for _ in 0..3 {
            let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
            let heard = proxied.raw(post).await;
            assert_eq!(heard.status(), 200, "{how}: {}", heard.text());
        }
        // Not one more of the dead batch was tried: the repetition went to a new connection.
        assert!(origin.connections() > 8, "{how}");
    }
}

/// Once a byte of the answer came, the upstream has worked, and may have charged: nothing is sent twice.
#[tokio::test]
async fn http_15_nothing_is_repeated_after_a_byte_of_the_answer() {
    for (how, partial) in [("a byte", "H"), ("a head that is not whole", "HTTP/1.1 200 OK\r\ncontent-le")] {
        let origin = Origin::running(move |mut caller| async move {
            caller.request().await;
            caller.say(OK).await;
            if caller.request().await.is_some() {
                caller.say(partial).await;
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
        let mut statuses = Vec::new();
        for _ in 0..2 {
            client.write_all(post.as_bytes()).await.unwrap();
            let heard = hear(&mut client, Duration::from_millis(700)).await;
            statuses.push((heard.status(), heard.header("x-aconite-error")));
        }
        assert_eq!(statuses, [(200, vec![]), (502, vec!["upstream_broken".to_owned()])], "{how}");
        assert_eq!((origin.connections(), origin.received().matches("POST").count()), (1, 2), "{how}");
    }
}

#[tokio::test]
async fn http_17_what_comes_unasked_is_never_the_next_answer() {
    for stray in ["HTTP/1.1 408 Request Timeout\r\n\r\n", "\n"] {
        let origin = Origin::running(move |mut caller| async move {
            while caller.request().await.is_some() {
                caller.say(OK).await;
                if caller.number == 0 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    caller.say(stray).await;
                }
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        assert_eq!(proxied.raw(get("/1")).await.body(), b"ok");
        tokio::time::sleep(Duration::from_millis(150)).await;
        let heard = proxied.raw(get("/2")).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{stray:?}");
        assert_eq!(origin.connections(), 2, "{stray:?}");
    }
}

#[tokio::test]
async fn http_18_a_connection_stays_usable_after_an_injected_answer() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"type": "fail", "budget": {"times": 1}, "attributes": {"status": 503}})).await;
    let mut client = proxied.connect().await;
    for status in [503, 200, 200] {
        client.write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody").await.unwrap();
        let heard = hear(&mut client, Duration::from_millis(300)).await;
        assert_eq!((heard.status(), heard.end), (status, End::Silence), "{}", heard.text());
    }
}

#[tokio::test]
async fn a_client_that_rests_too_long_is_let_go_without_a_word() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "idle_timeout": "300ms"})).await;
    let mut client = proxied.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.status(), heard.body(), heard.end), (200, b"ok".to_vec(), End::Closed));
}

#[tokio::test]
async fn an_upstream_that_is_down_is_the_proxys_502() {
    let gone = Origin::answering(OK).await;
    let url = gone.url();
    drop(gone);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let proxied = Proxied::with(json!({"upstream": url})).await;
    let heard = proxied.raw(get("/")).await;
    assert_eq!((heard.status(), heard.header("x-aconite-error")), (502, vec!["upstream_connect".to_owned()]));
    assert!(heard.text().contains("\"source\":\"aconite\""), "{}", heard.text());
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_work() {
    let (left, mut leaving) = mpsc::unbounded_channel();
    let origin = Origin::running(move |mut caller| {
        let left = left.clone();
        async move {
            caller.request().await;
            // Nothing is said; all that can come now is the end.
            caller.byte().await;
            left.send(()).unwrap();
        }
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    eventually("the request at the upstream", || origin.received().contains("\r\n\r\n")).await;
    drop(client);
    let noticed = timeout(Duration::from_secs(2), leaving.recv()).await;
    assert!(noticed.is_ok(), "the upstream was not told");
    let journal = proxied.journal().await;
    assert_eq!(serde_json::to_value(journal[0].ending).unwrap()["side"], "client");
}

#[tokio::test]
async fn r_s1_the_kill_switch_stops_a_wait_that_is_under_way() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(json!({"name": "slow", "type": "delay", "attributes": {"delay": "1h"}})).await;
    let client = proxied.aconite.client();
    let (heard, ()) = tokio::join!(proxied.raw_patiently(get("/")), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.set_chaos(false, &aconite::model::Switch::default()).await.unwrap();
    });
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
    assert_eq!(proxied.raw(get("/")).await.status(), 200);
    proxied.remove("slow").await;
}

/// 3,000 uploads over four connections, with failures among them: neither side needs another connection for that.
#[tokio::test]
async fn http_18_injected_failures_cost_no_connection() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for (status, skip) in [(429, 1), (500, 2), (503, 3)] {
        let budget = json!({"skip": skip, "every": 4});
        let fail = json!({"status": status, "body": "no"});
        proxied
            .add(json!({"name": status.to_string(), "type": "fail", "budget": budget, "attributes": fail}))
            .await;
    }
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let mut client = proxied.connect().await;
        clients.spawn(async move {
            let mut failed = 0;
            for _ in 0..750 {
                client
                    .write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
                    .await
                    .unwrap();
                let head = hear_until(&mut client, "\r\n\r\n").await;
                let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
                assert!(!head.contains("connection:"), "{head}");
                client.read_exact(&mut [0; 2]).await.unwrap();
                failed += usize::from(!head.starts_with("http/1.1 200"));
            }
            (failed, client)
        });
    }
    let clients = timeout(GUARD * 3, clients.join_all()).await.expect("a client hangs");
    let failed: usize = clients.iter().map(|(failed, _)| failed).sum();
    assert!((1000..2900).contains(&failed), "{failed} of 3000 failed");
    assert!(origin.connections() <= 4, "{} connections to the upstream", origin.connections());
    assert_eq!(proxied.aconite.client().connections().await.unwrap().len(), 4);
}

/// CONNECT as real clients send it: in HTTP/1.0 without Host, with a Host that has no port, with `Connection: close`.
#[tokio::test]
async fn http_31_unusual_connects_open_a_tunnel_that_stays() {
    let origin = Origin::answering(OK).await;
    let map = json!({"api.example.test": origin.url()});
    let proxied = Proxied::with(json!({"protocol": "forward", "map": map, "credentials": "u:p"})).await;
    let credentials = "Proxy-Authorization: Basic dTpw\r\n";
    for connect in [
        format!("CONNECT api.example.test:443 HTTP/1.0\r\n{credentials}\r\n"),
        format!(
            "CONNECT api.example.test:443 HTTP/1.1\r\nhost: api.example.test\r\nconnection: close\r\nproxy-connection: keep-alive\r\n{credentials}\r\n"
        ),
        format!("CONNECT api.example.test:443 HTTP/1.1\r\n{credentials}\r\n"),
    ] {
        let mut client = proxied.connect().await;
        client.write_all(connect.as_bytes()).await.unwrap();
        let head = hear_until(&mut client, "\r\n\r\n").await;
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{connect}: {}", String::from_utf8_lossy(&head));
        // Two requests: the tunnel is no more closed than any connection.
        for _ in 0..2 {
            client.write_all(b"GET /x HTTP/1.1\r\nHost: api.example.test\r\n\r\n").await.unwrap();
            let heard = hear(&mut client, Duration::from_millis(300)).await;
            assert_eq!(
                (heard.status(), heard.body(), heard.end),
                (200, b"ok".to_vec(), End::Silence),
                "{connect}"
            );
        }
    }
}

/// Events on a connection wake the thread that made it: another that uses it is woken through that one.
#[tokio::test]
async fn each_thread_uses_the_connections_that_it_made() {
    let origin = Origin::running(|mut caller| async move {
        while caller.request().await.is_some() {
            let number = caller.number.to_string();
            caller.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{number}", number.len())).await;
        }
    })
    .await;
    let spec = json!({"name": "p", "listen": "127.0.0.1:0", "upstream": origin.url()});
    let builder = Aconite::builder().workers(NonZeroUsize::new(2).unwrap());
    let aconite = builder.proxy(serde_json::from_value(spec).unwrap()).start().await.unwrap();
    let address = aconite.proxy_address("p").unwrap();
    // The third goes to the other thread.
    let connect = async || TcpStream::connect(address).await.unwrap();
    let [first, _second, third] = [connect().await, connect().await, connect().await];
    let mut clients = [first, third];
    let mut answers = Vec::new();
    for round in 0..3 {
        let started = Instant::now();
        for client in &mut clients {
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let answer = hear_until(client, "\r\n\r\n").await;
            let mut number = [0; 1];
            client.read_exact(&mut number).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", answer.escape_ascii());
            answers.push(number[0] - b'0');
        }
        if round == 0 && started.elapsed() > Duration::from_millis(900) {
            // Too slow a machine: what lay for a second may be lent.
            return;
        }
        tokio::time::sleep(Duration::from_millis(1_200)).await;
    }
    assert_eq!(answers, [0, 1, 0, 1, 0, 1]);
}
