//! How calls fail.
use std::io;

use http::StatusCode;
use thiserror::Error;

use crate::Problem;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address makes no sense.
    #[error("`{0}` is not an address of the form http://host:port")]
    Url(String),
    /// The token holds what no header can carry.
    #[error("the token has characters that no header can carry")]
    Token,
    /// Nothing answers there.
    #[error("cannot reach `{authority}`; is `aconite serve` running there?")]
    Connect {
        /// Where.
        authority: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to `{authority}` broke")]
    Http {
        /// Where.
        authority: String,
        /// Why.
        source: hyper::Error,
    },
    /// No answer came in time.
    #[error("`{0}` does not answer")]
    Timeout(String),
    /// The answer is of another shape than expected.
    #[error("`{authority}` answered {status} with something else than this API's JSON")]
    Answer {
        /// Where.
        authority: String,
        /// The status.
        status: StatusCode,
    },
    /// The server refused, and says why.
    #[error("{}", told(.0))]
    Refused(Problem),
}

fn told(Problem { message, path, hint, .. }: &Problem) -> String {
    let path = path.as_ref().map_or_else(String::new, |path| format!("{path}: "));
    let hint = hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
    format!("{path}{message}{hint}")
}

impl ClientError {
    /// The status of a refusal.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(problem) => Some(problem.status),
            Self::Answer { status, .. } => Some(*status),
            _ => None,
        }
    }
}
