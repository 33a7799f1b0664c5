//! Connections to upstreams, kept for the next request.
//!
//! A kept HTTP/1 connection has no task: whoever uses it drives it, so that a
//! request, its answer and its connection live and end together. It is looked
//! at when it is taken out, and now and then by a sweep.
use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    task::{Context, Poll, Waker},
    time::Duration,
};

use hyper::client::conn::{http1, http2};
use tokio::time::Instant;

use super::VersionPolicy;
use crate::{
    http::{body::Body, target::Origin},
    steady::Steady,
    workers,
};

/// How long an unused connection is kept.
const KEEP: Duration = Duration::from_secs(90);
/// After how long unused a connection may be used by another worker. Every event on it then wakes two threads, so
/// under load each worker has its own.
const LENT_AFTER: Duration = Duration::from_secs(1);
/// How many unused connections to one upstream are kept.
const KEEP_MANY: usize = 256;

/// Moves an HTTP/1 connection on; ends with it.
pub(crate) type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// An HTTP/1 connection and what drives it.
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Body>,
    pub(crate) driver: Driver,
    /// What it wakes is mostly what drives it.
    pub(crate) steady: Steady,
    /// Whether it has carried a request before.
    pub(crate) reused: bool,
    /// The worker that made it, whose thread hears of its socket first.
    pub(crate) worker: Option<usize>,
    /// The upstream.
    pub(crate) address: SocketAddr,
    /// Bytes read from it so far.
    pub(crate) read: Arc<AtomicU64>,
}

impl Http1 {
    /// Moves the connection on without waiting. Whether it is at its end.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.driver.as_mut().poll(cx)
    }

    /// Whether another request can be sent: it is open, and nothing unasked for has come.
    fn is_fit(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.drive(&mut cx).is_pending() && self.sender.is_ready()
    }
}

/// Unused connections by upstream.
#[derive(Default)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Origin, Identities>>,
}

/// One for each TLS identity, by its number: no two identities share a connection.
type Identities = Vec<(usize, Arc<HostPool>)>;

/// Unused connections to one upstream under one identity.
#[derive(Default)]
pub(crate) struct HostPool(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    http1: Vec<Unused>,
    http2: Option<Http2>,
    /// The upstream has refused HTTP/1.1.
    only_http2: bool,
    /// The upstream had the choice, and took HTTP/1.1.
    only_http1: bool,
}

struct Unused {
    since: Instant,
    connection: Box<Http1>,
}

/// A connection to send a request on.
pub(crate) enum Connection {
    Http1(Box<Http1>),
    Http2(Http2),
}

/// A share of an HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Body>,
    /// The upstream.
    pub(crate) address: SocketAddr,
}

impl Connection {
    /// The upstream.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Http1(connection) => connection.address,
            Self::Http2(connection) => connection.address,
        }
    }
}

impl Http2 {
    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Pool {
    /// The connections to an upstream under the identity of this number.
    pub(crate) fn host(&self, origin: &Origin, identity: usize) -> Arc<HostPool> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = hosts.get(origin).into_iter().flatten().find(|(whose, _)| *whose == identity);
        if let Some((_, host)) = known {
            return Arc::clone(host);
        }
        let host = Arc::<HostPool>::default();
        hosts.entry(origin.clone()).or_default().push((identity, Arc::clone(&host)));
        host
    }

    /// Lets go of connections that have ended, or that nobody has used for long.
    pub(crate) fn sweep(&self) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.retain(|_, identities| {
            // One that is held elsewhere may be given something back.
            identities.retain(|(_, host)| host.sweep() || Arc::strong_count(host) > 1);
            !identities.is_empty()
        });
    }
}

impl HostPool {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that is ready and speaks what is wanted. Of HTTP/1.1 the most recently used one of this worker, else
    /// one that its worker does not need.
    pub(crate) fn take(&self, speak: VersionPolicy) -> Option<Connection> {
        if let Some(shared) = self.shared(speak != VersionPolicy::Http1) {
            return Some(Connection::Http2(shared));
        }
        if speak == VersionPolicy::Http2 {
            return None;
        }
        loop {
            // The lock is not held while it is looked at.
            let mut connection = self.last_used()?;
            if connection.is_fit() {
                return Some(Connection::Http1(connection));
            }
        }
    }

    fn shared(&self, wanted: bool) -> Option<Http2> {
        let mut kept = self.kept();
        if !wanted && !kept.only_http2 {
            return None;
        }
        kept.http2.take_if(|shared| shared.is_closed());
        kept.http2.clone()
    }

    fn last_used(&self) -> Option<Box<Http1>> {
        let mut kept = self.kept();
        let here = workers::here();
        let own = kept.http1.iter().rposition(|unused| unused.connection.worker == here);
        let lent = || kept.http1.iter().rposition(|unused| unused.since.elapsed() > LENT_AFTER);
        let at = own.or_else(lent)?;
        Some(kept.http1.remove(at).connection)
    }

    /// Whether the upstream speaks HTTP/2, if that is known. A kept HTTP/1 connection does not tell: its client may have
    /// wanted no other.
    pub(crate) fn speaks_http2(&self) -> Option<bool> {
        let kept = self.kept();
        let shared = kept.http2.as_ref().is_some_and(|shared| !shared.is_closed());
        if shared || kept.only_http2 { Some(true) } else { kept.only_http1.then_some(false) }
    }

    /// The upstream was offered HTTP/2 and took HTTP/1.1.
    pub(crate) fn only_http1(&self) {
        self.kept().only_http1 = true;
    }

    /// The upstream speaks HTTP/2 alone, so that even requests that came in HTTP/1 go over it.
    pub(crate) fn only_http2(&self) {
        self.kept().only_http2 = true;
    }

    /// Keeps a connection for the next request.
    pub(crate) fn give_back(&self, mut connection: Box<Http1>) {
        connection.reused = true;
        self.keep_fresh(connection);
    }

    /// Keeps a connection that has not carried a request yet.
    pub(crate) fn keep_fresh(&self, connection: Box<Http1>) {
        let unused = Unused { since: Instant::now(), connection };
        let mut kept = self.kept();
        if kept.http1.len() < KEEP_MANY {
            kept.http1.push(unused);
        }
    }

    /// Shares an HTTP/2 connection.
    pub(crate) fn share(&self, connection: Http2) {
        self.kept().http2 = Some(connection);
    }

    /// Lets go of what has ended or was unused for long. Whether anything is left.
    fn sweep(&self) -> bool {
        let mut kept = self.kept();
        kept.http1.retain_mut(|unused| unused.since.elapsed() < KEEP && unused.connection.is_fit());
        kept.http2.take_if(|shared| shared.is_closed());
        !kept.http1.is_empty() || kept.http2.is_some()
    }
}

/// Sweeps now and then, for as long as the pool is in use.
pub(crate) async fn sweep_regularly(pool: std::sync::Weak<Pool>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    loop {
        ticks.tick().await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep();
    }
}

/// Shared between all that ask one upstream.
pub(crate) type SharedPool = Arc<Pool>;
