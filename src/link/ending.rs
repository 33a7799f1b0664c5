//! What the failure of a socket says of its peer.
use std::io;

use aconite_toxics::How;

/// How the peer of a failed read or write has ended the connection.
pub(super) fn how_it_failed(error: &io::Error) -> How {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            How::Rst
        }
        io::ErrorKind::TimedOut => How::Timeout,
        _ => How::Error,
    }
}
