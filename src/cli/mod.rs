//! The command line.
mod apply;
mod ca;
mod chaos;
mod check;
mod create;
mod demo;
mod environment;
mod explain;
mod failure;
mod flags;
mod generate;
mod journal;
mod logs;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(not(feature = "otlp"))]
#[path = "otlp_left_out.rs"]
mod otlp;
#[cfg(all(test, feature = "otlp"))]
#[allow(dead_code, reason = "its test runs in every build")]
mod otlp_left_out;
mod proxies;
mod remote;
mod report;
mod run;
mod serve;
mod server;
mod toxic;
mod trust;
mod words;

use std::{ffi::OsString, io::IsTerminal, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use failure::CommandError;
use remote::Remote;

const FIRST_STEPS: &str = "\
First steps:
  aconite demo                                                     see it at work
  aconite serve &                                                  start the server; open http://127.0.0.1:8474/
  aconite create openai -l 127.0.0.1:8001 -u sim://openai          add a proxy to a simulated provider
  aconite toxic add openai cut at.events=3 how=rst                 add a fault; `aconite explain` lists all
  aconite journal                                                  see the requests and which faults applied
  aconite run --toxic 'fail cause=rate_limit' -- python app.py     test one command, without a server";

/// A fault-injecting proxy for applications that talk to language models and vector stores.
#[derive(Debug, Parser)]
#[command(name = "aconite", version, propagate_version = true, arg_required_else_help = true, after_help = FIRST_STEPS)]
struct Cli {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxies and the admin API
    Serve(serve::Args),
    /// Report the mistakes in a configuration file, without starting anything
    Check(check::Args),
    /// Apply a configuration file to a running server, all of it or nothing
    Apply(apply::Args),
    /// Run a command with its HTTP traffic going through a proxy
    Run(run::Args),
    /// Print the environment that makes programs use a forward proxy and trust its CA
    Env(environment::Args),
    /// The local certificate authority
    Ca(ca::Args),
    /// Show healthy and broken traffic with simulated providers
    Demo {
        /// Keep everything running at the end
        #[arg(long)]
        keep: bool,
    },
    /// List proxies
    #[command(visible_aliases = ["l", "li", "ls"])]
    List(proxies::List),
    /// Show a proxy's toxics
    #[command(visible_aliases = ["i", "ins"])]
    Inspect(proxies::Inspect),
    /// Create a proxy
    #[command(visible_aliases = ["c", "new"])]
    Create(Box<create::Args>),
    /// Delete a proxy
    #[command(visible_alias = "d")]
    Delete(proxies::Delete),
    /// Enable a disabled proxy, or disable an enabled one
    #[command(visible_alias = "tog")]
    Toggle(proxies::Toggle),
    /// Add, change, list, enable, disable and remove toxics
    #[command(visible_alias = "t")]
    Toxic(toxic::Args),
    /// Print the manual of a toxic, of positions or of causes
    Explain(explain::Args),
    /// Turn the kill switch of all toxics on or off
    Chaos(chaos::Args),
    /// Print the recorded exchanges and the toxics that applied to them
    Journal(journal::Args),
    /// Enable every proxy and remove every toxic
    Reset(server::Reset),
    /// Create or replace proxies from a file in Toxiproxy's format
    Populate(server::Populate),
    /// Wait until the server runs and every enabled proxy listens
    Wait(server::Wait),
    /// Report whether the server runs and every enabled proxy listens
    Health(server::Health),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page (roff)
    Man {
        /// The command to print the page of
        command: Option<String>,
    },
}

/// Whether colours are wanted there: it is a terminal, and `NO_COLOR` does not say no.
fn coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

type CommandResult = Result<ExitCode, CommandError>;

/// Runs what the arguments say, the program's name first.
///
/// Exits with 0 if all went well, 1 if something failed, 2 if the arguments or a configuration file are wrong; under the
/// name `toxiproxy-cli` as that does: 3 for an unknown command, else 1.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = flags::translate(arguments.into_iter().collect());
    let in_place_of_cli = flags::is_toxiproxy_cli(&arguments);
    if let Some(program) = flags::version_asked(&arguments) {
        return flags::print_version(program);
    }
    let parsed = match Cli::try_parse_from(arguments) {
        Ok(mut parsed) => {
            parsed.remote.toxiproxy = in_place_of_cli;
            parsed
        }
        Err(told) => {
            // It is not an error if the reader of the help has closed the pipe.
            let _ = told.print();
            let code = u8::try_from(told.exit_code()).unwrap_or(2);
            return ExitCode::from(if in_place_of_cli { flags::toxiproxy_cli_exit(&told) } else { code });
        }
    };
    execute(parsed).unwrap_or_else(|failure| {
        let failure = if in_place_of_cli { failure.plain() } else { failure };
        failure.report(&mut std::io::stderr().lock(), coloured(&std::io::stderr()))
    })
}

fn execute(Cli { remote, command }: Cli) -> CommandResult {
    match command {
        Command::Serve(args) => {
            let telemetry = logs::init_and_export("info", args.drop_in());
            runtime()?.block_on(telemetry.around(|finished| serve::run(args, finished)))
        }
        Command::Run(args) => {
            let telemetry = logs::init_and_export("warn", false);
            runtime()?.block_on(telemetry.around(|finished| run::run(args, finished)))
        }
        Command::Demo { keep } => {
            logs::init("warn", false);
            Ok(runtime()?.block_on(demo::run(keep)))
        }
        Command::Ca(args) => {
            logs::init("warn", false);
            ca::run(args)
        }
        Command::Explain(args) => explain::run(args),
        Command::Completions { shell } => generate::completions(&mut Cli::command(), shell),
        Command::Man { command } => generate::man(&Cli::command(), command.as_deref()),
        command => {
            logs::init("warn", false);
            runtime()?.block_on(ask(&remote, command))
        }
    }
}

/// Commands that talk to a running server, and `check`.
async fn ask(remote: &Remote, command: Command) -> CommandResult {
    match command {
        Command::Check(args) => check::run(args).await,
        Command::Apply(args) => apply::run(args, remote).await,
        Command::Env(args) => environment::run(args, remote).await,
        Command::List(args) => proxies::list(args, remote).await,
        Command::Inspect(args) => proxies::inspect(args, remote).await,
        Command::Create(args) => create::run(*args, remote).await,
        Command::Delete(args) => proxies::delete(args, remote).await,
        Command::Toggle(args) => proxies::toggle(args, remote).await,
        Command::Toxic(args) => toxic::run(args, remote).await,
        Command::Chaos(args) => chaos::run(args, remote).await,
        Command::Journal(args) => journal::run(args, remote).await,
        Command::Reset(args) => server::reset(args, remote).await,
        Command::Populate(args) => server::populate(args, remote).await,
        Command::Wait(args) => server::wait(args, remote).await,
        Command::Health(args) => server::health(args, remote).await,
        _ => unreachable!("`execute` has all other commands"),
    }
}

/// For commands, and for what an instance does besides connections.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold() {
        Cli::command().debug_assert();
    }
}
