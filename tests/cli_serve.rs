//! `aconite serve`: flags, signals, port file, reload.
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::cli_support::{Server, aconite, file, named, printed, request, stderr};

/// PRX-16: port 0 everywhere, and the real ports are told.
#[test]
fn prx_16_the_real_addresses_are_in_the_log_and_in_the_port_file() {
    let home = TempDir::new().unwrap();
    let config = "seed: 7\nproxies:\n  - {name: a, listen: '127.0.0.1:0', upstream: '127.0.0.1:1'}\n  - {name: off, listen: '127.0.0.1:0', upstream: 'x:1', enabled: false}\n";
    let config = file(home.path(), "a.yaml", config);
    let ports = home.path().join("ports.json");
    let server = Server::start(&["-c", config.to_str().unwrap(), "--port-file", ports.to_str().unwrap()]);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(ports).unwrap()).unwrap();
    assert_eq!(written, server.addresses);
    assert_eq!(written["seed"], 7);
    assert_eq!(written["pid"], server.child.id());
    assert!(written["proxies"]["off"].is_null());
    assert!(!server.admin().ends_with(":0") && !server.proxy("a").ends_with(":0"));
    TcpStream::connect(server.proxy("a")).unwrap();
    assert_eq!(server.request("GET", "/version", ""), (200, "{\"version\": \"2.12.0\"}\n".to_owned()));
}

