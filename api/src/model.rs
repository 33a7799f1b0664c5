//! The admin API's resources. The configuration file uses the same types.
use std::collections::BTreeMap;

pub use aconite_toxics::{End, How, Side};
use aconite_toxics::{Millis, ToxicSpec, some_object};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One listener, where it leads, and its toxics.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = needs_name)]
pub struct ProxySpec {
    /// Its name, unique. Required.
    pub name: String,
    /// The protocol. Default: `http` if `upstream` has a scheme, else `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Where it listens, `host:port`. Port 0 picks a free one. Empty: a free port of 127.0.0.1.
    #[schemars(regex(pattern = "^$|:"))]
    pub listen: String,
    /// The upstream: `host:port` for `tcp`, a URL for `http` (`sim://NAME` is a simulated provider). `forward` has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    /// Whether it listens. Default true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its toxics, in the order in which data meets them.
    pub toxics: Vec<ToxicSpec>,
    /// At most one toxic per exchange, the first that matches. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub exclusive: bool,
    /// Whether the header `x-aconite-toxic` may ask for a toxic for its own request. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub in_band: bool,
    /// `http`: send the client's Host upstream, not the upstream's own. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub preserve_host: bool,
    /// `http`: the only version of HTTP that the upstream speaks; `http2` over `http://` is HTTP/2 without TLS (prior
    /// knowledge, RFC 9113, section 3.3). Default: the client's version where the upstream speaks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_protocol: Option<UpstreamProtocol>,
    /// `forward`: hosts whose TLS is opened, as globs. Default: the hosts that a dialect knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intercept: Option<Vec<String>>,
    /// `forward`: hosts (with or without port) whose requests go to another server: a URL, `sim://NAME` or `host:port`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub map: BTreeMap<String, String>,
    /// `forward`: credentials that a client must present, `user:password`. Required on a non-loopback address unless `open_proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// `forward`: serve clients from anywhere without credentials. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub open_proxy: bool,
    /// `http`: serve TLS, with this certificate, or with one of the local CA if it is empty (`{}`).
    #[serde(deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServerTls>,
    /// How TLS to the upstream is made.
    #[serde(deserialize_with = "some_object", skip_serializing_if = "Option::is_none")]
    pub upstream_tls: Option<UpstreamTls>,
    /// The largest body that a document toxic edits, in bytes; larger ones pass. Default 16 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_edit_bytes: Option<usize>,
    /// Connections at the same time; more wait to be accepted. Default 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,
    /// How long a request's head may take. Default 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_timeout: Option<Millis>,
    /// How long a kept-alive connection may rest between requests. Default 5 min.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Millis>,
    /// How long connecting upstream may take, TLS included. Default 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Millis>,
    /// Keep bodies in the journal, secrets redacted. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub capture: bool,
}

/// A proxy has a name. Only a change of one that is there can leave it out.
fn needs_name(schema: &mut Schema) {
    schema.insert("required".to_owned(), json!(["name"]));
    if let Some(name) = schema.pointer_mut("/properties/name").and_then(Value::as_object_mut) {
        name.insert("minLength".to_owned(), 1.into());
    }
}

impl Default for ProxySpec {
    /// Enabled; everything else empty or at its default.
    fn default() -> Self {
        Self {
            name: Default::default(),
            protocol: Default::default(),
            listen: Default::default(),
            upstream: Default::default(),
            enabled: true,
            toxics: Default::default(),
            exclusive: Default::default(),
            in_band: Default::default(),
            preserve_host: Default::default(),
            upstream_protocol: Default::default(),
            intercept: Default::default(),
            map: Default::default(),
            credentials: Default::default(),
            open_proxy: Default::default(),
            tls: Default::default(),
            upstream_tls: Default::default(),
            max_edit_bytes: Default::default(),
            max_connections: Default::default(),
            header_timeout: Default::default(),
            idle_timeout: Default::default(),
            connect_timeout: Default::default(),
            capture: Default::default(),
        }
    }
}

impl ProxySpec {
    /// The protocol, given or derived.
    pub fn protocol(&self) -> Protocol {
        self.protocol
            .unwrap_or_else(|| if self.upstream.contains("://") { Protocol::Http } else { Protocol::Tcp })
    }
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Bytes.
    Tcp,
    /// HTTP, as a reverse proxy: for an SDK's `base_url`.
    Http,
    /// HTTP, as a forward proxy with CONNECT: for `HTTPS_PROXY`.
    Forward,
}

/// A version of HTTP that an upstream is declared to speak.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamProtocol {
    /// HTTP/2.
    Http2,
}

/// A server's certificate.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerTls {
    /// A PEM file with the certificate chain. Default: a certificate of the local CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// A PEM file with its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How TLS to an upstream is made.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTls {
    /// A PEM file with certificates to trust besides the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// A PEM file with the certificate to present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<String>,
    /// A PEM file with its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    /// The name to ask for and to verify, instead of the upstream's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Do not verify the upstream's certificate. Default false.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure: bool,
}

/// The kill switch.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Chaos {
    /// Whether toxics act.
    pub enabled: bool,
    /// How many toxics act while it is enabled.
    pub active_rules: usize,
    /// Those toxics.
    pub rules: Vec<Rule>,
    /// Who switched last.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// When, RFC 3339.
    pub since: String,
}

