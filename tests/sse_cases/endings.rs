//! How a stream ends: what breaks off is never dressed up as finished, and what came before the end arrives.
use std::sync::Arc;

use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::Semaphore};

use super::{CHAT, END, HEAD, ask, chunk, delta, ending, idle_edit, patiently, streamed, struck};
use crate::support::{End, GUARD, Origin, Proxied, acceptor, hear, hear_until};

#[tokio::test]
async fn sse_05_before_the_blank_line_is_not_before_the_event() {
    let (first, last) = (delta("a"), delta("z"));
    let body = format!("{first}{last}");
    for (at, left, tail) in [
        (json!({"bytes": body.len() - 1}), &body[..body.len() - 1], last.len() as u64 - 1),
        (json!({"events": 1}), first.as_str(), 0),
    ] {
        let toxic = json!({"type": "cut", "attributes": {"at": at, "how": "clean"}});
        let (heard, exchange) = struck(CHAT, &body, toxic).await;
        assert_eq!(String::from_utf8_lossy(&heard.body()), left, "{at}");
        assert_eq!((exchange.events, exchange.unterminated_tail), (1, tail), "{at}");
    }
}

#[tokio::test]
async fn sse_18_every_byte_comes_that_tls_delivered_before_its_end() {
    let event = format!("data: {}\n\n", "x".repeat(1_500_000));
    let answer = Arc::new(streamed(&[&event]));
    let acceptor = acceptor();
    let origin = Origin::running(move |caller| {
        let (answer, acceptor) = (Arc::clone(&answer), acceptor.clone());
        async move {
            let mut tls = acceptor.accept(caller.stream).await.unwrap();
            hear_until(&mut tls, r#""stream":true}"#).await;
            tls.write_all(&answer).await.unwrap();
            tls.shutdown().await.unwrap();
        }
    })
    .await;
    let url = format!("https://localhost:{}", origin.address.port());
    let proxied = Proxied::with(json!({"upstream": url, "upstream_tls": {"insecure": true}})).await;
    for round in 0..200 {
        let heard = patiently(&proxied, "Connection: close\r\n").await;
        assert_eq!((heard.status(), heard.body().len()), (200, event.len()), "round {round}");
        assert!(heard.bytes.ends_with(END.as_bytes()), "round {round}");
    }
}

#[tokio::test]
async fn sse_25_a_page_in_place_of_a_stream_passes() {
    let page = "<html>502 Bad Gateway</html>";
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}", page.len());
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    for toxic in [false, true] {
        if toxic {
            proxied.add(idle_edit()).await;
        }
        let heard = proxied.raw(ask(CHAT, "")).await;
        assert_eq!((heard.status(), heard.body()), (200, page.into()), "{toxic}");
        assert_eq!(heard.header("content-type"), ["text/html"], "{toxic}");
        assert_eq!(heard.header("content-length"), [page.len().to_string()], "{toxic}");
    }
}

#[tokio::test]
async fn sse_26_an_error_in_the_stream_has_the_providers_shape() {
    let frame = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let origin = Origin::answering(streamed(&[frame])).await;
    let heard = Proxied::http(&origin).await.raw(ask("/v1/messages", "")).await;
    assert_eq!((heard.status(), String::from_utf8_lossy(&heard.body()).as_ref()), (200, frame));
    let toxic = json!({"type": "stream_error", "attributes": {"at": {"events": 1}, "cause": "overloaded"}});
    for (path, shape) in [
        ("/v1/messages", "event: error\ndata: {\"type\":\"error\",\"error\":{"),
        ("/v1/responses", "event: error\ndata: {\"type\":\"error\",\"code\":"),
        (CHAT, "data: {\"error\":{"),
    ] {
        let first = delta("a");
        let (heard, _) = struck(path, &format!("{first}{}", delta("b")), toxic.clone()).await;
        let body = String::from_utf8(heard.body()).unwrap();
        let error = body.strip_prefix(&first).unwrap_or_else(|| panic!("{path}: {body}"));
        assert!(error.starts_with(shape) && error.ends_with("\n\n"), "{path}: {error}");
    }
}

