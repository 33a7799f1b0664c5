//! The command line: exit codes, messages, formats.

mod commands;
mod driving;
mod environment;
mod words;
