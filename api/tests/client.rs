//! The client over a real socket.
use std::sync::Arc;

use aconite_api::{
    Client, Security,
    client::{Applied, ClientError},
    model::{Apply, Exchange, ExchangeFilter, ProxySpec, Switch},
    router,
};
use aconite_toxics::ToxicSpec;
use serde_json::{Map, json};
use tokio::net::{TcpListener, TcpSocket};

use crate::fake::Fake;

async fn serve(security: Security) -> (String, Arc<Fake>) {
    let control = Arc::new(Fake::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = router(Arc::clone(&control), security);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, control)
}

fn proxy(name: &str) -> ProxySpec {
    ProxySpec {
        name: name.to_owned(),
        upstream: "127.0.0.1:1".to_owned(),
        enabled: true,
        ..ProxySpec::default()
    }
}

#[tokio::test]
async fn it_drives_the_whole_api() {
    let (url, control) = serve(Security::token("s3cret")).await;
    let client = Client::new(&url, Some("s3cret")).unwrap();
    assert!(!client.is_ready().await.unwrap());

    let created = client.create_proxy(&proxy("a/b %猫")).await.unwrap();
    assert!(client.is_ready().await.unwrap());
    assert_eq!(client.proxies().await.unwrap(), std::slice::from_ref(&created));
    assert_eq!(client.proxy("a/b %猫").await.unwrap(), created);
    assert!(!client.patch_proxy("a/b %猫", &json!({"enabled": false})).await.unwrap().enabled);
    assert_eq!(client.replace_proxy(&created).await.unwrap(), created);

    let toxic = ToxicSpec { toxicity: 0.1, ..ToxicSpec::new("latency", Map::new()) };
    let added = client.add_toxic("a/b %猫", &toxic).await.unwrap();
    assert_eq!((added.name.as_str(), added.toxicity), ("latency_downstream", 0.1));
    let patch = json!({"attributes": {"latency": "1s"}});
    let patched = client.patch_toxic("a/b %猫", "latency_downstream", &patch).await.unwrap();
    assert_eq!(patched.attributes["latency"], 1000);
    assert_eq!(client.toxics("a/b %猫").await.unwrap(), [patched]);
    client.remove_toxic("a/b %猫", "latency_downstream").await.unwrap();
    client.reset().await.unwrap();

    let apply = Apply { proxies: vec![proxy("c")], prune: true, dry_run: false };
    let change = |action: &str, proxy: &str| Applied {
        action: action.to_owned(),
        proxy: proxy.to_owned(),
        fields: Vec::new(),
    };
    assert_eq!(client.apply(&apply).await.unwrap(), [change("create", "c"), change("delete", "a/b %猫")]);
    client.delete_proxy("c").await.unwrap();

    assert_eq!(client.toxic_type("latency").await.unwrap().level, "bytes");
    assert!(client.toxic_types().await.unwrap().len() >= 8);
    let switch = Switch { operator: Some("ann".to_owned()), reason: None };
    assert_eq!(client.set_chaos(false, &switch).await.unwrap().by.as_deref(), Some("ann"));
    assert!(!client.chaos().await.unwrap().enabled);

    control.record(Exchange { id: 1, path: "/a?b=c&d".to_owned(), status: Some(200), ..Exchange::default() });
    let filter = ExchangeFilter { status: Some(200), ..ExchangeFilter::default() };
    assert_eq!(client.exchanges(&filter).await.unwrap().next, 1);
    assert_eq!(client.exchange(1).await.unwrap().path, "/a?b=c&d");
    client.clear_exchanges().await.unwrap();
    assert!(client.connections().await.unwrap().is_empty());
    assert!(client.metrics().await.unwrap().starts_with(b"toxiproxy_"));
}

