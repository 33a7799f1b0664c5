//! `aconite ca`.
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;

use super::{CommandError, CommandResult, serve::data_dir, trust::write_whole};
use crate::tls::{
    authority::{Authority, certificate_path},
    roots::TRUST_STORE_PASSWORD,
};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The directory of the local CA [env: ACONITE_DATA_DIR] [default: aconite in the user's data directory]
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    wish: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print where the certificate is
    Path,
    /// Print the certificate
    Pem(Output),
    /// Print the certificate and the system's roots, for clients whose setting replaces their own roots
    Bundle(Output),
    /// Write the same as a PKCS#12 trust store, for Java
    P12 {
        #[command(flatten)]
        output: Output,
        /// The store's password; all that is inside is public
        #[arg(long, default_value = TRUST_STORE_PASSWORD)]
        password: String,
    },
    /// Replace the CA by a new one, which clients then have to trust
    Rotate,
}

#[derive(clap::Args, Debug)]
struct Output {
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    fn write(&self, content: &[u8]) -> CommandResult {
        match &self.output {
            None => std::io::stdout().write_all(content)?,
            Some(path) => write_whole(path, content).map_err(|error| {
                CommandError::because(format!("cannot write `{}`", path.display()), &error)
            })?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows, exports or renews the CA; makes it at first use.
pub(super) fn run(Args { data_dir: given, wish }: Args) -> CommandResult {
    let directory = match given {
        Some(directory) => directory,
        None => data_dir()?,
    };
    match wish {
        Action::Path => {
            authority(&directory)?;
            writeln!(std::io::stdout(), "{}", certificate_path(&directory).display())?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Pem(output) => output.write(authority(&directory)?.pem().as_bytes()),
        Action::Bundle(output) => output.write(authority(&directory)?.bundle_pem().as_bytes()),
        Action::P12 { output, .. } if output.output.is_none() && std::io::stdout().is_terminal() => {
            Err(CommandError::usage("a trust store is not a text").hint("give --output FILE"))
        }
        Action::P12 { output, password } => {
            let store = authority(&directory)?.pkcs12(&password);
            output
                .write(&store.map_err(|error| CommandError::because("cannot make the trust store", &error))?)
        }
        Action::Rotate => {
            Authority::rotate(&directory)?;
            writeln!(
                std::io::stdout(),
                "a new CA is in {}; restart running servers, and run `aconite env` again in the shells that use it",
                certificate_path(&directory).display()
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn authority(directory: &Path) -> Result<Authority, CommandError> {
    Ok(Authority::load_or_create(directory)?)
}
