//! `aconite env`: the environment that makes programs use a forward proxy and trust its CA.
use std::{io::Write, net::SocketAddr, process::ExitCode};

use aconite_api::{
    Client,
    model::{Protocol, ProxySpec},
};
use aconite_toxics::host::{self, bracketed, normal_host};
use clap::ValueEnum;

use super::{CommandError, CommandResult, Remote, remote::variable, serve::data_dir, trust::TrustFiles};
use crate::tls::roots::TRUST_STORE_PASSWORD;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// For this shell [default: by SHELL]
    #[arg(long)]
    shell: Option<Shell>,
    /// Print JSON, an object of names and values
    #[arg(long, conflicts_with = "shell")]
    json: bool,
    /// The forward proxy, if there are several
    #[arg(long, value_name = "NAME")]
    proxy: Option<String>,
    /// The proxy's credentials, if it requires any
    #[arg(long, value_name = "USER:PASSWORD")]
    credentials: Option<String>,
}

/// A shell's language.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// sh, bash, zsh, dash
    Sh,
    /// fish
    Fish,
    /// PowerShell
    Powershell,
}

/// Prints the settings of a running server's forward proxy.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    let client = args.remote.client(outer)?;
    let proxy = choose(client.proxies().await?, args.proxy.as_deref())?;
    let address = reachable(&proxy.listen, &client)?;
    if proxy.credentials.is_some() && args.credentials.is_none() {
        return Err(CommandError::usage(format!("`{}` wants credentials", proxy.name))
            .hint("give --credentials USER:PASSWORD"));
    }
    let pem = client.ca_pem().await?;
    let files = TrustFiles::write(&data_dir()?, &String::from_utf8_lossy(&pem))?;
    let settings = Settings::new(&address, args.credentials.as_deref(), &files, variable);
    let shell = args.shell.unwrap_or_else(|| match variable("SHELL") {
        Some(shell) if shell.ends_with("/fish") => Shell::Fish,
        _ => Shell::Sh,
    });
    for entry in &settings.left_out {
        tracing::warn!("NO_PROXY: clients read `{entry}` in different ways; it is left out");
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let variables = settings.variables.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        writeln!(out, "{}", serde_json::Value::Object(variables.collect()))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in &settings.variables {
        writeln!(out, "{}", assignment(shell, name, value))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The forward proxy of that name, or the only one.
fn choose(proxies: Vec<ProxySpec>, name: Option<&str>) -> Result<ProxySpec, CommandError> {
    let forward = |proxy: &ProxySpec| proxy.protocol() == Protocol::Forward && proxy.enabled;
    let mut found: Vec<_> = proxies.into_iter().filter(forward).collect();
    if let Some(name) = name {
        found.retain(|proxy| proxy.name == name);
    }
    match (found.pop(), name) {
        (Some(only), _) if found.is_empty() => Ok(only),
        (None, Some(name)) => {
            Err(CommandError::new(format!("no forward proxy that is enabled has the name `{name}`")))
        }
        (None, None) => Err(CommandError::new("there is no forward proxy that is enabled")
            .hint("create one: aconite create env --protocol forward --listen 127.0.0.1:8080")),
        (Some(last), _) => {
            let names: Vec<_> =
                found.iter().chain([&last]).map(|proxy| format!("`{}`", proxy.name)).collect();
            Err(CommandError::usage(format!("there are several forward proxies: {}", names.join(", ")))
                .hint("give --proxy NAME"))
        }
    }
}

/// The address by which this machine reaches a listener.
fn reachable(listen: &str, client: &Client) -> Result<String, CommandError> {
    let address: SocketAddr = listen.parse().map_err(|_| {
        CommandError::new(format!(
            "the server says that the proxy listens on `{listen}`, which is not an address"
        ))
    })?;
    if address.ip().is_unspecified() {
        let host = host::split(client.authority()).0;
        return Ok(format!("{}:{}", bracketed(host), address.port()));
    }
    Ok(address.to_string())
}

fn assignment(shell: Shell, name: &str, value: &str) -> String {
    match shell {
        Shell::Sh => format!("export {name}='{}'", value.replace('\'', r"'\''")),
        Shell::Fish => format!("set -gx {name} '{}'", value.replace('\\', r"\\").replace('\'', r"\'")),
        Shell::Powershell => format!("$env:{name} = '{}'", value.replace('\'', "''")),
    }
}

/// The environment of a program that is to use the proxy.
pub(super) struct Settings {
    /// Names and values.
    pub(super) variables: Vec<(&'static str, String)>,
    /// Entries of the present `NO_PROXY` that cannot be kept.
    pub(super) left_out: Vec<String>,
}

impl Settings {
    /// `proxy` is `host:port`; `present` looks up what is set already.
    ///
    /// `NO_PROXY` holds only plain names and addresses: suffixes, networks, ports and IPv6 are read in as many ways as
    /// there are clients, and some refuse the whole list for them.
    pub(super) fn new(
        proxy: &str,
        credentials: Option<&str>,
        files: &TrustFiles,
        present: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let url = format!("http://{}{proxy}", credentials.map_or_else(String::new, userinfo));
        let mut no_proxy = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut left_out = Vec::new();
        let given = present("NO_PROXY").or_else(|| present("no_proxy")).unwrap_or_default();
        for entry in given.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()) {
            let host = normal_host(entry);
            if !is_plain(&host) {
                left_out.push(entry.to_owned());
            } else if !no_proxy.iter().any(|known| *known == host) {
                no_proxy.push(host.into_owned());
            }
        }
        let no_proxy = no_proxy.join(",");
        let path = |path: &std::path::Path| path.display().to_string();
        let (ca, bundle) = (path(&files.ca), path(&files.bundle));
        let mut variables = Vec::new();
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            variables.push((name, url.clone()));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            variables.push((name, no_proxy.clone()));
        }
        for name in [
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "AWS_CA_BUNDLE",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        ] {
            variables.push((name, bundle.clone()));
        }
        // Node adds these to its own roots; it reads HTTPS_PROXY only when told to.
        variables.push(("NODE_EXTRA_CA_CERTS", ca));
        variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
        variables.push((
            "JAVA_TOOL_OPTIONS",
            java_options(proxy, &path(&files.store), present("JAVA_TOOL_OPTIONS")),
        ));
        Self { variables, left_out }
    }
}

/// The part of a URL that holds credentials, `user:password@` (RFC 3986, section 3.2.1).
fn userinfo(credentials: &str) -> String {
    let encode = |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    format!("{}:{}@", encode(user), encode(password))
}

/// Whether all clients read an entry of `NO_PROXY` as this host.
fn is_plain(entry: &str) -> bool {
    !entry.starts_with('.')
        && entry.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        && !entry.ends_with('.')
}

/// Java's own settings, after what is set already.
fn java_options(proxy: &str, store: &str, present: Option<String>) -> String {
    let (host, port) = host::split(proxy);
    let port = port.unwrap_or("80");
    // JAVA_TOOL_OPTIONS is split at white space outside of quotes.
    let store = if store.contains(char::is_whitespace) { format!("\"{store}\"") } else { store.to_owned() };
    let ours = [
        ("javax.net.ssl.trustStore", store.as_str()),
        ("javax.net.ssl.trustStoreType", "PKCS12"),
        ("javax.net.ssl.trustStorePassword", TRUST_STORE_PASSWORD),
        ("https.proxyHost", host),
        ("https.proxyPort", port),
        ("http.proxyHost", host),
        ("http.proxyPort", port),
    ];
    let is_ours = |option: &str| ours.iter().any(|(name, _)| option.starts_with(&format!("-D{name}=")));
    let present = present.unwrap_or_default();
    let kept = present.split_whitespace().filter(|option| !is_ours(option)).map(str::to_owned);
    kept.chain(ours.iter().map(|(name, value)| format!("-D{name}={value}"))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(present: &[(&str, &str)]) -> Settings {
        let files = TrustFiles {
            ca: "/d/ca.pem".into(),
            bundle: "/d/bundle.pem".into(),
            store: "/d/trust.p12".into(),
        };
        Settings::new("127.0.0.1:8080", None, &files, |name| {
            present.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn value<'a>(settings: &'a Settings, name: &str) -> &'a str {
        settings.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str()).unwrap()
    }

    #[test]
    fn every_client_finds_proxy_and_roots() {
        let settings = settings(&[]);
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] {
            assert_eq!(value(&settings, name), "http://127.0.0.1:8080");
        }
        for name in [
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "AWS_CA_BUNDLE",
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        ] {
            assert_eq!(value(&settings, name), "/d/bundle.pem");
        }
        assert_eq!(value(&settings, "NODE_EXTRA_CA_CERTS"), "/d/ca.pem");
        assert_eq!(value(&settings, "NODE_USE_ENV_PROXY"), "1");
        assert_eq!(
            value(&settings, "JAVA_TOOL_OPTIONS"),
            "-Djavax.net.ssl.trustStore=/d/trust.p12 -Djavax.net.ssl.trustStoreType=PKCS12 \
             -Djavax.net.ssl.trustStorePassword=changeit -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8080 \
             -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8080"
        );
    }

    /// PRX-09: what clients read in different ways is left out, and said.
    #[test]
    fn prx_09_no_proxy_has_only_what_all_clients_read_alike() {
        let settings = settings(&[(
            "NO_PROXY",
            "localhost,127.0.0.1,::1,.corp.test,10.0.0.0/8,api.test:8443,host.test.,db.test,*",
        )]);
        assert_eq!(value(&settings, "NO_PROXY"), "localhost,127.0.0.1,host.test,db.test");
        assert_eq!(value(&settings, "no_proxy"), "localhost,127.0.0.1,host.test,db.test");
        assert_eq!(settings.left_out, ["::1", ".corp.test", "10.0.0.0/8", "api.test:8443", "*"]);
    }

    #[test]
    fn java_s_other_options_stay_and_ours_do_not_pile_up() {
        let once = java_options("[::1]:8080", "/a b/t.p12", Some("-Xmx1g -Dhttps.proxyHost=old".to_owned()));
        assert!(once.starts_with("-Xmx1g -Djavax.net.ssl.trustStore=\"/a b/t.p12\" "), "{once}");
        assert!(once.contains(" -Dhttps.proxyHost=::1 -Dhttps.proxyPort=8080 "), "{once}");
        assert!(!once.contains("old"));
        let plain = java_options("127.0.0.1:1", "/t.p12", None);
        assert_eq!(java_options("127.0.0.1:1", "/t.p12", Some(plain.clone())), plain);
    }

    #[test]
    fn every_shell_reads_its_own_quotes() {
        let nasty = r"it's \ $HOME";
        assert_eq!(assignment(Shell::Sh, "A", nasty), r"export A='it'\''s \ $HOME'");
        assert_eq!(assignment(Shell::Fish, "A", nasty), r"set -gx A 'it\'s \\ $HOME'");
        assert_eq!(assignment(Shell::Powershell, "A", nasty), r"$env:A = 'it''s \ $HOME'");
    }

    #[test]
    fn the_only_forward_proxy_is_chosen() {
        let proxy = |name: &str, protocol| ProxySpec {
            name: name.to_owned(),
            protocol: Some(protocol),
            enabled: true,
            ..ProxySpec::default()
        };
        let (a, b, c) =
            (proxy("a", Protocol::Forward), proxy("b", Protocol::Forward), proxy("c", Protocol::Tcp));
        let chosen = |proxies: &[&ProxySpec], name| {
            choose(proxies.iter().map(|&proxy| proxy.clone()).collect(), name).map(|proxy| proxy.name).ok()
        };
        assert_eq!(chosen(&[&a, &c], None).as_deref(), Some("a"));
        assert_eq!(chosen(&[&a, &b, &c], None), None);
        assert_eq!(chosen(&[&a, &b, &c], Some("a")).as_deref(), Some("a"));
        assert_eq!(chosen(&[&c], None), None);
        assert_eq!(chosen(&[&a], Some("c")), None);
    }
}
