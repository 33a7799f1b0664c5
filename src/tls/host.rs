//! Host names as they are written in URLs, CONNECT lines and configuration, in the one form that certificates use.

use std::{fmt, net::IpAddr};

use rustls::pki_types::{DnsName, ServerName};

/// A host that cannot be named in a certificate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is neither a host name nor an IP address")]
pub struct BadHost(pub String);

/// Reads a host without its port: a DNS name or an IP address.
///
/// Unicode names become A-labels (RFC 5891), names are put in lower case and lose a trailing dot, IPv6 addresses may be
/// bracketed and lose their zone, which means nothing to a peer. An IPv4-mapped address stays an IPv6 address, because
/// that is what the client compares with the certificate.
///
/// # Errors
/// When the text is none of these, for example a name with an empty label, a port or a wildcard.
pub fn parse(host: &str) -> Result<ServerName<'static>, BadHost> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let without_zone = bare.split_once('%').map_or(bare, |(address, _)| address);
    if let Ok(address) = without_zone.parse::<IpAddr>() {
        return Ok(ServerName::IpAddress(address.into()));
    }
    let refuse = || BadHost(host.to_owned());
    let ascii = if host.is_ascii() {
        host.to_ascii_lowercase()
    } else {
        idna::domain_to_ascii(host).map_err(|_| refuse())?
    };
    let name = ascii.strip_suffix('.').unwrap_or(&ascii).to_owned();
    DnsName::try_from(name).map(ServerName::DnsName).map_err(|_| refuse())
}

/// A host as people are shown it: an A-label with the Unicode name that it stands for (RFC 5890, section 2.3.2.1).
pub(crate) struct Readable<'a>(pub(crate) &'a str);

impl fmt::Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        if self.0.contains("xn--")
            && let (unicode, Ok(())) = idna::domain_to_unicode(self.0)
            && unicode != self.0
        {
            write!(f, " ({unicode})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prx_07_ip_addresses_in_every_spelling() {
        for (written, meant) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
        ] {
            let address: IpAddr = meant.parse().unwrap();
            assert_eq!(parse(written), Ok(ServerName::IpAddress(address.into())), "{written}");
        }
    }

    #[test]
    fn prx_08_people_are_shown_both_spellings() {
        for (host, shown) in [
            ("xn--xgs754b.example.test", "xn--xgs754b.example.test (模型.example.test)"),
            ("api.example.test", "api.example.test"),
            ("xn--.test", "xn--.test"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(Readable(host).to_string(), shown);
        }
    }

    #[test]
    fn prx_08_names_in_every_spelling() {
        for (written, meant) in [
            ("API.Example.Test.", "api.example.test"),
            ("模型.example.test", "xn--xgs754b.example.test"),
            ("xn--xgs754b.example.test", "xn--xgs754b.example.test"),
            ("my_service", "my_service"),
        ] {
            let name = parse(written).unwrap();
            assert_eq!(name.to_str(), meant, "{written}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for written in ["", ".", "a..b", "host:443", "*.example.test", "[::1", "a b", "10.0.0.256"] {
            assert_eq!(parse(written), Err(BadHost(written.to_owned())));
        }
        assert!(parse(&"a.".repeat(127)).is_ok(), "253 octets");
        assert!(parse(&"a.".repeat(128)).is_err(), "255 octets");
    }
}
