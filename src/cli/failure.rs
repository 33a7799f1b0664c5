//! How a command fails: exit code, text, hint.
use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use aconite_api::{ControlError, Problem, client::ClientError};

use crate::{
    config::{Complaint, ConfigError},
    instance::StartError,
    tls::authority::AuthorityError,
};

/// Why a command failed. Shown as a chain, a line for each cause.
#[derive(Debug)]
pub(super) struct CommandError {
    code: u8,
    pub(super) message: String,
    pub(super) causes: Vec<String>,
    pub(super) hint: Option<String>,
    /// What else is wrong.
    more: Vec<Self>,
}

/// Something did not work.
pub(super) const FAILED: u8 = 1;
/// The user asked for what makes no sense.
const WRONG: u8 = 2;

impl CommandError {
    /// Something did not work.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into(), causes: Vec::new(), hint: None, more: Vec::new() }
    }

    /// The arguments make no sense, or a configuration is invalid.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { code: WRONG, ..Self::new(message) }
    }

    /// Something did not work, because of an error with causes of its own.
    pub(super) fn because(message: impl Into<String>, error: &dyn Error) -> Self {
        let mut causes = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        Self { causes, ..Self::new(message) }
    }

    /// All mistakes of a configuration file; `None` without any.
    pub(super) fn of_all(complaints: Vec<Complaint>) -> Option<Self> {
        let mut failures = complaints.into_iter().map(Self::from);
        let first = failures.next()?;
        Some(Self { more: failures.collect(), ..first })
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Says first which of the user's words it is about.
    pub(super) fn within(self, words: &str) -> Self {
        Self { message: format!("`{words}`: {}", self.message), ..self }
    }

    /// Exits with another code.
    pub(super) fn exit(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Exits with 1, whatever went wrong: all that Toxiproxy's client tells apart. A reader who has left stays no failure.
    pub(super) fn plain(self) -> Self {
        Self { code: self.code.min(FAILED), ..self }
    }

    fn of(error: &dyn Error) -> Self {
        let mut failure = Self::because(String::new(), error);
        failure.message = failure.causes.remove(0);
        failure
    }

    /// Writes it down, and says how to exit.
    pub(super) fn report(self, out: &mut dyn Write, coloured: bool) -> ExitCode {
        let Self { code, message, causes, hint, more } = self;
        if code == 0 {
            return ExitCode::SUCCESS;
        }
        let (red, plain) = if coloured { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let mut text = format!("{red}error:{plain} {message}\n");
        for cause in causes {
            text.push_str(&format!("  because: {cause}\n"));
        }
        if let Some(hint) = hint {
            text.push_str(&format!("  hint: {hint}\n"));
        }
        // Who does not read errors cannot be told so either.
        let _ = out.write_all(text.as_bytes());
        for failure in more {
            failure.report(out, coloured);
        }
        ExitCode::from(code)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        // The reader of our output has left, as `head` does: that is success.
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { FAILED };
        Self { code, ..Self::of(&error) }
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Refused(problem) => {
                let failure = Self::from(problem.clone());
                match problem.code.as_str() {
                    "unauthorized" => failure.hint("set ACONITE_TOKEN, or give --token-file"),
                    _ => failure,
                }
            }
            ClientError::Url(_) | ClientError::Token => Self { code: WRONG, ..Self::of(&error) },
            _ => Self::of(&error),
        }
    }
}

impl From<Complaint> for CommandError {
    fn from(complaint: Complaint) -> Self {
        Self { code: WRONG, hint: complaint.error.hint.clone(), ..Self::of(&complaint) }
    }
}

impl From<ConfigError> for CommandError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Complaint(complaint) => complaint.into(),
            ConfigError::Read { .. } => Self { code: WRONG, ..Self::of(&error) },
        }
    }
}

impl From<AuthorityError> for CommandError {
    fn from(error: AuthorityError) -> Self {
        Self::of(&error)
    }
}

impl From<Problem> for CommandError {
    fn from(problem: Problem) -> Self {
        let path = problem.path.as_ref().map_or_else(String::new, |path| format!("{path}: "));
        Self { hint: problem.hint, ..Self::new(format!("{path}{}", problem.message)) }
    }
}

impl From<StartError> for CommandError {
    fn from(error: StartError) -> Self {
        if let StartError::Proxy(error) = error {
            let code = if matches!(error, ControlError::Listen { .. }) { FAILED } else { WRONG };
            return Self::from(Problem::from(error)).exit(code);
        }
        let hint = match &error {
            StartError::Exposed(_) => Some(
                "set ACONITE_TOKEN or --token-file, or listen on 127.0.0.1, or insist with --insecure-admin",
            ),
            StartError::Admin { reason, .. } if reason.contains("in use") => Some(
                "is `aconite serve` running already? Then `aconite list` shows it; else choose another address by --admin, \
                 where port 0 picks a free port",
            ),
            StartError::Admin { .. } => Some("choose another address; port 0 picks a free port"),
            _ => None,
        };
        let code = match error {
            StartError::Exposed(_) | StartError::Token { .. } => WRONG,
            _ => FAILED,
        };
        Self { code, hint: hint.map(str::to_owned), ..Self::of(&error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(failure: CommandError) -> String {
        let mut out = Vec::new();
        failure.report(&mut out, false);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn causes_stand_below_each_other_and_the_hint_last() {
        let cause = StartError::Journal { path: "j".into(), source: io::Error::other("disk full") };
        let failure = CommandError::because("cannot start", &cause).hint("free some space");
        let expected = "error: cannot start\n  because: cannot write the journal to `j`\n  because: disk full\n  hint: free some space\n";
        assert_eq!(text(failure), expected);
        assert_eq!(text(io::Error::other("odd").into()), "error: odd\n");
    }

    #[test]
    fn a_reader_who_left_is_no_failure() {
        assert_eq!(text(io::Error::from(io::ErrorKind::BrokenPipe).into()), "");
    }
}
