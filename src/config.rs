//! The configuration file: YAML or JSON, read strictly, with the line and column of every mistake.
mod document;

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use aconite_api::{Problem, check, model::ProxySpec, read_toxiproxy_list, read_value};
use aconite_toxics::{Catalogue, Millis, SpecError};
use schemars::JsonSchema;
use serde::Deserialize;

pub use document::FilePosition;
use document::Node;

/// What a configuration file says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where this runs, in the user's words. In `production` the kill switch starts off.
    pub environment: Option<String>,
    /// Whether the kill switch may be turned on in `production`. Default false.
    pub allow_production: bool,
    /// The admin API.
    pub admin: Admin,
    /// The source of every random choice. Default: random, and logged at start.
    pub seed: Option<u64>,
    /// Where the record of exchanges goes.
    pub journal: JournalFile,
    /// The directory of the local CA. Default: `ACONITE_DATA_DIR`, or the user's data directory.
    pub data_dir: Option<PathBuf>,
    /// How long a stop waits for connections in use. Default 8 s, as a container has 10 s to stop; in place of Toxiproxy 0.
    pub drain: Option<Millis>,
    /// The proxies.
    pub proxies: Vec<ProxySpec>,
}

/// The admin API.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// Where it listens. Default `127.0.0.1:8474`.
    pub listen: Option<String>,
    /// Host names that it answers under, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// A file with the token that it needs.
    pub token_file: Option<PathBuf>,
    /// Whether an address that other machines can reach may be open without a token. Default false.
    pub insecure: bool,
}

/// Where the record of exchanges goes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct JournalFile {
    /// A file to which each exchange that has ended is added, as a line of JSON. Default: none.
    pub file: Option<PathBuf>,
}

/// A configuration and the file that it was read from.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// What it says.
    pub config: Config,
    path: PathBuf,
    tree: Node,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something in it is invalid.
    #[error(transparent)]
    Complaint(#[from] Complaint),
}

/// What is invalid, and where: `aconite.yaml:12:9: proxies[0].toxics[1].type: …`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct Complaint {
    /// The file.
    pub file: PathBuf,
    /// The line and column.
    pub place: FilePosition,
    /// What is wrong, in which field, and what to do.
    pub error: SpecError,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FilePosition { line, column } = self.place;
        write!(f, "{}:{line}:{column}: ", self.file.display())?;
        if !self.error.path.is_empty() {
            write!(f, "{}: ", self.error.path)?;
        }
        self.error.fmt(f)
    }
}

impl Config {
    /// Whether chaos starts switched off here.
    #[must_use]
    pub fn is_production(&self) -> bool {
        self.environment.as_deref().is_some_and(is_production)
    }
}

/// Whether an environment of this name is production.
pub(crate) fn is_production(environment: &str) -> bool {
    ["production", "prod"].iter().any(|name| environment.trim().eq_ignore_ascii_case(name))
}

impl ConfigFile {
    /// Reads a file. A list at its root is a list of proxies such as Toxiproxy's `-config` has.
    ///
    /// # Errors
    /// If the file cannot be read, or something in it is invalid.
    pub fn load(path: &Path, catalogue: &Catalogue) -> Result<Self, ConfigError> {
        Ok(Self::parse(path, &text_of(path)?, catalogue)?)
    }

    /// Reads a file without a look at what it says: its configuration is the default one.
    ///
    /// # Errors
    /// If the file cannot be read, or is neither YAML nor JSON.
    pub(crate) fn open(path: &Path) -> Result<Self, ConfigError> {
        Ok(Self::tree_of(path, &text_of(path)?)?)
    }

    /// The file as JSON.
    pub(crate) fn value(&self) -> serde_json::Value {
        self.tree.value()
    }

    fn tree_of(path: &Path, text: &str) -> Result<Self, Complaint> {
        let tree = document::read(text).map_err(|(place, message)| Complaint {
            file: path.to_owned(),
            place,
            error: SpecError::new("", message),
        })?;
        Ok(Self { config: Config::default(), path: path.to_owned(), tree })
    }

