//! `aconite chaos`.
use std::{io::Write, process::ExitCode};

use aconite_api::model::{Chaos, Switch};
use clap::Subcommand;

use super::{CommandResult, Remote, remote::variable};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Print the switch as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    wish: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Enable all toxics
    On(Reason),
    /// Disable all toxics at once, on live connections too
    Off(Reason),
    /// Print whether toxics are enabled, and which there are
    Status,
}

#[derive(clap::Args, Debug)]
struct Reason {
    /// Why
    #[arg(long)]
    reason: Option<String>,
    /// Who [default: the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl From<Reason> for Switch {
    fn from(Reason { reason, by }: Reason) -> Self {
        Self { operator: by.or_else(|| variable("USER")), reason }
    }
}

/// Turns or shows the switch.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    let client = args.remote.client(outer)?;
    let chaos = match args.wish {
        Action::On(why) => client.set_chaos(true, &why.into()).await?,
        Action::Off(why) => client.set_chaos(false, &why.into()).await?,
        Action::Status => client.chaos().await?,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::json!(chaos))?;
    } else {
        show(&chaos, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(chaos: &Chaos, out: &mut impl Write) -> std::io::Result<()> {
    let by = chaos.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    let reason = chaos.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    writeln!(
        out,
        "chaos is {}, since {}{by}{reason}",
        if chaos.enabled { "on" } else { "off" },
        chaos.since
    )?;
    for rule in &chaos.rules {
        writeln!(out, "{}\t{}\t{}\ttoxicity={:.2}", rule.proxy, rule.id, rule.kind, rule.probability)?;
    }
    Ok(())
}
