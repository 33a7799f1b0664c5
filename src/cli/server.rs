//! Commands about the server as a whole: `reset`, `populate`, `wait`, `health`.
use std::{path::PathBuf, process::ExitCode, time::Duration};

use aconite_api::Client;
use aconite_toxics::Millis;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CommandError, CommandResult, Remote, failure::FAILED, proxies::say};

/// How often `wait` asks again.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args, Debug)]
pub(super) struct Reset {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct Populate {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A JSON file with a list of proxies, in Toxiproxy's format
    file: PathBuf,
}

#[derive(clap::Args, Debug)]
pub(super) struct Wait {
    #[command(flatten)]
    remote: Remote,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = period)]
    timeout: Duration,
}

#[derive(clap::Args, Debug)]
pub(super) struct Health {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn period(text: &str) -> Result<Duration, String> {
    let period: Result<Millis, _> = serde_json::from_value(text.into());
    period.map(Duration::from).map_err(|_| "expected a period such as 500ms, 30s or 2m".to_owned())
}

/// Enables every proxy and removes every toxic.
pub(super) async fn reset(args: Reset, outer: &Remote) -> CommandResult {
    args.remote.client(outer)?.reset().await?;
    say(args.json.then(|| json!({"reset": true})), format_args!("Enabled all proxies and removed all toxics"))
}

/// Creates or replaces proxies from a file in Toxiproxy's format.
pub(super) async fn populate(args: Populate, outer: &Remote) -> CommandResult {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| CommandError::because(format!("cannot read `{shown}`"), &error).exit(2))?;
    let proxies: Value = serde_json::from_str(&text)
        .map_err(|error| CommandError::because(format!("`{shown}` is not JSON"), &error).exit(2))?;
    let populated = args.remote.client(outer)?.populate(&proxies).await?;
    let count = populated["proxies"].as_array().map_or(0, Vec::len);
    let noun = if count == 1 { "proxy" } else { "proxies" };
    say(args.json.then_some(populated), format_args!("Populated {count} {noun}"))
}

/// Waits until the server runs and every enabled proxy listens.
pub(super) async fn wait(args: Wait, outer: &Remote) -> CommandResult {
    let client = args.remote.client_now(outer)?;
    let deadline = Instant::now() + args.timeout;
    loop {
        let state = ready(&client, outer).await;
        if matches!(state, Ok(true)) {
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() + PAUSE > deadline {
            let message = format!("the server was not ready within {:?}", args.timeout);
            return Err(match state {
                Ok(_) => CommandError::new(format!("{message}: a proxy does not listen")),
                Err(error) => CommandError::because(message, &error),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether the server runs and every enabled proxy listens, as the exit status.
pub(super) async fn health(args: Health, outer: &Remote) -> CommandResult {
    let client = args.remote.client_now(outer)?;
    let ready = ready(&client, outer).await?;
    let state = if ready { "healthy" } else { "not ready: a proxy does not listen" };
    say(args.json.then(|| json!({"ready": ready})), format_args!("{state}"))?;
    Ok(ExitCode::from(if ready { 0 } else { FAILED }))
}

/// A genuine Toxiproxy tells only whether it runs.
async fn ready(client: &Client, outer: &Remote) -> Result<bool, aconite_api::client::ClientError> {
    if outer.toxiproxy {
        return client.version().await.map(|_| true);
    }
    client.is_ready().await
}
