//! What a forward proxy does with which host, and for whom.
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use aconite_toxics::{
    HostError, HostGlob, HostPort, SpecError,
    host::{self, normal_host},
};
use http::{HeaderMap, StatusCode, header};

use super::credentials::Credentials;
use crate::http::{proxy_error::ProxyError, target::Target};

/// The rules of a forward proxy.
pub(crate) struct ForwardRules {
    intercept: Vec<HostGlob>,
    /// By host, in its normal form.
    map: HashMap<String, Vec<Mapped>>,
    /// Hosts with wildcards, the longest first.
    globs: Vec<(HostGlob, Mapped)>,
    /// What clients have to present, if anything.
    credentials: Option<Credentials>,
}

/// Where a host is sent, on one port or on all.
struct Mapped {
    port: Option<u16>,
    target: Arc<Target>,
}

impl Mapped {
    fn holds_for(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

impl ForwardRules {
    /// Reads them from the fields of a proxy's specification.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) fn new(
        intercept: Option<&[String]>,
        hosts: &BTreeMap<String, String>,
        credentials: Option<&str>,
    ) -> Result<Self, SpecError> {
        let known = || aconite_dialects::known_hosts().map(|(host, _)| host.to_owned()).collect();
        let intercept = intercept.map_or_else(known, <[String]>::to_vec);
        for host in &intercept {
            pattern(host, false).map_err(|reason| SpecError::new("intercept", reason))?;
        }
        let mut map = HashMap::<_, Vec<Mapped>>::new();
        let mut globs = Vec::new();
        for (from, to) in hosts {
            let (host, port) = pattern(from, true).map_err(|reason| SpecError::new("map", reason))?;
            let target =
                Target::parse(to).map_err(|reason| SpecError::new("map", format!("`{from}`: {reason}")))?;
            let mapped = Mapped { port, target: Arc::new(target) };
            if is_glob(host) {
                globs.push((host.len(), HostGlob::new(host), mapped));
            } else {
                map.entry(normal_host(host).into_owned()).or_default().push(mapped);
            }
        }
        globs.sort_by_key(|(length, _, mapped)| Reverse((mapped.port.is_some(), *length)));
        map.values_mut().for_each(|of_host| of_host.sort_by_key(|mapped| mapped.port.is_none()));
        let credentials = credentials.map(Credentials::parse).transpose();
        let credentials = credentials.map_err(|reason| SpecError::new("credentials", reason))?;
        Ok(Self {
            intercept: intercept.iter().map(|host| HostGlob::new(host)).collect(),
            map,
            globs: globs.into_iter().map(|(_, glob, mapped)| (glob, mapped)).collect(),
            credentials,
        })
    }

    /// Where a host is sent, if that is elsewhere: by its name with the port, else by its name, else by a pattern.
    pub(crate) fn target(&self, host: &str, port: u16) -> Option<Arc<Target>> {
        let named = self.map.get(&*normal_host(host)).into_iter().flatten();
        let globs = self.globs.iter().filter(|(glob, _)| glob.matches(host)).map(|(_, mapped)| mapped);
        let mut mapped = named.chain(globs);
        mapped.find(|mapped| mapped.holds_for(port)).map(|mapped| Arc::clone(&mapped.target))
    }

    /// Whether the TLS of a host is opened. A host that is sent elsewhere always is, unless to a plain address.
    pub(crate) fn intercepts(&self, host: &str) -> bool {
        self.intercept.iter().any(|glob| glob.matches(host))
    }

    /// Whether a client that sends these headers may use the proxy.
    ///
    /// # Errors
    /// The answer 407 if it has to present credentials first.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), ProxyError> {
        let Some(credentials) = &self.credentials else { return Ok(()) };
        let mut given = headers.get_all(header::PROXY_AUTHORIZATION).iter();
        // Of two fields nobody knows which one counts.
        if let (Some(value), None) = (given.next(), given.next())
            && credentials.admit(value.as_bytes())
        {
            return Ok(());
        }
        let text =
            "this proxy needs credentials: put them into HTTPS_PROXY as http://USER:PASSWORD@HOST:PORT";
        Err(ProxyError::new(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "proxy_authentication", text))
    }
}

fn is_glob(host: &str) -> bool {
    host.contains(['*', '?'])
}