/// A toxic as the kill switch lists it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Rule {
    /// Its proxy.
    pub proxy: String,
    /// Its name.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its toxicity.
    pub probability: f32,
}

/// Who switches, and why.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Who.
    pub operator: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// A live connection.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Connection {
    /// Its number.
    pub id: u64,
    /// Its proxy.
    pub proxy: String,
    /// The client's address.
    pub peer: String,
    /// The upstream, if that is known.
    pub upstream: Option<String>,
    /// Which of the upstream's addresses answered, where the connection leads to one as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_address: Option<String>,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// Its age in milliseconds.
    pub age_ms: u64,
    /// The toxics in effect on its bytes.
    pub toxics: Vec<String>,
}

/// One HTTP exchange in the journal.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Exchange {
    /// Its number.
    pub id: u64,
    /// Its proxy.
    pub proxy: String,
    /// The client connection's number.
    pub connection: u64,
    /// When its head came, RFC 3339.
    pub started: String,
    /// From the head to the end, in milliseconds.
    pub duration_ms: Option<f64>,
    /// From the head to the answer's first body byte, in milliseconds.
    pub first_byte_ms: Option<f64>,
    /// The method.
    pub method: String,
    /// The host asked for.
    pub host: String,
    /// The path, secrets in the query redacted.
    pub path: String,
    /// Whose protocol.
    pub dialect: Option<String>,
    /// What for.
    pub operation: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The caller's scene.
    pub scene: Option<String>,
    /// The caller's test.
    pub test_id: Option<String>,
    /// Whether a streamed answer was asked for or given.
    pub streaming: bool,
    /// The status that the client got.
    pub status: Option<u16>,
    /// Bytes of the request's body, so far.
    pub bytes_in: u64,
    /// Bytes of the response's body, as sent to the client, so far.
    pub bytes_out: u64,
    /// Events of a streamed response, as sent to the client, so far.
    pub events: u64,
    /// Bytes after the last whole event.
    pub unterminated_tail: u64,
    /// The toxics whose conditions it meets.
    pub toxics: Vec<Strike>,
    /// Tries at upstreams.
    pub attempts: Vec<Attempt>,
    /// How it ended. Absent while it goes on.
    pub ending: Option<End>,
    /// Why the proxy answered by itself, as `x-aconite-error` says it: `upstream_connect`, `misdirected`, `bad_framing`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The request's body, if captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<String>,
    /// The answer's body, if captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
}

/// What became of a toxic on an exchange.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Strike {
    /// The toxic's name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The number of the attempt, from 1, on which it acts. Absent if it acts on the whole exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Whether it changed, delayed or dropped anything.
    pub struck: bool,
    /// Whether it may still do so.
    #[serde(default)]
    pub state: StrikeState,
    /// When it struck first, in milliseconds since the exchange began.
    pub at: Option<f64>,
    /// What was rolled against its toxicity.
    pub roll: f64,
    /// Why it did not strike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// While it is armed: the position in the body at which it acts, its `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Value>,
}

/// How far a toxic has come on an exchange.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrikeState {
    /// It has not acted, and still may.
    #[default]
    Armed,
    /// It has acted.
    Struck,
    /// It has not acted and will not: `reason` says why.
    Skipped,
}

/// One try at an upstream.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Attempt {
    /// The address or name tried.
    pub provider: String,
    /// Which of its addresses answered, if it was reached by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What came of it: `ok`, `connect_failed`, `stale_connection`, `refused`, `request_broken`, …
    pub outcome: String,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// How long it took to the answer's head, in milliseconds.
    pub ms: f64,
}

/// Which exchanges to list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExchangeFilter {
    /// Of this proxy.
    pub proxy: Option<String>,
    /// Whose path contains this.
    pub path: Option<String>,
    /// With this status.
    pub status: Option<u16>,
    /// With this toxic planned.
    pub toxic: Option<String>,
    /// Of this test.
    pub test_id: Option<String>,
    /// With a number greater than this: the `next` of an earlier answer.
    pub since: Option<u64>,
    /// At most so many, oldest first. Default 1,000. A response has at most about 8 MiB: `next` leads to the rest.
    pub limit: Option<usize>,
    /// Whether to answer only when the exchanges in flight have ended (`wait=1`), within 30 s.
    pub wait: Option<u8>,
}

/// Something that happened, for the live feed.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Happening {
    /// What: `exchange.begin`, `exchange.end`, `toxic.struck`, `toxic.passed`, `chaos`, `proxy`, `toxic`.
    pub event: &'static str,
    /// When, RFC 3339.
    pub at: String,
    /// The particulars.
    pub detail: Value,
}

/// One change that applying a configuration makes.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Change {
    /// `create`, `change` or `delete`.
    pub action: &'static str,
    /// The proxy.
    pub proxy: String,
    /// What changes of it: field names, or `toxics.NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// A configuration to apply as a whole.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Apply {
    /// The proxies that shall be.
    pub proxies: Vec<ProxySpec>,
    /// Whether proxies that are not listed are deleted. Default false.
    pub prune: bool,
    /// Whether only to answer what would change. Default false.
    pub dry_run: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
