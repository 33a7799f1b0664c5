//! `aconite run`: a command with a forward proxy of its own.
use std::{
    ffi::OsString,
    io::{IsTerminal, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

use aconite_api::{
    Control,
    model::{ExchangeFilter, Protocol, ProxySpec},
};
use rustix::process::{Pid, Signal as Kill, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    CommandError, CommandResult,
    check::checked,
    create::pair,
    environment::Settings,
    remote::variable,
    report::{self, RunReport},
    serve::data_dir,
    trust::TrustFiles,
    words,
};
use crate::{config::Config, instance::Aconite, journal::Finished};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A configuration file; the command uses its first forward proxy
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A toxic for the command's traffic, with any of its fields: 'cut at.events=3 how=rst toxicity=0.5 match.model=gpt-4o
    /// budget.times=1 window.for=30s name=first'; may be repeated
    #[arg(long, value_name = "TYPE KEY=VALUE…")]
    toxic: Vec<String>,
    /// A host whose TLS is decrypted, as a glob, besides those of the known providers; may be repeated
    #[arg(long, value_name = "HOST")]
    intercept: Vec<String>,
    /// Send a host's requests to another server: a URL, sim://NAME or host:port; may be repeated
    #[arg(long, value_name = "HOST=URL", value_parser = pair)]
    map: Vec<(String, String)>,
    /// Fail, with status 1, if a toxic never applied, although the command succeeded
    #[arg(long)]
    must_strike: bool,
    /// Write a report; the file's extension sets the format: .xml (JUnit), .json or .md
    #[arg(long, value_name = "FILE", value_parser = report::path)]
    report: Option<PathBuf>,
    /// The source of every random choice [default: random, printed at the end]
    #[arg(long)]
    seed: Option<u64>,
    /// Append each exchange to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Print no summary
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command to its end and exits as it did.
pub(super) async fn run(args: Args, finished: Option<mpsc::Sender<Finished>>) -> CommandResult {
    let directory = data_dir()?;
    let Prepared { config, name, credentials } = prepared(&args).await?;
    let instance = Aconite::builder()
        .config(Config { data_dir: Some(directory.clone()), ..config })
        .drain(Duration::from_secs(2))
        .finished(finished)
        .start()
        .await?;
    let address = instance.proxy_address(&name);
    let address =
        address.ok_or_else(|| CommandError::usage(format!("the forward proxy `{name}` is disabled")))?;
    let files = TrustFiles::write(&directory, instance.ca_pem())?;
    let settings = Settings::new(&address.to_string(), credentials.as_deref(), &files, variable);
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CommandError::usage("there is no command to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(settings.variables.iter().map(|(name, value)| (name, value)));
    command.env("ACONITE_URL", instance.admin_url());
    let signals = watch_signals()?;
    let spawned = command.spawn();
    let status = match spawned {
        Ok(child) => accompany(child, signals).await?,
        Err(error) => {
            let shown = program.to_string_lossy();
            let failure = CommandError::because(format!("cannot run `{shown}`"), &error);
            return Err(failure.exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let code = exit_code(status);
    let report = report(&instance, &name, &args.command, code);
    instance.stop().await;
    if !args.quiet {
        // If standard error is closed there is no one to tell.
        let _ = std::io::stderr().lock().write_all(report.summary().as_bytes());
    }
    if let Some(path) = &args.report {
        report.write(path)?;
    }
    let unused = report.unused();
    if args.must_strike && code == 0 && !unused.is_empty() {
        return Err(CommandError::new(format!("toxics that never applied: {}", unused.join(", ")))
            .hint("the summary has the reasons; --must-strike makes this a failure"));
    }
    Ok(ExitCode::from(code))
}

/// The configuration, and which proxy in it is the command's.
struct Prepared {
    config: Config,
    name: String,
    /// What that proxy wants its clients to present.
    credentials: Option<String>,
}

async fn prepared(args: &Args) -> Result<Prepared, CommandError> {
    let mut config = match &args.config {
        Some(path) => checked(path).await?.config,
        None => Config::default(),
    };
    let is_forward = |proxy: &ProxySpec| proxy.protocol() == Protocol::Forward;
    if !config.proxies.iter().any(is_forward) {
        config.proxies.push(ProxySpec {
            name: "run".to_owned(),
            protocol: Some(Protocol::Forward),
            listen: "127.0.0.1:0".to_owned(),
            enabled: true,
            ..ProxySpec::default()
        });
    }
    config.admin.listen = Some("127.0.0.1:0".to_owned());
    config.seed = args.seed.or(config.seed);
    config.journal.file = args.journal.clone().or(config.journal.file);
    let proxy = config.proxies.iter_mut().find(|proxy| is_forward(proxy));
    let proxy = proxy.ok_or_else(|| CommandError::usage("there is no forward proxy"))?;
    for text in &args.toxic {
        proxy.toxics.push(words::parse(text)?);
    }
    proxy.map.extend(args.map.iter().cloned());
    if !args.intercept.is_empty() {
        let known = || aconite_dialects::known_hosts().map(|(host, _)| host.to_owned()).collect();
        proxy.intercept.get_or_insert_with(known).extend(args.intercept.iter().cloned());
    }
    let (name, credentials) = (proxy.name.clone(), proxy.credentials.clone());
    Ok(Prepared { config, name, credentials })
}

/// The signals that are passed on. From a terminal Ctrl-C and Ctrl-\ reach the command by themselves.
fn watch_signals() -> std::io::Result<mpsc::Receiver<Kill>> {
    let (sender, receiver) = mpsc::channel(8);
    let by_itself = std::io::stdin().is_terminal();
    for (kind, kill, shared) in [
        (SignalKind::interrupt(), Kill::INT, true),
        (SignalKind::quit(), Kill::QUIT, true),
        (SignalKind::terminate(), Kill::TERM, false),
        (SignalKind::hangup(), Kill::HUP, false),
        (SignalKind::user_defined1(), Kill::USR1, false),
        (SignalKind::user_defined2(), Kill::USR2, false),
    ] {
        let mut signal = signal(kind)?;
        let sender = sender.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with the receiver, when the next signal comes, or with the process"
        )]
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                if !(shared && by_itself) && sender.send(kill).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(receiver)
}

/// Waits for the command, and passes signals on to it.
async fn accompany(mut child: Child, mut signals: mpsc::Receiver<Kill>) -> std::io::Result<ExitStatus> {
    loop {
        tokio::select! {
            status = child.wait() => return status,
            Some(kill) = signals.recv() => {
                let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
                // Gone meanwhile: the next wait says so.
                let _ = pid.map(|pid| kill_process(pid, kill));
            }
        }
    }
}

/// As in a shell: 128 plus the signal's number if a signal ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn report(instance: &Aconite, proxy: &str, command: &[OsString], exit_status: u8) -> RunReport {
    let supervisor = instance.supervisor();
    let mut exchanges = Vec::new();
    let mut since = 0;
    loop {
        let filter = ExchangeFilter { since: Some(since), ..ExchangeFilter::default() };
        let (more, next) = supervisor.exchanges(&filter);
        exchanges.extend(more);
        if next <= since {
            break;
        }
        since = next;
    }
    let toxics = supervisor.proxy(proxy).map(|spec| spec.toxics).unwrap_or_default();
    let connections = supervisor.shared.accepted.load(std::sync::atomic::Ordering::Relaxed);
    let words = command.iter().map(|word| word.to_string_lossy().into_owned());
    RunReport::new(words.collect(), exit_status, instance.seed(), connections, &toxics, &exchanges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_count_from_128() {
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
    }
}