    /// Reads a text as if it stood in the file `path`.
    ///
    /// # Errors
    /// If something in it is invalid.
    pub fn parse(path: &Path, text: &str, catalogue: &Catalogue) -> Result<Self, Complaint> {
        let mut file = Self::tree_of(path, text)?;
        let value = file.tree.value();
        file.config = if file.tree.is_list() {
            let proxies = read_toxiproxy_list(value, catalogue).map_err(|error| file.complaint(error))?;
            Config { proxies, ..Config::default() }
        } else {
            let config: Config = read_value(value).map_err(|problem| file.complaint(problem))?;
            for (index, proxy) in config.proxies.iter().enumerate() {
                check::strict_proxy(proxy)
                    .map_err(|error| file.complaint(error.within(&format!("proxies[{index}]"))))?;
            }
            config
        };
        Ok(file)
    }

    /// Says where in the file a mistake is.
    #[must_use]
    pub fn complaint(&self, problem: impl Into<Problem>) -> Complaint {
        let error = SpecError::from(problem.into());
        let path = &error.path;
        let inside = if self.tree.is_list() { path.strip_prefix("proxies").unwrap_or(path) } else { path };
        let place = self.tree.find(inside, error.message.starts_with("unknown field"));
        Complaint { file: self.path.clone(), place, error }
    }

    /// Checks what no single field can tell: that no two of the addresses that are listened on are the same.
    ///
    /// # Errors
    /// The first that cannot work.
    pub(crate) async fn check_addresses(&self) -> Result<(), Complaint> {
        self.taken_addresses().await.into_iter().next().map_or(Ok(()), Err)
    }

    /// The addresses that cannot be read, or that something before them in the file listens on.
    pub(crate) async fn taken_addresses(&self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let mut taken: Vec<(std::net::SocketAddr, String)> = Vec::new();
        let admin = self
            .config
            .admin
            .listen
            .iter()
            .map(|listen| ("admin.listen".to_owned(), listen, "the admin API".to_owned()));
        let proxies = self.config.proxies.iter().enumerate().filter(|(_, proxy)| proxy.enabled);
        let proxies = proxies.map(|(index, proxy)| {
            (format!("proxies[{index}].listen"), &proxy.listen, format!("`{}`", proxy.name))
        });
        for (path, listen, who) in admin.chain(proxies) {
            let refuse = |message: String| self.complaint(SpecError::new(path.clone(), message));
            let address = match crate::listen::resolve(listen).await {
                Ok(address) => address,
                Err(error) => {
                    complaints.push(refuse(error));
                    continue;
                }
            };
            let overlaps = |other: &std::net::SocketAddr| {
                let (one, two) = (address.ip(), other.ip());
                address.port() != 0
                    && address.port() == other.port()
                    && (one == two || one.is_unspecified() || two.is_unspecified())
            };
            if let Some((_, holder)) = taken.iter().find(|(other, _)| overlaps(other)) {
                complaints.push(refuse(format!("{holder} listens on `{listen}` too")));
                continue;
            }
            taken.push((address, who));
        }
        complaints
    }
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let file = ConfigFile::parse(Path::new("aconite.yaml"), text, &Catalogue::default());
        file.map(|file| file.config).map_err(|complaint| match &complaint.error.hint {
            Some(hint) => format!("{complaint} ({hint})"),
            None => complaint.to_string(),
        })
    }

    const GOOD: &str = r#"
environment: staging
admin: {listen: 127.0.0.1:8474, hosts: [aconite.test]}
seed: 42
drain: 5s
journal: {file: /var/log/aconite.ndjson}
proxies:
  - name: openai
    listen: 127.0.0.1:8001
    upstream: https://api.openai.com
    toxics:
      - {name: slow-api, type: latency, toxicity: 0.2, attributes: {latency: 5s}}
  - {name: env, protocol: forward, listen: 127.0.0.1:8080, intercept: [api.openai.com, "*.anthropic.com"]}
  - {name: pg, listen: 127.0.0.1:5433, upstream: 127.0.0.1:5432}
