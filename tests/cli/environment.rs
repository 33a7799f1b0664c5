//! What makes other programs use the proxy and trust it.
use serde_json::Value;
use tempfile::TempDir;

use crate::cli_support::{Server, aconite, printed, stderr, stdout};

#[test]
fn the_ca_is_exported_in_every_form() {
    use std::os::unix::fs::PermissionsExt;
    let home = TempDir::new().unwrap();
    let ca = |arguments: &[&str]| aconite(home.path()).arg("ca").args(arguments).output().unwrap();
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
    let json: Value = serde_json::from_str(&printed(&server.run(&["env", "--json"]))).unwrap();
    assert_eq!(json["HTTPS_PROXY"], format!("http://{address}"));
    assert_eq!(json["SSL_CERT_FILE"], value("SSL_CERT_FILE"));
    assert_eq!(json.as_object().unwrap().len(), text.lines().count());
}

#[test]
fn run_passes_the_exit_code_on_and_gives_the_environment() {
    let home = TempDir::new().unwrap();
    let run = |arguments: &[&str]| aconite(home.path()).arg("run").args(arguments).output().unwrap();
    let output = run(&["--", "sh", "-c", "echo $HTTPS_PROXY; test -r $SSL_CERT_FILE || exit 9; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert!(stdout(&output).starts_with("http://127.0.0.1:"), "{}", stdout(&output));
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
    let mut command = aconite(home.path());
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

/// Nothing went through the proxy: that is noticed, and the switch is named. Where something did, nothing is said of it.
#[test]
fn prx_11_run_tells_who_sent_nothing_which_switch_it_needs() {
    let home = TempDir::new().unwrap();
    let run = |script: &str| {
        let output = aconite(home.path()).args(["run", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    let silent = run("true");
    assert!(silent.starts_with("aconite: `sh` sent nothing through the proxy\n  hint: "), "{silent}");
    for switch in ["HTTPS_PROXY", "localhost", "NODE_USE_ENV_PROXY=1", "trust_env=True", "base URL"] {
        assert!(silent.contains(switch), "{switch}: {silent}");
    }
    // The proxy itself is what answers: nothing listens there.
    let asked = run("curl -s --noproxy '' --max-time 20 -o /dev/null http://127.0.0.1:9/; true");
    assert!(asked.starts_with("aconite: 1 exchange (1 × 502)"), "{asked}");
}

/// `NO_PROXY` as real machines have it: what all clients read alike stays, and each other entry is warned of.
/// R2-06: a final dot and capitals do not make another host.
#[test]
fn prx_09_env_prints_only_what_all_clients_read_alike_and_warns_of_the_rest() {
    let server = Server::start(&[]);
    printed(&server.run(&["create", "env", "--protocol", "forward", "-l", "127.0.0.1:0"]));
    for name in ["NO_PROXY", "no_proxy"] {
        let mut command = server.command(&["env", "--shell", "sh"]);
        command.env(name, "localhost,127.0.0.1,::1,.corp.test,10.0.0.0/8,api.test:8443,Host.test., db.test");
        let output = command.output().unwrap();
        let text = printed(&output);
        for printed in ["NO_PROXY", "no_proxy"] {
            assert!(
                text.contains(&format!("export {printed}='localhost,127.0.0.1,host.test,db.test'\n")),
                "{text}"
            );
        }
        let warned = stderr(&output);
        for entry in ["::1", ".corp.test", "10.0.0.0/8", "api.test:8443"] {
            assert!(
                warned.contains(&format!("NO_PROXY: clients read `{entry}` in different ways")),
                "{warned}"
            );
        }
        assert_eq!(warned.lines().count(), 4, "{warned}");
    }
}

/// One file that Java reads, with the public roots too, and the options that name it and the proxy.
#[test]
fn tls_05_env_gives_java_a_store_and_the_proxy() {
    let server = Server::start(&[]);
    printed(&server.run(&["create", "env", "--protocol", "forward", "-l", "127.0.0.1:0"]));
    let listed = printed(&server.run(&["list"]));
    let (host, port) = listed.split('\t').nth(1).unwrap().rsplit_once(':').unwrap();
    let text = printed(&server.run(&["env", "--shell", "sh"]));
    let line = text.lines().find_map(|line| line.strip_prefix("export JAVA_TOOL_OPTIONS='")).unwrap();
    let options: Vec<_> = line.trim_end_matches('\'').split(' ').collect();
    let value = |name: &str| {
        let start = format!("-D{name}=");
        options
            .iter()
            .find_map(|option| option.strip_prefix(&start))
            .unwrap_or_else(|| panic!("{name}: {line}"))
    };
    for scheme in ["http", "https"] {
        assert_eq!(
            (value(&format!("{scheme}.proxyHost")), value(&format!("{scheme}.proxyPort"))),
            (host, port)
        );
    }
    let password = value("javax.net.ssl.trustStorePassword");
    assert_eq!((value("javax.net.ssl.trustStoreType"), password), ("PKCS12", "changeit"));
    let written = std::fs::read(value("javax.net.ssl.trustStore")).unwrap();
    let policy = p12_keystore::Pkcs12ImportPolicy::Strict;
    let store = p12_keystore::KeyStore::from_pkcs12(&written, password, policy).unwrap();
    let Some(p12_keystore::KeyStoreEntry::Certificate(own)) = store.entry("aconite") else {
        panic!("the CA is not in the store")
    };
    let (_, pem) = server.request("GET", "/v1/ca.pem", "");
    assert_eq!(own.as_der(), crate::tls_support::from_pem(&pem)[0].as_ref());
    let roots = rustls_native_certs::load_native_certs().certs.len();
    assert_eq!(store.entries_len(), roots + 1, "the public roots are not all in the store");
}

/// Node adds the one file to its own roots when it starts; everything else replaces its roots by the bundle.
#[test]
fn tls_02_env_gives_node_the_ca_alone_and_others_the_bundle() {
    let server = Server::start(&[]);
    printed(&server.run(&["create", "env", "--protocol", "forward", "-l", "127.0.0.1:0"]));
    let text = printed(&server.run(&["env", "--shell", "sh"]));
    let certificates = |name: &str| {
        let start = format!("export {name}='");
        let path = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap().trim_end_matches('\'');
        crate::tls_support::from_pem(&std::fs::read_to_string(path).unwrap())
    };
    let (_, pem) = server.request("GET", "/v1/ca.pem", "");
    let own = crate::tls_support::from_pem(&pem);
    assert_eq!(certificates("NODE_EXTRA_CA_CERTS"), own);
    for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"]
    {
        let bundle = certificates(name);
        assert!(bundle.len() > 1 && bundle.ends_with(&own), "{name}: {} certificates", bundle.len());
    }
    // Set for the child before it starts, where alone it counts.
    let home = TempDir::new().unwrap();
    let child = ["run", "--quiet", "--", "sh", "-c", "cat \"$NODE_EXTRA_CA_CERTS\""];
    assert_eq!(
        crate::tls_support::from_pem(&printed(&aconite(home.path()).args(child).output().unwrap())).len(),
        1
    );
}

/// Its container image has no directory for temporary files.
#[test]
fn the_demo_runs_where_nothing_can_be_written() {
    let home = TempDir::new().unwrap();
    let nowhere = home.path().join("nowhere");
    let mut demo = aconite(home.path());
    demo.arg("demo").env("TMPDIR", &nowhere).env("HOME", &nowhere);
    assert!(printed(&demo.output().unwrap()).contains("11 of 11 as expected"));
    assert!(!nowhere.exists());
}
