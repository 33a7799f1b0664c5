//! `aconite check`.
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use aconite_api::{Control, model::Apply};
use aconite_toxics::Catalogue;

use super::{Failure, Outcome};
use crate::{config::ConfigFile, instance::dry_supervisor};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The configuration file
    file: PathBuf,
}

/// Reads the file and sets everything up as a start would, without listening.
pub(super) async fn run(Args { file }: Args) -> Outcome {
    let checked = checked(&file).await?;
    let count = checked.config.proxies.len();
    let proxies = if count == 1 { "proxy" } else { "proxies" };
    writeln!(std::io::stdout(), "{}: all right, {count} {proxies}", file.display())?;
    Ok(ExitCode::SUCCESS)
}

/// A configuration file in which everything holds that can be told without listening.
pub(super) async fn checked(path: &Path) -> Result<ConfigFile, Failure> {
    let file = ConfigFile::load(path, &Catalogue::default())?;
    file.check_addresses().await?;
    let apply = Apply { proxies: file.config.proxies.clone(), prune: false, dry_run: true };
    dry_supervisor()?.apply(apply).await.map_err(|error| file.complaint(error))?;
    Ok(file)
}
