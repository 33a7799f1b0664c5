//! The executable.
use std::process::ExitCode;

fn main() -> ExitCode {
    aconite::cli::main(std::env::args_os())
}
