//! What `aconite run` reports at its end: on the terminal, and as JUnit XML, JSON or Markdown.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use aconite_api::model::Exchange;
use aconite_toxics::ToxicSpec;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;

use super::CommandError;

/// What happened to a command's traffic.
#[derive(Debug, Serialize)]
pub(super) struct RunReport {
    /// The command and its arguments.
    command: Vec<String>,
    /// The command's exit status; 128 plus the signal's number if a signal ended it.
    exit_status: u8,
    seed: u64,
    /// Client connections that the proxy accepted.
    connections: u64,
    /// HTTP exchanges that it saw.
    exchanges: usize,
    /// How many exchanges had each status; `no response` for those without one.
    statuses: BTreeMap<String, usize>,
    toxics: Vec<ToxicReport>,
}

/// What happened to one toxic.
#[derive(Debug, Serialize)]
struct ToxicReport {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    /// The exchanges to which it applied.
    struck: usize,
    /// How many exchanges it did not apply to, by reason.
    not_struck: BTreeMap<String, usize>,
}

/// The path of a report, if its extension names a format.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xml" | "json" | "md") => Ok(path),
        _ => Err("expected a file name that ends in .xml, .json or .md".to_owned()),
    }
}

impl RunReport {
    pub(super) fn new(
        command: Vec<String>,
        exit_status: u8,
        seed: u64,
        connections: u64,
        toxics: &[ToxicSpec],
        exchanges: &[Exchange],
    ) -> Self {
        let mut statuses = BTreeMap::<String, usize>::new();
        for exchange in exchanges {
            let status =
                exchange.status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
            *statuses.entry(status).or_default() += 1;
        }
        let toxics = toxics.iter().map(|spec| ToxicReport::new(spec, exchanges)).collect();
        Self { command, exit_status, seed, connections, exchanges: exchanges.len(), statuses, toxics }
    }

    /// The names of the toxics that applied to no exchange. Toxics on connections are not journalled as applied.
    pub(super) fn unused(&self) -> Vec<&str> {
        self.toxics.iter().filter(|toxic| toxic.struck == 0).map(|toxic| toxic.name.as_str()).collect()
    }

    /// A few lines for a person.
    pub(super) fn summary(&self) -> String {
        let program =
            self.command.first().map_or("", |program| program.rsplit('/').next().unwrap_or_default());
        if self.connections == 0 {
            return format!(
                "aconite: `{program}` sent nothing through the proxy\n  hint: {}\n",
                proxy_setting(program)
            );
        }
        let mut text = String::new();
        if self.exchanges == 0 {
            let noun = if self.connections == 1 { "connection" } else { "connections" };
            let _ = writeln!(
                text,
                "aconite: {} {noun}, but none to a host whose TLS the proxy decrypts, so only toxics on bytes could apply\n  \
                 hint: name the hosts with --intercept HOST, or in `intercept` of the proxy",
                self.connections
            );
        } else {
            let noun = if self.exchanges == 1 { "exchange" } else { "exchanges" };
            let statuses = counts(&self.statuses);
            let _ = writeln!(text, "aconite: {} {noun} ({statuses}), seed {}", self.exchanges, self.seed);
        }
        for toxic in &self.toxics {
            let _ = writeln!(text, "  {}", toxic.line());
        }
        text
    }

    /// Writes the report in the format that the file's extension names.
    pub(super) fn write(&self, path: &Path) -> Result<(), CommandError> {
        let text = match path.extension().and_then(|extension| extension.to_str()) {
            Some("xml") => self.junit()?,
            Some("md") => self.markdown(),
            _ => {
                serde_json::to_string_pretty(self).map_err(|error| CommandError::new(error.to_string()))?
                    + "\n"
            }
        };
        std::fs::write(path, text).map_err(|error| {
            CommandError::because(format!("cannot write the report to `{}`", path.display()), &error)
        })
    }

