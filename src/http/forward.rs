//! What a forward proxy does with which host, and for whom.
use std::{collections::HashMap, sync::Arc};

use aconite_api::model::ProxySpec;
use http::{HeaderMap, StatusCode, header};
use wildmatch::WildMatch;

use super::{credentials::Credentials, own_answer::Trouble, target::Target};

/// The rules of a forward proxy.
pub(crate) struct ForwardRules {
    intercept: Vec<WildMatch>,
    /// By `host` or `host:port`, lower case, punycode.
    map: HashMap<String, Arc<Target>>,
    /// What clients have to present, if anything.
    credentials: Option<Credentials>,
}

impl ForwardRules {
    /// Reads them.
    ///
    /// # Errors
    /// The field that does not hold, and why.
    pub(crate) fn new(spec: &ProxySpec) -> Result<Self, (&'static str, String)> {
        let known = || aconite_dialects::known_hosts().map(|(host, _)| host.to_owned()).collect();
        let intercept = spec.intercept.clone().unwrap_or_else(known);
        for host in &intercept {
            named(host, false).map_err(|reason| ("intercept", reason))?;
        }
        let mut map = HashMap::new();
        for (host, target) in &spec.map {
            named(host, true).map_err(|reason| ("map", reason))?;
            let target = Target::parse(target).map_err(|reason| ("map", format!("`{host}`: {reason}")))?;
            map.insert(ascii(host), Arc::new(target));
        }
        let credentials = spec.credentials.as_deref().map(Credentials::parse).transpose();
        let credentials = credentials.map_err(|reason| ("credentials", reason))?;
        Ok(Self {
            intercept: intercept.iter().map(|host| WildMatch::new(&ascii(host))).collect(),
            map,
            credentials,
        })
    }

    /// Where a host is sent, if that is elsewhere.
    pub(crate) fn target(&self, host: &str, port: u16) -> Option<Arc<Target>> {
        let host = ascii(host);
        self.map.get(&format!("{host}:{port}")).or_else(|| self.map.get(&host)).cloned()
    }

    /// Whether the TLS of a host is opened. A host that is sent elsewhere always is, unless to a plain address.
    pub(crate) fn intercepts(&self, host: &str) -> bool {
        let host = ascii(host);
        self.intercept.iter().any(|pattern| pattern.matches(&host))
    }

    /// Whether a client that sends these headers may use the proxy.
    ///
    /// # Errors
    /// The answer 407 if it has to present credentials first.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), Trouble> {
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
        Err(Trouble::new(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "proxy_authentication", text))
    }
}

/// A host as it is compared: lower case, punycode, globs kept.
fn ascii(host: &str) -> String {
    if host.is_ascii() {
        return host.to_ascii_lowercase();
    }
    // A label at a time: a glob is no host name.
    let labels =
        host.split('.').map(|label| idna::domain_to_ascii(label).unwrap_or_else(|_| label.to_lowercase()));
    labels.collect::<Vec<_>>().join(".")
}

/// Refuses what looks like a host but would never be one: a URL, or a port where none is compared.
fn named(host: &str, with_port: bool) -> Result<(), String> {
    let kind = if with_port { "a host or host:port" } else { "a host" };
    let is_ip = host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>().is_ok();
    let no_port = with_port || is_ip || !host.contains(':');
    if no_port && !host.is_empty() && !host.contains('/') {
        return Ok(());
    }
    let bare = host.rsplit("://").next().unwrap_or_default().split('/').next().unwrap_or_default();
    let bare = if with_port { bare } else { bare.split(':').next().unwrap_or_default() };
    let instead = if bare.is_empty() { String::new() } else { format!(", such as `{bare}`") };
    Err(format!("`{host}` is not {kind}{instead}"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_url_is_no_host() {
        let refusal = |spec| ForwardRules::new(&serde_json::from_value(spec).unwrap()).err();
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
            assert_eq!(refusal(spec), Some((reason.0, reason.1.to_owned())));
        }
        assert_eq!(
            refusal(serde_json::json!({"intercept": ["*", "[::1]", "::1"], "map": {"a.test:443": "h:1"}})),
            None
        );
    }

    fn rules(spec: serde_json::Value) -> ForwardRules {
        ForwardRules::new(&serde_json::from_value(spec).unwrap()).map_err(|(_, reason)| reason).unwrap()
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
