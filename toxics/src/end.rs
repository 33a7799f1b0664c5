//! How an exchange, a connection or a body ended.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Ending;

/// How something ended: an exchange, a connection, one direction of it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct End {
    /// Who ended it.
    pub side: Side,
    /// In which way.
    pub how: How,
}

/// A party that can end an exchange or a connection.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The client, or it is no longer reachable.
    Client,
    /// The upstream, or it is no longer reachable.
    Upstream,
    /// A toxic.
    Toxic,
    /// The proxy: it was stopped, changed, or told to through its API.
    Proxy,
}

/// The way in which something ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By a valid end of the message.
    Clean,
    /// By FIN before the message was complete.
    Fin,
    /// By RST, or RST_STREAM in HTTP/2.
    Rst,
    /// Not at all: silence until a side gave up.
    Hang,
    /// By a time limit.
    Timeout,
    /// By another failure.
    Error,
}

impl From<Ending> for How {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Clean => Self::Clean,
            Ending::Fin => Self::Fin,
            Ending::Rst => Self::Rst,
            Ending::Hang => Self::Hang,
        }
    }
}
