//! File descriptors: as many as the system allows, the last of them kept for the admin API.
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// Raises the process's limit of open files to what it may be. Many systems have a low one for the sake of old programs.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
    {
        tracing::debug!(%error, limit = limit.current, "the limit of open files stays as it is");
    }
}

/// Who asks for a descriptor. The system gives the lowest one that is free, so a high number says that most are in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// A client of a proxy: it may need others for its upstream.
    Client,
    /// What a client that is there already needs.
    Upstream,
}

/// The limit as it was last seen; 0 before.
static LIMIT: AtomicU64 = AtomicU64::new(0);

impl Use {
    /// Whether a descriptor is one of those that are kept for others.
    pub(crate) fn exceeds(self, file: &impl AsRawFd) -> bool {
        let number = u64::try_from(file.as_raw_fd()).unwrap_or(0);
        if number < self.bound(LIMIT.load(Relaxed)) {
            return false;
        }
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        LIMIT.store(limit, Relaxed);
        number >= self.bound(limit)
    }

    /// The lowest descriptor that is kept for others.
    fn bound(self, limit: u64) -> u64 {
        let admin = (limit / 16).clamp(16, 256);
        let upstreams = match self {
            Self::Client => (limit / 8).min(1_024),
            Self::Upstream => 0,
        };
        limit.saturating_sub(admin + upstreams)
    }

    /// The error in place of a descriptor that is kept for others.
    ///
    /// # Errors
    /// If it is.
    pub(crate) fn check<T: AsRawFd>(self, file: T) -> io::Result<T> {
        if self.exceeds(&file) {
            let text =
                "too many open files: the last ones are kept for the admin API; raise the limit (ulimit -n)";
            return Err(io::Error::other(text));
        }
        Ok(file)
    }
}

/// How often it is tried again whether there is room for a client.
const AGAIN: Duration = Duration::from_millis(50);

/// Waits until clients may have descriptors again, by trying with a copy of this one.
pub(crate) async fn room_for_clients(file: &impl AsFd) {
    while fcntl_dupfd_cloexec(file, 0).map_or(true, |copy| Use::Client.exceeds(&copy)) {
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_08_some_descriptors_are_kept_whatever_the_limit() {
        for (limit, clients, upstreams) in
            [(0, 0, 0), (64, 40, 48), (256, 208, 240), (1_024, 832, 960), (1_048_576, 1_047_296, 1_048_320)]
        {
            assert_eq!(
                (Use::Client.bound(limit), Use::Upstream.bound(limit)),
                (clients, upstreams),
                "{limit}"
            );
        }
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Use::Client.check(file).is_ok());
    }
}