"#;

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(GOOD).unwrap();
        assert_eq!(config.seed, Some(42));
        assert_eq!(config.drain, Some(Millis(5_000)));
        assert_eq!(config.admin.hosts, ["aconite.test"]);
        assert!(!config.is_production());
        let names: Vec<_> = config.proxies.iter().map(|proxy| proxy.name.as_str()).collect();
        assert_eq!(names, ["openai", "env", "pg"]);
        let openai = &config.proxies[0];
        assert_eq!(openai.toxics[0].toxicity, 0.2);
        assert_eq!(openai.toxics[0].attributes["latency"], "5s");
        assert!(openai.enabled);
    }

    #[test]
    fn json_says_the_same() {
        let json = "{\n\t\"seed\": 42,\n\t\"proxies\": [{\"name\": \"a\", \"listen\": \"127.0.0.1:1\", \"upstream\": \"b:2\"}]\n}";
        let yaml = "seed: 42\nproxies:\n  - {name: a, listen: '127.0.0.1:1', upstream: 'b:2'}\n";
        assert_eq!(parse(json).unwrap(), parse(yaml).unwrap());
    }

    #[test]
    fn toxiproxy_s_list_is_taken_as_it_is() {
        let config = parse(
            r#"[{"name": "web", "listen": "[::]:20000", "upstream": "web:80", "enabled": true, "Logger": {}, "toxics": null},
                {"Name": "off", "Listen": "127.0.0.1:1", "Upstream": "x", "enabled": false}]"#,
        )
        .unwrap();
        assert_eq!(config.proxies[0].upstream, "web:80");
        assert!(!config.proxies[1].enabled);
        let error = parse("[\n {\"name\": \"web\"}]").unwrap_err();
        assert_eq!(error, "aconite.yaml:1:1: missing required field: upstream at proxy 1");
    }

    #[test]
    fn complaints_say_where_what_and_what_was_meant() {
        for (text, complaint) in [
            (
                "sed: 1\n",
                "aconite.yaml:1:1: sed: unknown field `sed`, expected one of `environment`, `allow_production`, `admin`, `seed`, `journal`, `data_dir`, `drain`, `proxies` (did you mean `seed`?)",
            ),
            (
                "seed: much\n",
                "aconite.yaml:1:7: seed: invalid type: string \"much\", expected a whole number from 0",
            ),
            (
                "drain: 5 parsecs\n",
                "aconite.yaml:1:8: drain: `5 parsecs` is not milliseconds as a whole number from 0, or a string such as 250ms, 5s, 2m",
            ),
            ("drain: 5 s\n", "aconite.yaml:1:8: drain: `5 s` is not a whole number of a unit"),
            (
                "proxies:\n  - name: a\n    protocol: htp\n",
                "aconite.yaml:3:15: proxies[0].protocol: unknown variant `htp`, expected one of `tcp`, `http`, `forward` (did you mean `http`?)",
            ),
            (
                "proxies:\n  - name: a\n    toxics:\n      - type: latency\n        strem: upstream\n",
                "aconite.yaml:5:9: proxies[0].toxics[0].strem: unknown field `strem`, expected one of `name`, `type`, `stream`, `toxicity`, `attributes`, `match`, `budget`, `window`, `marker`, `enabled` (did you mean `stream`?)",
            ),
            (
                "proxies:\n  - {name: a, toxics: [{stream: upstream}]}\n",
                "aconite.yaml:2:24: proxies[0].toxics[0]: missing field `type`",
            ),
            ("proxies: {}\n", "aconite.yaml:1:10: proxies: invalid type: map, expected a list"),
            ("just words\n", "aconite.yaml:1:1: invalid type: string \"just words\", expected an object"),
            (
                "proxies:\n  - {name: a, listen: 127.0.0.1:1, upstream: localhost}\n",
                "aconite.yaml:2:46: proxies[0].upstream: `localhost` has no port (write host:port, or a URL such as https://HOST)",
            ),
            (
                "proxies:\n  - {name: a, toxics: [{type: hang, toxicity: 2}]}\n",
                "aconite.yaml:2:47: proxies[0].toxics[0].toxicity: toxicity lies between 0 and 1, and 2 does not",
            ),
            ("seed: 1\nseed: 2\n", "aconite.yaml:2:1: duplicate mapping key `seed` is not allowed here"),
        ] {
            assert_eq!(parse(text).map(drop), Err(complaint.to_owned()), "{text}");
        }
    }

    #[test]
    fn production_is_known_by_its_names() {
        for (name, production) in
            [("production", true), ("Prod", true), ("staging", false), ("preproduction", false)]
        {
            assert_eq!(parse(&format!("environment: {name}")).unwrap().is_production(), production, "{name}");
        }
    }
}
