//! `aconite demo`.
use std::{io::Write, process::ExitCode};

use crate::Aconite;

/// Starts an instance, says where it is, and stops it unless told to `keep` it.
pub(crate) async fn run(keep: bool) -> ExitCode {
    let instance = match Aconite::builder().start().await {
        Ok(instance) => instance,
        Err(error) => return super::Failure::from(error).report(&mut std::io::stderr().lock(), false),
    };
    // A reader who has left does not end the demonstration.
    let _ = writeln!(std::io::stdout(), "the admin API is at {}", instance.admin_url());
    if keep {
        let _ = tokio::signal::ctrl_c().await;
    }
    instance.stop().await;
    ExitCode::SUCCESS
}
