//! `aconite check`.
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use aconite_api::{
    Control,
    model::{Apply, Protocol, ProxySpec},
};
use aconite_toxics::Catalogue;

use super::{CommandError, CommandResult, remote};
use crate::{
    config::ConfigFile,
    http::Target,
    instance::{dry_supervisor, mistakes},
};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The configuration file
    file: PathBuf,
}

/// Reads the file and sets everything up as a start would, without listening.
pub(super) async fn run(Args { file }: Args) -> CommandResult {
    let checked = checked(&file).await?;
    let count = checked.config.proxies.len();
    let proxies = if count == 1 { "proxy" } else { "proxies" };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: all right, {count} {proxies}", file.display())?;
    for proxy in &checked.config.proxies {
        writeln!(out, "  {}", leads(proxy))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a proxy's traffic goes.
fn leads(proxy: &ProxySpec) -> String {
    let ProxySpec { name, listen, upstream, .. } = proxy;
    let place = format!("{name} ({:?}, {listen})", proxy.protocol()).to_lowercase();
    match proxy.protocol() {
        Protocol::Tcp => format!("{place}: to {upstream}"),
        Protocol::Http => match Target::parse(upstream) {
            Ok(target) => format!("{place}: {}", target.example()),
            Err(reason) => format!("{place}: {reason}"),
        },
        Protocol::Forward => {
            let hosts: Vec<_> = proxy.map.iter().map(|(host, to)| format!("{host} to {to}")).collect();
            let hosts = if hosts.is_empty() { String::new() } else { format!("; {}", hosts.join(", ")) };
            format!("{place}: to where its clients ask{hosts}")
        }
    }
}

/// A configuration file in which everything holds that can be told without listening.
pub(super) async fn checked(path: &Path) -> Result<ConfigFile, CommandError> {
    let supervisor = dry_supervisor()?;
    if let Some(failure) =
        CommandError::of_all(mistakes(path, &supervisor, remote::variable("ACONITE_TOKEN").is_some()).await?)
    {
        return Err(failure);
    }
    let file = ConfigFile::load(path, &Catalogue::default())?;
    file.check_addresses().await?;
    let apply = Apply { proxies: file.config.proxies.clone(), prune: false, dry_run: true };
    supervisor.apply(apply).await.map_err(|error| file.complaint(error))?;
    Ok(file)
}
