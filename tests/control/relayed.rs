//! WebSocket, every other Upgrade, and tunnels: under control like any connection, and ended by somebody who is named.
use std::time::Duration;

use aconite::model::{Exchange, How, Side};
use bytes::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    h2_cases::{
        client,
        protocols::{extended_connect, realtime},
    },
    support::{End, GUARD, Heard, Origin, Proxied, eventually, hear, hear_until},
};

const UPGRADE: &str = "GET /realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: x\r\n\r\n";

/// Switches protocols, then says again what it hears; `!` makes it close, `?` reset.
async fn upgrading() -> Origin {
    Origin::running(|mut caller| async move {
        if caller.request().await.is_none() {
            return;
        }
        caller.say(SWITCHING).await;
        while let Some(byte) = caller.byte().await {
            match byte {
                b'!' => return,
                b'?' => return caller.reset(),
                byte => caller.say([byte]).await,
            }
        }
    })
    .await
}

/// Says again what it hears.
async fn echo() -> Origin {
    Origin::running(|mut caller| async move {
        while let Some(byte) = caller.byte().await {
            caller.say([byte]).await;
        }
    })
    .await
}

/// A relay of each kind, through which a byte has passed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    WebSocket,
    Tunnel,
    Tcp,
}

const KINDS: [Kind; 3] = [Kind::WebSocket, Kind::Tunnel, Kind::Tcp];

async fn proxied(kind: Kind, more: serde_json::Value) -> (Proxied, Origin) {
    let origin = match kind {
        Kind::WebSocket => upgrading().await,
        Kind::Tunnel | Kind::Tcp => echo().await,
    };
    let mut spec = match kind {
        Kind::WebSocket => json!({"upstream": origin.url()}),
        Kind::Tunnel => json!({"protocol": "forward"}),
        Kind::Tcp => json!({"upstream": origin.address.to_string()}),
    };
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    (Proxied::with(spec).await, origin)
}

async fn open(kind: Kind, proxied: &Proxied, origin: &Origin) -> TcpStream {
    let mut client = proxied.connect().await;
    match kind {
        Kind::WebSocket => {
            client.write_all(UPGRADE.as_bytes()).await.unwrap();
            hear_until(&mut client, "\r\n\r\n").await;
        }
        Kind::Tunnel => {
            client
                .write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", origin.address).as_bytes())
                .await
                .unwrap();
            hear_until(&mut client, "\r\n\r\n").await;
        }
        Kind::Tcp => {}
    }
    client.write_all(b"a").await.unwrap();
    hear_until(&mut client, "a").await;
    client
}

async fn ended(client: &mut TcpStream) -> Heard {
    timeout(GUARD, hear(client, GUARD)).await.unwrap()
}

#[tokio::test]
async fn a_03_a_relay_is_listed_and_can_be_reset() {
    for kind in KINDS {
        let (proxied, origin) = proxied(kind, json!({})).await;
        let mut client = open(kind, &proxied, &origin).await;
        let api = proxied.aconite.client();
        let listed = api.connections().await.unwrap();
        assert_eq!(listed.len(), 1, "{kind:?}");
        api.reset_connection(listed[0].id).await.unwrap();
        assert_eq!(ended(&mut client).await.end, End::Reset, "{kind:?}");
        if let Kind::WebSocket = kind {
            let ending = proxied.journal().await[0].ending.unwrap();
            assert_eq!((ending.side, ending.how), (Side::Proxy, How::Rst));
        }
    }
}

#[tokio::test]
async fn a_03_deleting_disabling_or_changing_the_proxy_ends_its_relays() {
    for kind in KINDS {
        for change in ["delete", "disable", "change", "stop"] {
            let (proxied, origin) = proxied(kind, json!({})).await;
            let mut client = open(kind, &proxied, &origin).await;
            let api = proxied.aconite.client();
            match change {
                "delete" => api.delete_proxy("p").await.unwrap(),
                "disable" => {
                    api.patch_proxy("p", &json!({"enabled": false})).await.unwrap();
                }
                "change" => {
                    api.patch_proxy("p", &json!({"max_connections": 7})).await.unwrap();
                }
                _ => timeout(GUARD, proxied.aconite.stop()).await.unwrap(),
            }
            let heard = ended(&mut client).await;
            assert_eq!(heard.end, End::Closed, "{kind:?} {change}");
        }
    }
}

