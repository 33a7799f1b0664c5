//! What makes no sense together: toxics where they cannot work, fields of other protocols.
use aconite_api::{
    ControlError,
    model::{Protocol, ProxySpec},
};
use aconite_toxics::{ConnectFault, Level};

use crate::plan::Armed;

/// Whether a URL can address a proxy or a toxic of this name.
///
/// # Errors
/// If it cannot: clients and servers remove the segments `.` and `..` from a path (RFC 3986, section 5.2.4), even where
/// they are percent-encoded.
pub(super) fn check_name(name: &str) -> Result<(), ControlError> {
    if matches!(name, "." | "..") {
        return Err(ControlError::Invalid {
            path: "name".to_owned(),
            message: format!("`{name}` cannot be a name: no URL could address it"),
            hint: Some("use a name with a letter or a digit".to_owned()),
        });
    }
    Ok(())
}

/// Whether a toxic can work on this proxy.
///
/// # Errors
/// Why it cannot.
pub(super) fn check_place(armed: &Armed, proxy: &ProxySpec) -> Result<(), ControlError> {
    let (kind, protocol) = (&armed.spec.kind, proxy.protocol());
    if protocol == Protocol::Tcp && !matches!(armed.level, Level::Bytes | Level::Connect) {
        return Err(ControlError::Invalid {
            path: "type".to_owned(),
            message: format!("`{kind}` acts on HTTP, and a `tcp` proxy sees only bytes"),
            hint: Some("give the proxy `protocol: http` and a URL as `upstream`".to_owned()),
        });
    }
    let needs_request = armed.spec.matching.as_ref().is_some_and(|matching| !matching.needs_no_request());
    if armed.level == Level::Bytes && needs_request {
        return Err(ControlError::Invalid {
            path: "match".to_owned(),
            message: format!("`{kind}` acts on the bytes of a connection, which has no request to match"),
            hint: Some(
                "only `client` can be matched; `delay`, `slow_stream`, `cut` and others act on single exchanges"
                    .to_owned(),
            ),
        });
    }
    let no_request = |fault: ConnectFault| protocol == Protocol::Tcp || !fault.is_of_upstream();
    if armed.connect.is_some_and(no_request) && needs_request {
        return Err(ControlError::Invalid {
            path: "match".to_owned(),
            message: "this mode acts before there is a request to match".to_owned(),
            hint: Some("`client`, `toxicity` and `budget` choose among connections".to_owned()),
        });
    }
    let terminates = protocol == Protocol::Forward || proxy.tls.is_some();
    if armed.connect.is_some_and(ConnectFault::is_of_tls) && !terminates {
        return Err(ControlError::Invalid {
            path: "attributes.mode".to_owned(),
            message: "this mode spoils a TLS handshake with the client, and the proxy makes none".to_owned(),
            hint: Some("give an `http` proxy `tls: {}`, or use a `forward` proxy".to_owned()),
        });
    }
    if !armed.spec.toxicity.is_finite() {
        return Err(ControlError::invalid("toxicity", "expected a number from 0 to 1"));
    }
    if armed.spec.budget.is_some_and(|budget| budget.every == Some(0)) {
        return Err(ControlError::invalid("budget.every", "expected a whole number from 1"));
    }
    Ok(())
}

/// Fields that make no sense with the protocol.
///
/// # Errors
/// The first of them.
pub(super) fn check_fields(spec: &ProxySpec) -> Result<(), ControlError> {
    let protocol = spec.protocol();
    let only = |protocols: &[Protocol], given: bool, field: &str| {
        if !given || protocols.contains(&protocol) {
            return Ok(());
        }
        let names: Vec<_> =
            protocols.iter().map(|protocol| format!("`{protocol:?}`").to_lowercase()).collect();
        let text = format!("`{field}` is for the protocol {}", names.join(" or "));
        Err(ControlError::invalid(field, text))
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
        return Err(ControlError::invalid("upstream_protocol", text));
    }
    only(both, spec.upstream_tls.is_some(), "upstream_tls")?;
    only(both, spec.in_band, "in_band")?;
    only(both, spec.exclusive, "exclusive")?;
    only(both, spec.capture, "capture")?;
    match protocol {
        Protocol::Forward if !spec.upstream.is_empty() => Err(ControlError::invalid(
            "upstream",
            "a `forward` proxy goes where its clients ask; use `map` to send hosts elsewhere",
        )),
        Protocol::Http if spec.upstream.is_empty() => {
            Err(ControlError::invalid("upstream", "an `http` proxy needs an upstream URL"))
        }
        Protocol::Tcp if spec.upstream.contains("://") => {
            Err(ControlError::invalid("upstream", "a `tcp` proxy needs host:port, not a URL"))
        }
        _ => Ok(()),
    }
}