#[tokio::test]
async fn sse_27_an_upstream_that_breaks_off_is_not_made_a_success() {
    for path in [CHAT, "/v1/responses", "/v1/messages"] {
        let go = Arc::new(Semaphore::new(0));
        let permits = Arc::clone(&go);
        let deltas = [delta("1"), delta("2"), delta("3")].concat();
        let said = [HEAD.as_bytes(), &chunk(&deltas)].concat();
        let origin = Origin::running(move |mut caller| {
            let (said, permits) = (said.clone(), Arc::clone(&permits));
            async move {
                caller.request().await;
                caller.say(said).await;
                permits.acquire().await.unwrap().forget();
                caller.reset();
            }
        })
        .await;
        let proxied = Proxied::http(&origin).await;
        let mut client = proxied.connect().await;
        client.write_all(ask(path, "").as_bytes()).await.unwrap();
        hear_until(&mut client, chunk(&deltas)).await;
        go.add_permits(1);
        let heard = hear(&mut client, GUARD).await;
        assert_eq!((heard.text().as_str(), heard.end), ("", End::Reset), "{path}");
        let exchange = proxied.journal().await.remove(0);
        assert_eq!(ending(&exchange), (json!("upstream"), json!("rst")), "{path}");
        assert_eq!(exchange.events, 3, "{path}");
    }
}

#[tokio::test]
async fn sse_29_a_cut_adds_no_connection_close_and_the_upstreams_own_is_not_copied() {
    let answer = String::from_utf8(streamed(&[delta("a"), delta("b")])).unwrap();
    let closing = answer.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
    for (how, end) in [("fin", End::Closed), ("rst", End::Reset)] {
        for answer in [answer.clone(), closing.clone()] {
            let origin = Origin::answering_once(answer).await;
            let proxied = Proxied::http(&origin).await;
            proxied.add(json!({"type": "cut", "attributes": {"at": {"events": 1}, "how": how}})).await;
            let heard = proxied.raw(ask(CHAT, "")).await;
            assert_eq!(heard.header("connection"), Vec::<String>::new(), "{how}: {}", heard.head());
            assert_eq!((heard.body(), heard.end), (delta("a").into_bytes(), end), "{how}");
            assert!(!heard.bytes.ends_with(END.as_bytes()), "{how}");
        }
    }
}

#[tokio::test]
async fn sse_30_a_clean_cut_inside_an_event_is_not_an_abrupt_one() {
    let body = delta("世界");
    let at = body.find('世').unwrap() + 2;
    for (how, end) in [("clean", End::Silence), ("fin", End::Closed)] {
        let toxic = json!({"type": "cut", "attributes": {"at": {"bytes": at}, "how": how}});
        let (heard, _) = struck(CHAT, &body, toxic).await;
        assert_eq!((heard.body().as_slice(), heard.end), (&body.as_bytes()[..at], end), "{how}");
        assert_eq!(heard.bytes.ends_with(END.as_bytes()), how == "clean", "{how}");
    }
}

#[tokio::test]
async fn sse_25_a_page_is_a_fault_that_can_be_asked_for() {
    let origin = Origin::answering(streamed(&[delta("a")])).await;
    let proxied = Proxied::http(&origin).await;
    for (page, status) in [("proxy_200", 200), ("login", 200), ("nginx_502", 502)] {
        proxied.add(json!({"name": page, "type": "html", "attributes": {"as": page}})).await;
        let heard = proxied.raw(ask(CHAT, "")).await;
        assert_eq!(heard.status(), status, "{page}");
        assert!(heard.header("content-type")[0].starts_with("text/html"), "{page}: {}", heard.head());
        let body = String::from_utf8(heard.body()).unwrap();
        assert!(body.starts_with('<') && body.trim_end().ends_with("</html>"), "{page}: {body}");
        assert_eq!(heard.header("content-length"), [body.len().to_string()], "{page}");
        assert_eq!(heard.header("x-aconite-toxics"), [page], "{page}");
        let journal = proxied.journal().await;
        let exchange = journal.last().unwrap();
        assert!(exchange.toxics[0].struck, "{page}: {:?}", exchange.toxics);
        proxied.remove(page).await;
    }
    assert_eq!(origin.connections(), 0, "a page came instead of an answer, and yet the upstream was asked");
    assert_eq!(proxied.raw(ask(CHAT, "")).await.body(), delta("a").as_bytes());
}

