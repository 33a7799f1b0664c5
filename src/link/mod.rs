//! One direction of one stream of bytes, and the toxics on it: sockets and HTTP bodies alike.
mod blocks;
mod client_io;
mod control;
mod counters;
mod ending;
mod frame_watch;
mod head_watch;
mod held_bytes;
mod lane;
mod peek;
mod pump;
mod socket;
mod splice;
mod tcp;
#[cfg(test)]
mod testing;
mod timer;

pub use client_io::ClientIo;
pub use control::{Framing, OpenStream, Phase, SocketControl};
pub use counters::{Counters, Traffic};
pub use held_bytes::ProxyHeld;
pub use lane::Lane;
pub use peek::{Peek, closed_by_peer};
pub use socket::ToxicSocket;
pub use tcp::{finish, prepare, relay};
pub use timer::Timer;

use std::{sync::Arc, time::Duration};

use aconite_toxics::{Report, StageId, StreamFilter, Weight};
use bytes::Bytes;

/// Decides which toxics act on a stream of bytes, or of other items, now and after every change.
///
/// The link asks; whoever knows proxies, matches and budgets answers.
pub trait Governor<T: Weight = Bytes>: Send {
    /// Whether the toxics may have changed since [`wanted`](Self::wanted) was last asked. Cheap: no waker is kept.
    fn has_changed(&self) -> bool;

    /// Comes back ready when the toxics may have changed since [`wanted`](Self::wanted) was last asked.
    fn poll_changed(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<()>;

    /// The toxics that act on the stream, in order.
    fn wanted(&mut self) -> Vec<StageId>;

    /// Starts one of them; `None` if it has nothing to do here.
    fn start(&mut self, id: StageId) -> Option<Box<dyn StreamFilter<T>>>;

    /// One of them has something to say for the record.
    fn report(&mut self, id: StageId, report: Report);

    /// What all toxics of the proxy hold; what the toxics on this stream hold is counted in it. Default: the stream is on
    /// its own.
    fn held(&self) -> Arc<ProxyHeld> {
        Arc::default()
    }

    /// One of them has let go what it held for so long. Not told of what was not held.
    fn waited(&mut self, _id: StageId, _wait: Duration) {}
}
