//! `aconite chaos`.
use std::{io::Write, process::ExitCode};

use aconite_api::model::{Chaos, Switch};
use clap::Subcommand;

use super::{Outcome, Remote, remote::variable};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Print the switch as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    wish: Wish,
}

#[derive(Debug, Subcommand)]
enum Wish {
    /// Let toxics act
    On(Why),
    /// Let no toxic act, at once and on live connections too
    Off(Why),
    /// Say whether toxics act, and which
    Status,
}

#[derive(clap::Args, Debug)]
struct Why {
    /// Why
    #[arg(long)]
    reason: Option<String>,
    /// Who [default: the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl From<Why> for Switch {
    fn from(Why { reason, by }: Why) -> Self {
        Self { operator: by.or_else(|| variable("USER")), reason }
    }
}

/// Turns or shows the switch.
pub(super) async fn run(args: Args, outer: &Remote) -> Outcome {
    let client = args.remote.client(outer)?;
    let chaos = match args.wish {
        Wish::On(why) => client.set_chaos(true, &why.into()).await?,
        Wish::Off(why) => client.set_chaos(false, &why.into()).await?,
        Wish::Status => client.chaos().await?,
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
