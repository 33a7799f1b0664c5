//! Commands that drive a server.
use serde_json::{Value, json};

use crate::cli_support::{Server, file, printed, stderr};

/// What toxiproxy-cli prints, byte for byte.
#[test]
fn proxies_and_toxics_in_the_words_of_toxiproxy_cli() {
    let server = Server::start(&[]);
    let run = |arguments: &[&str]| printed(&server.run(arguments));
    assert_eq!(run(&["list"]), "");
    assert_eq!(
        run(&["create", "-l", "127.0.0.1:0", "-u", "localhost:6379", "redis"]),
        "Created new proxy redis\n"
    );
    assert_eq!(
        run(&["new", "--listen", "127.0.0.1:0", "--upstream", "localhost:5432", "db"]),
        "Created new proxy db\n"
    );
    assert_eq!(
        run(&[
            "toxic",
            "add",
            "-t",
            "latency",
            "-n",
            "slow",
            "-a",
            "latency=1000",
            "-a",
            "jitter=50",
            "--tox",
            "0.5",
            "redis"
        ]),
        "Added downstream latency toxic 'slow' on proxy 'redis'\n"
    );
    assert_eq!(
        run(&["t", "a", "--upstream", "--type", "bandwidth", "--attribute", "rate=10", "redis"]),
        "Added upstream bandwidth toxic 'bandwidth_upstream' on proxy 'redis'\n"
    );
    assert_eq!(
        run(&["inspect", "redis"]),
        "bandwidth_upstream\ttype=bandwidth\tstream=upstream\ttoxicity=1.00\tattributes=[\trate=10\t]\n\
         slow\ttype=latency\tstream=downstream\ttoxicity=0.50\tattributes=[\tjitter=50\tlatency=1000\t]\n"
    );
    // An update without a toxicity keeps it.
    assert_eq!(
        run(&["toxic", "u", "-n", "slow", "-a", "latency=20", "redis"]),
        "Updated toxic 'slow' on proxy 'redis'\n"
    );
    assert!(run(&["ins", "redis"]).contains("toxicity=0.50\tattributes=[\tjitter=50\tlatency=20\t]"));
    assert_eq!(run(&["toxic", "r", "-n", "slow", "redis"]), "Removed toxic 'slow' on proxy 'redis'\n");
    assert_eq!(run(&["toggle", "db"]), "Proxy db is now disabled\n");
    let listed = run(&["ls"]);
    let rows: Vec<Vec<_>> = listed.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["db", "redis"]);
    assert_eq!(rows[0][2..], ["localhost:5432", "disabled", "0"]);
    assert_eq!(rows[1][2..], ["localhost:6379", "enabled", "1"]);
    assert!(rows[1][1].starts_with("127.0.0.1:"));
    assert_eq!(run(&["tog", "db"]), "Proxy db is now enabled\n");
    assert_eq!(run(&["d", "db"]), "Deleted proxy db\n");

    for (arguments, message) in [
        (&["inspect", "none"][..], "error: no proxy has the name `none`\n"),
        (&["toxic", "remove", "-n", "none", "redis"], "error: no toxic of the proxy has the name `none`\n"),
        (&["toxic", "remove", "redis", "none"], "error: no toxic of the proxy has the name `none`\n"),
        (
            &["create", "-l", "127.0.0.1:0", "-u", "x:1", "redis"],
            "error: name: a proxy named `redis` exists\n",
        ),
    ] {
        let output = server.run(arguments);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), message), "{arguments:?}");
    }
}

