//! How a connection ended, as a value for the record.
use std::io;

/// Who ended a connection, and how.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ending {
    /// Who ended it.
    pub side: Side,
    /// In what way.
    pub how: How,
}

/// A party that can end a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Side {
    /// The client did, or vanished.
    Client,
    /// The upstream did, or vanished.
    Upstream,
    /// A toxic did.
    Toxic,
    /// The proxy did, as it was told to stop.
    Proxy,
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// By FIN.
    Fin,
    /// By RST.
    Rst,
    /// By another failure of a socket.
    Error(io::ErrorKind),
}

impl How {
    /// What a failed read or write says of its peer.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                Self::Rst
            }
            kind => Self::Error(kind),
        }
    }
}
