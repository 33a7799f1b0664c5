//! What a stop does with what is under way, and where it is written down.
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::cli_support::{Server, aconite, file};

/// Accepts, answers the head of a stream, and never ends it.
fn endless() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n";
            // A client that has left needs none.
            let _ = stream.write_all(head.as_bytes());
            kept.push(stream);
        }
    });
    address
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_12_what_a_stop_cuts_is_in_the_journal_file() {
    let home = TempDir::new().unwrap();
    let upstream = endless();
    let config = format!(
        "drain: 1s\nproxies:\n  - {{name: p, listen: '127.0.0.1:0', upstream: 'http://{upstream}'}}\n"
    );
    let config = file(home.path(), "a.yaml", &config);
    let journal = home.path().join("journal.ndjson");
    let server = Server::start(&["-c", config.to_str().unwrap(), "--journal", journal.to_str().unwrap()]);
    let mut clients = Vec::new();
    for number in 0..20 {
        let mut client = TcpStream::connect(server.proxy("p")).unwrap();
        write!(client, "GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"data: 1\n\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            seen.extend(byte);
        }
        clients.push(client);
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    let lines = lines(&journal);
    assert_eq!(lines.len(), 20);
    for line in lines {
        let ending = line["ending"]["side"].as_str();
        assert_eq!((ending, line["status"].as_u64()), (Some("proxy"), Some(200)), "{line}");
    }
}

/// How long a stop takes with one proxied connection open, on which the client goes on sending if it is `busy`.
fn stop_with(arguments: &[&str], named: &str, say: &[u8], busy: bool) -> Duration {
    let home = TempDir::new().unwrap();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let config =
        format!(r#"[{{"name": "p", "listen": "127.0.0.1:0", "upstream": "{address}", "enabled": true}}]"#);
    let config = file(home.path(), "a.json", &config);
    let mut command = crate::cli_support::named(named, home.path());
    command.args(arguments).arg(format!("--config={}", config.display()));
    let server = Server::from(command, home);
    let mut client = TcpStream::connect(server.proxy("p")).unwrap();
    client.write_all(say).unwrap();
    let (mut accepted, _) = upstream.accept().unwrap();
    accepted.read_exact(&mut vec![0; say.len()]).unwrap();
    if busy {
        // Until the connection is closed.
        std::thread::spawn(move || {
            while client.write_all(b".").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    }
    let began = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    began.elapsed()
}

#[test]
fn r2_28_an_idle_connection_does_not_hold_up_a_stop() {
    for say in [&b""[..], b"hello"] {
        let took = stop_with(&["serve", "--admin", "127.0.0.1:0"], "aconite", say, false);
        assert!(took < Duration::from_secs(6), "{took:?}");
    }
}

#[test]
fn r2_28_in_place_of_toxiproxy_nothing_is_waited_for() {
    let took = stop_with(&["-port", "0", "-host", "127.0.0.1"], "toxiproxy-server", b"hello", true);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// A process with few files for its clients.
fn with_few_files(limits: &str, config: &std::path::Path, home: TempDir) -> Server {
    let mut command = std::process::Command::new("sh");
    let script = format!("{limits} && exec \"$0\" serve --admin 127.0.0.1:0 -c \"$1\"");
    command.args(["-c", &script, aconite(home.path()).get_program().to_str().unwrap()]).arg(config);
    command.env("HOME", home.path()).env_remove("ACONITE_TOKEN");
    Server::from(command, home)
}

#[test]
fn a_08_the_kill_switch_answers_with_more_idle_clients_than_files() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = upstream.local_addr().unwrap();
    for upstream in [tcp.to_string(), format!("http://{tcp}")] {
        let home = TempDir::new().unwrap();
        let config = format!("proxies:\n  - {{name: p, listen: '127.0.0.1:0', upstream: '{upstream}'}}\n");
        let config = file(home.path(), "a.yaml", &config);
        let server = with_few_files("ulimit -n 200", &config, home);
        crate::support::many_files();
        let clients: Vec<_> = (0..300).map(|_| TcpStream::connect(server.proxy("p")).unwrap()).collect();
        for _ in 0..3 {
            let (status, told) = server.request("GET", "/v1/chaos", "");
            assert_eq!(status, 200, "{told}");
        }
        assert!(server.open_files() < 200);
        let connected = clients.len();
        drop(clients);
        // Those that waited are served once there is room.
        let mut client = TcpStream::connect(server.proxy("p")).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(connected, 300);
        assert_eq!(server.request("GET", "/v1/connections", "").0, 200);
    }
}

#[test]
fn a_08_the_limit_of_open_files_is_raised_at_start() {
    let home = TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", "proxies: []\n");
    let server = with_few_files("ulimit -Sn 100 && ulimit -Hn 300", &config, home);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().filter(|word| *word == "300").count(), 2, "{files}");
}
