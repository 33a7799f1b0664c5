//! `aconite apply`.
use std::{io::Write, path::PathBuf, process::ExitCode};

use aconite_api::{client::ClientError, model::Apply};

use super::{CommandError, CommandResult, Remote, check, failure::FAILED};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// The configuration file; only its proxies are applied
    #[arg(value_name = "FILE", required_unless_present = "file_flag", conflicts_with = "file_flag")]
    file: Option<PathBuf>,
    /// The configuration file
    #[arg(short, long = "file", id = "file_flag", value_name = "FILE", hide = true)]
    file_flag: Option<PathBuf>,
    /// Delete the proxies that are not in the file
    #[arg(long)]
    prune: bool,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    /// Print the changes as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the file here, for the sake of lines and columns, then asks the server.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    let path = args.file.or(args.file_flag).unwrap_or_default();
    let file = check::checked(&path).await?;
    let Args { prune, dry_run, .. } = args;
    let apply = Apply { proxies: file.config.proxies.clone(), prune, dry_run };
    let changes = args.remote.client(outer)?.apply(&apply).await.map_err(|error| match error {
        // Such as an address that is taken over there.
        ClientError::Refused(problem) if problem.path.is_some() => {
            CommandError::from(file.complaint(problem)).exit(FAILED)
        }
        other => other.into(),
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::json!({"changes": changes}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for change in &changes {
        let fields = change.fields.join(", ");
        let colon = if fields.is_empty() { "" } else { ": " };
        writeln!(out, "{} {}{colon}{fields}", change.action, change.proxy)?;
    }
    if changes.is_empty() {
        writeln!(out, "nothing to change")?;
    }
    Ok(ExitCode::SUCCESS)
}
