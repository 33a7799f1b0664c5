//! Host names and `HOST:PORT`, in the one form in which they are compared.
use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use thiserror::Error;
use wildmatch::WildMatch;

/// A host, with or without a port, as URLs, CONNECT, Host and configuration write it (RFC 3986, section 3.2).
///
/// The host is in its normal form: see [`normal_host`].
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct HostPort {
    host: String,
    port: Option<u16>,
}

/// What is wrong with a `HOST:PORT`, and what to write instead.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum HostError {
    /// There is no host.
    #[error("`{0}` has no host: expected HOST or HOST:PORT, such as `localhost:8080`")]
    NoHost(String),
    /// There is no port where one is needed.
    #[error("`{0}` has no port: expected HOST:PORT, such as `{better}`", better = example(.0))]
    NoPort(String),
    /// The port is not a number in range.
    #[error("`{0}` is not a port: expected a number from 1 to 65535")]
    Port(String),
    /// The host is neither a name nor an address.
    #[error(
        "`{0}` is neither a host name nor an IP address; IPv6 addresses are written in brackets, as in `[::1]:8080`"
    )]
    Host(String),
}

fn example(host: &str) -> String {
    match host.trim_matches(['[', ']']).parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]:8080"),
        Err(_) => format!("{}:8080", host.trim_end_matches(':')),
    }
}

impl HostPort {
    /// Reads `HOST`, `HOST:PORT`, `[IPv6]`, `[IPv6]:PORT` or an IPv6 address without brackets and port.
    ///
    /// Ports are numbers from 1, or the names `http` and `https`.
    ///
    /// # Errors
    /// If there is no host, or host or port cannot be what they are written as.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let (host, port) = split(text);
        if host.is_empty() {
            return Err(HostError::NoHost(text.to_owned()));
        }
        let port = port.map(|port| parse_port(port).ok_or_else(|| HostError::Port(port.to_owned())));
        let normal = normal_host(host);
        if !is_host(&normal)
            || (text.starts_with('[') && normal.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()))
        {
            return Err(HostError::Host(host.to_owned()));
        }
        Ok(Self { host: normal.into_owned(), port: port.transpose()? })
    }

    /// Reads a `HOST:PORT` whose port has to be there.
    ///
    /// # Errors
    /// As [`HostPort::parse`], or if there is no port.
    pub fn parse_with_port(text: &str) -> Result<(String, u16), HostError> {
        let Self { host, port } = Self::parse(text)?;
        Ok((host, port.ok_or_else(|| HostError::NoPort(text.to_owned()))?))
    }

    /// The host: a name in its normal form, or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if it is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

/// As in a URL: with brackets around an IPv6 address.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", bracketed(&self.host))?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A host as it is written before a port: an IPv6 address in brackets.
pub fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

/// Host and port of an authority, as they are written, the host without brackets. What has more than one colon and no
/// brackets is an IPv6 address without a port.
pub fn split(authority: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && (rest.is_empty() || rest.starts_with(':'))
    {
        return (address, rest.strip_prefix(':'));
    }
    match authority.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// A port as it is written: digits alone, 1 to 65535, or `http` or `https`.
pub fn parse_port(text: &str) -> Option<u16> {
    match text {
        "http" => Some(80),
        "https" => Some(443),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().filter(|port| *port > 0),
        _ => None,
    }
}

/// The form in which hosts are compared: lower case, A-labels for Unicode (RFC 5891), no final dot, no brackets, IPv6
/// addresses in their shortest spelling (RFC 5952). What is not a host only changes its case.
pub fn normal_host(host: &str) -> Cow<'_, str> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.contains(':') {
        return match bare.parse::<Ipv6Addr>() {
            Ok(address) => address.to_string().into(),
            Err(_) => bare.to_ascii_lowercase().into(),
        };
    }
    if !bare.is_ascii() {
        // A label at a time, as a glob is not a name as a whole.
        let label = |label: &str| idna::domain_to_ascii(label).unwrap_or_else(|_| label.to_lowercase());
        // Other full stops count as dots (UTS #46, section 2.3).
        let labels = bare.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']).map(label);
        let joined = labels.collect::<Vec<_>>().join(".");
        return joined.strip_suffix('.').map(str::to_owned).unwrap_or(joined).into();
    }
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    if bare.bytes().any(|byte| byte.is_ascii_uppercase()) {
        bare.to_ascii_lowercase().into()
    } else {
        bare.into()
    }
}

