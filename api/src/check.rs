//! The rules for the specifications of proxies and toxics.
//!
//! [`proxy`] and [`toxic`] hold for every one. [`strict_proxy`] and [`strict_toxic`] are what `/v1`, configuration files
//! and the command line ask for besides: Toxiproxy's clients may send more.
use aconite_toxics::{ConnectFault, HostPort, Level, SpecError, ToxicSpec};

use crate::model::{Protocol, ProxySpec};

/// The fields of a proxy, its toxics apart.
///
/// # Errors
/// The first mistake.
pub fn proxy(spec: &ProxySpec) -> Result<(), SpecError> {
    if spec.name.is_empty() {
        return Err(SpecError::new("name", "a proxy needs a name"));
    }
    name(&spec.name)?;
    fields_of_protocol(spec)?;
    match spec.protocol() {
        Protocol::Forward if !spec.upstream.is_empty() => Err(SpecError::new(
            "upstream",
            "a `forward` proxy goes where its clients ask; use `map` to send hosts elsewhere",
        )),
        Protocol::Http if spec.upstream.is_empty() => {
            Err(SpecError::new("upstream", "an `http` proxy needs an upstream URL"))
        }
        Protocol::Tcp if spec.upstream.contains("://") => {
            Err(SpecError::new("upstream", "a `tcp` proxy needs host:port, not a URL"))
        }
        _ => Ok(()),
    }
}

/// What `/v1` asks of a proxy and its toxics besides.
///
/// # Errors
/// The first mistake.
pub fn strict_proxy(spec: &ProxySpec) -> Result<(), SpecError> {
    let has_no_port = |text: &str| SpecError::new("", format!("`{text}` has no port"));
    if !spec.listen.is_empty() && !spec.listen.contains(':') {
        let error = has_no_port(&spec.listen).within("listen");
        return Err(error.hint("write host:port; port 0 picks a free one"));
    }
    let is_tcp = spec.protocol() == Protocol::Tcp;
    if is_tcp && HostPort::parse(&spec.upstream).is_ok_and(|upstream| upstream.port().is_none()) {
        let error = has_no_port(&spec.upstream).within("upstream");
        return Err(error.hint("write host:port, or a URL such as https://HOST"));
    }
    for (index, toxic) in spec.toxics.iter().enumerate() {
        strict_toxic(toxic).map_err(|error| error.within(&format!("toxics[{index}]")))?;
    }
    if is_tcp && spec.upstream.is_empty() {
        return Err(SpecError::new("upstream", "a `tcp` proxy needs an upstream host:port"));
    }
    Ok(())
}

/// A toxic on a proxy, `spec` with its name and defaults; `level` and `connect` are what its type and attributes make of it.
///
/// # Errors
/// The first mistake.
pub fn toxic(
    spec: &ToxicSpec,
    level: Level,
    connect: Option<ConnectFault>,
    proxy: &ProxySpec,
) -> Result<(), SpecError> {
    name(&spec.name)?;
    let (kind, protocol) = (&spec.kind, proxy.protocol());
    if protocol == Protocol::Tcp && !matches!(level, Level::Bytes | Level::Connect) {
        let text = format!("`{kind}` acts on HTTP, and a `tcp` proxy sees only bytes");
        let hint = "give the proxy `protocol: http` and a URL as `upstream`";
        return Err(SpecError::new("type", text).hint(hint));
    }
    let needs_request = spec.matching.as_ref().is_some_and(|matching| !matching.needs_no_request());
    if level == Level::Bytes && needs_request {
        let text = format!("`{kind}` acts on the bytes of a connection, which has no request to match");
        let hint =
            "only `client` can be matched; `delay`, `slow_stream`, `cut` and others act on single exchanges";
        return Err(SpecError::new("match", text).hint(hint));
    }
    let no_request = |fault: ConnectFault| protocol == Protocol::Tcp || !fault.is_of_upstream();
    if connect.is_some_and(no_request) && needs_request {
        let text = "this mode acts before there is a request to match";
        let hint = "`client`, `toxicity` and `budget` choose among connections";
        return Err(SpecError::new("match", text).hint(hint));
    }
    let terminates = protocol == Protocol::Forward || proxy.tls.is_some();
    if connect.is_some_and(ConnectFault::is_of_tls) && !terminates {
        let text = "this mode spoils a TLS handshake with the client, and the proxy makes none";
        let hint = "give an `http` proxy `tls: {}`, or use a `forward` proxy";
        return Err(SpecError::new("attributes.mode", text).hint(hint));
    }
    if !spec.toxicity.is_finite() {
        return Err(SpecError::new("toxicity", "expected a number from 0 to 1"));
    }
    if spec.budget.is_some_and(|budget| budget.every == Some(0)) {
        return Err(SpecError::new("budget.every", "expected a whole number from 1"));
    }
    Ok(())
}

/// What `/v1` asks of a toxic besides.
///
/// # Errors
/// The first mistake.
pub fn strict_toxic(spec: &ToxicSpec) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&spec.toxicity) {
        return Ok(());
    }
    let text = format!("toxicity lies between 0 and 1, and {} does not", spec.toxicity);
    Err(SpecError::new("toxicity", text))
}

/// Whether a URL can address a proxy or a toxic of this name: clients and servers remove the segments `.` and `..` from a
/// path (RFC 3986, section 5.2.4), even where they are percent-encoded.
fn name(name: &str) -> Result<(), SpecError> {
    if !matches!(name, "." | "..") {
        return Ok(());
    }
    let text = format!("`{name}` cannot be a name: no URL could address it");
    Err(SpecError::new("name", text).hint("use a name with a letter or a digit"))
}

/// Fields that only some protocols have.
fn fields_of_protocol(spec: &ProxySpec) -> Result<(), SpecError> {
    let protocol = spec.protocol();
    let only = |protocols: &[Protocol], given: bool, field: &str| {
        if !given || protocols.contains(&protocol) {
            return Ok(());
        }
        let names: Vec<_> =
            protocols.iter().map(|protocol| format!("`{protocol:?}`").to_lowercase()).collect();
        Err(SpecError::new(field, format!("`{field}` is for the protocol {}", names.join(" or "))))
    };
    let forward = &[Protocol::Forward][..];
    let http = &[Protocol::Http][..];
    let both = &[Protocol::Http, Protocol::Forward][..];
    only(forward, spec.intercept.is_some(), "intercept")?;
    only(forward, !spec.map.is_empty(), "map")?;
    only(forward, spec.credentials.is_some(), "credentials")?;
    only(forward, spec.open_proxy, "open_proxy")?;
    only(http, spec.tls.is_some(), "tls")?;
    only(http, spec.preserve_host, "preserve_host")?;
    only(http, spec.upstream_protocol.is_some(), "upstream_protocol")?;
    if spec.upstream_protocol.is_some() && spec.upstream.starts_with("sim://") {
        let text = "`upstream_protocol` is for a server, not for a simulated provider; remove it";
        return Err(SpecError::new("upstream_protocol", text));
    }
    only(both, spec.upstream_tls.is_some(), "upstream_tls")?;
    only(both, spec.in_band, "in_band")?;
    only(both, spec.exclusive, "exclusive")?;
    only(both, spec.capture, "capture")
}
