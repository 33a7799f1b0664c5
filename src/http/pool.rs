//! Connections to upstreams, kept for the next request.
//!
//! A kept HTTP/1 connection has no task: whoever uses it drives it, so that a
//! request, its answer and its connection live and end together. It is looked
//! at when it is taken out, and now and then by a sweep.
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    task::{Context, Poll, Waker},
    time::Duration,
};

use hyper::client::conn::{http1, http2};
use tokio::time::Instant;

use super::{body::Body, target::Origin};
use crate::{steady::Steady, workers};

/// How long an unused connection is kept.
const KEEP: Duration = Duration::from_secs(90);
/// How many unused connections to one upstream are kept.
const KEEP_MANY: usize = 256;

/// Whose connections they are: no two identities share one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    pub(crate) origin: Origin,
    /// The TLS settings' number: client certificate, trust, name.
    pub(crate) identity: usize,
}

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
    hosts: Mutex<HashMap<Key, Kept>>,
}

#[derive(Default)]
struct Kept {
    http1: Vec<Unused>,
    http2: Option<http2::SendRequest<Body>>,
    /// The upstream has refused HTTP/1.1.
    only_http2: bool,
    /// The upstream had the choice, and took HTTP/1.1.
    only_http1: bool,
}

struct Unused {
    since: Instant,
    /// The worker whose thread hears of its socket first.
    worker: Option<usize>,
    connection: Http1,
}

/// A connection to send a request on.
pub(crate) enum Connection {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<Body>),
}

impl Pool {
    /// A connection that is ready, in HTTP/2 if that is wanted: the most recently used one of this worker, else of another.
    pub(crate) fn take(&self, key: &Key, http2: bool) -> Option<Connection> {
        let mut dropped = Vec::new();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = hosts.get_mut(key)?;
        if let Some(sender) = kept.http2.as_ref().filter(|_| http2 || kept.only_http2) {
            if !sender.is_closed() {
                return Some(Connection::Http2(sender.clone()));
            }
            kept.http2 = None;
        }
        let here = workers::here();
        while let Some(last) = kept.http1.len().checked_sub(1) {
            let own = kept.http1.iter().rposition(|unused| unused.worker == here);
            let Unused { mut connection, .. } = kept.http1.remove(own.unwrap_or(last));
            if connection.is_fit() {
                return Some(Connection::Http1(Box::new(connection)));
            }
            dropped.push(connection);
        }
        None
    }

    /// Whether the upstream speaks HTTP/2, if that is known. A kept HTTP/1 connection does not tell: its client may have
    /// wanted no other.
    pub(crate) fn speaks_http2(&self, key: &Key) -> Option<bool> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = hosts.get(key)?;
        let shared = kept.http2.as_ref().is_some_and(|sender| !sender.is_closed());
        if shared || kept.only_http2 { Some(true) } else { kept.only_http1.then_some(false) }
    }

    /// The upstream was offered HTTP/2 and took HTTP/1.1.
    pub(crate) fn only_http1(&self, key: &Key) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(key.clone()).or_default().only_http1 = true;
    }

    /// Keeps a connection for the next request.
    pub(crate) fn give_back(&self, key: &Key, mut connection: Http1) {
        connection.reused = true;
        self.keep_fresh(key, connection);
    }

    /// Keeps a connection that has not carried a request yet.
    pub(crate) fn keep_fresh(&self, key: &Key, connection: Http1) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = hosts.entry(key.clone()).or_default();
        if kept.http1.len() < KEEP_MANY {
            kept.http1.push(Unused { since: Instant::now(), worker: workers::here(), connection });
        }
    }

    /// Shares an HTTP/2 connection.
    pub(crate) fn share(&self, key: &Key, sender: http2::SendRequest<Body>) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(key.clone()).or_default().http2 = Some(sender);
    }

    /// The upstream speaks HTTP/2 alone, so that even requests that came in HTTP/1 go over it.
    pub(crate) fn only_http2(&self, key: &Key) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(key.clone()).or_default().only_http2 = true;
    }

    /// Lets go of connections that have ended, or that nobody has used for long.
    pub(crate) fn sweep(&self) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        for kept in hosts.values_mut() {
            kept.http1.retain_mut(|unused| unused.since.elapsed() < KEEP && unused.connection.is_fit());
            if kept.http2.as_ref().is_some_and(http2::SendRequest::is_closed) {
                kept.http2 = None;
            }
        }
        hosts.retain(|_, kept| !kept.http1.is_empty() || kept.http2.is_some());
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
