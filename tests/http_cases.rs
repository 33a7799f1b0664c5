//! Real bug reports about HTTP/1.1, each turned into bytes on a socket. Named by case.
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{End, GUARD, Heard, Origin, Proxied, eventually, hear, hear_until};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CLOSE_AFTER: &str = "connection: close\r\n\r\n";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{CLOSE_AFTER}")
}

#[tokio::test]
async fn http_03_a_100_in_the_same_segment_is_not_the_final_answer() {
    let origin =
        Origin::answering("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .await;
    let proxied = Proxied::http(&origin).await;
    let heard =
        proxied.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").await;
    assert!(heard.text().ends_with("\r\n\r\nok"), "{}", heard.text());
    assert!(heard.text().contains("HTTP/1.1 200 OK"), "{}", heard.text());
    assert_eq!(proxied.journal().await[0].status, Some(200));
}

#[tokio::test]
async fn http_04_early_hints_are_never_the_final_answer() {
    let origin = Origin::answering(
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied.raw(get("/")).await;
    assert_eq!((heard.status(), heard.body()), (200, b"hello".to_vec()));
}

#[tokio::test]
async fn http_01_expect_100_continue_is_forwarded_and_relayed() {
    let origin = Origin::running(|mut caller| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(caller.byte().await.unwrap());
        }
        assert!(String::from_utf8_lossy(&head).to_ascii_lowercase().contains("expect: 100-continue"));
        caller.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        let mut body = [0; 5];
        caller.stream.read_exact(&mut body).await.unwrap();
        caller.say(OK).await;
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut interim = [0; 25];
    client.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    let heard = hear(&mut client, GUARD).await;
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
}

#[tokio::test]
async fn http_01_a_silent_upstream_does_not_hold_the_body_for_ever() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut interim = [0; 25];
    tokio::time::timeout(GUARD, client.read_exact(&mut interim)).await.unwrap().unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
}

#[tokio::test]
async fn http_06_answers_without_a_body_end_with_their_head() {
    for (request, answer, kept) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", None),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n", Some("1234")),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 1234\r\n\r\n", Some("1234")),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
    ] {
        let origin = Origin::answering(answer).await;
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        for _ in 0..2 {
            client
                .write_all(format!("{request} /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let heard = hear(&mut client, Duration::from_millis(300)).await;
            assert_eq!(heard.end, End::Silence, "{request} {answer}");
            assert_eq!(heard.body(), b"", "{request} {answer}: {}", heard.text());
            assert_eq!(heard.header("content-length").first().map(String::as_str), kept, "{}", heard.text());
        }
        assert_eq!(origin.connections(), 1, "{request} {answer}: the connection is used again");
    }
}

#[tokio::test]
async fn http_07_a_body_that_was_read_whole_has_one_framing_header() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1,\r\n6\r\n\"b\":2}\r\n0\r\n\r\n",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    proxied
        .add(json!({"type": "edit", "attributes": {"ops": [{"op": "replace", "path": "/b", "value": 33}]}}))
        .await;
    let heard = proxied.raw(get("/v1/x")).await;
    assert_eq!(heard.body(), b"{\"a\":1,\"b\":33}");
    let framing = heard.header("content-length").len() + heard.header("transfer-encoding").len();
    assert_eq!(framing, 1, "{}", heard.head());
}

#[tokio::test]
async fn http_08_a_chunked_upload_arrives_byte_for_byte() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for piece in [
        &b"POST /v1/audio/transcriptions HTTP/1.1\r\nHo"[..],
        b"st: x\r\ntransfer-encoding: chunked\r\ncontent-type: multipart/form-data; boundary=x\r\nconnec",
        b"tion: close\r\n\r\n4\r\n\x00\xff\r\n\r\n3\r\n--x\r\n0\r\n\r\n",
    ] {
        client.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
    let received = origin.received();
    assert!(!received.to_ascii_lowercase().contains("content-length"), "{received}");
    assert!(received.contains("multipart/form-data; boundary=x"), "{received}");
}

