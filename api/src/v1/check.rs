//! What `/v1` and configuration files are held to, beyond what the proxy itself asks for: Toxiproxy's clients may send
//! more.
use aconite_toxics::{HostPort, ToxicSpec};

use crate::{
    ControlError,
    model::{Protocol, ProxySpec},
};

/// A proxy and its toxics.
///
/// # Errors
/// The first mistake, its path beginning with `at`.
pub fn proxy(spec: &ProxySpec, at: &str) -> Result<(), ControlError> {
    if !spec.listen.is_empty() && !spec.listen.contains(':') {
        return Err(ControlError::Invalid {
            path: format!("{at}listen"),
            message: format!("`{}` has no port", spec.listen),
            hint: Some("write host:port; port 0 picks a free one".to_owned()),
        });
    }
    let has_no_port = |upstream| HostPort::parse(upstream).is_ok_and(|read| read.port().is_none());
    if spec.protocol() == Protocol::Tcp && has_no_port(&spec.upstream) {
        return Err(ControlError::Invalid {
            path: format!("{at}upstream"),
            message: format!("`{}` has no port", spec.upstream),
            hint: Some("write host:port, or a URL such as https://HOST".to_owned()),
        });
    }
    for (index, each) in spec.toxics.iter().enumerate() {
        toxic(each, &format!("{at}toxics[{index}]."))?;
    }
    if spec.protocol() == Protocol::Tcp && spec.upstream.is_empty() {
        return Err(ControlError::invalid(
            format!("{at}upstream"),
            "a `tcp` proxy needs an upstream host:port",
        ));
    }
    Ok(())
}

/// A toxic.
///
/// # Errors
/// The first mistake, its path beginning with `at`.
pub fn toxic(spec: &ToxicSpec, at: &str) -> Result<(), ControlError> {
    if (0.0..=1.0).contains(&spec.toxicity) {
        return Ok(());
    }
    let message = format!("toxicity lies between 0 and 1, and {} does not", spec.toxicity);
    Err(ControlError::invalid(format!("{at}toxicity"), message))
}
