//! `aconite serve`.
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
};

use aconite_api::{Control, ControlError, model::ProxySpec};
use aconite_toxics::Catalogue;
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::{CommandError, CommandResult, remote, trust::write_whole};
use crate::{
    config::{Config, ConfigFile},
    files,
    instance::{Aconite, StartError},
    journal::Finished,
    tls::authority::default_data_dir,
};

const AS_TOXIPROXY: &str = "\
With --host or --port, or any of Toxiproxy's flags written with one dash (-host=0.0.0.0 -config=/x.json), Aconite replaces \
Toxiproxy: the routes at the API's root are open on the given address, /v1 still needs the token, and an invalid configuration \
is logged and ignored. SIGHUP reads the configuration again, all or nothing, and reopens the journal file. After SIGTERM, \
exchanges and connections in use have 8 s to end, or the `drain` of the configuration, and idle connections are closed after \
1 s; as a replacement for Toxiproxy, all are closed at once. A second signal ends the process at once.";

#[derive(clap::Args, Debug)]
#[command(after_help = AS_TOXIPROXY)]
pub(super) struct Args {
    /// The configuration file, YAML or JSON, or Toxiproxy's list of proxies
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the admin API listens [default: 127.0.0.1:8474]
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["host", "port"])]
    admin: Option<String>,
    /// Where the admin API listens, as a replacement for Toxiproxy [default: localhost]
    #[arg(long)]
    host: Option<String>,
    /// The admin API's port, as a replacement for Toxiproxy [default: 8474]
    #[arg(long)]
    port: Option<String>,
    /// The source of every random choice [default: random, logged at start]
    #[arg(long)]
    seed: Option<u64>,
    /// A file with the token that the admin API needs [env: ACONITE_TOKEN has the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve the admin API without a token on an address that other machines can reach
    #[arg(long)]
    insecure_admin: bool,
    /// The directory of the local CA [env: ACONITE_DATA_DIR] [default: aconite in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Add each exchange that has ended to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Write the real addresses of the admin API and the proxies to this file, as JSON, once all listen and after each
    /// change
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Accepted for compatibility with Toxiproxy: metrics are always there
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    proxy_metrics: Option<bool>,
    /// Accepted for compatibility with Toxiproxy: metrics are always there
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    runtime_metrics: Option<bool>,
    /// Replaces Toxiproxy
    #[arg(long, hide = true)]
    drop_in: bool,
}

impl Args {
    /// Whether it replaces Toxiproxy.
    pub(super) fn drop_in(&self) -> bool {
        self.drop_in || self.host.is_some() || self.port.is_some()
    }

    fn admin(&self) -> Option<String> {
        if !self.drop_in() {
            return self.admin.clone();
        }
        let host = self.host.as_deref().unwrap_or("localhost");
        let port = self.port.as_deref().unwrap_or("8474");
        Some(if host.contains(':') && !host.starts_with('[') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        })
    }
}

