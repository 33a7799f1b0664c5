//! An exchange with two attempts: the first fails in every way, the second answers.
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use aconite_api::model::{Exchange, ProxySpec};
use aconite_toxics::{Catalogue, ToxicSpec};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    connection::ConnectionShared,
    dial::{Dialer, OffLimits},
    http::{HttpProxy, ProxyMode, TlsIdentity, Upstreams, serve},
    journal::{Journal, Outlets},
    plan::{Armed, Plan},
    site::Site,
    tls::{accept::Terminator, authority::Authority, connect::Connector, files::FromFiles},
};

const ENOUGH: Duration = Duration::from_secs(20);
const END: &str = "data: [DONE]\n\n";

/// Tries its upstreams in order until one has sent a whole stream.
struct InOrder {
    candidates: Vec<Candidate>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// What the policy was told of an attempt.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent: bool,
    received: ResponseProgress,
    repeatable: bool,
}

struct Left(std::vec::IntoIter<Candidate>, Arc<Mutex<Vec<Seen>>>);

impl Policy for InOrder {
    fn begin(&self, _: &Facts) -> Box<dyn Attempts> {
        Box::new(Left(self.candidates.clone().into_iter(), Arc::clone(&self.seen)))
    }
}

impl Attempts for Left {
    fn next(&mut self, last: Option<&AttemptResult<'_>>) -> Option<Candidate> {
        let Some(outcome) = last else { return self.0.next() };
        let AttemptResult { sent, received, repeatable, .. } = *outcome;
        self.1.lock().unwrap().push(Seen { sent, received, repeatable });
        let good = outcome.head.is_some_and(|(status, _)| status == StatusCode::OK)
            && outcome.error.is_none()
            && outcome.body.ends_with(END.as_bytes());
        if good { None } else { self.0.next() }
    }
}

/// A server that streams events, and what it was asked.
struct Server {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl Server {
    async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let bodies = Arc::<Mutex<Vec<Bytes>>>::default();
        let asked = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let asked = Arc::clone(&asked);
                let service = service_fn(move |request: Request<Incoming>| {
                    let asked = Arc::clone(&asked);
                    async move {
                        let body = request.into_body().collect().await?.to_bytes();
                        asked.lock().unwrap().push(body);
                        let stream = Full::new(Bytes::from(stream_of(name)));
                        let response = Response::builder().header("content-type", "text/event-stream");
                        Ok::<_, hyper::Error>(response.body(stream).unwrap())
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, bodies }
    }
}

fn stream_of(name: &str) -> String {
    let events: String = (0..5).map(|n| format!("data: {{\"{name}\":{n}}}\n\n")).collect();
    events + END
}

/// A plan with these toxics, as it stands for good.
fn plan(name: &str, toxics: &[Value]) -> PlanReceiver {
    let armed: Vec<_> = toxics
        .iter()
        .map(|spec| {
            let spec: ToxicSpec = serde_json::from_value(spec.clone()).unwrap();
            Arc::new(Armed::new(&spec, &Catalogue::default()).unwrap())
        })
        .collect();
    let (plan, _) = Plan::at(Instant::now(), name.into(), 1, true, false, &armed);
    watch::channel(Arc::new(plan)).1
}

/// A proxy whose upstreams a toy policy chooses.
struct Routed {
    address: SocketAddr,
    journal: Arc<Journal>,
    servers: [Server; 2],
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Routed {
    /// The toxics act on attempts at the first upstream.
    async fn start(toxics: &[Value], limit: Duration) -> Self {
        Self::start_with([toxics, &[]], limit).await
    }

    /// The toxics act on attempts at each of the upstreams.
    async fn start_with(toxics: [&[Value]; 2], limit: Duration) -> Self {
        let servers = [Server::start("first").await, Server::start("second").await];
        let candidate = |server: &Server, toxics: &[Value]| Candidate {
            target: Arc::new(Target::parse(&format!("http://{}", server.address)).unwrap()),
            authority: "upstream.test".into(),
            dialect: Some(Dialect::Anthropic),
            toxics: plan("route/upstream", toxics),
            limits: Limits { head: limit, body: limit, hold_back: 1024 * 1024 },
        };
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let candidates = vec![candidate(&servers[0], toxics[0]), candidate(&servers[1], toxics[1])];
        let policy = Arc::new(InOrder { candidates, seen: Arc::clone(&seen) });
        let target = Arc::new(Target::Route { name: "route".into(), policy });
        let journal = Arc::new(Journal::new(Outlets::default()));
        let site = Arc::new(site(&journal));
        let proxy = Arc::new(proxy(target));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let connection = ConnectionShared::new(&site, peer, CancellationToken::new());
                tokio::spawn(serve(stream, Arc::new(connection), Arc::clone(&proxy)));
            }
        });
        Self { address, journal, servers, seen }
    }

