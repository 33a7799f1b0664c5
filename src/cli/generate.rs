//! Completions and manual pages, from the same definitions as the parser.
use std::{io::Write, process::ExitCode};

use clap::{Command, builder::StyledStr};

use super::{CommandError, CommandResult};

/// Prints a shell's completions.
pub(super) fn completions(command: &mut Command, shell: clap_complete::Shell) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(shell, command, "aconite", &mut text);
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of the program, or of one command.
pub(super) fn man(program: &Command, name: Option<&str>) -> CommandResult {
    let page = match name {
        None => program.clone(),
        Some(name) => {
            let found = program.find_subcommand(name);
            let command =
                found.ok_or_else(|| CommandError::usage(format!("there is no command `{name}`")))?;
            let title = format!("aconite-{}", command.get_name());
            let usage: StyledStr =
                command.clone().bin_name(format!("aconite {}", command.get_name())).render_usage();
            command
                .clone()
                .name(title)
                .override_usage(usage.to_string().trim_start_matches("Usage: ").to_owned())
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    std::io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
