//! Changes of proxies by the admin API and by the configuration file, over real sockets. Named by case.
use std::net::SocketAddr;

use aconite::{
    Aconite,
    client::ClientError,
    model::{Apply, ProxySpec, ServerTls, Switch, UpstreamTls},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::{
    cli_support::{Server, aconite, ending, file, printed, request, run, stderr},
    support::{GUARD, Origin, Proxied, hear_until},
    tls_support::{Identity, TlsOrigin, ask, name, trusting},
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

/// An `http` proxy whose TLS files are these.
fn with_files(upstream: &TlsOrigin, files: &std::path::Path) -> ProxySpec {
    let path = |name: &str| Some(files.join(name).to_str().unwrap().to_owned());
    ProxySpec {
        name: "p".to_owned(),
        upstream: upstream.url(),
        tls: Some(ServerTls { cert: path("cert.pem"), key: path("key.pem") }),
        upstream_tls: Some(UpstreamTls {
            ca: path("ca.pem"),
            client_cert: path("client.pem"),
            client_key: path("client-key.pem"),
            ..UpstreamTls::default()
        }),
        ..ProxySpec::default()
    }
}

/// The status that a client gets which trusts this certificate alone; `None` if it does not trust the proxy.
async fn status_for(address: SocketAddr, trusted: &Identity) -> Option<String> {
    let stream = TcpStream::connect(address).await.unwrap();
    let client = trusting([trusted.certificate.clone()], &[]);
    let mut stream = client.connect(name("localhost"), stream).await.ok()?;
    let answer = ask(&mut stream, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    answer.split(' ').nth(1).map(str::to_owned)
}

#[tokio::test]
async fn a_13_files_are_read_again_by_apply_and_by_create() {
    let files = TempDir::new().unwrap();
    let put = |from: &Identity, cert: &str, key: &str| {
        std::fs::copy(from.cert_file(), files.path().join(cert)).unwrap();
        if !key.is_empty() {
            std::fs::copy(from.key_file(), files.path().join(key)).unwrap();
        }
    };
    let (own, renewed) = (Identity::of(&["localhost"]), Identity::of(&["localhost"]));
    let (upstream, stranger) = (Identity::of(&["localhost"]), Identity::of(&["localhost"]));
    let (client, next_client) = (Identity::of(&["client"]), Identity::of(&["client"]));
    let origin = TlsOrigin::running(upstream.server(&[b"http/1.1"], &[&client, &next_client]), |_| {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
    })
    .await;
    put(&own, "cert.pem", "key.pem");
    put(&stranger, "ca.pem", "");
    put(&client, "client.pem", "client-key.pem");
    let aconite = Aconite::builder().proxy(with_files(&origin, files.path())).start().await.unwrap();
    let address = aconite.proxy_address("p").unwrap();
    assert_eq!(status_for(address, &own).await.as_deref(), Some("502"), "the upstream is not trusted");
    put(&upstream, "ca.pem", "");
    put(&renewed, "cert.pem", "key.pem");
    put(&next_client, "client.pem", "client-key.pem");
    assert_eq!(apply(&aconite, vec![with_files(&origin, files.path())]).await.unwrap(), json!([]));
    assert_eq!(status_for(address, &own).await, None, "the old certificate is not served any more");
    assert_eq!(status_for(address, &renewed).await.as_deref(), Some("200"));
    assert_eq!(origin.asked()[0].client.as_ref(), Some(&next_client.certificate));
    // A broken file is refused, and what was read before stays in use.
    std::fs::write(files.path().join("ca.pem"), "nothing").unwrap();
    let Err(ClientError::Refused(problem)) = apply(&aconite, vec![with_files(&origin, files.path())]).await
    else {
        panic!("a broken file was applied")
    };
    assert_eq!(problem.path.as_deref(), Some("proxies[0].upstream_tls"), "{problem:?}");
    assert_eq!(status_for(address, &renewed).await.as_deref(), Some("200"));
    // Deleted and created again.
    put(&stranger, "ca.pem", "");
    aconite.client().delete_proxy("p").await.unwrap();
    aconite.client().create_proxy(&with_files(&origin, files.path())).await.unwrap();
    let address = aconite.proxy_address("p").unwrap();
    assert_eq!(status_for(address, &renewed).await.as_deref(), Some("502"));
}

/// Without a word to the server.
#[tokio::test]
async fn a_13_changed_files_are_noticed_within_a_second_or_so() {
    let files = TempDir::new().unwrap();
    let (own, renewed) = (Identity::of(&["localhost"]), Identity::of(&["localhost"]));
    let put = |from: &Identity| {
        std::fs::copy(from.cert_file(), files.path().join("cert.pem")).unwrap();
        std::fs::copy(from.key_file(), files.path().join("key.pem")).unwrap();
    };
    let origin = TlsOrigin::running(own.server(&[b"http/1.1"], &[]), |_| String::new()).await;
    put(&own);
    let spec = ProxySpec { upstream_tls: None, ..with_files(&origin, files.path()) };
    let aconite = Aconite::builder().proxy(spec).start().await.unwrap();
    let address = aconite.proxy_address("p").unwrap();
    put(&renewed);
    let deadline = tokio::time::Instant::now() + GUARD;
    while status_for(address, &renewed).await.is_none() {
        assert!(tokio::time::Instant::now() < deadline, "the new certificate is never served");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[test]
fn a_16_a_switch_that_was_turned_off_is_off_after_a_crash() {
    let data = TempDir::new().unwrap();
    let start = |admin: &str| {
        let home = TempDir::new().unwrap();
        let mut command = aconite(home.path());
        command.args(["serve", "--admin", admin, "--data-dir", data.path().to_str().unwrap()]);
        Server::from(command, home)
    };
    let status = |server: &Server| printed(&server.run(&["chaos", "status"]));
    // Killed when it is dropped.
    let first = start("127.0.0.1:0");
    printed(&first.run(&["chaos", "off", "--reason", "incident 7"]));
    drop(first);
    let second = start("127.0.0.1:0");
    second.logged("the kill switch was left off");
    let told = status(&second);
    assert!(told.starts_with("chaos is off") && told.contains("incident 7"), "{told}");
    assert!(status(&start("[::1]:0")).starts_with("chaos is on"), "another server has a switch of its own");
    printed(&second.run(&["chaos", "on"]));
    drop(second);
    assert!(status(&start("127.0.0.1:0")).starts_with("chaos is on"));
}

#[test]
fn a_16_sighup_opens_the_journal_again() {
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let home = TempDir::new().unwrap();
    let text = format!(
        "proxies:\n  - {{name: a, listen: '127.0.0.1:0', upstream: 'http://{}'}}\n",
        upstream.local_addr().unwrap()
    );
    let config = file(home.path(), "a.yaml", &text);
    let (journal, rotated) = (home.path().join("journal.ndjson"), home.path().join("journal.1"));
    let server = Server::start(&["-c", config.to_str().unwrap(), "--journal", journal.to_str().unwrap()]);
    drop(upstream);
    let exchange = |path: &str| assert_eq!(request(server.proxy("a"), "GET", path, "").0, 502);
    let written = |path: &std::path::Path, text: &str| {
        let deadline = std::time::Instant::now() + GUARD;
        while !std::fs::read_to_string(path).unwrap_or_default().contains(text) {
            assert!(std::time::Instant::now() < deadline, "{text} is not in {}", path.display());
            std::thread::yield_now();
        }
    };
    exchange("/before");
    written(&journal, "/before");
    std::fs::rename(&journal, &rotated).unwrap();
    server.signal("HUP");
    server.logged("the configuration was read again");
    exchange("/after");
    written(&journal, "/after");
    assert!(!std::fs::read_to_string(&rotated).unwrap().contains("/after"));
}

#[test]
fn a_15_a_pipe_as_the_journal_does_not_hang_the_start() {
    let home = TempDir::new().unwrap();
    let pipe = home.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for reader in [false, true] {
        // With a reader the open itself would not wait, but every write could.
        let _reader = reader.then(|| std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
        let mut command = aconite(home.path());
        command.args(["serve", "--admin", "127.0.0.1:0", "--journal", pipe.to_str().unwrap()]);
        let output = ending(command);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("it is a pipe"), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_15_names_that_no_url_can_address_are_refused() {
    let aconite = Aconite::builder().start().await.unwrap();
    let proxy = |name: &str| json!({"name": name, "upstream": "127.0.0.1:1"}).to_string();
    let toxic = |name: &str| json!({"name": name, "type": "timeout"}).to_string();
    assert_eq!(call(&aconite, "POST", "/proxies", &proxy("p")).await.0, 201);
    for name in [".", ".."] {
        for root in ["", "/v1"] {
            let (status, body) = call(&aconite, "POST", &format!("{root}/proxies"), &proxy(name)).await;
            assert_eq!(status, 400, "{root} {name}: {body}");
            let (status, body) =
                call(&aconite, "POST", &format!("{root}/proxies/p/toxics"), &toxic(name)).await;
            assert_eq!(status, 400, "{root} {name}: {body}");
            assert!(body.contains("no URL could address it"), "{body}");
        }
    }
    // Others work, however odd they are.
    for (name, segment) in
        [("...", "..."), (".a", ".a"), ("a/..", "a%2F.."), ("%2e", "%252e"), ("?#", "%3F%23")]
    {
        assert_eq!(call(&aconite, "POST", "/proxies", &proxy(name)).await.0, 201, "{name}");
        let (status, body) = call(&aconite, "GET", &format!("/proxies/{segment}"), "").await;
        assert_eq!(status, 200, "{name}: {body}");
        assert_eq!(call(&aconite, "DELETE", &format!("/proxies/{segment}"), "").await.0, 204, "{name}");
    }
}

#[tokio::test]
async fn r2_30_changes_are_answered_as_toxiproxy_answers_them() {
    let aconite = Aconite::builder().start().await.unwrap();
    let create = r#"{"name":"p","listen":"127.0.0.1:0","upstream":"127.0.0.1:1","enabled":false}"#;
    assert_eq!(call(&aconite, "POST", "/proxies", create).await.0, 201);
    let before = call(&aconite, "GET", "/proxies/p", "").await;
    for (listen, words) in [
        ("bogus", "address bogus: missing port in address"),
        ("127.0.0.1:99999", "address 99999: invalid port"),
    ] {
        let body = json!({"listen": listen}).to_string();
        let (status, answer) = call(&aconite, "POST", "/proxies/p", &body).await;
        assert_eq!(status, 500, "{answer}");
        assert!(answer.contains(&format!("\"error\":\"{words}\"")), "{answer}");
        assert_eq!(call(&aconite, "PATCH", "/v1/proxies/p", &body).await.0 / 100, 4);
    }
    assert_eq!(call(&aconite, "GET", "/proxies/p", "").await, before);
    // A name that resolves is kept as it was written.
    let (status, body) = call(&aconite, "POST", "/proxies/p", r#"{"listen":"localhost:55555"}"#).await;
    assert!(status == 200 && body.contains("\"listen\":\"localhost:55555\""), "{body}");
    let (status, body) = call(&aconite, "PATCH", "/proxies/p", r#"{"upstream":""}"#).await;
    assert!(status == 200 && body.contains("\"upstream\":\"\""), "{body}");
    assert_eq!(call(&aconite, "PATCH", "/v1/proxies/p", r#"{"upstream":""}"#).await.0, 400);
    let (status, body) =
        call(&aconite, "POST", "/proxies/p", r#"{"enabled":true,"listen":"127.0.0.1:0"}"#).await;
    assert_eq!(status, 200, "{body}");
    // There is nothing behind it.
    let mut client = TcpStream::connect(aconite.proxy_address("p").unwrap()).await.unwrap();
    let ended = timeout(GUARD, client.read_u8()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
}

#[test]
fn one_run_of_check_reports_all_mistakes() {
    let home = TempDir::new().unwrap();
    let text = "\
sed: 42
admin: {listen: 127.0.0.1:8474, token_file: /nowhere/token}
proxies:
  - name: a
    listen: 127.0.0.1:8001
    upstrem: http://localhost:1
    upstream: http://localhost:2
    toxics:
      - {type: latenci}
      - {type: latency, toxicity: 2, attributes: {latencyy: 1, jiter: 2}}
      - {type: fail, match: {path: '^/v1/.*$'}, attributes: {status: 500}}
      - {type: delay, attributes: {delay: soon}}
  - {name: b, listen: 127.0.0.1:8001, upstream: nowhere}
  - {name: b, protocol: http, map: {x: sim://openai}, upstream: http://localhost:2}
  - just a word
";
    let path = file(home.path(), "a.yaml", text);
    let output = run(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    let mut from = 0;
    for mistake in [
        "a.yaml:1:1: sed: unknown field `sed`",
        "a.yaml:2:",
        "admin.token_file: cannot read the token",
        "a.yaml:6:5: proxies[0].upstrem: unknown field `upstrem`",
        "a.yaml:9:16: proxies[0].toxics[0].type: no toxic has the type `latenci`",
        "a.yaml:10:",
        "proxies[0].toxics[1].toxicity:",
        "proxies[0].toxics[1].attributes.latencyy: unknown",
        "proxies[0].toxics[1].attributes.jiter: unknown",
        "a.yaml:11:",
        "proxies[0].toxics[2].match.path: `^/v1/.*$` is a regular expression",
        "a.yaml:12:",
        "proxies[0].toxics[3].attributes.delay:",
        "a.yaml:13:",
        "proxies[1].listen: `a` listens on `127.0.0.1:8001` too",
        "proxies[1].upstream: `nowhere` has no port",
        "a.yaml:14:",
        "proxies[2].name: two proxies are named `b`",
        "proxies[2].map: `map` is for the protocol `forward`",
        "a.yaml:15:5: proxies[3]: invalid type",
    ] {
        let at = told[from..].find(mistake);
        from += at.unwrap_or_else(|| panic!("{mistake} is not told, or not in its place:\n{told}"));
    }
    assert_eq!(told.matches("error: ").count(), 14, "{told}");
}

/// The header section and the beginning of the body of an answer of the admin API.
async fn raw(aconite: &Aconite, request: &str, last: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(aconite.admin_address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let heard = hear_until(&mut stream, last).await;
    (stream, String::from_utf8(heard).unwrap())
}

#[tokio::test]
async fn the_feed_tells_where_exchanges_begin_and_end() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let proxied = Proxied::http(&origin).await;
    let get = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (mut feed, _) = raw(&proxied.aconite, get, "\r\n\r\n").await;
    proxied.raw("GET /thing?key=abc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let told = String::from_utf8(hear_until(&mut feed, "\"how\":\"clean\"}").await).unwrap();
    let (begin, end) = (told.find("exchange.begin").unwrap(), told.find("exchange.end").unwrap());
    assert!(begin < end && told[begin..end].contains("\"ending\":null"), "{told}");
    assert!(told[end..].contains("\"status\":200") && told[end..].contains("\"bytes_out\":2"), "{told}");
    assert!(!told.contains("abc"), "{told}");
}

#[tokio::test]
async fn adding_a_toxic_while_the_switch_is_off_says_so() {
    let origin = Origin::answering("").await;
    let proxied = Proxied::http(&origin).await;
    let toxic = json!({"type": "hang"}).to_string();
    let add = |name: &str| {
        let body = toxic.replace('}', &format!(",\"name\":\"{name}\"}}"));
        format!(
            "POST /v1/proxies/p/toxics HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let (_, answer) = raw(&proxied.aconite, &add("one"), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 201") && !answer.contains("x-aconite-chaos"), "{answer}");
    proxied.aconite.client().set_chaos(false, &Switch::default()).await.unwrap();
    let (_, answer) = raw(&proxied.aconite, &add("two"), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains("x-aconite-chaos: disabled"), "{answer}");
}