    /// What a client gets for a request with this body.
    async fn ask(&self, http2: bool, body: Bytes) -> Response<Result<Bytes, hyper::Error>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let request = Request::post(format!("http://{}/v1/chat/completions", self.address))
            .header("host", "client.test")
            .body(Full::new(body))
            .unwrap();
        let response = if http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            timeout(ENOUGH, sender.send_request(request)).await.unwrap().unwrap()
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            timeout(ENOUGH, sender.send_request(request)).await.unwrap().unwrap()
        };
        let (head, body) = response.into_parts();
        let body = timeout(ENOUGH, body.collect()).await.unwrap();
        Response::from_parts(head, body.map(http_body_util::Collected::to_bytes))
    }

    fn exchange(&self) -> Exchange {
        let (mut exchanges, _) = self.journal.list(&aconite_api::model::ExchangeFilter::default());
        assert_eq!(exchanges.len(), 1);
        exchanges.remove(0)
    }
}

fn site(journal: &Arc<Journal>) -> Site {
    Site {
        name: "route".into(),
        spec: ProxySpec::default(),
        plan: plan("route", &[]),
        journal: Arc::clone(journal),
        series: Arc::default(),
        accepted: Arc::default(),
        catalogue: Arc::default(),
        traffic: Arc::default(),
        held: Arc::default(),
        drain: CancellationToken::new(),
        numbers: Arc::default(),
    }
}

fn proxy(target: Arc<Target>) -> HttpProxy {
    let read = || Connector::new(&Default::default()).map(|made| Arc::new(TlsIdentity::new(made)));
    let tls = FromFiles::read(Vec::new(), read, ToString::to_string).unwrap();
    let dialer = Dialer { connect_timeout: ENOUGH, off_limits: OffLimits::default() };
    HttpProxy {
        role: ProxyMode::Reverse { target, tls: None },
        upstreams: Upstreams { pool: Arc::default(), tls: Arc::new(tls), dialer },
        http2_only: false,
        terminator: Terminator::new().unwrap(),
        authority: Arc::new(Authority::in_memory().unwrap()),
    }
}

/// Every way in which the first attempt fails; whether it can only be told by waiting.
fn failures() -> Vec<(Value, bool)> {
    let mut failures = vec![
        // Before the head: on the connection's bytes, on the way there, on the messages.
        (json!({"type": "reset_peer", "attributes": {"timeout": 0}}), false),
        (json!({"type": "limit_data", "attributes": {"bytes": 20}}), false),
        (json!({"type": "timeout", "attributes": {"timeout": 30}}), false),
        (json!({"type": "timeout", "attributes": {"timeout": 0}}), true),
        (json!({"type": "connect", "attributes": {"mode": "refuse"}}), false),
        (json!({"type": "connect", "attributes": {"mode": "dns_nxdomain"}}), false),
        (json!({"type": "hang", "attributes": {"for": "30ms"}}), false),
        (json!({"type": "hang", "attributes": {}}), true),
        (json!({"type": "fail", "attributes": {"cause": "overloaded"}}), false),
        (json!({"type": "fail", "attributes": {"status": 503, "reach_upstream": true}}), false),
        (json!({"type": "length_lie", "attributes": {"delta": 5}}), false),
        (json!({"type": "length_lie", "attributes": {"delta": -5}}), false),
        // After the head, on the connection's bytes: they end inside the body.
        (json!({"type": "limit_data", "attributes": {"bytes": 150}}), false),
    ];
    for how in ["clean", "fin", "rst", "hang"] {
        for at in [json!({"bytes": 0}), json!({"bytes": 13}), json!({"events": 2})] {
            failures.push((json!({"type": "cut", "attributes": {"at": at, "how": how}}), how == "hang"));
        }
    }
    failures
}