/// Reads a host, which may have wildcards, and a port if `with_port` allows one. Refuses what looks like a host and
/// would never match one: a URL, or a port where none is compared.
fn pattern(text: &str, with_port: bool) -> Result<(&str, Option<u16>), String> {
    let (host, port) = host::split(text);
    if text.contains('/') || host.is_empty() || (port.is_some() && !with_port) {
        let kind = if with_port { "a host or host:port" } else { "a host" };
        let bare = text.rsplit("://").next().unwrap_or_default().split('/').next().unwrap_or_default();
        let bare = if with_port { bare } else { host::split(bare).0 };
        let instead = if bare.is_empty() { String::new() } else { format!(", such as `{bare}`") };
        return Err(format!("`{text}` is not {kind}{instead}"));
    }
    if is_glob(host) {
        let port = port.map(|port| host::parse_port(port).ok_or_else(|| HostError::Port(port.to_owned())));
        return Ok((host, port.transpose().map_err(|error| error.to_string())?));
    }
    let read = HostPort::parse(text).map_err(|error| error.to_string())?;
    Ok((host, read.port()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Fields {
        intercept: Option<Vec<String>>,
        map: BTreeMap<String, String>,
        credentials: Option<String>,
    }

    fn read(fields: serde_json::Value) -> Result<ForwardRules, SpecError> {
        let Fields { intercept, map, credentials } = serde_json::from_value(fields).unwrap();
        ForwardRules::new(intercept.as_deref(), &map, credentials.as_deref())
    }

    #[test]
    fn a_url_is_no_host() {
        let refusal = |spec| read(spec).err().map(|error| (error.path, error.message));
        for (spec, reason) in [
            (
                serde_json::json!({"intercept": ["https://api.openai.com/v1"]}),
                ("intercept", "`https://api.openai.com/v1` is not a host, such as `api.openai.com`"),
            ),
            (
                serde_json::json!({"intercept": ["api.openai.com:443"]}),
                ("intercept", "`api.openai.com:443` is not a host, such as `api.openai.com`"),
            ),
            (
                serde_json::json!({"map": {"https://a.test:8443": "sim://openai"}}),
                ("map", "`https://a.test:8443` is not a host or host:port, such as `a.test:8443`"),
            ),
            (serde_json::json!({"intercept": [""]}), ("intercept", "`` is not a host")),
        ] {
            assert_eq!(refusal(spec), Some((reason.0.to_owned(), reason.1.to_owned())));
        }
        assert_eq!(
            refusal(serde_json::json!({"intercept": ["*", "[::1]", "::1"], "map": {"a.test:443": "h:1"}})),
            None
        );
    }

    fn rules(spec: serde_json::Value) -> ForwardRules {
        read(spec).unwrap()
    }

    #[test]
    fn prx_08_unicode_rules_match_punycode_hosts() {
        let rules = rules(serde_json::json!({"intercept": ["模型.example.test", "*.模型.test"]}));
        assert!(rules.intercepts("xn--xgs754b.example.test"));
        assert!(rules.intercepts("a.xn--xgs754b.test"));
        assert!(!rules.intercepts("example.test"));
    }

    #[test]
    fn hosts_are_mapped_with_and_without_port() {
        let rules = rules(
            serde_json::json!({"map": {"api.test": "http://127.0.0.1:1", "api.test:8443": "sim://openai"}}),
        );
        assert_eq!(rules.target("API.test", 443).unwrap().to_string(), "127.0.0.1:1");
        assert_eq!(rules.target("api.test", 8443).unwrap().to_string(), "sim://openai");
        assert!(rules.target("other.test", 443).is_none());
    }

    #[test]
    fn r2_10_hosts_are_mapped_by_patterns() {
        let rules = rules(serde_json::json!({"map": {
            "*.example.test": "http://127.0.0.1:1", "*.eu.example.test": "http://127.0.0.1:2",
            "*.example.test:8443": "http://127.0.0.1:3", "a.eu.example.test": "http://127.0.0.1:4",
            "b?.test": "http://127.0.0.1:5",
        }}));
        for (host, port, target) in [
            ("api.example.test", 443, Some(1)),
            ("API.example.test.", 443, Some(1)),
            ("x.eu.example.test", 443, Some(2)),
            ("x.eu.example.test", 8443, Some(3)),
            ("a.eu.example.test", 8443, Some(4)),
            ("b1.test", 80, Some(5)),
            ("example.test", 443, None),
            ("b12.test", 443, None),
        ] {
            let found = rules.target(host, port).map(|target| target.to_string());
            assert_eq!(found, target.map(|port| format!("127.0.0.1:{port}")), "{host}:{port}");
        }
    }

    #[test]
    fn r2_10_what_could_never_match_is_refused() {
        for (field, from, said) in [
            ("map", "a.test:99999", "`99999` is not a port: expected a number from 1 to 65535"),
            ("map", "*.test:0", "`0` is not a port"),
            ("map", "a..test", "neither a host name nor an IP address"),
            ("map", "", "is not a host or host:port"),
            ("map", "http://*.test", "is not a host or host:port, such as `*.test`"),
            ("intercept", "a b", "neither a host name"),
        ] {
            let value = if field == "map" {
                serde_json::json!({"map": {from: "sim://openai"}})
            } else {
                serde_json::json!({"intercept": [from]})
            };
            let SpecError { path: place, message: reason, .. } = read(value).err().unwrap();
            assert_eq!(place, field);
            assert!(reason.contains(said), "{from}: {reason}");
        }
    }

    #[test]
    fn r2_06_a_host_is_the_same_in_every_spelling() {
        let spec =
            serde_json::json!({"map": {"API.Example.test.": "sim://openai"}, "intercept": ["Other.test."]});
        let rules = rules(spec);
        for host in ["api.example.test", "api.example.test.", "API.EXAMPLE.TEST"] {
            assert!(rules.target(host, 443).is_some(), "{host}");
            assert!(rules.intercepts(&host.to_ascii_lowercase().replace("api.example", "other")), "{host}");
        }
    }

    #[test]
    fn prx_06_credentials_are_compared_whole() {
        let rules = rules(serde_json::json!({"credentials": "u@x:p:w"}));
        let with = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::PROXY_AUTHORIZATION, HeaderValue::from_static(value));
            }
            rules.admit(&headers).is_ok()
        };
        assert!(with(&["Basic dUB4OnA6dw=="]));
        for refused in [&[][..], &["Basic dUB4OnA6d"], &["Basic dUB4OnA6dw==", "Basic x"]] {
            assert!(!with(refused), "{refused:?}");
        }
    }
}