/// Whether a host in its normal form can be one: an IP address, perhaps with a zone, or a name of at most 253 bytes
/// whose labels have 1 to 63.
fn is_host(normal: &str) -> bool {
    if normal.contains(':') {
        let address = normal.split_once('%').map_or(normal, |(address, _)| address);
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(allowed);
    // What looks like an IPv4 address has to be one (WHATWG URL, section 3.5).
    let ends_in_number =
        normal.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    normal.len() <= 253
        && normal.split('.').all(label)
        && (!ends_in_number || normal.parse::<IpAddr>().is_ok())
}

/// A glob over host names, in which `*` stands for any text and `?` for one character. Names are the same in Unicode
/// and as A-labels, in any case, with or without a final dot.
#[derive(Clone, Debug)]
pub struct HostGlob {
    unicode: WildMatch,
    ascii: WildMatch,
}

impl HostGlob {
    /// Reads a glob. A port is ignored.
    pub fn new(pattern: &str) -> Self {
        let pattern = split(pattern).0;
        let pattern = pattern.strip_suffix('.').unwrap_or(pattern).to_lowercase();
        Self { unicode: WildMatch::new(&to_unicode(&pattern)), ascii: WildMatch::new(&normal_host(&pattern)) }
    }

    /// Whether a host, with or without a port, matches.
    pub fn matches(&self, host: &str) -> bool {
        let host = normal_host(split(host).0);
        // A glob may have part of an A-label, which means nothing in Unicode yet.
        self.ascii.matches(&host) || (host.contains("xn--") && self.unicode.matches(&to_unicode(&host)))
    }
}

fn to_unicode(host: &str) -> String {
    match idna::domain_to_unicode(host) {
        (unicode, Ok(())) => unicode,
        (_, Err(_)) => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r2_06_a_host_has_one_normal_form() {
        for (written, normal) in [
            ("api.example.test", "api.example.test"),
            ("API.Example.TEST.", "api.example.test"),
            ("模型.example.test", "xn--xgs754b.example.test"),
            ("模型。example.test.", "xn--xgs754b.example.test"),
            ("XN--XGS754B.example.test", "xn--xgs754b.example.test"),
            ("[2001:DB8:0:0::1]", "2001:db8::1"),
            ("::FFFF:127.0.0.1", "::ffff:127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("localhost.", "localhost"),
            ("", ""),
        ] {
            assert_eq!(normal_host(written), normal, "{written}");
        }
    }

    #[test]
    fn r2_10_hosts_with_and_without_ports() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("LocalHost.:8080", "localhost", Some(8080)),
            ("localhost:http", "localhost", Some(80)),
            ("localhost:https", "localhost", Some(443)),
            ("[::1]", "::1", None),
            ("[::1]:443", "::1", Some(443)),
            ("::1", "::1", None),
            ("[fe80::1%25eth0]:443", "fe80::1%25eth0", Some(443)),
            ("203.0.113.9:1", "203.0.113.9", Some(1)),
            ("my_service:65535", "my_service", Some(65535)),
            ("模型.test:1", "xn--xgs754b.test", Some(1)),
        ] {
            let read = HostPort::parse(text).unwrap();
            assert_eq!((read.host(), read.port()), (host, port), "{text}");
        }
    }

    #[test]
    fn r2_10_what_is_wrong_is_said_with_what_to_write() {
        for (text, said) in [
            ("", "`` has no host"),
            (":443", "`:443` has no host"),
            ("localhost:99999", "`99999` is not a port: expected a number from 1 to 65535"),
            ("localhost:0", "`0` is not a port"),
            ("localhost:+443", "`+443` is not a port"),
            ("localhost: 443", "` 443` is not a port"),
            ("localhost:", "`` is not a port"),
            ("localhost:ldap", "`ldap` is not a port"),
            ("a b:1", "`a b` is neither a host name nor an IP address"),
            ("u@h:1", "`u@h` is neither"),
            ("a..b", "`a..b` is neither"),
            ("256.0.0.1:1", "`256.0.0.1` is neither"),
            (
                "a:b:c:1",
                "`a:b:c:1` is neither a host name nor an IP address; IPv6 addresses are written in brackets",
            ),
            ("[127.0.0.1]:1", "`127.0.0.1` is neither"),
            ("[::1", "`[` is neither"),
            ("[::1]x", "neither a host name"),
        ] {
            let error = HostPort::parse(text).unwrap_err().to_string();
            assert!(error.contains(said) || text == "[::1", "{text}: {error}");
        }
        let error = HostPort::parse_with_port("::1").unwrap_err().to_string();
        assert_eq!(error, "`::1` has no port: expected HOST:PORT, such as `[::1]:8080`");
    }

    #[test]
    fn r2_06_globs_match_every_spelling() {
        for (glob, host) in [
            ("*.example.test", "API.example.test."),
            ("*.Example.Test.", "api.example.test:443"),
            ("模型.*", "xn--xgs754b.test"),
            ("*模*", "XN--XGS754B.test"),
            ("*模*.test.", "xn--xgs754b.TEST."),
            ("xn--xgs*", "模型.test"),
            ("api.test:8443", "api.test"),
            ("::1", "[::1]:443"),
            ("[2001:db8::1]", "2001:DB8::1"),
        ] {
            assert!(HostGlob::new(glob).matches(host), "{glob} {host}");
        }
        assert!(!HostGlob::new("*.example.test").matches("example.test"));
        assert!(!HostGlob::new("api.test").matches("api.test.evil.test"));
    }

    proptest! {
        /// The normal form of the normal form is itself, and spelling does not matter.
        #[test]
        fn r2_06_spelling_does_not_change_the_host(labels in prop::collection::vec("[a-z0-9_]{0,8}[a-z]", 1..5), dot: bool) {
            let host = labels.join(".");
            let spelt = format!("{}{}", host.to_uppercase(), if dot { "." } else { "" });
            prop_assert_eq!(normal_host(&spelt), host.as_str());
            prop_assert!(HostGlob::new(&spelt).matches(&host));
            let read = HostPort::parse(&spelt).unwrap();
            prop_assert_eq!(read.host(), host.as_str());
        }

        /// Whatever is read is written so that it reads the same.
        #[test]
        fn r2_10_what_is_read_reads_the_same_again(text in "[a-z0-9:.\\[\\]%+-]{0,20}|[0-9a-f:]{2,20}|\\PC{0,12}") {
            if let Ok(read) = HostPort::parse(&text) {
                prop_assert_eq!(HostPort::parse(&read.to_string()), Ok(read));
            }
        }
    }
}