/// For the Responses API both `response.failed` and `error` end a stream; the latter is what an overload looks like.
#[tokio::test]
async fn sse_27_on_request_a_stream_ends_with_the_providers_own_words() {
    let first = delta("a");
    let toxic = json!({"type": "stream_error", "attributes": {"at": {"events": 1}, "cause": "overloaded", "how": "clean"}});
    for (path, last) in [
        ("/v1/messages", "event: error\n"),
        ("/v1/responses", "event: error\n"),
        (CHAT, "data: {\"error\":{"),
    ] {
        let (heard, _) = struck(path, &format!("{first}{}data: [DONE]\n\n", delta("b")), toxic.clone()).await;
        let body = String::from_utf8(heard.body()).unwrap();
        assert!(body.strip_prefix(&first).is_some_and(|rest| rest.contains(last)), "{path}: {body}");
        // No success is made up behind the failure.
        assert!(!body.contains("[DONE]") && !body.contains("message_stop"), "{path}: {body}");
        assert!(heard.bytes.ends_with(END.as_bytes()), "{path}");
    }
}

/// What the client is told when TLS breaks off: whether the answer that a FIN delimits is whole or was cut.
#[tokio::test]
async fn sse_36_tls_that_ends_without_close_notify_is_no_clean_end() {
    let body = delta("a");
    let acceptor = acceptor();
    for (case, framing, closes, ends_clean) in [
        ("to the end, said so", "", true, true),
        ("to the end, broken off", "", false, false),
        ("chunked, broken off", "transfer-encoding: chunked\r\n", false, false),
        ("a length, broken off", "content-length: 500\r\n", false, false),
        ("a length, said to end too soon", "content-length: 500\r\n", true, false),
    ] {
        let chunked = framing.starts_with("transfer");
        let sent = if chunked { chunk(&body) } else { body.clone().into_bytes() };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n");
        let (answer, acceptor) = (Arc::new([head.as_bytes(), &sent].concat()), acceptor.clone());
        let origin = Origin::running(move |caller| {
            let (answer, acceptor) = (Arc::clone(&answer), acceptor.clone());
            async move {
                let mut tls = acceptor.accept(caller.stream).await.unwrap();
                hear_until(&mut tls, r#""stream":true}"#).await;
                tls.write_all(&answer).await.unwrap();
                tls.flush().await.unwrap();
                if closes {
                    tls.shutdown().await.unwrap();
                } else {
                    // The socket beneath is closed; TLS does not hear of it.
                    tls.get_mut().0.shutdown().await.unwrap();
                }
            }
        })
        .await;
        let url = format!("https://localhost:{}", origin.address.port());
        let proxied = Proxied::with(json!({"upstream": url, "upstream_tls": {"insecure": true}})).await;
        let heard = patiently(&proxied, "Connection: close\r\n").await;
        assert_eq!(heard.body(), body.as_bytes(), "{case}");
        assert_eq!(heard.bytes.ends_with(END.as_bytes()), ends_clean, "{case}: {}", heard.text());
        assert_ne!(heard.end, End::Silence, "{case}");
        let (side, how) = ending(&proxied.journal().await[0]);
        assert_eq!(side, json!("upstream"), "{case}");
        assert_eq!(how == json!("clean"), ends_clean, "{case}: {how}");
    }
}