/// D12: a taken address of the admin API stops the start.
#[test]
fn d12_a_taken_admin_address_stops_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = TempDir::new().unwrap();
    let output = aconite(home.path()).args(["serve", "--admin", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).ends_with(&format!(
            "error: the admin API cannot listen on `{address}`: listen tcp {address}: bind: address already in use\n  \
             hint: is `aconite serve` running already? Then `aconite list` shows it; else choose another address by --admin, \
             where port 0 picks a free port\n"
        )),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_configuration_that_does_not_hold_stops_the_start() {
    let home = TempDir::new().unwrap();
    let config = file(
        home.path(),
        "a.yaml",
        "proxies:\n  - {name: a, listen: '127.0.0.1:0', upstream: 'x:1', toxics: [{type: latenci}]}\n",
    );
    let output = aconite(home.path())
        .args(["serve", "--admin", "127.0.0.1:0", "-c", config.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output)
            .contains("a.yaml:2:71: proxies[0].toxics[0].type: no toxic has the type `latenci`\n  hint: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn others_reach_the_admin_api_only_with_a_token_or_on_insistence() {
    let home = TempDir::new().unwrap();
    let output = aconite(home.path()).args(["serve", "--admin", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("no token protects it\n  hint: set ACONITE_TOKEN"),
        "{}",
        stderr(&output)
    );

    let token = file(home.path(), "token", "s3cret\n");
    let mut command = aconite(home.path());
    command.args(["serve", "--admin", "0.0.0.0:0", "--token-file", token.to_str().unwrap()]);
    let server = Server::from(command, home);
    let port = server.admin().rsplit(':').next().unwrap().to_owned();
    let address = format!("127.0.0.1:{port}");
    assert_eq!(request(&address, "GET", "/v1/proxies", "").0, 401);
    assert_eq!(request(&address, "GET", "/v1/proxies", "authorization: Bearer s3cret\r\n").0, 200);
    let refused = aconite(server.home.path()).args(["list", "--host", &address]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("hint: set ACONITE_TOKEN, or give --token-file"),
        "{}",
        stderr(&refused)
    );
    let told = aconite(server.home.path())
        .args(["list", "--host", &address])
        .env("ACONITE_TOKEN", "s3cret")
        .output()
        .unwrap();
    assert_eq!(printed(&told), "");
}

/// As container wrappers start Toxiproxy: single dashes, every address, no token.
#[test]
fn in_toxiproxy_s_place_the_root_is_open_and_v1_is_not() {
    for (name, first) in
        [("toxiproxy-server", None), ("/toxiproxy", None), ("aconite", None), ("aconite", Some("serve"))]
    {
        let home = TempDir::new().unwrap();
        let config = file(
            home.path(),
            "toxiproxy.json",
            r#"[{"name": "web", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1", "enabled": true}]"#,
        );
        let mut command = named(name, home.path());
        command.args(first).args([
            "-host=0.0.0.0",
            "-port",
            "0",
            "-seed=1",
            "-proxy-metrics",
            "-runtime-metrics=true",
        ]);
        command.arg(format!("-config={}", config.display()));
        let server = Server::from(command, home);
        assert_eq!(server.addresses["seed"], 1);
        let port = server.admin().rsplit(':').next().unwrap().to_owned();
        let address = format!("127.0.0.1:{port}");
        let (status, proxies) = request(&address, "GET", "/proxies", "");
        assert_eq!(status, 200);
        assert!(proxies.starts_with("{\"web\":{"), "{proxies}");
        assert_eq!(request(&address, "GET", "/v1/proxies", "").0, 403, "{name} {first:?}");
        // The command line does there what toxiproxy-cli does.
        let listed = printed(&server.run(&["list", "--host", &address]));
        assert!(listed.starts_with("web\t127.0.0.1:"), "{listed}");
    }
}

#[test]
fn in_toxiproxy_s_place_a_bad_configuration_is_logged_and_left_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    for (text, proxies) in [
        ("no json".to_owned(), &[][..]),
        (
            format!(
                r#"[{{"name": "a", "listen": "127.0.0.1:0", "upstream": "x:1"}}, {{"name": "b", "listen": "{}", "upstream": "x:1"}}]"#,
                taken.local_addr().unwrap()
            ),
            &["a"][..],
        ),
    ] {
        let home = TempDir::new().unwrap();
        let config = file(home.path(), "toxiproxy.json", &text);
        let mut command = named("toxiproxy-server", home.path());
        command.args(["-port=0", &format!("-config={}", config.display())]);
        let server = Server::from(command, home);
        let found: Vec<_> = server.addresses["proxies"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, proxies);
        server.signal("TERM");
        let (code, log) = server.ended();
        assert_eq!(code, Some(0));
        assert!(log.contains("\"level\":\"ERROR\""), "{log}");
    }
}

#[test]
fn toxiproxy_s_version_and_unknown_flags() {
    let home = TempDir::new().unwrap();
    let version = named("toxiproxy-server", home.path()).arg("-version").output().unwrap();
    assert!(printed(&version).starts_with("toxiproxy-server version 2.12.0"));
    let unknown = named("toxiproxy-server", home.path()).arg("-bogus").output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let help = named("toxiproxy-server", home.path()).arg("-help").output().unwrap();
    assert!(printed(&help).contains("--port"));
}

/// A connection under way may end, new ones find nobody, and the journal is whole.
#[test]
fn sigterm_drains_and_exits_with_0() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = TempDir::new().unwrap();
    let config = format!(
        "proxies:\n  - {{name: a, listen: '127.0.0.1:0', upstream: '{}'}}\n",
        upstream.local_addr().unwrap()
    );
    let config = file(home.path(), "a.yaml", &config);
    let server = Server::start(&["-c", config.to_str().unwrap()]);
    let mut client = TcpStream::connect(server.proxy("a")).unwrap();
    let (mut peer, _) = upstream.accept().unwrap();
    client.write_all(b"ping").unwrap();
    let mut got = [0; 4];
    peer.read_exact(&mut got).unwrap();
    server.signal("TERM");
    // Refused as soon as the signal has come through.
    let proxy = server.proxy("a").to_owned();
    while TcpStream::connect(&proxy).is_ok() {
        std::thread::yield_now();
    }
    peer.write_all(b"pong").unwrap();
    client.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"pong");
    drop((client, peer));
    let (code, log) = server.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("\"message\":\"stopped\""), "{log}");
}

#[test]
fn a_second_signal_exits_at_once() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let home = TempDir::new().unwrap();
    let config = format!(
        "proxies:\n  - {{name: a, listen: '127.0.0.1:0', upstream: '{}'}}\n",
        upstream.local_addr().unwrap()
    );
    let config = file(home.path(), "a.yaml", &config);
    let server = Server::start(&["-c", config.to_str().unwrap()]);
    let _held = TcpStream::connect(server.proxy("a")).unwrap();
    let _peer = upstream.accept().unwrap();
    server.signal("INT");
    let proxy = server.proxy("a").to_owned();
    while TcpStream::connect(&proxy).is_ok() {
        std::thread::yield_now();
    }
    server.signal("INT");
    let (code, log) = server.ended();
    assert_eq!(code, Some(1), "{log}");
}