#[tokio::test]
async fn refusals_carry_what_the_server_says() {
    let (url, _) = serve(Security::open()).await;
    let client = Client::new(&url, None).unwrap();
    client.create_proxy(&proxy("p")).await.unwrap();
    let error = client.add_toxic("p", &ToxicSpec::new("latncy", Map::new())).await.unwrap_err();
    assert_eq!(error.status().unwrap(), 400);
    assert!(
        error.to_string().starts_with("type: no toxic has the type `latncy` (the most similar"),
        "{error}"
    );
    let ClientError::Refused(problem) = error else { panic!("{error}") };
    assert_eq!((problem.code.as_str(), problem.path.as_deref()), ("unknown_type", Some("type")));
    assert_eq!(client.proxy("q").await.unwrap_err().status().unwrap(), 404);
    for name in [".", "..", "/"] {
        let expected = format!("no proxy has the name `{name}`");
        assert_eq!(client.delete_proxy(name).await.unwrap_err().to_string(), expected);
    }
    assert_eq!(client.reset_connection(1).await.unwrap_err().status().unwrap(), 404);
    assert_eq!(client.ca_pem().await.unwrap_err().status().unwrap(), 404);
}

#[tokio::test]
async fn it_follows_what_happens() {
    let (url, control) = serve(Security::token("t")).await;
    let refused = Client::new(&url, None).unwrap().follow().await.unwrap_err();
    assert_eq!(refused.status().unwrap(), 401);
    let mut feed = Client::new(&url, Some("t")).unwrap().follow().await.unwrap();
    control.happen("proxy", json!({"name": "p"}));
    let live = feed.next().await.unwrap().unwrap();
    assert_eq!((live.event.as_str(), &live.data["detail"]["name"]), ("proxy", &json!("p")));
}

#[tokio::test]
async fn an_absent_server_is_named() {
    // Bound, so that nobody else can listen there.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let free = socket.local_addr().unwrap();
    let error = Client::new(&free.to_string(), None).unwrap().proxies().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot reach `{free}`; is `aconite serve` running there?"));
}

#[test]
fn addresses_are_hosts_and_ports() {
    for good in ["http://localhost:8474", "localhost:8474", "http://[::1]:8474/", "127.0.0.1"] {
        assert!(Client::new(good, None).is_ok(), "{good}");
    }
    for bad in ["", "https://localhost:8474", "http://localhost:8474/v1", "a b", "unix:/x", "http://u:p@h:1"]
    {
        assert!(matches!(Client::new(bad, None), Err(ClientError::Url(_))), "{bad}");
    }
    assert!(matches!(Client::new("h", Some("a\nb")), Err(ClientError::Token)));
    assert!(!format!("{:?}", Client::new("h", Some("s3cret")).unwrap()).contains("s3cret"));
}

/// As a replacement for Toxiproxy, as its container image runs, `/v1` is closed and the command line has to work inside.
#[tokio::test]
async fn where_v1_is_closed_the_root_routes_serve() {
    let (url, _) = serve(Security::drop_in(None)).await;
    let client = Client::new(&url, None).unwrap();
    assert_eq!(client.proxies().await.unwrap(), []);
    let created = client.create_proxy(&proxy("b")).await.unwrap();
    client.create_proxy(&proxy("a")).await.unwrap();
    let names: Vec<_> = client.proxies().await.unwrap().into_iter().map(|proxy| proxy.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(client.proxy("b").await.unwrap().name, created.name);
    assert!(!client.patch_proxy("b", &json!({"enabled": false})).await.unwrap().enabled);
    client.add_toxic("b", &ToxicSpec::new("latency", Map::new())).await.unwrap();
    let patch = json!({"attributes": {"latency": 5}});
    assert_eq!(client.patch_toxic("b", "latency_downstream", &patch).await.unwrap().attributes["latency"], 5);
    assert_eq!(client.toxics("b").await.unwrap().len(), 1);
    client.remove_toxic("b", "latency_downstream").await.unwrap();
    client.delete_proxy("b").await.unwrap();
    let error = client.proxy("b").await.unwrap_err();
    assert_eq!((error.status().unwrap().as_u16(), error.to_string().as_str()), (404, "proxy not found"));
    let error = client.chaos().await.unwrap_err();
    assert!(error.to_string().starts_with("/v1 is closed"), "{error}");
}