#[tokio::test]
async fn the_client_sees_the_second_attempt_only_and_the_journal_both() {
    let sizes = [0, 1, 1_000, 300_000];
    for (index, (toxic, waits)) in failures().into_iter().enumerate() {
        let limit = if waits { Duration::from_millis(150) } else { ENOUGH };
        for http2 in [false, true] {
            let routed = Routed::start(std::slice::from_ref(&toxic), limit).await;
            let sent = Bytes::from(vec![b'x'; sizes[index % sizes.len()]]);
            let response = routed.ask(http2, sent.clone()).await;
            let case = format!("{toxic}, HTTP/2: {http2}");
            assert_eq!(response.status(), 200, "{case}");
            assert!(!response.headers().contains_key("x-aconite-toxics"), "{case}: {response:?}");
            assert_eq!(response.body().as_ref().unwrap(), &stream_of("second"), "{case}");
            assert_eq!(*routed.servers[1].bodies.lock().unwrap(), [sent], "{case}");

            let exchange = routed.exchange();
            assert_eq!(exchange.attempts.len(), 2, "{case}: {exchange:?}");
            assert_eq!(exchange.attempts[1].outcome, "ok", "{case}: {exchange:?}");
            let [strike] = &*exchange.toxics else { panic!("{case}: {exchange:?}") };
            assert_eq!((strike.struck, strike.attempt), (true, Some(1)), "{case}: {strike:?}");
            assert_eq!(exchange.status, Some(200), "{case}");
            let ending = exchange.ending.unwrap();
            assert_eq!(
                serde_json::to_value(ending).unwrap(),
                json!({"side": "upstream", "how": "clean"}),
                "{case}"
            );
            let [first, second] = routed.seen.lock().unwrap()[..] else { panic!("{case}") };
            assert!(
                first.repeatable && second.received == ResponseProgress::All,
                "{case}: {first:?} {second:?}"
            );
            let unsent = toxic["type"] == "connect";
            assert_eq!(first.sent, !unsent, "{case}: {first:?}");
        }
    }
}

#[tokio::test]
async fn a_request_is_sent_again_up_to_the_bound_and_no_further() {
    let toxic = json!({"type": "fail", "attributes": {"status": 500, "reach_upstream": true}});
    for (size, again) in [(MAX_REPLAY - 64 * 1024, true), (MAX_REPLAY + 1, false)] {
        for http2 in [false, true] {
            let routed = Routed::start(std::slice::from_ref(&toxic), ENOUGH).await;
            let sent = Bytes::from(vec![b'x'; size]);
            let response = routed.ask(http2, sent.clone()).await;
            let asked = routed.servers[1].bodies.lock().unwrap().clone();
            if again {
                assert_eq!(response.status(), 200, "{size}");
                assert!(asked == [sent], "{size}");
            } else {
                assert_eq!(response.status(), 500, "{size}: what the last attempt came to");
                assert!(asked.is_empty(), "{size}");
                assert!(!routed.seen.lock().unwrap()[0].repeatable);
            }
        }
    }
}

#[tokio::test]
async fn the_client_gets_what_the_last_attempt_came_to() {
    let cut = json!({"type": "cut", "name": "cut", "attributes": {"at": {"events": 2}, "how": "fin"}});
    for http2 in [false, true] {
        let routed = Routed::start_with([std::slice::from_ref(&cut); 2], ENOUGH).await;
        let response = routed.ask(http2, Bytes::from_static(b"{}")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-aconite-toxics"], "cut", "its toxics are named");
        assert!(response.body().is_err(), "{response:?}");
        let exchange = routed.exchange();
        let outcomes: Vec<_> = exchange.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
        assert_eq!(outcomes, ["upstream_broken"; 2]);
        let struck: Vec<_> = exchange.toxics.iter().map(|strike| (strike.struck, strike.attempt)).collect();
        assert_eq!(struck, [(true, Some(1)), (true, Some(2))]);
        assert_eq!(exchange.events, 2);
    }
}

#[tokio::test]
async fn a_good_first_attempt_is_the_only_one() {
    let routed = Routed::start(&[], ENOUGH).await;
    let response = routed.ask(false, Bytes::new()).await;
    assert_eq!(response.body().as_ref().unwrap(), &stream_of("first"));
    assert_eq!(routed.exchange().attempts.len(), 1);
    assert!(routed.servers[1].bodies.lock().unwrap().is_empty());
}
