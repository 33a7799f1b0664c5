//! The command line: exit codes, messages, formats.
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli_support::{Server, file, printed, run, stderr, stdout};

#[test]
fn wrong_arguments_exit_with_2() {
    for arguments in [
        &["bogus"][..],
        &["serve", "--no-such-flag"],
        &["create", "x"],
        &["toxic", "add", "-u", "-d", "p", "latency"],
        &["chaos", "maybe"],
        &["run"],
        &["explain", "latenci"],
        &["list", "--host", "ftp://x"],
        &["check"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
    assert_eq!(
        stderr(&run(&["explain", "latenci"])),
        "error: no toxic has the type `latenci`\n  hint: the most similar are latency, connect, hang\n"
    );
}

#[test]
fn a_server_that_is_not_there_exits_with_1_and_says_why() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&["list", "--host", &format!("http://{free}")]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: cannot reach `{free}`; is `aconite serve` running there?\n  because: Connection refused (os error 111)\n"
    );
    assert_eq!(stderr(&output), expected);
}

#[test]
fn check_tells_file_line_and_column() {
    let directory = TempDir::new().unwrap();
    let check = |text: &str| {
        let path = file(directory.path(), "a.yaml", text);
        let output = run(&["check", path.to_str().unwrap()]);
        (output.status.code(), stdout(&output) + &stderr(&output).replace(path.to_str().unwrap(), "a.yaml"))
    };
    let head = "proxies:\n  - name: api\n    listen: 127.0.0.1:8001\n    upstream: https://api.openai.com\n";
    for (tail, complaint) in [
        ("    upstrem: x\n", "a.yaml:5:5: proxies[0].upstrem: unknown field"),
        (
            "    toxics: [{type: latenci}]\n",
            "a.yaml:5:21: proxies[0].toxics[0].type: no toxic has the type `latenci`\n  hint: ",
        ),
        (
            "    toxics:\n      - type: latency\n        attributes: {latency: soon}\n",
            "a.yaml:7:31: proxies[0].toxics[0].attributes.latency: `soon` is not milliseconds",
        ),
        (
            "    intercept: [x]\n",
            "a.yaml:5:16: proxies[0].intercept: `intercept` is for the protocol `forward`",
        ),
        (
            "  - {name: api, listen: 127.0.0.1:0, upstream: 'b:1'}\n",
            "a.yaml:5:12: proxies[1].name: two proxies are named `api`",
        ),
        (
            "  - {name: b, listen: 127.0.0.1:8001, upstream: 'b:1'}\n",
            "a.yaml:5:23: proxies[1].listen: `api` listens on `127.0.0.1:8001` too",
        ),
        (
            "  - {name: b, listen: '[::]:8001', upstream: 'b:1'}\n",
            "a.yaml:5:23: proxies[1].listen: `api` listens on `[::]:8001` too",
        ),
        (
            "  - {name: b, listen: nowhere, upstream: 'b:1'}\n",
            "a.yaml:5:23: proxies[1].listen: `nowhere` has no port",
        ),
        (
            "  - {name: b, protocol: forward, listen: '0.0.0.0:8080'}\n",
            "a.yaml:5:42: proxies[1].listen: a forward proxy on `0.0.0.0:8080` would serve anybody\n  hint: give `credentials`",
        ),
        (
            "  - {name: b, listen: '127.0.0.1:1', upstream: 'b:1', toxics: [{type: cut, attributes: {at: {bytes: 1}, how: fin}}]}\n",
            "a.yaml:5:71: proxies[1].toxics[0].type: `cut` acts on HTTP, and a `tcp` proxy sees only bytes\n  hint: ",
        ),
    ] {
        let (code, text) = check(&format!("{head}{tail}"));
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with(&format!("error: {complaint}")), "{text}\n{complaint}");
    }
    assert_eq!(
        check(head),
        (Some(0), format!("{}: all right, 1 proxy\n", directory.path().join("a.yaml").display()))
    );
    let (code, text) = check("proxies: [\n");
    assert_eq!(code, Some(2));
    assert!(text.starts_with("error: a.yaml:1:10: unclosed bracket"), "{text}");
    let missing = run(&["check", "/no/such/file.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_eq!(
        stderr(&missing),
        "error: cannot read `/no/such/file.yaml`\n  because: No such file or directory (os error 2)\n"
    );
}

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
    assert!(stderr(&output).starts_with("error: toxicity: "), "{}", stderr(&output));
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
    assert!(printed(&server.run(&["list"])).starts_with("c\t"));
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

#[test]
fn the_manual_of_every_toxic_is_there() {
    let list = printed(&run(&["explain"]));
    assert!(list.lines().any(|line| line.starts_with("latency ")), "{list}");
    let manual = printed(&run(&["explain", "latency"]));
    assert!(manual.starts_with("latency acts on the bytes of a connection\n"), "{manual}");
    assert!(manual.contains("  latency: integer or string (ms)"), "{manual}");
    assert!(manual.contains("aconite toxic add PROXY latency "), "{manual}");
}

