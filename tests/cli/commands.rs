//! Commands besides Toxiproxy's, and Toxiproxy's against a server that has nothing else.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_support::{Server, aconite, file, named, printed, stderr};

fn with_proxy() -> Server {
    let server = Server::start(&[]);
    printed(&server.run(&["create", "api", "--listen", "127.0.0.1:0", "--upstream", "sim://openai"]));
    server
}

#[test]
fn a_command_waits_for_a_server_that_starts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let home = TempDir::new().unwrap();
    let url = format!("http://{address}");
    let mut waiting = aconite(home.path());
    let waiting =
        waiting.args(["--host", &url, "list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Only a command that asks again can be answered by a server that is started after it.
    let mut command = aconite(home.path());
    command.args(["serve", "--admin", &address]);
    let _server = Server::from(command, TempDir::new().unwrap());
    assert_eq!(printed(&waiting.wait_with_output().unwrap()), "");
}

#[test]
fn toxics_are_listed_updated_disabled_and_enabled() {
    let server = with_proxy();
    let run = |arguments: &[&str]| printed(&server.run(arguments));
    run(&[
        "toxic",
        "add",
        "api",
        "fail",
        "cause=overloaded",
        "name=busy",
        "toxicity=0.5",
        "match.model=gpt-4o",
        "budget.times=2",
    ]);
    let listed = run(&["toxic", "list", "api"]);
    assert!(listed.starts_with("busy\ttype=fail\tstream=downstream\ttoxicity=0.50\t"), "{listed}");
    assert!(listed.contains("match={\"model\":\"gpt-4o\"}\tbudget={\"times\":2}"), "{listed}");
    assert!(run(&["toxic", "list"]).starts_with("api\tbusy\t"));
    assert_eq!(
        run(&["toxic", "update", "api", "busy", "retry_after=3", "toxicity=1"]),
        "Updated toxic 'busy' on proxy 'api'\n"
    );
    assert_eq!(run(&["toxic", "disable", "api", "busy"]), "Toxic 'busy' on proxy 'api' is now disabled\n");
    let toxic = |of: &str| -> Value {
        let listed: Value = serde_json::from_str(&run(&["toxic", "list", "--json"])).unwrap();
        listed["proxies"][0]["toxics"][0][of].clone()
    };
    assert_eq!(toxic("enabled"), json!(false));
    assert_eq!(toxic("toxicity"), json!(1.0));
    assert_eq!(toxic("attributes")["retry_after"], json!(3));
    run(&["toxic", "enable", "api", "busy"]);
    assert_eq!(toxic("enabled"), Value::Null);
    let missing = server.run(&["toxic", "update", "api"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("aconite toxic list api"), "{}", stderr(&missing));
}

#[test]
fn a_toxic_added_while_the_switch_is_off_is_announced_as_inactive() {
    let server = with_proxy();
    printed(&server.run(&["chaos", "off"]));
    let added = server.run(&["toxic", "add", "api", "hang"]);
    assert!(printed(&added).starts_with("Added downstream hang toxic"));
    assert!(
        stderr(&added).starts_with("warning: the kill switch is off, so no toxic acts"),
        "{}",
        stderr(&added)
    );
    printed(&server.run(&["chaos", "on"]));
    assert_eq!(stderr(&server.run(&["toxic", "add", "api", "hang", "name=b"])), "");
}

#[test]
fn reset_populate_wait_and_health() {
    let server = with_proxy();
    let run = |arguments: &[&str]| printed(&server.run(arguments));
    assert_eq!(run(&["wait", "--timeout", "5s"]), "");
    assert_eq!(run(&["health"]), "healthy\n");
    run(&["toxic", "add", "api", "hang"]);
    run(&["toggle", "api"]);
    assert_eq!(run(&["reset"]), "Enabled all proxies and removed all toxics\n");
    assert_eq!(run(&["toxic", "list"]), "");
    let home = TempDir::new().unwrap();
    let path =
        file(home.path(), "p.json", r#"[{"name":"db","listen":"127.0.0.1:0","upstream":"127.0.0.1:1"}]"#);
    assert_eq!(run(&["populate", path.to_str().unwrap()]), "Populated 1 proxy\n");
    assert!(run(&["list"]).contains("db\t127.0.0.1:"));
    let bad = file(home.path(), "bad.json", "nothing");
    assert_eq!(server.run(&["populate", bad.to_str().unwrap()]).status.code(), Some(2));
    let nowhere = ["--host", "http://127.0.0.1:9", "wait", "--timeout", "200ms"];
    let output = aconite(home.path()).args(nowhere).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).starts_with("error: the server was not ready within 200ms\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn run_reports_toxics_that_did_not_apply_and_can_fail_because_of_them() {
    let home = TempDir::new().unwrap();
    let report = home.path().join("report.json");
    let run = |extra: &[&str]| {
        let mut command = aconite(home.path());
        command.args(["run", "--map", "api.example.test=sim://openai", "--report", report.to_str().unwrap()]);
        command.args(extra).args([
            "--",
            "curl",
            "-sS",
            "https://api.example.test/v1/models",
            "-H",
            "authorization: Bearer k",
        ]);
        command.output().unwrap()
    };
    let missed = run(&["--must-strike", "--toxic", "fail cause=overloaded match.model=gpt-4o name=busy"]);
    assert_eq!(missed.status.code(), Some(1), "{}", stderr(&missed));
    assert!(stderr(&missed).contains("busy (fail): never applied; not: 1 × "), "{}", stderr(&missed));
    assert!(stderr(&missed).contains("error: toxics that never applied: busy\n"), "{}", stderr(&missed));
    let written: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    assert_eq!(written["exit_status"], 0);
    assert_eq!(written["toxics"][0]["struck"], 0);
    let applied = run(&["--must-strike", "--toxic", "fail cause=overloaded"]);
    assert_eq!(applied.status.code(), Some(0), "{}", stderr(&applied));
    assert!(stderr(&applied).contains("fail_downstream: applied once"), "{}", stderr(&applied));
    let refused = run(&["--toxic", "fail cause=overloadd"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let format = aconite(home.path()).args(["run", "--report", "x.txt", "--", "true"]).output().unwrap();
    assert!(stderr(&format).contains("ends in .xml, .json or .md"), "{}", stderr(&format));
}

#[test]
fn apply_takes_its_file_with_or_without_a_flag() {
    let server = Server::start(&[]);
    let home = TempDir::new().unwrap();
    let path = file(
        home.path(),
        "a.yaml",
        "proxies: [{name: a, listen: \"127.0.0.1:0\", upstream: \"127.0.0.1:1\"}]",
    );
    assert_eq!(printed(&server.run(&["apply", path.to_str().unwrap()])), "create a\n");
    assert_eq!(server.run(&["apply"]).status.code(), Some(2));
    printed(&server.run(&["apply", "-f", path.to_str().unwrap()]));
}

/// A server that has Toxiproxy's routes only; `asked` collects the request targets.
fn genuine(server: &Server) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (asked, backend) = (Arc::new(Mutex::new(Vec::new())), server.admin().to_owned());
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            }
            let target = head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().push(target.clone());
            if target.starts_with("/v1") {
                write!(stream, "HTTP/1.1 404 Not Found\r\ncontent-length: 19\r\nconnection: close\r\n\r\n404 page not found\n").unwrap();
                continue;
            }
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(|n| n.parse::<usize>().unwrap())
            });
            let mut body = vec![0; length.unwrap_or_default()];
            reader.read_exact(&mut body).unwrap();
            let mut upstream = TcpStream::connect(&backend).unwrap();
            let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            upstream.write_all(head.as_bytes()).unwrap();
            upstream.write_all(&body).unwrap();
            std::io::copy(&mut upstream, &mut stream).unwrap();
        }
    });
    (address, asked)
}

