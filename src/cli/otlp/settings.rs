//! What OpenTelemetry's environment variables ask for.
use std::time::Duration;

use http::Uri;

/// How long one export may take, unless the environment says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What can be exported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Signal {
    Traces,
    Logs,
}

impl Signal {
    /// As variables name it.
    const fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Logs => "LOGS",
        }
    }

    /// What is lost without it, for people.
    pub(super) const fn things(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log events",
        }
    }

    /// Where below a collector's general endpoint it is taken.
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Logs => "v1/logs",
        }
    }
}

/// Where a signal goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Destination {
    pub(super) endpoint: Uri,
    /// Bounds one export, from dialling to the answer's end.
    pub(super) timeout: Duration,
}

impl Destination {
    /// Where the environment wants a signal to go; `None` if it does not, or says so in a way that cannot be followed,
    /// which is told to `warn`. What is told contains nothing of endpoints and headers, for they may hold secrets.
    pub(super) fn of(
        signal: Signal,
        variable: impl Fn(&str) -> Option<String>,
        warn: &mut impl FnMut(String),
    ) -> Option<Self> {
        let variable = |name: &str| {
            let value = variable(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        // A signal's own variable goes before the general one.
        let of_signal = |what: &str| {
            let names = [
                format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.name()),
                format!("OTEL_EXPORTER_OTLP_{what}"),
            ];
            names.into_iter().enumerate().find_map(|(at, name)| Some((at == 0, variable(&name)?, name)))
        };
        let (own, endpoint, endpoint_from) = of_signal("ENDPOINT")?;
        if let Some((_, protocol, from)) =
            of_signal("PROTOCOL").filter(|(_, value, _)| value != "http/protobuf")
        {
            warn(format!(
                "{from}=`{protocol}`: only `http/protobuf` is supported, nothing is exported by another"
            ));
            return None;
        }
        let example = if own { signal.path() } else { "" };
        let Some(endpoint) = parse(&endpoint, (!own).then(|| signal.path())) else {
            warn(format!(
                "{endpoint_from} is no URL such as `http://127.0.0.1:4318/{example}`, with `http` or `https` and without \
                 credentials (they go into OTEL_EXPORTER_OTLP_HEADERS): nothing is exported to it"
            ));
            return None;
        };
        let timeout = match of_signal("TIMEOUT") {
            None => TIMEOUT,
            Some((_, value, from)) => match value.parse() {
                Ok(ms @ 1..) => Duration::from_millis(ms),
                _ => {
                    warn(format!(
                        "{from} is not a number of milliseconds greater than 0: {TIMEOUT:?} is taken"
                    ));
                    TIMEOUT
                }
            },
        };
        Some(Self { endpoint, timeout })
    }
}

/// An endpoint, with `below` added to its path.
fn parse(text: &str, below: Option<&str>) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    let host = authority.host();
    // What is there besides the host is a port, and no credentials.
    let only_port = match authority.as_str().strip_prefix(host) {
        Some("") => true,
        Some(rest) => !rest.contains('@') && authority.port_u16().is_some_and(|port| port > 0),
        None => false,
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() || !only_port {
        return None;
    }
    match below {
        None => Some(uri),
        // What follows a query would be a part of it.
        Some(_) if uri.query().is_some() => None,
        Some(below) => format!("{}/{below}", text.trim_end_matches('/')).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(signal: Signal, variables: &[(&str, &str)]) -> (Option<String>, Option<Duration>, String) {
        let mut warnings = String::new();
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = Destination::of(signal, value, &mut |warning| warnings.push_str(&warning));
        let endpoint = found.as_ref().map(|found| found.endpoint.to_string());
        (endpoint, found.map(|found| found.timeout), warnings)
    }

    #[test]
    fn a_signal_goes_where_its_own_endpoint_or_the_general_one_says() {
        const GENERAL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/base/");
        const OWN: (&str, &str) = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "https://collector.test/logs?key=1");
        let endpoint = |signal, variables: &[_]| destination(signal, variables).0;
        assert_eq!(endpoint(Signal::Traces, &[]), None);
        assert_eq!(endpoint(Signal::Traces, &[OWN]), None);
        assert_eq!(endpoint(Signal::Traces, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        assert_eq!(
            endpoint(Signal::Traces, &[OWN, GENERAL]).unwrap(),
            "http://127.0.0.1:4318/base/v1/traces"
        );
        assert_eq!(endpoint(Signal::Logs, &[GENERAL]).unwrap(), "http://127.0.0.1:4318/base/v1/logs");
        assert_eq!(endpoint(Signal::Logs, &[GENERAL, OWN]).unwrap(), "https://collector.test/logs?key=1");
        assert_eq!(endpoint(Signal::Logs, &[GENERAL, ("OTEL_SDK_DISABLED", "True")]), None);
        assert!(endpoint(Signal::Logs, &[GENERAL, ("OTEL_SDK_DISABLED", "no")]).is_some());
    }

    #[test]
    fn what_is_no_endpoint_is_told_without_its_value() {
        for nonsense in [
            "localhost:4317",
            "grpc://localhost:4317",
            "http://",
            "http://:4318",
            "http://localhost:",
            "http://localhost:0",
            "http://localhost:99999",
            "http://user:sesame@localhost:4318",
            "http://localhost:1@localhost:4318",
            "http://localhost:4318?key=sesame",
            "/v1/sesame",
            "not a URL, but sesame",
        ] {
            let (endpoint, _, warning) =
                destination(Signal::Traces, &[("OTEL_EXPORTER_OTLP_ENDPOINT", nonsense)]);
            assert_eq!(endpoint, None, "{nonsense}");
            assert!(
                warning.starts_with("OTEL_EXPORTER_OTLP_ENDPOINT is no URL such as `http://127.0.0.1:4318/`")
            );
            assert!(!warning.contains("sesame"), "{warning}");
        }
        let own = destination(Signal::Traces, &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector")]);
        assert!(own.2.starts_with(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no URL such as `http://127.0.0.1:4318/v1/traces`"
        ));
    }

    #[test]
    fn another_protocol_is_told_with_what_is_supported() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        let grpc = destination(Signal::Traces, &[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert_eq!(grpc.0, None);
        assert!(
            grpc.2.starts_with("OTEL_EXPORTER_OTLP_PROTOCOL=`grpc`: only `http/protobuf` is supported"),
            "{}",
            grpc.2
        );
        let own = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        assert_eq!(destination(Signal::Traces, &own).2, "");
        assert!(destination(Signal::Traces, &own).0.is_some());
        assert!(destination(Signal::Logs, &own).0.is_none());
        // Where nothing is to be exported the protocol is nobody's concern.
        assert_eq!(destination(Signal::Logs, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).2, "");
    }

    #[test]
    fn an_export_takes_ten_seconds_unless_told_otherwise() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        let timeout = |variables: &[_]| destination(Signal::Logs, variables).1;
        assert_eq!(timeout(&[ENDPOINT]), Some(TIMEOUT));
        let general = ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500");
        assert_eq!(timeout(&[ENDPOINT, general]), Some(Duration::from_millis(1500)));
        let own = ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "20");
        assert_eq!(timeout(&[ENDPOINT, general, own]), Some(Duration::from_millis(20)));
        let bad = destination(Signal::Logs, &[ENDPOINT, ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]);
        assert_eq!(bad.1, Some(TIMEOUT));
        assert!(bad.2.starts_with("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds"), "{}", bad.2);
    }
}
