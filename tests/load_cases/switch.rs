//! The kill switch, while many streams wait for toxics.
use std::time::Duration;

use aconite::{
    Aconite,
    client::ClientError,
    model::{End, Exchange, ExchangeFilter, ProxySpec, Side, Switch},
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::support::{GUARD, Origin, hear_until, many_files};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// More than a kilobyte, so that `bandwidth` and `slicer` take their time.
const EARLY: usize = 64;
const LAST_EARLY: &str = "data: {\"early\":63}\n\n";
const LATE: &str = "data: {\"late\":true}\n\n";
/// Streams of each kind.
const STREAMS: usize = 25;
/// What the switch has to take effect.
const AT_ONCE: Duration = Duration::from_millis(100);

/// What becomes of the events that were sent before the switch is turned.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Early {
    /// They are held, and come when it is turned.
    Held,
    /// They are dropped or damaged for good.
    Spoilt,
}

/// Every way of holding data, for a minute or more, and toxics that strike each event.
fn kinds() -> Vec<(&'static str, Value, Early)> {
    let (held, spoilt) = (Early::Held, Early::Spoilt);
    vec![
        ("latency", json!({"latency": "1m"}), held),
        ("bandwidth", json!({"rate": 0}), held),
        ("slicer", json!({"average_size": 64, "delay": "60s"}), held),
        ("stall", json!({"at": {"bytes": 200}, "for": "1m"}), held),
        ("delay", json!({"delay": "1m"}), held),
        ("hang", json!({"for": "1m"}), held),
        ("pause", json!({"at": {"events": 1}, "for": "1m"}), held),
        ("slow_stream", json!({"between": "1m"}), held),
        ("garble", json!({"how": "not_json", "rate": 1}), spoilt),
        ("drop", json!({"which": "any", "rate": 1}), spoilt),
    ]
}

/// Sends the early events with the head, and the late one, which is the last, when it is told to.
async fn origin(late: watch::Receiver<bool>) -> Origin {
    let early: String = (0..EARLY).map(|number| format!("data: {{\"early\":{number}}}\n\n")).collect();
    Origin::running(move |mut caller| {
        let (early, mut late) = (early.clone(), late.clone());
        async move {
            caller.request().await;
            caller.say([HEAD, &early].concat()).await;
            if late.wait_for(|late| *late).await.is_ok() {
                caller.say(LATE).await;
            }
        }
    })
    .await
}

async fn serving(origin: &Origin) -> Aconite {
    let proxies = kinds().into_iter().map(|(kind, attributes, _)| {
        let spec = json!({
            "name": kind, "listen": "127.0.0.1:0", "upstream": origin.url(),
            "toxics": [{"type": kind, "attributes": attributes}],
        });
        serde_json::from_value::<ProxySpec>(spec).unwrap()
    });
    proxies.fold(Aconite::builder().seed(17), |builder, proxy| builder.proxy(proxy)).start().await.unwrap()
}

async fn exchanges(aconite: &Aconite) -> Result<Vec<Exchange>, ClientError> {
    Ok(aconite.client().exchanges(&ExchangeFilter::default()).await?.exchanges)
}

/// Waits until every stream is in the journal, and every toxic on an exchange or its events has acted.
async fn all_struck(aconite: &Aconite, count: usize) {
    let settled = |exchange: &Exchange| {
        let struck =
            |toxic: &aconite::model::Strike| toxic.struck || toxic.reason.as_deref() == Some("on_connection");
        exchange.toxics.iter().all(struck)
    };
    let waiting = async {
        loop {
            let all = exchanges(aconite).await.unwrap();
            if all.len() == count && all.iter().all(settled) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(GUARD, waiting).await.expect("every toxic acts");
}

/// When a client has the last early event, if they are held, and when it has the late one.
async fn listen(mut client: TcpStream, kind: &'static str, early: Early) -> (&'static str, Instant, Instant) {
    if early == Early::Held {
        hear_until(&mut client, LAST_EARLY).await;
    }
    let held = Instant::now();
    hear_until(&mut client, LATE).await;
    (kind, held, Instant::now())
}

/// 250 streams wait for ten toxics. Once the call that turns the switch off has returned, everything that is held is
/// there within 100 ms, and what is sent later than that comes unchanged. How long this machine takes to read 250 sockets
/// is measured by the events that are sent then, for which no toxic waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_17_the_kill_switch_frees_every_stream_within_100_ms() {
    many_files();
    let (late, told) = watch::channel(false);
    let origin = origin(told).await;
    let aconite = serving(&origin).await;
    let mut clients = JoinSet::new();
    for (kind, _, early) in kinds() {
        for _ in 0..STREAMS {
            let mut client = TcpStream::connect(aconite.proxy_address(kind).unwrap()).await.unwrap();
            client.write_all(b"GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            clients.spawn(listen(client, kind, early));
        }
    }
    all_struck(&aconite, kinds().len() * STREAMS).await;

    aconite.client().set_chaos(false, &Switch::default()).await.unwrap();
    let off = Instant::now();
    sleep(AT_ONCE).await;
    let sent = Instant::now();
    late.send_replace(true);
    let heard = timeout(GUARD, clients.join_all()).await.expect("every stream goes on");

    let read = heard.iter().map(|(_, _, late)| late.duration_since(sent)).max().unwrap();
    for (kind, held, _) in heard {
        let took = held.saturating_duration_since(off);
        assert!(
            took <= AT_ONCE + 4 * read,
            "{kind} held data for {took:?}; to read all sockets took {read:?}"
        );
    }
    for exchange in exchanges(&aconite).await.unwrap() {
        // A client leaves once it has heard the late event.
        let by_peers = |end: End| matches!(end.side, Side::Client | Side::Upstream);
        assert!(exchange.ending.is_none_or(by_peers), "{exchange:?}");
    }
}