/// Over HTTP/2 it has a stream for its client's side, and its end is the upstream's all the same.
#[tokio::test]
async fn a_03_a_websocket_over_http2_ends_with_its_connection() {
    for change in ["reset", "delete", "disable", "change", "stop"] {
        let origin = realtime(SWITCHING).await;
        let proxied = Proxied::http(&origin).await;
        let (sender, ended) = client(proxied.connect().await).await;
        let (response, mut sending) = extended_connect(&sender, "websocket").await;
        let mut body = response.into_body();
        sending.send_data(Bytes::from_static(b"a"), false).unwrap();
        assert_eq!(timeout(GUARD, body.data()).await.unwrap().unwrap().unwrap(), "a");
        let api = proxied.aconite.client();
        let how = if change == "reset" { How::Rst } else { How::Fin };
        match change {
            "reset" => api.reset_connection(api.connections().await.unwrap()[0].id).await.unwrap(),
            "delete" => api.delete_proxy("p").await.unwrap(),
            "disable" => drop(api.patch_proxy("p", &json!({"enabled": false})).await.unwrap()),
            "change" => drop(api.patch_proxy("p", &json!({"max_connections": 7})).await.unwrap()),
            _ => {
                timeout(GUARD, proxied.aconite.stop()).await.unwrap();
                // A client that is told to go may do so in peace, or lose its connection.
                let _ = timeout(GUARD, ended).await.unwrap();
                continue;
            }
        }
        let exchange = proxied.journal().await.into_iter().find(|each| each.path.starts_with("/realtime"));
        let ending = exchange.unwrap().ending.unwrap();
        assert_eq!((ending.side, ending.how), (Side::Proxy, how), "{change}");
        // Without its connection the stream has no end but an error, or none.
        assert!(timeout(GUARD, body.data()).await.unwrap().is_none_or(|data| data.is_err()), "{change}");
    }
}

#[tokio::test]
async fn a_03_a_relay_counts_among_max_connections() {
    for kind in KINDS {
        let (proxied, origin) = proxied(kind, json!({"max_connections": 2})).await;
        let first = open(kind, &proxied, &origin).await;
        let _second = open(kind, &proxied, &origin).await;
        let mut third = proxied.connect().await;
        third.write_all(UPGRADE.as_bytes()).await.unwrap();
        assert_eq!(hear(&mut third, Duration::from_millis(300)).await.end, End::Silence, "{kind:?}");
        assert_eq!(proxied.aconite.client().connections().await.unwrap().len(), 2, "{kind:?}");
        drop((first, third));
        drop(timeout(GUARD, open(kind, &proxied, &origin)).await.unwrap());
    }
}

/// The journal's only entry, once the WebSocket is over.
async fn entry(proxied: &Proxied) -> Exchange {
    let mut journal = timeout(GUARD, proxied.journal()).await.unwrap();
    assert_eq!(journal.len(), 1);
    journal.remove(0)
}

