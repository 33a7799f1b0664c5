//! Bodies that end before their time.
use std::{error::Error, io};

use aconite_toxics::How;

/// A body that ended before its time.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) how: How,
    /// The code of an HTTP/2 reset.
    pub(crate) reason: Option<h2::Reason>,
    /// What was wrong with it, if it did not just end: its chunks cannot be read.
    pub(crate) malformed: Option<String>,
}

impl Broken {
    /// A body that ended by closing or a reset.
    pub(crate) fn ended(how: How, reason: Option<h2::Reason>) -> Self {
        Self { how, reason, malformed: None }
    }

    /// Reads hyper's error.
    pub(crate) fn from_hyper(error: &hyper::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(h2) = current.downcast_ref::<h2::Error>() {
                let how = if h2.is_reset() { How::Rst } else { How::Fin };
                return Self::ended(how, h2.reason());
            }
            if let Some(io) = current.downcast_ref::<io::Error>() {
                let fin = matches!(io.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
                let malformed = matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData);
                return Self {
                    how: if fin { How::Fin } else { How::Rst },
                    reason: None,
                    malformed: malformed.then(|| io.to_string()),
                };
            }
            cause = current.source();
        }
        Self::ended(How::Fin, None)
    }
}