#[tokio::test]
async fn http_11_an_early_refusal_reaches_a_client_that_is_still_sending() {
    let origin = Origin::running(|mut caller| async move {
        let mut some = [0; 512];
        caller.stream.read_exact(&mut some).await.unwrap();
        caller
            .say("HTTP/1.1 413 Payload Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
            .await;
        caller.reset();
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 28000000\r\n\r\n").await.unwrap();
    let (mut read, mut write) = client.split();
    let sending = async {
        let block = vec![7; 64 * 1024];
        // The refusal may end the connection at any moment of this.
        for _ in 0..400 {
            if write.write_all(&block).await.is_err() {
                break;
            }
        }
    };
    let reading = async {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(count) = read.read(&mut piece).await {
            if count == 0 || bytes.ends_with(b"big") {
                break;
            }
            bytes.extend_from_slice(&piece[..count]);
        }
        bytes
    };
    let ((), bytes) = tokio::time::timeout(GUARD, async { tokio::join!(sending, reading) }).await.unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with("HTTP/1.1 413") && text.ends_with("big"), "{text}");
}

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
}

#[tokio::test]
async fn http_15_and_16_a_dead_kept_connection_is_never_the_clients_problem() {
    for how in ["fin", "rst", "fin after reading"] {
        let origin = Origin::running(move |mut caller| async move {
            let first = caller.number < 8;
            if caller.request().await.is_none() {
                return;
            }
            caller.say(OK).await;
            match how {
                "fin" if first => {}
                "rst" if first => caller.reset(),
                // It takes the next request and closes without a word.
                _ if first => drop(caller.request().await),
                _ => {
                    while caller.request().await.is_some() {
                        caller.say(OK).await;
                    }
                }
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let all = (0..8).map(|_| proxied.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        for heard in futures_of(all).await {
            assert_eq!(heard.status(), 200, "{how}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..3 {
            let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
            let heard = proxied.raw(post).await;
            assert_eq!(heard.status(), 200, "{how}: {}", heard.text());
        }
    }
}

async fn futures_of(all: impl Iterator<Item = impl Future<Output = Heard>>) -> Vec<Heard> {
    let mut heard = Vec::new();
    for one in all {
        heard.push(one.await);
    }
    heard
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
async fn http_19_repeated_headers_keep_their_number_order_and_case() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nx-y: 1\r\nX-Y: 2\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let request = "GET / HTTP/1.1\r\nHost: x\r\nX-ReQuest: 1\r\nx-request: 2\r\nConnection: close\r\n\r\n";
    let heard = proxied.raw(request).await;
    assert_eq!(heard.header("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(heard.header("x-y"), ["1", "2"]);
    for line in ["Set-Cookie: a=1", "set-cookie: b=2", "x-y: 1", "X-Y: 2"] {
        assert!(heard.head().contains(line), "{line}: {}", heard.head());
    }
    let received = origin.received();
    assert!(received.contains("X-ReQuest: 1\r\nx-request: 2\r\n"), "{received}");
}

/// Nobody asks a body of declared length for its end. The journal has to know it all the same, and what toxics say of it.
#[tokio::test]
async fn a_whole_answer_that_a_toxic_only_watched_ends_clean_and_says_why() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for (at, reason) in [(json!({"events": 3}), "not_a_stream"), (json!({"bytes": 9}), "not_reached")] {
        proxied.add(json!({"type": "cut", "attributes": {"at": at, "how": "fin"}})).await;
        let heard = proxied.raw(get("/")).await;
        assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()));
        let exchange = proxied.journal().await.pop().unwrap();
        assert_eq!(json!(exchange.ending), json!({"side": "upstream", "how": "clean"}), "{at}");
        assert_eq!(
            (exchange.toxics[0].struck, exchange.toxics[0].reason.as_deref()),
            (false, Some(reason)),
            "{at}"
        );
        proxied.remove("cut_downstream").await;
    }
}

/// Who reads the journal must not look for a fault in the client that the proxy itself cut off.
#[tokio::test]
async fn an_answer_that_the_proxy_gives_up_is_not_the_clients_doing() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await;
    for how in ["fin", "rst"] {
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        client.write_all(get("/").as_bytes()).await.unwrap();
        hear_until(&mut client, "ok").await;
        let admin = proxied.aconite.client();
        if how == "rst" {
            let connections = admin.connections().await.unwrap();
            admin.reset_connection(connections[0].id).await.unwrap();
        } else {
            admin.patch_proxy("p", &json!({"enabled": false})).await.unwrap();
        }
        let exchange = proxied.journal().await.pop().unwrap();
        assert_eq!(json!(exchange.ending), json!({"side": "proxy", "how": how}));
    }
}

#[tokio::test]
async fn http_21_and_22_request_targets_leave_as_they_came() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for target in [
        "/collections/a%2Fb/points/%E4%B8%AD?x=%2520+%20&y",
        "/a/./b",
        "/a%20b",
        "/a?",
        "/v1//chat/completions",
        "//cms/x",
    ] {
        assert_eq!(proxied.raw(get(target)).await.status(), 200, "{target}");
        assert!(
            origin.received().contains(&format!("GET {target} HTTP/1.1\r\n")),
            "{target}: {}",
            origin.received()
        );
    }
}

#[tokio::test]
async fn http_24_header_and_bytes_agree_about_the_coding() {
    use std::io::Write;
    let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coded.write_all(b"{\"error\":{\"message\":\"slow\"}}").unwrap();
    let coded = coded.finish().unwrap();
    let mut answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        coded.len()
    )
    .into_bytes();
    answer.extend_from_slice(&coded);
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    let untouched = proxied.raw(get("/v1/x")).await;
    assert_eq!((untouched.header("content-encoding"), untouched.body()), (vec!["gzip".to_owned()], coded));
    let edit = json!({"type": "edit", "attributes": {"ops": [{"path": "$.error.message", "set": "fast"}]}});
    proxied.add(edit).await;
    let edited = proxied.raw(get("/v1/x")).await;
    assert_eq!(edited.status(), 429);
    assert_eq!(
        (edited.header("content-encoding"), edited.body()),
        (vec![], b"{\"error\":{\"message\":\"fast\"}}".to_vec())
    );
}

#[tokio::test]
async fn http_30_hop_by_hop_headers_stay_on_their_hop() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let heard = proxied
        .raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: close, X-Internal\r\nX-Internal: 1\r\nTE: trailers, deflate\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nX-Stays: 1\r\n\r\n")
        .await;
    assert_eq!((heard.status(), heard.end), (200, End::Closed));
    let received = origin.received().to_ascii_lowercase();
    for gone in ["x-internal", "keep-alive", "proxy-connection", "connection:", "deflate"] {
        assert!(!received.contains(gone), "{gone}: {received}");
    }
    assert!(received.contains("te: trailers\r\n") && received.contains("x-stays: 1\r\n"), "{received}");
    assert_eq!(proxied.raw(get("/")).await.status(), 200);
    assert_eq!(origin.connections(), 1, "the client's close is not the upstream's");
}

#[tokio::test]
async fn http_32_a_slow_upload_arrives_as_it_is_sent() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for piece in
        ["POST /v1/files HTTP/1.1\r\nHo", "st: x\r\nContent-Length: 3\r\n", "Connection: close\r\n\r\n"]
    {
        client.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.write_all(b"1").await.unwrap();
    eventually("the first byte at the upstream before the second is sent", || {
        origin.received().ends_with("\r\n\r\n1") || origin.received().contains("\r\n\r\n")
    })
    .await;
    client.write_all(b"23").await.unwrap();
    assert_eq!(hear(&mut client, GUARD).await.status(), 200);
}

#[tokio::test]
async fn http_32_a_head_that_takes_too_long_is_answered_408_and_a_body_never_is() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "header_timeout": "300ms"})).await;
    let mut client = proxied.connect().await;
    for _ in 0..2 {
        client.write_all(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n").await.unwrap();
        for byte in [b"1", b"2", b"3"] {
            tokio::time::sleep(Duration::from_millis(250)).await;
            client.write_all(byte).await.unwrap();
        }
        let mut answer = vec![0; OK.len()];
        client.read_exact(&mut answer).await.unwrap();
        assert!(answer.ends_with(b"\r\n\r\nok"));
    }
    client.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let started = std::time::Instant::now();
    let heard = hear(&mut client, GUARD).await;
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!((heard.status(), heard.end), (408, End::Closed));
    assert!(heard.text().contains("x-aconite-error: head_timeout\r\n"), "{}", heard.text());
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
async fn http_33_an_answer_that_ends_with_its_connection_is_complete() {
    let origin = Origin::answering_once(
        "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"object\":\"list\",\"data\":[]}",
    )
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    for _ in 0..2 {
        client.write_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let heard = hear(&mut client, Duration::from_millis(300)).await;
        assert_eq!(heard.body(), b"{\"object\":\"list\",\"data\":[]}", "{}", heard.text());
        assert!(heard.text().ends_with("0\r\n\r\n"), "{}", heard.text());
    }
    assert_eq!(origin.connections(), 2, "such a connection is not kept");
}

#[tokio::test]
async fn smuggling_shapes_are_refused_and_nothing_is_forwarded() {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::http(&origin).await;
    for request in [
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
    ] {
        let heard = proxied.raw(request).await;
        assert_eq!((heard.status(), heard.end), (400, End::Closed), "{request:?}: {}", heard.text());
    }
    assert_eq!(origin.received(), "");
    // Both framings: the chunked one counts alone, and the connection ends (RFC 9112, section 6.3).
    let both = proxied.raw("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((both.status(), both.end), (200, End::Closed));
    let received = origin.received().to_ascii_lowercase();
    assert!(!received.contains("content-length") && !received.contains("smuggled"), "{received}");
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(300 * 1024));
    assert_eq!(proxied.raw(large).await.status(), 431);
    assert_eq!(origin.received().len(), received.len());
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
    let (left, mut leaving) = tokio::sync::mpsc::unbounded_channel();
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
    let noticed = tokio::time::timeout(Duration::from_secs(2), leaving.recv()).await;
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
