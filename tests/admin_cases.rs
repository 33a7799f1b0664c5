//! Changes of proxies by the admin API and by the configuration file, over real sockets. Named by case.
use std::net::SocketAddr;

use aconite::{
    Aconite,
    client::ClientError,
    model::{Apply, ProxySpec, UpstreamTls},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::{
    cli_support::{Server, file, printed},
    support::{GUARD, Origin},
    tox_cases::call,
};

/// Sends a name to each client, then holds the connection open.
async fn naming(name: &'static str) -> Origin {
    Origin::running(move |mut caller| async move {
        caller.say(name).await;
        while caller.byte().await.is_some() {}
    })
    .await
}

fn proxy(name: &str, listen: &impl ToString, upstream: &Origin) -> ProxySpec {
    ProxySpec {
        name: name.to_owned(),
        listen: listen.to_string(),
        upstream: upstream.address.to_string(),
        ..ProxySpec::default()
    }
}

/// The name that the upstream behind an address has.
async fn behind(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    name_from(&mut stream).await
}

async fn name_from(stream: &mut TcpStream) -> String {
    let mut name = [0; 1];
    timeout(GUARD, stream.read_exact(&mut name)).await.unwrap().unwrap();
    String::from_utf8(name.to_vec()).unwrap()
}

async fn apply(aconite: &Aconite, proxies: Vec<ProxySpec>) -> Result<Value, ClientError> {
    let apply = Apply { proxies, prune: true, dry_run: false };
    aconite.client().apply(&apply).await.map(|changes| json!(changes))
}

#[tokio::test]
async fn r2_20_a_proxy_without_listen_is_on_loopback() {
    let aconite = Aconite::builder().start().await.unwrap();
    let listen_of = |body: String| -> String {
        let view: Value = serde_json::from_str(&body).unwrap();
        view["listen"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
    };
    for (number, path) in ["/proxies", "/v1/proxies"].into_iter().enumerate() {
        for (name, listen) in [("absent", None), ("empty", Some(json!(""))), ("null", Some(Value::Null))] {
            let name = format!("{name}{number}");
            let mut body = json!({"name": name, "upstream": "127.0.0.1:1"});
            if let Some(listen) = listen {
                body["listen"] = listen;
            }
            if path.starts_with("/v1") && body.get("listen") == Some(&Value::Null) {
                continue;
            }
            let (status, body) = call(&aconite, "POST", path, &body.to_string()).await;
            assert_eq!(status, 201, "{body}");
            let listen: SocketAddr = listen_of(body).parse().unwrap();
            assert!(listen.ip().is_loopback() && listen.port() != 0, "{path} {name}: {listen}");
        }
    }
    let put = json!({"name": "absent1", "upstream": "127.0.0.1:2"}).to_string();
    let (status, body) = call(&aconite, "PUT", "/v1/proxies/absent1", &put).await;
    assert_eq!(status, 200, "{body}");
    assert!(listen_of(body).starts_with("127.0.0.1:"));
    // An address without a host is written down, and means every address.
    let every = json!({"name": "every", "listen": ":0", "upstream": "127.0.0.1:1"}).to_string();
    let (_, body) = call(&aconite, "POST", "/proxies", &every).await;
    assert!(listen_of(body).parse::<SocketAddr>().unwrap().ip().is_unspecified());
}

#[tokio::test]
async fn r2_18_nothing_changes_when_one_of_several_cannot_be_had() {
    let (a, b) = (naming("a").await, naming("b").await);
    let first = vec![proxy("one", &"127.0.0.1:0", &a), proxy("two", &"127.0.0.1:0", &a)];
    let aconite = Aconite::builder().start().await.unwrap();
    apply(&aconite, first).await.unwrap();
    let before = aconite.client().proxies().await.unwrap();
    let (one, two) = (aconite.proxy_address("one").unwrap(), aconite.proxy_address("two").unwrap());
    let mut live = TcpStream::connect(one).await.unwrap();
    assert_eq!(name_from(&mut live).await, "a");
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap();
    let missing = UpstreamTls { ca: Some("/nowhere/ca.pem".to_owned()), ..UpstreamTls::default() };
    let unreadable = ProxySpec {
        upstream: "https://127.0.0.1:1".to_owned(),
        upstream_tls: Some(missing),
        ..proxy("two", &two, &b)
    };
    for (second, path) in
        [(proxy("two", &taken, &b), "proxies[1].listen"), (unreadable, "proxies[1].upstream_tls")]
    {
        let wanted = vec![proxy("one", &one, &b), second, proxy("three", &"127.0.0.1:0", &b)];
        let Err(ClientError::Refused(problem)) = apply(&aconite, wanted).await else {
            panic!("{path} was applied")
        };
        assert_eq!(problem.path.as_deref(), Some(path), "{problem:?}");
        assert_eq!(aconite.client().proxies().await.unwrap(), before);
        assert_eq!((behind(one).await, behind(two).await), ("a".to_owned(), "a".to_owned()));
    }
    // The connection that was open is still relayed.
    live.write_all(b"still here").await.unwrap();
    let waited = timeout(std::time::Duration::from_millis(50), live.read_u8()).await;
    assert!(waited.is_err(), "the connection ended: {waited:?}");
}

#[tokio::test]
async fn r2_18_proxies_swap_ports() {
    let (a, b, c) = (naming("a").await, naming("b").await, naming("c").await);
    let aconite = Aconite::builder().start().await.unwrap();
    let first = ["one", "two", "three"].into_iter().zip([&a, &b, &c]);
    apply(&aconite, first.map(|(name, to)| proxy(name, &"127.0.0.1:0", to)).collect()).await.unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| aconite.proxy_address(name).unwrap());
    apply(&aconite, vec![proxy("one", &two, &a), proxy("two", &one, &b), proxy("three", &three, &c)])
        .await
        .unwrap();
    assert_eq!([behind(one).await, behind(two).await, behind(three).await], ["b", "a", "c"]);
    // In a ring, and onto the port of one that goes.
    apply(&aconite, vec![proxy("one", &three, &a), proxy("two", &two, &b), proxy("three", &one, &c)])
        .await
        .unwrap();
    assert_eq!([behind(one).await, behind(two).await, behind(three).await], ["c", "b", "a"]);
    apply(&aconite, vec![proxy("one", &two, &a), proxy("new", &three, &b)]).await.unwrap();
    assert_eq!([behind(two).await, behind(three).await], ["a", "b"]);
    assert!(TcpStream::connect(one).await.is_err(), "the port of a deleted proxy is free");
    // A disabled proxy gives its port to another one.
    let off = ProxySpec { enabled: false, ..proxy("one", &two, &a) };
    apply(&aconite, vec![off, proxy("new", &two, &b)]).await.unwrap();
    assert_eq!(behind(two).await, "b");
}

#[test]
fn r2_19_a_free_port_stays_and_the_port_file_stays_true() {
    let home = TempDir::new().unwrap();
    let text = |upstream: &str, more: &str| {
        format!(
            "proxies:\n  - {{name: a, listen: '127.0.0.1:0', upstream: '{upstream}'}}\n  - {{name: b, upstream: 'x:1'}}\n{more}"
        )
    };
    let config = file(home.path(), "a.yaml", &text("x:1", ""));
    let ports = home.path().join("ports.json");
    let server = Server::start(&["-c", config.to_str().unwrap(), "--port-file", ports.to_str().unwrap()]);
    let written = || -> Value { serde_json::from_str(&std::fs::read_to_string(&ports).unwrap()).unwrap() };
    let apply = || printed(&server.run(&["apply", "-f", config.to_str().unwrap()]));
    assert_eq!(apply(), "nothing to change\n");
    assert_eq!(apply(), "nothing to change\n");
    std::fs::write(&config, text("y:1", "  - {name: c, upstream: 'x:1'}\n")).unwrap();
    server.signal("HUP");
    server.logged("the configuration was read again");
    let now = written();
    assert_eq!(now["proxies"]["a"], server.proxy("a"), "changed, on the same port");
    assert_eq!(now["proxies"]["b"], server.proxy("b"));
    let listed = printed(&server.run(&["list"]));
    for name in ["a", "b", "c"] {
        assert!(listed.contains(now["proxies"][name].as_str().unwrap()), "{name}: {listed}\n{now}");
    }
    // What the API moves is in the file too.
    let moved = printed(&server.run(&["delete", "c"]));
    let deadline = std::time::Instant::now() + GUARD;
    while written()["proxies"].get("c").is_some() {
        assert!(std::time::Instant::now() < deadline, "{moved}: {}", written());
        std::thread::yield_now();
    }
}