/// Runs until a signal ends it.
pub(super) async fn run(args: Args, finished: Option<mpsc::Sender<Finished>>) -> CommandResult {
    files::raise_limit();
    let mut signals = Signals::new()?;
    let drop_in = args.drop_in();
    let (file, proxies) = if drop_in { (None, lenient(&args)) } else { (strict(&args).await?, Vec::new()) };
    let config = effective(&args, file.as_ref().map(|file| file.config.clone()).unwrap_or_default())?;
    let token = match (&args.token_file, &config.admin.token_file) {
        // The configuration's is read at the start.
        (None, Some(_)) => None,
        (file, _) => remote::token(file.as_deref())?,
    };
    let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let builder = Aconite::builder().config(config).drop_in(drop_in).workers(workers);
    let mut builder = builder.finished(finished).keeps_switch(true);
    if let Some(token) = token {
        builder = builder.token(token);
    }
    let instance = builder.start().await.map_err(|error| started(error, file.as_ref()))?;
    for proxy in proxies {
        let name = proxy.name.clone();
        if let Err(error) = instance.supervisor().populate_proxy(proxy).await {
            tracing::error!(proxy = name, %error, "this proxy and those after it in the configuration are left out");
            break;
        }
    }
    let ports = args.port_file.as_deref();
    announce(&instance, ports)?;
    loop {
        let wish = tokio::select! {
            wish = signals.next() => wish,
            () = instance.supervisor().listeners_changed() => {
                rewrite_port_file(&instance, ports);
                continue;
            }
        };
        match wish {
            SignalAction::Stop => break,
            SignalAction::Reload => {
                instance.reopen_journal().await;
                match &args.config {
                    Some(path) => reload(&instance, path, ports).await,
                    None => tracing::warn!("SIGHUP: there is no configuration file to read again"),
                }
            }
        }
    }
    tracing::info!(
        "stopping: connections may end within the time to drain; a second signal ends them at once"
    );
    tokio::select! {
        () = instance.stop() => {}
        () = signals.stop() => {
            tracing::warn!("stopped at once");
            // Not even what is still to be exported is waited for.
            std::process::exit(1);
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The configuration file, every part of which must hold.
async fn strict(args: &Args) -> Result<Option<ConfigFile>, CommandError> {
    let Some(path) = &args.config else { return Ok(None) };
    let file = ConfigFile::load(path, &Catalogue::default())?;
    file.check_addresses().await?;
    Ok(Some(file))
}

/// The proxies of the configuration file as Toxiproxy takes it: what cannot be read is logged.
fn lenient(args: &Args) -> Vec<ProxySpec> {
    let Some(path) = &args.config else { return Vec::new() };
    match ConfigFile::load(path, &Catalogue::default()) {
        Ok(file) => file.config.proxies,
        Err(error) => {
            tracing::error!(%error, "the configuration is left out");
            Vec::new()
        }
    }
}

/// The file's configuration, with the values that the command line overrides.
fn effective(args: &Args, config: Config) -> Result<Config, CommandError> {
    let mut config = config;
    config.admin.listen = args.admin().or(config.admin.listen);
    config.admin.insecure |= args.insecure_admin;
    config.seed = args.seed.or(config.seed);
    config.journal.file = args.journal.clone().or(config.journal.file);
    let directory = args.data_dir.clone().or(config.data_dir);
    config.data_dir = Some(match directory {
        Some(directory) => directory,
        None => data_dir()?,
    });
    Ok(config)
}

/// The directory of the local CA, by the environment.
pub(super) fn data_dir() -> Result<PathBuf, CommandError> {
    default_data_dir(|name| std::env::var_os(name)).ok_or_else(|| {
        CommandError::usage(
            "there is no directory for the local CA: neither ACONITE_DATA_DIR nor HOME is set",
        )
        .hint("set ACONITE_DATA_DIR")
    })
}

/// An error of the start, with its place in the configuration file.
fn started(error: StartError, file: Option<&ConfigFile>) -> CommandError {
    match (error, file) {
        (StartError::Proxy(error @ ControlError::Spec(_)), Some(file)) => file.complaint(error).into(),
        (error, _) => error.into(),
    }
}

/// Says where everything listens: in the log, and in the port file.
fn announce(instance: &Aconite, port_file: Option<&Path>) -> Result<(), CommandError> {
    let ports = write_port_file(instance, port_file)?;
    tracing::info!(admin = %instance.admin_url(), seed = instance.seed(), addresses = %ports, "Aconite is running");
    Ok(())
}

/// Writes the addresses that are listened on to the port file, if there is one, and answers them.
fn write_port_file(instance: &Aconite, port_file: Option<&Path>) -> Result<serde_json::Value, CommandError> {
    let ports = json!({
        "admin": instance.admin_address(),
        "proxies": instance.proxy_addresses(),
        "seed": instance.seed(),
        "pid": std::process::id(),
    });
    if let Some(path) = port_file {
        write_whole(path, format!("{ports}\n").as_bytes())
            .map_err(|error| CommandError::because(format!("cannot write `{}`", path.display()), &error))?;
    }
    Ok(ports)
}

/// Brings the port file up to date after a change of the proxies.
fn rewrite_port_file(instance: &Aconite, port_file: Option<&Path>) {
    if let Err(CommandError { message, causes, .. }) = write_port_file(instance, port_file) {
        let error = std::iter::once(message).chain(causes).collect::<Vec<_>>().join(": ");
        tracing::error!(%error, "the port file is out of date");
    }
}

/// Reads the file again. If anything in it is invalid, nothing changes.
async fn reload(instance: &Aconite, path: &Path, port_file: Option<&Path>) {
    match reloaded(instance, path).await {
        Ok(changes) => {
            rewrite_port_file(instance, port_file);
            let changes = json!(changes);
            tracing::info!(%changes, "the configuration was read again");
        }
        Err(CommandError { message, causes, hint, .. }) => {
            let error = std::iter::once(message).chain(causes).collect::<Vec<_>>().join(": ");
            tracing::error!(%error, hint, "the configuration is invalid; nothing was changed");
        }
    }
}

async fn reloaded(instance: &Aconite, path: &Path) -> Result<Vec<aconite_api::model::Change>, CommandError> {
    let file = ConfigFile::load(path, instance.supervisor().catalogue())?;
    file.check_addresses().await?;
    let applied = instance.apply(file.config.proxies.clone()).await;
    Ok(applied.map_err(|error| file.complaint(error))?)
}

/// What signals ask of the server.
enum SignalAction {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    async fn stop(&mut self) {
        while !matches!(self.next().await, SignalAction::Stop) {}
    }
}