#[tokio::test]
async fn r2_09_the_journal_names_who_ended_a_websocket() {
    let limit = json!({"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 400}});
    let cases = [
        ("client closes", None, Side::Client, How::Fin),
        ("client vanishes", None, Side::Client, How::Rst),
        ("upstream closes", None, Side::Upstream, How::Fin),
        ("upstream resets", None, Side::Upstream, How::Rst),
        ("toxic", Some(limit), Side::Toxic, How::Fin),
        ("toxic", Some(json!({"type": "reset_peer", "attributes": {"timeout": 0}})), Side::Toxic, How::Rst),
        ("deleted", None, Side::Proxy, How::Fin),
    ];
    for (who, toxic, side, how) in cases {
        let (proxied, origin) = proxied(Kind::WebSocket, json!({})).await;
        let mut client = open(Kind::WebSocket, &proxied, &origin).await;
        match who {
            "client closes" => drop(client),
            "client vanishes" => {
                client.set_zero_linger().unwrap();
                drop(client);
            }
            "upstream closes" => {
                client.write_all(b"!").await.unwrap();
                assert_eq!(ended(&mut client).await.end, End::Closed);
                drop(client);
            }
            "upstream resets" => {
                client.write_all(b"?").await.unwrap();
                assert_eq!(ended(&mut client).await.end, End::Reset);
            }
            "deleted" => {
                proxied.aconite.client().delete_proxy("p").await.unwrap();
                ended(&mut client).await;
            }
            _ => {
                proxied.add(toxic.clone().unwrap()).await;
                // The reset may come first.
                let _ = client.write_all(&[b'x'; 1_000]).await;
                ended(&mut client).await;
            }
        }
        let entry = entry(&proxied).await;
        let ending = entry.ending.unwrap();
        assert_eq!((ending.side, ending.how), (side, how), "{who} {toxic:?}: {entry:?}");
        assert_eq!(entry.status, Some(101));
        assert!(entry.bytes_in >= 1 && entry.bytes_out >= 1, "{entry:?}");
    }
}

#[tokio::test]
async fn r2_09_head_toxics_act_on_the_101_and_the_others_say_why_not() {
    let (proxied, origin) = proxied(Kind::WebSocket, json!({})).await;
    proxied.add(json!({"type": "delay", "attributes": {"delay": 150}})).await;
    proxied.add(json!({"type": "headers", "attributes": {"set": {"x-added": "1"}}})).await;
    let on_bodies = ["cut", "drop", "slow_stream", "garble"];
    let attributes =
        [json!({"at": {"bytes": 1}}), json!({}), json!({"between": 10}), json!({"how": "not_json"})];
    for (kind, attributes) in on_bodies.into_iter().zip(attributes) {
        proxied.add(json!({"type": kind, "attributes": attributes})).await;
    }
    let began = std::time::Instant::now();
    let mut client = proxied.connect().await;
    client.write_all(UPGRADE.as_bytes()).await.unwrap();
    let head = String::from_utf8(hear_until(&mut client, "\r\n\r\n").await).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("x-added: 1\r\n"), "{head}");
    assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    let marker = head.lines().find_map(|line| line.strip_prefix("x-aconite-toxics: ")).unwrap();
    assert!(marker.contains("delay") && marker.contains("headers") && !marker.contains("cut"), "{marker}");
    client.write_all(b"hello").await.unwrap();
    hear_until(&mut client, "hello").await;
    drop(client);
    let entry = entry(&proxied).await;
    for strike in &entry.toxics {
        let acted = !on_bodies.contains(&strike.kind.as_str());
        assert_eq!(
            (strike.struck, strike.reason.as_deref()),
            (acted, (!acted).then_some("upgraded")),
            "{strike:?}"
        );
    }
    assert_eq!(entry.toxics.len(), 6, "{:?}", entry.toxics);
    drop(origin);
}

#[tokio::test]
async fn r2_09_a_toxic_can_refuse_an_upgrade() {
    let (proxied, _origin) = proxied(Kind::WebSocket, json!({})).await;
    proxied.add(json!({"type": "fail", "attributes": {"status": 503, "reach_upstream": true}})).await;
    assert_eq!(proxied.raw(UPGRADE).await.status(), 503);
    let ending = entry(&proxied).await.ending.unwrap();
    assert_eq!(ending.side, Side::Toxic);
}

/// Neither side reads: what is relayed is stuck both ways, and control works all the same.
#[tokio::test]
async fn a_03_a_relay_that_is_stuck_can_be_reset() {
    let origin = Origin::running(|mut caller| async move {
        caller.request().await;
        caller.say(SWITCHING).await;
        std::future::pending::<()>().await;
    })
    .await;
    let proxied = Proxied::http(&origin).await;
    let mut client = proxied.connect().await;
    client.write_all(UPGRADE.as_bytes()).await.unwrap();
    hear_until(&mut client, "\r\n\r\n").await;
    let chunk = vec![0; 1024 * 1024];
    while timeout(Duration::from_millis(300), client.write_all(&chunk)).await.is_ok() {}
    let api = proxied.aconite.client();
    let id = api.connections().await.unwrap()[0].id;
    api.reset_connection(id).await.unwrap();
    let mut byte = [0];
    assert!(timeout(GUARD, client.read(&mut byte)).await.unwrap().is_err());
    let journal = proxied.journal().await;
    assert_eq!(journal[0].ending.unwrap().side, Side::Proxy);
    eventually("its upstream is left", || proxied.aconite.proxy_address("p").is_some()).await;
}