    fn junit(&self) -> Result<String, CommandError> {
        let mut suite = TestSuite::new("aconite run");
        suite.add_property(("seed", self.seed.to_string().as_str()));
        let status = if self.exit_status == 0 {
            TestCaseStatus::success()
        } else {
            failed(&format!("exit status {}", self.exit_status))
        };
        suite.add_test_case(TestCase::new(self.command.join(" "), status));
        for toxic in &self.toxics {
            let status = if toxic.struck > 0 { TestCaseStatus::success() } else { failed(&toxic.line()) };
            suite.add_test_case(TestCase::new(format!("toxic {} applies", toxic.name), status));
        }
        let mut report = Report::new("aconite run");
        report.add_test_suite(suite);
        report
            .to_string()
            .map_err(|error| CommandError::because("cannot write the report as JUnit XML".to_owned(), &error))
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "# aconite run\n\n`{}` exited with status {}.\n\n{} connections, {} exchanges ({}), seed {}.\n",
            self.command.join(" "),
            self.exit_status,
            self.connections,
            self.exchanges,
            counts(&self.statuses),
            self.seed
        );
        if !self.toxics.is_empty() {
            text.push_str("\n| toxic | type | applied | did not apply |\n|---|---|---|---|\n");
        }
        for ToxicReport { name, kind, struck, not_struck } in &self.toxics {
            let name = name.replace('|', "\\|");
            let _ = writeln!(text, "| {name} | `{kind}` | {struck} | {} |", counts(not_struck));
        }
        text
    }
}

impl ToxicReport {
    fn new(spec: &ToxicSpec, exchanges: &[Exchange]) -> Self {
        let mut not_struck = BTreeMap::<String, usize>::new();
        let mut struck = 0;
        let strikes =
            exchanges.iter().flat_map(|exchange| &exchange.toxics).filter(|strike| strike.name == spec.name);
        for strike in strikes {
            if strike.struck {
                struck += 1;
            } else {
                let reason = strike.reason.clone().unwrap_or_else(|| "not_reached".to_owned());
                *not_struck.entry(reason).or_default() += 1;
            }
        }
        let unmatched =
            exchanges.iter().filter(|exchange| exchange.toxics.iter().all(|strike| strike.name != spec.name));
        let unmatched = unmatched.count();
        if unmatched > 0 {
            not_struck.insert("not_matched".to_owned(), unmatched);
        }
        Self { name: spec.name.clone(), kind: spec.kind.clone(), struck, not_struck }
    }

    fn line(&self) -> String {
        let Self { name, kind, struck, not_struck } = self;
        let kind = if name.starts_with(kind.as_str()) { String::new() } else { format!(" ({kind})") };
        let reasons =
            if not_struck.is_empty() { String::new() } else { format!("; not: {}", counts(not_struck)) };
        match struck {
            0 => format!("{name}{kind}: never applied{reasons}"),
            1 => format!("{name}{kind}: applied once{reasons}"),
            _ => format!("{name}{kind}: applied {struck} times{reasons}"),
        }
    }
}

fn failed(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message);
    status
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(what, count)| format!("{count} × {what}")).collect::<Vec<_>>().join(", ")
}

/// The setting that a kind of program needs before it uses a proxy.
fn proxy_setting(program: &str) -> &'static str {
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match name {
        "node" | "npm" | "npx" | "pnpm" | "yarn" | "tsx" | "ts-node" | "next" | "vitest" | "jest" => {
            "Node.js reads HTTPS_PROXY from version 24 on (NODE_USE_ENV_PROXY=1 was set); for an older one pass undici's \
             EnvHttpProxyAgent as dispatcher, or point the SDK's base URL at an `http` proxy"
        }
        "python" | "pytest" | "uvicorn" | "gunicorn" | "uv" | "poetry" => {
            "aiohttp needs trust_env=True, httpx must not be given trust_env=False or a transport of its own; or point the \
             SDK's base_url at an `http` proxy"
        }
        "go" => {
            "Go never sends localhost through a proxy, and a Transport needs Proxy: http.ProxyFromEnvironment; or point the \
             SDK's base URL at an `http` proxy"
        }
        "java" | "mvn" | "gradle" | "gradlew" | "kotlin" | "scala" => {
            "java.net.http.HttpClient needs .proxy(ProxySelector.getDefault()), other clients their own setting; or point \
             the SDK's base URL at an `http` proxy"
        }
        _ => {
            "its HTTP client does not read HTTPS_PROXY, or it went to localhost: look for its proxy setting (NODE_USE_ENV_PROXY=1 \
             for Node.js 24, trust_env=True for aiohttp), or point the SDK's base URL at an `http` proxy"
        }
    }
}