#[test]
fn completions_and_the_manual_come_from_the_definitions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(printed(&run(&["completions", shell])).contains("toxic"), "{shell}");
    }
    assert!(printed(&run(&["man"])).contains(".TH aconite 1"));
    assert!(printed(&run(&["man", "toxic"])).contains(".TH aconite-toxic 1"));
    assert_eq!(run(&["man", "none"]).status.code(), Some(2));
}

#[test]
fn the_ca_is_exported_in_every_form() {
    use std::os::unix::fs::PermissionsExt;
    let home = TempDir::new().unwrap();
    let ca = |arguments: &[&str]| {
        crate::cli_support::aconite(home.path()).arg("ca").args(arguments).output().unwrap()
    };
    let path = printed(&ca(&["path"]));
    let directory = home.path().join(".local/share/aconite");
    assert_eq!(path.trim_end(), directory.join("ca.pem").to_str().unwrap());
    let mode = std::fs::metadata(directory.join("ca-key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let pem = printed(&ca(&["pem"]));
    assert_eq!(pem, std::fs::read_to_string(path.trim_end()).unwrap());
    assert!(printed(&ca(&["bundle"])).ends_with(&pem));
    let store = home.path().join("t.p12");
    printed(&ca(&["p12", "--output", store.to_str().unwrap()]));
    assert!(std::fs::read(store).unwrap().starts_with(&[0x30]));
    printed(&ca(&["rotate"]));
    assert_ne!(printed(&ca(&["pem"])), pem);
}

#[test]
fn env_points_programs_at_the_only_forward_proxy() {
    let server = Server::start(&[]);
    let none = server.run(&["env"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        stderr(&none).contains("hint: create one: aconite create env --protocol forward"),
        "{}",
        stderr(&none)
    );
    printed(&server.run(&["create", "env", "--protocol", "forward", "-l", "127.0.0.1:0"]));
    let listed = printed(&server.run(&["list"]));
    let address = listed.split('\t').nth(1).unwrap();
    let text = printed(&server.run(&["env", "--shell", "sh"]));
    assert!(text.contains(&format!("export HTTPS_PROXY='http://{address}'\n")), "{text}");
    assert!(text.contains("export NODE_USE_ENV_PROXY='1'\n"), "{text}");
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("export {name}="))).unwrap();
        line.split('\'').nth(1).unwrap().to_owned()
    };
    let (_, pem) = server.request("GET", "/v1/ca.pem", "");
    assert_eq!(std::fs::read_to_string(value("NODE_EXTRA_CA_CERTS")).unwrap(), pem);
    assert!(std::fs::read_to_string(value("SSL_CERT_FILE")).unwrap().ends_with(&pem));
    assert!(printed(&server.run(&["env", "--shell", "fish"])).contains("set -gx HTTPS_PROXY '"));
}

#[test]
fn run_passes_the_exit_code_on_and_gives_the_environment() {
    let home = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        crate::cli_support::aconite(home.path()).arg("run").args(arguments).output().unwrap()
    };
    let output = run(&["--", "sh", "-c", "echo $HTTPS_PROXY; test -r $SSL_CERT_FILE || exit 9; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(stdout(&output).starts_with("http://127.0.0.1:"), "{}", stdout(&output));
    // PRX-11: nothing went through the proxy, and the switch is named.
    assert!(
        stderr(&output).starts_with("aconite: `sh` sent nothing to the proxy\n  hint: "),
        "{}",
        stderr(&output)
    );
    assert_eq!(run(&["--quiet", "--", "sh", "-c", "kill -TERM $$"]).status.code(), Some(143));
    let missing = run(&["--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).starts_with("error: cannot run `no-such-program`\n"), "{}", stderr(&missing));
}

#[test]
fn run_passes_signals_on() {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };
    let home = TempDir::new().unwrap();
    let script = "trap 'exit 3' TERM; echo ready; while :; do read -r line || sleep 1; done";
    let mut command = crate::cli_support::aconite(home.path());
    command.args(["run", "--quiet", "--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    // The shell is in `read`, which ends with its input.
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    use std::process::Stdio;
    let home = TempDir::new().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = crate::cli_support::aconite(home.path())
        .arg("explain")
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn the_examples_hold() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            printed(&run(&["check", path.to_str().unwrap()]));
            count += 1;
        }
    }
    assert!(count >= 3);
}

/// Its container image has no directory for temporary files.
#[test]
fn the_demo_runs_where_nothing_can_be_written() {
    let home = TempDir::new().unwrap();
    let nowhere = home.path().join("nowhere");
    let mut demo = crate::cli_support::aconite(home.path());
    demo.arg("demo").env("TMPDIR", &nowhere).env("HOME", &nowhere);
    assert!(printed(&demo.output().unwrap()).contains("11 of 11 as expected"));
    assert!(!nowhere.exists());
}