#[test]
fn r2_29_toxiproxy_cli_needs_toxiproxy_s_routes_only() {
    let server = Server::start(&[]);
    let (address, asked) = genuine(&server);
    let home = TempDir::new().unwrap();
    let cli = |arguments: &[&str]| {
        named("toxiproxy-cli", home.path()).args(["-h", &address]).args(arguments).output().unwrap()
    };
    let run = |arguments: &[&str]| printed(&cli(arguments));
    assert_eq!(
        run(&["create", "-l", "127.0.0.1:0", "-u", "127.0.0.1:1", "redis", "extra"]),
        "Created new proxy redis\n"
    );
    let add = [
        "toxic",
        "add",
        "-t",
        "latency",
        "-n",
        "slow",
        "-a",
        "latency=1000.0",
        "-a",
        "jitter=1e1",
        "-a",
        "k",
        "redis",
        "extra",
    ];
    assert_eq!(run(&add), "Added downstream latency toxic 'slow' on proxy 'redis'\n");
    assert!(run(&["inspect", "redis"]).contains("attributes=[\tjitter=10\tlatency=1000\t]"));
    run(&["toxic", "update", "-n", "slow", "-a", "latency=2e2", "redis"]);
    assert!(run(&["inspect", "redis"]).contains("latency=200\t]"));
    assert!(run(&["list"]).starts_with("redis\t127.0.0.1:"));
    run(&["toggle", "redis"]);
    run(&["toxic", "remove", "-n", "slow", "redis"]);
    run(&["health"]);
    run(&["delete", "redis"]);
    let share = cli(&["toxic", "add", "-t", "latency", "--tox", "2", "redis"]);
    assert_eq!(share.status.code(), Some(1));
    assert!(stderr(&share).contains("0 to 1"), "{}", stderr(&share));
    let version = named("toxiproxy-cli", home.path()).arg("-v").output().unwrap();
    assert!(printed(&version).starts_with("toxiproxy-cli version 2.12.0"));
    let asked = asked.lock().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|target| !target.starts_with("/v1")), "{asked:?}");
}
