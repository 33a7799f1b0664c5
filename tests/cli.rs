//! The command line: exit codes, messages, formats.

mod driving;
mod environment;
mod words;