#[test]
fn toxics_in_short_and_what_they_may_carry() {
    let server = Server::start(&[]);
    let create = ["create", "-l", "127.0.0.1:0", "-u", "http://127.0.0.1:1", "api", "--json"];
    let created: Value = serde_json::from_str(&printed(&server.run(&create))).unwrap();
    assert_eq!(created["protocol"], "http");
    let added = printed(&server.run(&[
        "toxic",
        "add",
        "api",
        "cut",
        "at.events=3",
        "how=rst",
        "--set",
        "match.model=gpt-4o*",
        "--set",
        "budget.times=2",
        "--json",
    ]));
    let added: Value = serde_json::from_str(&added).unwrap();
    assert_eq!(added["attributes"], json!({"at": {"events": 3}, "how": "rst"}));
    assert_eq!(added["match"], json!({"model": "gpt-4o*"}));
    assert_eq!(added["budget"], json!({"times": 2}));
    let output = server.run(&["toxic", "add", "api", "cat", "at.events=3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).starts_with(
            "error: type: no toxic has the type `cat`\n  hint: the most similar types are `cut`"
        ),
        "{}",
        stderr(&output)
    );
    let output = server.run(&["toxic", "add", "api", "latency", "latency=-5"]);
    assert!(stderr(&output).starts_with("error: attributes.latency: "), "{}", stderr(&output));
    let output = server.run(&["toxic", "add", "api", "latency", "--tox", "1.5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("expected a number from 0 to 1"), "{}", stderr(&output));
}

#[test]
fn apply_changes_all_or_nothing() {
    let server = Server::start(&[]);
    let good = "proxies:\n  - {name: a, listen: '127.0.0.1:0', upstream: 'x:1'}\n  - {name: b, listen: '127.0.0.1:0', upstream: 'x:2'}\n";
    let good = file(server.home.path(), "good.yaml", good);
    let good = good.to_str().unwrap();
    assert_eq!(printed(&server.run(&["apply", "-f", good, "--dry-run"])), "create a\ncreate b\n");
    assert_eq!(printed(&server.run(&["list"])), "");
    assert_eq!(printed(&server.run(&["apply", "-f", good])), "create a\ncreate b\n");
    let one = file(
        server.home.path(),
        "one.json",
        r#"{"proxies": [{"name": "c", "listen": "127.0.0.1:0", "upstream": "x:3"}]}"#,
    );
    assert_eq!(
        printed(&server.run(&["apply", "--prune", "-f", one.to_str().unwrap()])),
        "create c\ndelete a\ndelete b\n"
    );
    let bad = file(
        server.home.path(),
        "bad.yaml",
        "proxies:\n  - {name: d, listen: '127.0.0.1:0', upstream: 'x:3'}\n  - {name: e}\n",
    );
    let output = server.run(&["apply", "-f", bad.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("bad.yaml:3:5: proxies[1].upstream: "), "{}", stderr(&output));
    // An address that somebody else has is found out before anything changes, and its line is named.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!(
        "proxies:\n  - {{name: d, listen: '127.0.0.1:0', upstream: 'x:3'}}\n  - {{name: e, listen: '{}', upstream: 'x:4'}}\n",
        taken.local_addr().unwrap()
    );
    let taken = file(server.home.path(), "taken.yaml", &taken);
    let output = server.run(&["apply", "-f", taken.to_str().unwrap()]);
    assert!(stderr(&output).contains("taken.yaml:3:23: proxies[1].listen: "), "{}", stderr(&output));
    let all = printed(&server.run(&["list"]));
    assert!(all.starts_with("c\t") && all.lines().count() == 1, "{all}");
}

#[test]
fn the_journal_tells_what_passed_and_what_struck() {
    use std::io::{Read, Write};
    let server = Server::start(&[]);
    let create = ["create", "-l", "127.0.0.1:0", "-u", "sim://openai", "sim", "--json"];
    let created: Value = serde_json::from_str(&printed(&server.run(&create))).unwrap();
    printed(&server.run(&[
        "toxic",
        "add",
        "sim",
        "fail",
        "-n",
        "full",
        "cause=rate_limit",
        "--set",
        "match.path=/v1/models",
    ]));
    for path in ["/v1/models", "/v1/other"] {
        let mut stream = std::net::TcpStream::connect(created["listen"].as_str().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let told = printed(&server.run(&["journal", "--wait"]));
    let rows: Vec<Vec<_>> = told.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2, "{told}");
    assert_eq!((rows[0][2], rows[0][4], rows[0].last()), ("sim", "429", Some(&"full!")), "{told}");
    assert!(rows[0][3].starts_with("GET ") && rows[0][3].ends_with("/v1/models"), "{told}");
    let told = printed(&server.run(&["journal", "--json", "--status", "429"]));
    let only: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&only["path"], &only["toxics"][0]["struck"]), (&json!("/v1/models"), &json!(true)));
}

#[test]
fn the_kill_switch_is_turned_with_a_name_and_a_reason() {
    let server = Server::start(&[]);
    let off = printed(&server.run(&["chaos", "off", "--by", "ann", "--reason", "release"]));
    assert!(off.starts_with("chaos is off, since ") && off.ends_with(" by ann: release\n"), "{off}");
    let status: Value = serde_json::from_str(&printed(&server.run(&["chaos", "status", "--json"]))).unwrap();
    assert_eq!((&status["enabled"], &status["by"]), (&json!(false), &json!("ann")));
    assert!(printed(&server.run(&["chaos", "on"])).starts_with("chaos is on, since "));
}
