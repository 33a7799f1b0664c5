//! `aconite run`: a command with a forward proxy of its own.
use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::IsTerminal,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use aconite_api::{
    Control,
    model::{Exchange, ExchangeFilter, Protocol, ProxySpec},
};
use rustix::process::{Pid, Signal as Kill, kill_process};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    Failure, Outcome, check::checked, environment::Settings, remote::variable, serve::data_dir, toxic,
    trust::TrustFiles,
};
use crate::{config::Config, instance::Aconite, journal::Finished};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A configuration; its first forward proxy is the command's
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A toxic for the command's proxy, such as 'cut at.events=3 how=rst'; may be repeated
    #[arg(long, value_name = "TYPE KEY=VALUE…")]
    toxic: Vec<String>,
    /// A host whose TLS is opened, as a glob, besides those of known providers; may be repeated
    #[arg(long, value_name = "HOST")]
    intercept: Vec<String>,
    /// What every dice roll derives from [default: random, told at the end]
    #[arg(long)]
    seed: Option<u64>,
    /// Add each exchange to this file, as a line of JSON
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
pub(super) async fn run(args: Args, finished: Option<mpsc::Sender<Finished>>) -> Outcome {
    let directory = data_dir()?;
    let Prepared { config, name, credentials } = prepared(&args).await?;
    let instance = Aconite::builder()
        .config(Config { data_dir: Some(directory.clone()), ..config })
        .drain(Duration::from_secs(2))
        .finished(finished)
        .start()
        .await?;
    let address = instance.proxy_address(&name);
    let address = address.ok_or_else(|| Failure::usage(format!("the forward proxy `{name}` is disabled")))?;
    let files = TrustFiles::write(&directory, instance.ca_pem())?;
    let settings = Settings::new(&address.to_string(), credentials.as_deref(), &files, variable);
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("there is no command to run"));
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
            let failure = Failure::because(format!("cannot run `{shown}`"), &error);
            return Err(failure.exit(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    if !args.quiet {
        summarise(&instance, &name, program);
    }
    instance.stop().await;
    Ok(exit_code(status))
}

/// The configuration, and which proxy in it is the command's.
struct Prepared {
    config: Config,
    name: String,
    /// What that proxy wants its clients to present.
    credentials: Option<String>,
}

async fn prepared(args: &Args) -> Result<Prepared, Failure> {
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
    let proxy = proxy.ok_or_else(|| Failure::usage("there is no forward proxy"))?;
    for text in &args.toxic {
        proxy.toxics.push(toxic::parse(text)?);
    }
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

/// As a shell has it: 128 and the signal's number, if a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn summarise(instance: &Aconite, proxy: &str, program: &std::ffi::OsStr) {
    let supervisor = instance.supervisor();
    let filter = ExchangeFilter { limit: Some(usize::MAX), ..ExchangeFilter::default() };
    let (exchanges, _) = supervisor.exchanges(&filter);
    let connections = supervisor.shared.metrics.connections.load(Relaxed);
    let program = std::path::Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let text = summary(&exchanges, connections, proxy, instance.seed(), &program);
    // Who does not read it cannot be told so either.
    let _ = std::io::Write::write_all(&mut std::io::stderr().lock(), text.as_bytes());
}

/// What passed, what struck, and what to do if nothing passed.
fn summary(exchanges: &[Exchange], connections: u64, proxy: &str, seed: u64, program: &str) -> String {
    if connections == 0 {
        return format!("aconite: `{program}` sent nothing to the proxy\n  hint: {}\n", switch(program));
    }
    if exchanges.is_empty() {
        let noun = if connections == 1 { "connection" } else { "connections" };
        return format!(
            "aconite: {connections} {noun}, none to a host whose TLS the proxy `{proxy}` opens: no toxic on exchanges could strike\n  \
             hint: name the hosts by --intercept HOST, or by `intercept` of the proxy\n"
        );
    }
    let mut statuses = BTreeMap::<String, usize>::new();
    let mut struck = BTreeMap::<&str, usize>::new();
    for exchange in exchanges {
        let status = exchange.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        *statuses.entry(status).or_default() += 1;
        for strike in exchange.toxics.iter().filter(|strike| strike.struck) {
            *struck.entry(&strike.name).or_default() += 1;
        }
    }
    let counted = |counts: Vec<(String, usize)>| {
        counts.into_iter().map(|(what, count)| format!("{count} × {what}")).collect::<Vec<_>>().join(", ")
    };
    let strikes = if struck.is_empty() {
        "no toxic struck".to_owned()
    } else {
        format!(
            "struck: {}",
            counted(struck.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
        )
    };
    let count = exchanges.len();
    let noun = if count == 1 { "exchange" } else { "exchanges" };
    format!("aconite: {count} {noun} ({}); {strikes}; seed {seed}\n", counted(statuses.into_iter().collect()))
}

/// The switch that a kind of program needs before it uses a proxy.
fn switch(program: &str) -> &'static str {
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

    /// PRX-11: silence is noticed, and the switch that is needed is named.
    #[test]
    fn prx_11_who_sent_nothing_is_told_the_switch() {
        assert!(summary(&[], 0, "run", 1, "node").contains("NODE_USE_ENV_PROXY=1"));
        assert!(summary(&[], 0, "run", 1, "node20").contains("EnvHttpProxyAgent"));
        assert!(summary(&[], 0, "run", 1, "python3.12").contains("trust_env=True"));
        assert!(
            summary(&[], 0, "run", 1, "curl")
                .starts_with("aconite: `curl` sent nothing to the proxy\n  hint: ")
        );
        assert!(summary(&[], 2, "run", 1, "curl").contains("--intercept"));
        assert!(summary(&[], 1, "run", 1, "curl").starts_with("aconite: 1 connection, none to"));
    }

    #[test]
    fn the_summary_counts_answers_and_strikes() {
        let strike = |struck| Strike { name: "slow".to_owned(), struck, ..Strike::default() };
        let exchange = |status, toxics| Exchange { status, toxics, ..Exchange::default() };
        let exchanges = [
            exchange(Some(200), vec![strike(true)]),
            exchange(Some(200), vec![strike(false)]),
            exchange(None, Vec::new()),
        ];
        assert_eq!(
            summary(&exchanges, 2, "run", 42, "x"),
            "aconite: 3 exchanges (2 × 200, 1 × no answer); struck: 1 × slow; seed 42\n"
        );
        assert_eq!(
            summary(&exchanges[2..], 1, "run", 42, "x"),
            "aconite: 1 exchange (1 × no answer); no toxic struck; seed 42\n"
        );
    }

    #[test]
    fn signals_count_from_128() {
        assert_eq!(exit_code(ExitStatus::from_raw(15)), ExitCode::from(143));
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), ExitCode::from(7));
    }
}
