//! HTTP/2 has the clocks of HTTP/1, and what ends one stream leaves the others alone.
use std::{sync::Arc, time::Duration};

use aconite::model::{Exchange, How, Side};
use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, Method, Request, Response};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::waiting::all_gone;
use crate::{
    support::{GUARD, Origin, Proxied, hear_until},
    tls_support::{from_pem, name, trusting},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// HEADERS on stream 1 without END_HEADERS: `:method: GET`.
const HALF: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];

/// Whether the proxy sent GOAWAY before it closed.
async fn goes_away(mut client: TcpStream) -> bool {
    let mut heard = Vec::new();
    // A reset counts as an end too.
    let _ = timeout(GUARD, client.read_to_end(&mut heard)).await.expect("it is left open");
    let mut frames = heard.as_slice();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        if *kind == 7 {
            return true;
        }
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        frames = rest.get(length..).unwrap_or_default();
    }
    false
}

async fn saying(proxied: &Proxied, pieces: &[&[u8]]) -> TcpStream {
    let mut client = proxied.connect().await;
    for piece in pieces {
        client.write_all(piece).await.unwrap();
    }
    client
}

#[tokio::test]
async fn a_05_an_idle_or_half_said_connection_of_http2_is_closed_by_goaway() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let cases: [(&[&[u8]], &str, &str); 3] = [
        (&[PREFACE], "5m", "300ms"),
        (&[PREFACE, SETTINGS], "5m", "300ms"),
        // The clock of a header block is its own.
        (&[PREFACE, SETTINGS, HALF], "300ms", "5m"),
    ];
    for (pieces, header, idle) in cases {
        let spec = json!({"upstream": origin.url(), "header_timeout": header, "idle_timeout": idle});
        let proxied = Proxied::with(spec).await;
        let client = saying(&proxied, pieces).await;
        assert!(goes_away(client).await, "{pieces:?}");
        all_gone(&proxied).await;
    }
}

#[tokio::test]
async fn a_05_a_hundred_of_them_do_not_block_max_connections() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let spec = json!({
        "upstream": origin.url(), "max_connections": 100, "header_timeout": "1s", "idle_timeout": "1s",
    });
    let proxied = Proxied::with(spec).await;
    let mut clients = Vec::new();
    for number in 0..100 {
        let pieces: &[&[u8]] = match number % 3 {
            0 => &[PREFACE],
            1 => &[PREFACE, SETTINGS],
            _ => &[PREFACE, SETTINGS, HALF],
        };
        clients.push(saying(&proxied, pieces).await);
    }
    let heard = proxied.raw_patiently("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!(heard.status(), 200);
}

#[tokio::test]
async fn a_05_a_stream_is_no_idle_connection() {
    let origin = Origin::running(|mut caller| async move {
        caller.request().await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        caller.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    })
    .await;
    let spec = json!({"upstream": origin.url(), "idle_timeout": "300ms", "header_timeout": "300ms"});
    let proxied = Proxied::with(spec).await;
    let (sender, connection) = h2::client::handshake(proxied.connect().await).await.unwrap();
    let ended = tokio::spawn(connection);
    let request = Request::builder().method(Method::GET).uri("http://x/slow").body(()).unwrap();
    let (response, _) = sender.ready().await.unwrap().send_request(request, true).unwrap();
    assert_eq!(timeout(GUARD, response).await.unwrap().unwrap().status(), 200);
    // Then it is idle.
    timeout(GUARD, ended).await.expect("it is left open").unwrap().unwrap();
}

/// How one of many streams ended.
#[derive(Debug, PartialEq)]
enum Seen {
    Whole(Bytes, HeaderMap),
    Reset(Reason),
    Other(u16),
}

