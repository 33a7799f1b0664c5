//! What needs no server: arguments, the configuration checked, the manual.
use tempfile::TempDir;

use crate::{
    cli_support::{file, printed, run, stderr, stdout},
    support::refusing,
};

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
        "error: no toxic has the type `latenci`\n  hint: the most similar types are `latency`, `connect`, `content`\n"
    );
}

#[test]
fn a_server_that_is_not_there_exits_with_1_and_says_why() {
    let (_socket, free) = refusing();
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
    let (code, text) = check(head);
    assert_eq!(code, Some(0), "{text}");
    let path = directory.path().join("a.yaml");
    assert!(text.starts_with(&format!("{}: all right, 1 proxy\n", path.display())), "{text}");
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

/// How a base path is joined, for a start and without one.
#[test]
fn http_23_a_dry_run_tells_where_requests_go() {
    let directory = TempDir::new().unwrap();
    let config = file(
        directory.path(),
        "a.yaml",
        "proxies:
  - {name: base, listen: '127.0.0.1:1', upstream: 'https://api.test/v1/'}
  - {name: bare, listen: '127.0.0.1:2', upstream: 'http://localhost:9000'}
  - {name: sim, listen: '127.0.0.1:3', upstream: 'sim://openai'}
  - {name: bytes, listen: '127.0.0.1:4', upstream: 'db.test:6379'}
  - {name: env, listen: '127.0.0.1:5', protocol: forward, map: {api.test: 'http://127.0.0.1:9'}}
",
    );
    let text = printed(&run(&["check", config.to_str().unwrap()]));
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  base (http, 127.0.0.1:1): /PATH and /v1/PATH to https://api.test/v1/PATH",
            "  bare (http, 127.0.0.1:2): /PATH to http://localhost:9000/PATH",
            "  sim (http, 127.0.0.1:3): /PATH to sim://openai/PATH",
            "  bytes (tcp, 127.0.0.1:4): to db.test:6379",
            "  env (forward, 127.0.0.1:5): to where its clients ask; api.test to http://127.0.0.1:9",
        ]
    );
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
