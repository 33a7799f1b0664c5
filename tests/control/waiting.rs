//! Waiting for the rest of what a client has begun costs nothing, and has a clock.
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::support::{End, GUARD, Origin, Proxied, hear, many_files};

/// No connection of the instance is open any more.
pub(super) async fn all_gone(proxied: &Proxied) {
    let deadline = Instant::now() + GUARD;
    loop {
        let open = proxied.aconite.client().connections().await.unwrap().len();
        if open == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "{open} are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().collect::<Vec<_>>();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn a_04_a_thousand_clients_that_leave_after_one_byte_are_gone() {
    many_files();
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for spec in [json!({"upstream": origin.url()}), json!({"protocol": "forward"})] {
        for byte in [b"C", b"P", b"\x16"] {
            let proxied = Proxied::with(spec.clone()).await;
            let mut clients = Vec::new();
            for _ in 0..167 {
                let mut client = proxied.connect().await;
                client.write_all(byte).await.unwrap();
                clients.push(client);
            }
            drop(clients);
            all_gone(&proxied).await;
        }
    }
}

#[tokio::test]
async fn a_04_a_hundred_half_requests_cost_no_cpu() {
    let proxied = Proxied::with(json!({"protocol": "forward"})).await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = proxied.connect().await;
        client.write_all(b"CONN").await.unwrap();
        clients.push(client);
    }
    // Other tests of this process take CPU time too: one quiet moment is enough.
    let mut least = Duration::MAX;
    for _ in 0..20 {
        let before = cpu();
        tokio::time::sleep(Duration::from_millis(200)).await;
        least = least.min(cpu() - before);
        if least < Duration::from_millis(30) {
            return;
        }
    }
    panic!("200 ms of waiting cost {least:?} of CPU time");
}

async fn begun(proxied: &Proxied, pieces: &[&[u8]]) -> TcpStream {
    let mut client = proxied.connect().await;
    for piece in pieces {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client
}

#[tokio::test]
async fn a_04_the_clock_of_a_head_runs_from_its_first_byte_whatever_it_is() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let plain = json!({"upstream": origin.url(), "header_timeout": "300ms"});
    let forward = json!({"protocol": "forward", "header_timeout": "300ms", "intercept": ["localhost"]});
    let guarded = json!({"protocol": "forward", "header_timeout": "300ms", "credentials": "u:p"});
    let cases: [(&serde_json::Value, &[&[u8]], u16); 9] = [
        (&plain, &[b"P"], 408),
        (&plain, &[b"P", b"OST / HTTP/1.1\r\n"], 408),
        (&plain, &[b"PRI * HT"], 408),
        (&forward, &[b"C"], 408),
        (&forward, &[b"CONNECT x:443 HTTP/1.1\r\n", b"Host: x\r\n"], 408),
        (&forward, &[b"GET http://x/ HT", b"TP/1.1\r\n"], 408),
        (&guarded, &[b"CONNECT x:4"], 408),
        // Its tunnel is there; then half a ClientHello comes.
        (&forward, &[b"CONNECT localhost:443 HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"], 200),
        (&forward, &[b"CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"], 200),
    ];
    for (spec, pieces, status) in cases {
        let proxied = Proxied::with(spec.clone()).await;
        let mut client = begun(&proxied, pieces).await;
        let heard = timeout(GUARD, hear(&mut client, GUARD)).await.unwrap();
        let sent = String::from_utf8_lossy(pieces.last().unwrap()).into_owned();
        assert_eq!((heard.status(), heard.end), (status, End::Closed), "{sent:?}: {}", heard.text());
        all_gone(&proxied).await;
    }
}

/// The first 407 does not end the connection: each further attempt has the same clock.
#[tokio::test]
async fn a_04_the_clock_runs_before_each_check_of_credentials() {
    let spec = json!({"protocol": "forward", "header_timeout": "300ms", "credentials": "u:p"});
    let proxied = Proxied::with(spec).await;
    let mut client = begun(&proxied, &[b"CONNECT x:443 HTTP/1.1\r\n\r\n", b"CONN"]).await;
    let heard = timeout(GUARD, hear(&mut client, GUARD)).await.unwrap();
    let text = heard.text();
    assert_eq!((heard.status(), heard.end), (407, End::Closed), "{text}");
    assert!(text.contains("HTTP/1.1 408 "), "{text}");
}

#[tokio::test]
async fn a_04_half_a_client_hello_is_left_with_its_client() {
    let proxied = Proxied::with(json!({"protocol": "forward"})).await;
    for target in ["127.0.0.1:9", "api.openai.com:443"] {
        let connect = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
        let client = begun(&proxied, &[connect.as_bytes(), b"\x16\x03\x01\x02\x00\x01\x00"]).await;
        drop(client);
        all_gone(&proxied).await;
    }
}