async fn complete(response: h2::client::ResponseFuture) -> Seen {
    let reading = async {
        let (head, mut body) = response.await?.into_parts();
        if head.status != 200 || head.headers["content-type"] != "text/event-stream" {
            return Ok(Seen::Other(head.status.as_u16()));
        }
        let mut all = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            all.extend_from_slice(&data);
        }
        Ok(Seen::Whole(all.into(), body.trailers().await?.unwrap_or_default()))
    };
    let seen: Result<Seen, h2::Error> = timeout(GUARD, reading).await.expect("a stream hangs");
    seen.unwrap_or_else(|error| {
        Seen::Reset(error.reason().unwrap_or_else(|| panic!("the connection ended: {error}")))
    })
}

const EVENTS: &str = "data: 1\n\ndata: 2\n\ndata: 3\n\n";

/// A stream of events, in HTTP/1.1 or HTTP/2, each stream in a task of its own.
async fn events(http2: bool) -> Origin {
    if !http2 {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{EVENTS}",
            EVENTS.len()
        );
        return Origin::answering(answer).await;
    }
    Origin::running(|caller| async move {
        let Ok(mut connection) = h2::server::handshake(caller.stream).await else { return };
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let head = Response::builder().header("content-type", "text/event-stream");
            let head = head.header("content-length", EVENTS.len()).body(()).unwrap();
            // A client may leave before the end.
            let Ok(mut sending) = respond.send_response(head, false) else { continue };
            let _ = sending.send_data(Bytes::from_static(EVENTS.as_bytes()), true);
        }
    })
    .await
}

#[tokio::test]
async fn r2_26_what_ends_one_stream_of_twenty_leaves_the_others_alone() {
    let cut = |how: &str| json!({"type": "cut", "attributes": {"how": how, "at": {"events": 1}}});
    let toxics = [
        cut("clean"),
        cut("fin"),
        cut("rst"),
        json!({"type": "fail", "attributes": {"status": 503}}),
        json!({"type": "fail", "attributes": {"cause": "rate_limit"}}),
        json!({"type": "hang", "attributes": {"for": 50}}),
        json!({"type": "html", "attributes": {"as": "nginx_502"}}),
        json!({"type": "length_lie", "attributes": {"delta": 5}}),
        json!({"type": "stream_error", "attributes": {"at": {"events": 1}, "cause": "overloaded"}}),
    ];
    let upstreams = [(json!(null), events(false).await), (json!("http2"), events(true).await)];
    for (mut toxic, (protocol, origin)) in
        toxics.iter().flat_map(|toxic| upstreams.iter().map(|upstream| (toxic.clone(), upstream)))
    {
        let spec = json!({"upstream": origin.url(), "upstream_protocol": protocol});
        let proxied = Proxied::with(spec).await;
        toxic["match"] = json!({"path": "/7"});
        toxic["name"] = json!("only");
        proxied.add(toxic.clone()).await;
        let (sender, connection) = h2::client::handshake(proxied.connect().await).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut streams = Vec::new();
        for number in 0..20 {
            let request = Request::builder().uri(format!("http://x/{number}")).body(()).unwrap();
            let mut sender = sender.clone().ready().await.unwrap();
            let (response, _) = sender.send_request(request, true).unwrap();
            streams.push(tokio::spawn(complete(response)));
        }
        for (number, stream) in streams.into_iter().enumerate() {
            let seen = stream.await.unwrap();
            let whole = Seen::Whole(Bytes::from_static(EVENTS.as_bytes()), HeaderMap::new());
            assert_eq!(seen == whole, number != 7, "{protocol} {toxic}: stream {number}: {seen:?}");
        }
        // The connection goes on.
        let request = Request::builder().uri("http://x/later").body(()).unwrap();
        let mut later = sender.clone().ready().await.unwrap();
        let (response, _) = later.send_request(request, true).unwrap();
        assert!(matches!(complete(response).await, Seen::Whole(..)), "{protocol} {toxic}");
        assert!(!connection.is_finished(), "{protocol} {toxic}");
        for Exchange { path, ending, toxics, .. } in proxied.journal().await {
            let side = ending.unwrap().side;
            if path == "/7" {
                assert_eq!(
                    toxics.iter().filter(|strike| strike.struck).count(),
                    1,
                    "{protocol} {toxic}: {toxics:?}"
                );
                continue;
            }
            assert_eq!((side, toxics.len()), (Side::Upstream, 0), "{protocol} {toxic}: {path}");
        }
    }
}