#[test]
fn sighup_reads_the_configuration_again_all_or_nothing() {
    let home = TempDir::new().unwrap();
    let proxy = |name: &str| format!("  - {{name: {name}, listen: '127.0.0.1:0', upstream: 'x:1'}}\n");
    let path = file(home.path(), "a.yaml", &format!("proxies:\n{}", proxy("a")));
    let mut command = aconite(home.path());
    command.args(["serve", "--admin", "127.0.0.1:0", "-c", path.to_str().unwrap()]).stdout(Stdio::null());
    let server = Server::from(command, home);
    let names = || -> Vec<String> {
        let listed = printed(&server.run(&["list"]));
        listed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    std::fs::write(&path, format!("proxies:\n{}{}", proxy("b"), "  - {name: c}\n")).unwrap();
    server.signal("HUP");
    server.logged("the configuration is invalid; nothing was changed");
    assert_eq!(names(), ["a"]);
    std::fs::write(&path, format!("proxies:\n{}{}", proxy("b"), proxy("c"))).unwrap();
    server.signal("HUP");
    server.logged("the configuration was read again");
    assert_eq!(names(), ["b", "c"]);
}

#[test]
fn production_starts_with_the_switch_off() {
    for (allow, code) in [("", 1), ("allow_production: true\n", 0)] {
        let home = TempDir::new().unwrap();
        let path = file(home.path(), "a.yaml", &format!("environment: production\n{allow}"));
        let server = Server::start(&["-c", path.to_str().unwrap()]);
        assert!(printed(&server.run(&["chaos", "status"])).starts_with("chaos is off"));
        let on = server.run(&["chaos", "on", "--reason", "game day"]);
        assert_eq!(on.status.code(), Some(code), "{}", stderr(&on));
    }
}

/// One connection of each kind, left at different points.
#[cfg(target_os = "linux")]
fn come_and_go(server: &Server) {
    let open = |proxy: &str, words: &[u8]| {
        let mut stream = TcpStream::connect(server.proxy(proxy)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        stream.write_all(words).unwrap();
        stream
    };
    let mut finished = open("echo", b"12345");
    finished.read_exact(&mut [0; 5]).unwrap();
    let mut left_waiting = open("echo", &[1; 100_000]);
    left_waiting.read_exact(&mut [0; 10]).unwrap();
    let body = r#"{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let ask = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: api.openai.com\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut left_in_the_stream = open("openai", ask.as_bytes());
    left_in_the_stream.read_exact(&mut [0; 200]).unwrap();
    let _left_in_the_head = open("openai", b"POST /v1/chat/comp");
    let mut left_before_tls =
        open("env", b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\r\n");
    left_before_tls.read_exact(&mut [0; 12]).unwrap();
    let mut answered = open(
        "env",
        b"GET http://api.openai.com/v1/models HTTP/1.1\r\nHost: api.openai.com\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n",
    );
    answered.read_to_end(&mut Vec::new()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_of_connections_that_are_over() {
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = echo.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = echo.accept() {
            std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    let home = TempDir::new().unwrap();
    let latency = "toxics: [{type: latency, attributes: {latency: 1}}]";
    let config = format!(
        "proxies:\n  - {{name: echo, listen: '127.0.0.1:0', upstream: '{upstream}', {latency}}}\n  - {{name: openai, listen: '127.0.0.1:0', upstream: 'sim://openai', {latency}}}\n  - {{name: env, protocol: forward, listen: '127.0.0.1:0', map: {{api.openai.com: 'sim://openai'}}}}\n"
    );
    let server = Server::start(&["-c", file(home.path(), "a.yaml", &config).to_str().unwrap()]);
    let count = |of: &str| std::fs::read_dir(format!("/proc/{}/{of}", server.child.id())).unwrap().count();
    let (files, threads) = (count("fd"), count("task"));
    for _ in 0..40 {
        come_and_go(&server);
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while count("fd") > files && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(count("fd"), files, "open files");
    // The runtime keeps a few for looking up names.
    assert!(count("task") <= threads + 4, "{} threads, {threads} before", count("task"));
    let (status, connections) = server.request("GET", "/v1/connections", "");
    assert_eq!(status, 200, "{connections}");
    assert!(!connections.contains("\"peer\""), "{connections}");
}
