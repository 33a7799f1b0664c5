//! `aconite create`: in the words of `toxiproxy-cli`, with flags for what its proxies do not have.
use std::io::IsTerminal as _;

use aconite_api::model::{Protocol, ProxySpec};
use serde_json::{Map, Value, json};

use super::{CommandError, CommandResult, Remote, proxies::say, words};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Where it listens, host:port; port 0 picks a free one
    #[arg(short, long, value_name = "HOST:PORT")]
    listen: String,
    /// The upstream: host:port, or a URL; a forward proxy has none
    #[arg(short, long, required_unless_present = "protocol")]
    upstream: Option<String>,
    /// The protocol: tcp, http or forward [default: http if the upstream is a URL, else tcp]
    #[arg(long, value_parser = protocol)]
    protocol: Option<Protocol>,
    /// forward: a host whose TLS is decrypted, as a glob, instead of those of known providers; may be repeated
    #[arg(long, value_name = "HOST")]
    intercept: Vec<String>,
    /// forward: a host, with or without port, whose requests go to another server; may be repeated
    #[arg(long, value_name = "HOST=URL", value_parser = pair)]
    map: Vec<(String, String)>,
    /// forward: the credentials that clients must present; required on an address that other machines can reach
    #[arg(long, value_name = "USER:PASSWORD")]
    credentials: Option<String>,
    /// forward: serve clients from anywhere without credentials
    #[arg(long)]
    open_proxy: bool,
    /// http: send the client's Host upstream, not the upstream's own
    #[arg(long)]
    preserve_host: bool,
    /// At most one toxic per exchange, the first that matches
    #[arg(long)]
    exclusive: bool,
    /// Let the header x-aconite-toxic ask for a toxic for its own request
    #[arg(long)]
    in_band: bool,
    /// Keep bodies in the journal
    #[arg(long)]
    capture: bool,
    /// Do not listen yet
    #[arg(long)]
    disabled: bool,
    /// A toxic that it has from the start, such as 'delay delay=5s'; may be repeated
    #[arg(long, value_name = "TYPE KEY=VALUE…")]
    toxic: Vec<String>,
    /// Another field of the proxy: tls={}, upstream_tls.ca=ca.pem, max_connections=100, idle_timeout=30s
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the proxy as JSON
    #[arg(long)]
    json: bool,
    /// Its name
    name: String,
}

/// Creates a proxy, with its toxics.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    let spec = args.spec()?;
    // Which port it got is what people have to know next; to programs it is said as toxiproxy-cli says it.
    let tell_place = spec.listen.ends_with(":0") && std::io::stdout().is_terminal();
    let created = args.remote.client(outer)?.create_proxy(&spec).await?;
    let place = if tell_place { format!(" on {}", created.listen) } else { String::new() };
    say(args.json.then(|| json!(created)), format_args!("Created new proxy {}{place}", created.name))
}

impl Args {
    fn spec(&self) -> Result<ProxySpec, CommandError> {
        let schema = words::inlined_schema::<ProxySpec>();
        let mut others = Map::new();
        for word in &self.set {
            words::put(&mut others, word, &schema)?;
        }
        let spec: ProxySpec = words::read(Value::Object(others))?;
        Ok(ProxySpec {
            name: self.name.clone(),
            protocol: self.protocol.or(spec.protocol),
            listen: self.listen.clone(),
            upstream: self.upstream.clone().unwrap_or(spec.upstream),
            enabled: spec.enabled && !self.disabled,
            toxics: self.toxic.iter().map(|text| words::parse(text)).collect::<Result<_, _>>()?,
            exclusive: spec.exclusive || self.exclusive,
            in_band: spec.in_band || self.in_band,
            preserve_host: spec.preserve_host || self.preserve_host,
            intercept: if self.intercept.is_empty() { spec.intercept } else { Some(self.intercept.clone()) },
            map: spec.map.into_iter().chain(self.map.iter().cloned()).collect(),
            credentials: self.credentials.clone().or(spec.credentials),
            open_proxy: spec.open_proxy || self.open_proxy,
            capture: spec.capture || self.capture,
            ..spec
        })
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    serde_json::from_value(text.into()).map_err(|_| "expected tcp, http or forward".to_owned())
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (host, target) = text.split_once('=').ok_or("expected HOST=URL")?;
    Ok((host.to_owned(), target.to_owned()))
}
