//! Which server a command talks to.
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use aconite_api::Client;

use super::CommandError;
use crate::instance::read_token;

/// The running server.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Remote {
    /// The server's admin API [env: ACONITE_URL, TOXIPROXY_URL] [default: http://localhost:8474]
    #[arg(long = "host", visible_alias = "url", value_name = "URL")]
    host: Option<String>,
    /// A file with the admin API's token [env: ACONITE_TOKEN has the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Whether the program was started as `toxiproxy-cli`: the server may be a genuine Toxiproxy.
    #[arg(skip)]
    pub(super) toxiproxy: bool,
}

/// How long a command waits for a server on this machine that was started just now.
const START_TIME: Duration = Duration::from_secs(5);

impl Remote {
    /// A client: the flags after the command take precedence over those before it, then the environment.
    pub(super) fn client(&self, outer: &Self) -> Result<Client, CommandError> {
        Ok(self.client_now(outer)?.waiting(START_TIME))
    }

    /// The same, but it does not wait for a server that does not listen yet.
    pub(super) fn client_now(&self, outer: &Self) -> Result<Client, CommandError> {
        let url = self.host.clone().or_else(|| outer.host.clone());
        let url = url.or_else(|| variable("ACONITE_URL")).or_else(|| variable("TOXIPROXY_URL"));
        let url = url.unwrap_or_else(|| "http://localhost:8474".to_owned());
        let token = token(self.token_file.as_deref().or(outer.token_file.as_deref()))?;
        let client = Client::new(&url, token.as_deref())?;
        Ok(if outer.toxiproxy { client.for_toxiproxy() } else { client })
    }
}

/// The admin API's token: from the file, else from the environment.
pub(super) fn token(file: Option<&Path>) -> Result<Option<String>, CommandError> {
    let Some(file) = file else { return Ok(variable("ACONITE_TOKEN")) };
    let token = read_token(file).map_err(|error| {
        CommandError::because(format!("cannot read the token in `{}`", file.display()), &error).exit(2)
    })?;
    Ok(Some(token))
}

/// An environment variable that says something.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