/// Who ends an exchange.
#[derive(Clone, Copy, Debug)]
enum Who {
    Client,
    Toxic(&'static str),
    Connection,
    Stop,
}

/// Who ended it, over HTTP/1 and HTTP/2, is who is named.
#[tokio::test]
async fn r2_26_whoever_ends_an_exchange_is_named_and_nobody_else() {
    let whos =
        [Who::Client, Who::Toxic("clean"), Who::Toxic("fin"), Who::Toxic("rst"), Who::Connection, Who::Stop];
    for http2 in [false, true] {
        for who in whos {
            let (side, how, _neighbour) = ending_by(http2, who).await;
            let expected = match who {
                Who::Client => (Side::Client, How::Fin),
                Who::Toxic("clean") => (Side::Toxic, How::Clean),
                Who::Toxic("fin") => (Side::Toxic, How::Fin),
                Who::Toxic(_) => (Side::Toxic, How::Rst),
                Who::Connection => (Side::Proxy, How::Rst),
                Who::Stop => (Side::Proxy, How::Fin),
            };
            assert_eq!((side, how), expected, "http2: {http2}, {who:?}");
        }
    }
}

/// Lets a stream of events begin, has somebody end it, and tells what the journal says.
async fn ending_by(http2: bool, who: Who) -> (Side, How, usize) {
    let origin = Origin::running(|mut caller| async move {
        caller.request().await;
        caller.say("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n").await;
        while caller.byte().await.is_some() {}
    })
    .await;
    let proxied = Arc::new(Proxied::http(&origin).await);
    let mut stream = proxied.connect().await;
    let mut streams = None;
    if http2 {
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let driving = tokio::spawn(connection);
        let request = Request::builder().uri("http://x/").body(()).unwrap();
        let (response, _) = sender.clone().ready().await.unwrap().send_request(request, true).unwrap();
        let mut body = timeout(GUARD, response).await.unwrap().unwrap().into_body();
        timeout(GUARD, body.data()).await.unwrap().unwrap().unwrap();
        streams = Some((sender, driving, body));
        stream = proxied.connect().await;
    } else {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        hear_until(&mut stream, "data: 1\n\n\r\n").await;
    }
    let api = proxied.aconite.client();
    match who {
        Who::Client => {
            if let Some((sender, driving, body)) = streams.take() {
                drop((sender, body));
                driving.abort();
            }
            drop(stream);
        }
        Who::Toxic(how) => {
            let toxic = json!({"type": "cut", "attributes": {"how": how, "at": {"events": 0}}});
            proxied.add(toxic).await;
        }
        Who::Connection => {
            for connection in api.connections().await.unwrap() {
                // The one that is not needed may be gone.
                let _ = api.reset_connection(connection.id).await;
            }
        }
        Who::Stop => api.delete_proxy("p").await.unwrap(),
    }
    let journal = timeout(GUARD, proxied.journal()).await.unwrap();
    let ending = journal[0].ending.unwrap();
    (ending.side, ending.how, journal.len())
}

#[tokio::test]
async fn a_05_a_client_that_says_nothing_after_tls_is_closed() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let proxied =
            Proxied::with(json!({"upstream": origin.url(), "tls": {}, "idle_timeout": "300ms"})).await;
        let connector = trusting(from_pem(proxied.aconite.ca_pem()), &[protocol]);
        let mut stream = connector.connect(name("127.0.0.1"), proxied.connect().await).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        let mut heard = Vec::new();
        // Without a close_notify the end is an error.
        let _ = timeout(GUARD, stream.read_to_end(&mut heard)).await.expect("it is left open");
    }
}
