//! Aconite inside another program: `Aconite::builder()…start()`.
use std::{io::ErrorKind, sync::Arc};

use aconite::{
    Aconite, StartError,
    client::ClientError,
    model::{ProxySpec, Switch},
    toxics::{Catalogue, Dice, Instance, Level, Moment, Schedule, Scope, StreamFilter, Toxic, ToxicSpec},
};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn proxy(name: &str, upstream: &impl ToString) -> ProxySpec {
    ProxySpec {
        name: name.to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstream: upstream.to_string(),
        enabled: true,
        ..ProxySpec::default()
    }
}

/// An upstream that sends back what it gets.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await
            });
        }
    });
    address
}

async fn said_back(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).await.unwrap();
    String::from_utf8(back).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_value() {
    let aconite = Aconite::builder().proxy(proxy("a", &echo().await)).start().await.unwrap();
    let address = aconite.proxy_address("a").unwrap();
    let admin = aconite.admin_address();
    assert_eq!(aconite.proxy_address("b"), None);
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(said_back(&mut stream, "ping").await, "ping");
    drop(aconite);
    let ended = stream.read(&mut [0; 8]).await;
    assert!(
        matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(|e| e.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    for address in [address, admin] {
        // The listener's task sees the order to stop when it runs next.
        while let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.read(&mut [0; 1]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_live_side_by_side() {
    let start =
        || async { Aconite::builder().seed(1).proxy(proxy("a", &echo().await)).start().await.unwrap() };
    let (one, two) = tokio::join!(start(), start());
    assert_ne!(one.proxy_address("a"), two.proxy_address("a"));
    assert_ne!(one.admin_url(), two.admin_url());
    assert_ne!(one.ca_pem(), two.ca_pem());
    one.client().delete_proxy("a").await.unwrap();
    assert_eq!(two.client().proxies().await.unwrap().len(), 1);
    assert_eq!((one.seed(), two.seed()), (1, 1));
}

/// Turns letters into capitals.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct Shout {}

impl Toxic for Shout {
    const TYPE: &'static str = "shout";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self {}
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Shouting))
    }
}

struct Shouting;

impl StreamFilter<Bytes> for Shouting {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item.to_ascii_uppercase().into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toxic_of_one_s_own_is_as_good_as_a_built_in_one() {
    let catalogue = Catalogue::default().with::<Shout>();
    let aconite =
        Aconite::builder().catalogue(catalogue).proxy(proxy("a", &echo().await)).start().await.unwrap();
    let client = aconite.client();
    assert_eq!(client.toxic_type("shout").await.unwrap().summary, "Turns letters into capitals.");
    let mut stream = TcpStream::connect(aconite.proxy_address("a").unwrap()).await.unwrap();
    assert_eq!(said_back(&mut stream, "before").await, "before");
    client.add_toxic("a", &ToxicSpec::new("shout", Map::new())).await.unwrap();
    assert_eq!(said_back(&mut stream, "during").await, "DURING");
    client.remove_toxic("a", "shout_downstream").await.unwrap();
    assert_eq!(said_back(&mut stream, "after").await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_writes_the_journal_out() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("journal.ndjson");
    let builder = Aconite::builder().journal_file(&file).proxy(proxy("sim", &"sim://openai"));
    let aconite = builder.start().await.unwrap();
    let mut stream = TcpStream::connect(aconite.proxy_address("sim").unwrap()).await.unwrap();
    let request =
        "GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-secret\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    aconite.stop().await;
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!((&lines[0]["path"], &lines[0]["status"]), (&json!("/v1/models"), &json!(200)));
    assert!(!text.contains("sk-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_start_says_why_and_leaves_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let admin = Aconite::builder().admin(&address).start().await.map(drop);
    assert!(matches!(&admin, Err(StartError::Admin { listen, .. }) if *listen == address), "{admin:?}");
    let exposed = Aconite::builder().admin("0.0.0.0:0").start().await.map(drop);
    assert!(matches!(exposed, Err(StartError::Exposed(_))), "{exposed:?}");
    assert!(Aconite::builder().admin("0.0.0.0:0").insecure_admin(true).start().await.is_ok());

    let free = { TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let good = ProxySpec { listen: free.to_string(), ..proxy("good", &"x:1") };
    let bad = ProxySpec { listen: address, ..proxy("bad", &"x:1") };
    let error = Aconite::builder().proxy(good).proxy(bad).start().await.map(drop);
    assert!(matches!(error, Err(StartError::Proxy(_))), "{error:?}");
    TcpListener::bind(free).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn in_production_the_switch_starts_off() {
    let builder = Aconite::builder().environment("production");
    for (allow, may) in [(false, false), (true, true)] {
        let aconite = builder.clone().allow_production(allow).start().await.unwrap();
        let client = aconite.client();
        assert!(!client.chaos().await.unwrap().enabled);
        let turned = client.set_chaos(true, &Switch::default()).await;
        assert_eq!(turned.is_ok(), may, "{turned:?}");
        if let Err(error) = turned {
            assert!(matches!(&error, ClientError::Refused(problem) if problem.status == 403), "{error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_guards_everything_but_health() {
    let aconite = Arc::new(Aconite::builder().token("s3cret").start().await.unwrap());
    aconite.client().proxies().await.unwrap();
    let stranger = aconite::client::Client::new(&aconite.admin_url(), None).unwrap();
    let refused = stranger.proxies().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(401));
    assert!(stranger.is_ready().await.unwrap());
}

#[tokio::test]
async fn a_limit_beyond_what_can_be_counted_is_no_limit() {
    let upstream = echo().await;
    let many = ProxySpec { max_connections: Some(usize::MAX), ..proxy("many", &upstream) };
    let aconite = Aconite::builder().proxy(many).start().await.unwrap();
    let mut stream = TcpStream::connect(aconite.proxy_address("many").unwrap()).await.unwrap();
    let back = tokio::time::timeout(crate::support::GUARD, said_back(&mut stream, "hello"));
    assert_eq!(back.await.unwrap(), "hello");
}