#[cfg(test)]
mod tests {
    use aconite_api::model::Strike;

    use super::*;

    fn report(exchanges: &[Exchange], connections: u64, program: &str) -> RunReport {
        let mut slow = ToxicSpec::new("delay", serde_json::Map::new());
        slow.name = "slow".to_owned();
        RunReport::new(vec![program.to_owned(), "x".to_owned()], 0, 42, connections, &[slow], exchanges)
    }

    fn exchange(status: Option<u16>, strikes: &[(bool, Option<&str>)]) -> Exchange {
        let strike = |&(struck, reason): &(bool, Option<&str>)| Strike {
            name: "slow".to_owned(),
            struck,
            reason: reason.map(str::to_owned),
            ..Strike::default()
        };
        Exchange { status, toxics: strikes.iter().map(strike).collect(), ..Exchange::default() }
    }

    /// PRX-11: a program that sent nothing is noticed, and the setting that it needs is named.
    #[test]
    fn prx_11_a_program_that_sent_nothing_is_told_the_setting() {
        let summary = |connections, program| report(&[], connections, program).summary();
        assert!(summary(0, "node").contains("NODE_USE_ENV_PROXY=1"));
        assert!(summary(0, "/usr/bin/node20").contains("EnvHttpProxyAgent"));
        assert!(summary(0, "python3.12").contains("trust_env=True"));
        assert!(summary(0, "curl").starts_with("aconite: `curl` sent nothing through the proxy\n  hint: "));
        assert!(summary(2, "curl").contains("--intercept"));
        assert!(summary(1, "curl").starts_with("aconite: 1 connection, but none to"));
    }

    #[test]
    fn the_summary_has_the_reasons_of_each_toxic() {
        let exchanges = [
            exchange(Some(200), &[(true, None)]),
            exchange(Some(200), &[(false, Some("toxicity"))]),
            exchange(None, &[]),
        ];
        assert_eq!(
            report(&exchanges, 2, "x").summary(),
            "aconite: 3 exchanges (2 × 200, 1 × no response), seed 42\n  slow (delay): applied once; not: 1 × not_matched, 1 × toxicity\n"
        );
        let unused = report(&exchanges[1..], 1, "x");
        assert!(
            unused.summary().contains("slow (delay): never applied; not: 1 × not_matched, 1 × toxicity\n")
        );
        assert_eq!(unused.unused(), ["slow"]);
        assert!(report(&exchanges, 1, "x").unused().is_empty());
    }

    #[test]
    fn every_format_has_the_toxic_and_its_reasons() {
        let unused = report(&[exchange(Some(200), &[(false, Some("too_large"))])], 1, "x");
        let junit = unused.junit().unwrap();
        assert!(junit.contains("failures=\"1\""), "{junit}");
        assert!(junit.contains("toxic slow applies") && junit.contains("1 × too_large"), "{junit}");
        assert!(
            unused.markdown().contains("| slow | `delay` | 0 | 1 × too_large |"),
            "{}",
            unused.markdown()
        );
        let json = serde_json::to_value(&unused).unwrap();
        assert_eq!(json["toxics"][0]["not_struck"], serde_json::json!({"too_large": 1}));
        assert!(path("x.txt").is_err() && path("x.json").is_ok());
    }
}
