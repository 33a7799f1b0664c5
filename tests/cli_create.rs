//! `aconite create` with all its flags, `aconite run` with credentials, and exit codes as a replacement for Toxiproxy.
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_support::{Server, aconite, file, named, printed, stderr};

#[test]
fn a_proxy_is_created_with_all_its_fields() {
    let server = Server::start(&[]);
    let create = |arguments: &[&str]| -> Value {
        let output = server.run(&[&["create", "--json", "-l", "127.0.0.1:0"], arguments].concat());
        let mut view: Value = serde_json::from_str(&printed(&output)).unwrap();
        view.as_object_mut().unwrap().remove("listen");
        view
    };
    let forward = create(&[
        "--protocol",
        "forward",
        "--intercept",
        "*.test",
        "--intercept",
        "api.openai.com",
        "--map",
        "api.openai.com=sim://openai",
        "--map",
        "db.test:6333=http://127.0.0.1:1",
        "--credentials",
        "user:pass",
        "--open-proxy",
        "--disabled",
        "env",
    ]);
    assert_eq!(
        forward,
        json!({
            "name": "env", "protocol": "forward", "enabled": false, "toxics": [],
            "intercept": ["*.test", "api.openai.com"],
            "map": {"api.openai.com": "sim://openai", "db.test:6333": "http://127.0.0.1:1"},
            "credentials": "user:***", "open_proxy": true
        })
    );
    let http = create(&[
        "-u",
        "https://127.0.0.1:1",
        "--preserve-host",
        "--exclusive",
        "--in-band",
        "--capture",
        "--set",
        "upstream_tls.insecure=true",
        "--set",
        "max_connections=7",
        "--set",
        "idle_timeout=30s",
        "--set",
        "tls={}",
        "--toxic",
        "delay delay=5s",
        "api",
    ]);
    assert_eq!(http["toxics"][0]["attributes"]["delay"], 5_000);
    for (field, value) in [
        ("preserve_host", json!(true)),
        ("exclusive", json!(true)),
        ("in_band", json!(true)),
        ("capture", json!(true)),
        ("upstream_tls", json!({"insecure": true})),
        ("max_connections", json!(7)),
        ("idle_timeout", json!(30_000)),
        ("tls", json!({})),
        ("protocol", json!("http")),
    ] {
        assert_eq!(http[field], value, "{field} in {http}");
    }
}

#[test]
fn what_does_not_hold_is_refused_before_the_server_is_asked() {
    for (arguments, reason) in [
        (&["--map", "api.test"][..], "expected HOST=URL"),
        (&["--protocol", "udp"], "expected tcp, http or forward"),
        (&["--set", "max_conections=1"], "max_connections"),
        (&["--toxic", "latency=5"], "the toxic's type is missing"),
    ] {
        let output = crate::cli_support::run(
            &[
                &["create", "--host", "http://127.0.0.1:1", "-l", "127.0.0.1:0", "-u", "x:1"],
                arguments,
                &["p"],
            ]
            .concat(),
        );
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
    }
}

/// The status of the answer to a CONNECT.
fn connect(address: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "CONNECT api.openai.com:443 HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

#[test]
fn run_tells_the_command_the_credentials_of_its_proxy() {
    let home = TempDir::new().unwrap();
    let text = r#"{"proxies": [{"name": "env", "protocol": "forward", "listen": "127.0.0.1:0",
        "credentials": "us@r:p:w/%é", "map": {"api.openai.com": "sim://openai"}}]}"#;
    let config = file(home.path(), "c.json", text);
    let mut command = aconite(home.path());
    command.arg("run").arg("--quiet").arg("--config").arg(&config);
    command.args(["--", "sh", "-c", "echo $HTTPS_PROXY $http_proxy; read -r line"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (https, http) = line.trim().split_once(' ').unwrap();
    assert_eq!(https, http);
    let (userinfo, address) = https.strip_prefix("http://").unwrap().split_once('@').unwrap();
    assert_eq!(userinfo, "us%40r:p%3Aw%2F%25%C3%A9");
    assert_eq!(connect(address, ""), "HTTP/1.1 407");
    // As every client does with what stands in the URL.
    let (user, password) = userinfo.split_once(':').unwrap();
    let decoded = |text| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let basic = STANDARD.encode(format!("{}:{}", decoded(user), decoded(password)));
    assert_eq!(connect(address, &format!("Proxy-Authorization: Basic {basic}\r\n")), "HTTP/1.1 200");
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn in_toxiproxy_s_place_exit_codes_are_its_client_s() {
    let home = TempDir::new().unwrap();
    for (arguments, code) in [
        (&["bogus"][..], 3),
        (&["list", "--no-such-flag"], 1),
        (&["create", "x"], 1),
        (&["-h", "http://127.0.0.1:1", "list"], 1),
        (&["--help"], 0),
    ] {
        let output = named("toxiproxy-cli", home.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(crate::cli_support::run(&["bogus"]).status.code(), Some(2));
}
