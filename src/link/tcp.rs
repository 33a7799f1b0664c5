//! A TCP connection: both directions between a client and an upstream, in one task.
use std::{
    future::poll_fn,
    io::{self, Read as _},
    net::Shutdown,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use aconite_toxics::{End, How, Side};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::{
    Counters, Governor, Lane,
    pump::{Pump, PumpEnd},
};

/// Relays between two sockets until both directions are over, a toxic or a peer breaks the
/// connection, or `stop` is ready; then closes both sockets.
///
/// - Each direction ends by itself: a FIN passes on what it ends, and the other direction goes on.
/// - A reset, by a toxic or a peer, becomes an RST on both sides, and what was not sent is dropped.
/// - A close, by a toxic or `stop`, becomes a FIN on both sides. To let data drain first is the
///   business of whoever completes `stop`.
///
/// While no toxic acts on a direction, its data passes as it is read, bulk without entering user
/// space. An idle connection owns no buffer. At most 256 KiB wait for a receiver in each
/// direction, besides what toxics hold.
pub async fn relay<G: Governor>(
    client: TcpStream,
    upstream: TcpStream,
    up: Lane<G>,
    down: Lane<G>,
    counters: &Counters,
    stop: impl Future<Output = ()>,
) -> End {
    let mut relay = Relay {
        client,
        upstream,
        up: Pump::new(up),
        down: Pump::new(down),
        up_over: None,
        down_over: None,
        first: None,
        counters,
    };
    let mut stop = pin!(stop);
    poll_fn(|cx| {
        if stop.as_mut().poll(cx).is_ready() {
            relay.close();
            return Poll::Ready(End { side: Side::Proxy, how: How::Fin });
        }
        relay.poll(cx)
    })
    .await
}

/// Sets what every socket of the data plane has: no delay of small writes, and probes that find a
/// peer that vanished without a word. On Linux what a listener accepts has what the listener has.
pub fn prepare<'s>(socket: impl Into<SockRef<'s>>) {
    let socket = socket.into();
    let keepalive = TcpKeepalive::new().with_time(PROBE_AFTER);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_interval(PROBE_AFTER);
    // A socket that refuses them has ended already, which reading it will tell.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
}

/// How long a silent peer is left alone before it is probed, and between probes.
const PROBE_AFTER: Duration = Duration::from_secs(15);

/// Makes a socket break the connection when it is dropped: RST, and what was not sent is dropped.
pub(super) fn break_on_drop(socket: &TcpStream) {
    // It fails only if the connection is gone already.
    let _ = socket.set_zero_linger();
}

/// Sends a FIN, and takes what has come already: to drop a socket with unread data would break the connection.
pub fn finish(socket: &TcpStream) {
    let _ = SockRef::from(socket).shutdown(Shutdown::Write);
    let mut unread = [0; 4_096];
    for _ in 0..MOST_UNREAD / unread.len() {
        // Not through the runtime, which may not know that there is something to read.
        match (&*SockRef::from(socket)).read(&mut unread) {
            Ok(1..) => {}
            Ok(0) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// How much unread data is taken for the sake of a clean close, in bytes.
const MOST_UNREAD: usize = 1024 * 1024;

struct Relay<'a, G> {
    client: TcpStream,
    upstream: TcpStream,
    up: Pump<G>,
    down: Pump<G>,
    /// How each direction ended.
    up_over: Option<PumpEnd>,
    down_over: Option<PumpEnd>,
    /// Who sent the first FIN.
    first: Option<Side>,
    counters: &'a Counters,
}

impl<G: Governor> Relay<'_, G> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let Self { client, upstream, up, down, up_over, down_over, first, counters } = self;
        if let Some(PumpEnd::Ended) = up_over {
            *up_over = Some(up.poll_after_end(cx));
        } else if up_over.is_none() {
            let client_is_gone = down_over.as_ref().and_then(PumpEnd::refused);
            let polled = up.poll(cx, client, upstream, &counters.upstream, client_is_gone);
            *up_over = ready_or_none(polled);
            *first = first.or(up.sender_ended.map(|_| Side::Client));
        }
        if let Some(PumpEnd::Ended) = down_over {
            *down_over = Some(down.poll_after_end(cx));
        } else if down_over.is_none() {
            let upstream_is_gone = up_over.as_ref().and_then(PumpEnd::refused);
            let polled = down.poll(cx, upstream, client, &counters.downstream, upstream_is_gone);
            *down_over = ready_or_none(polled);
            *first = first.or(down.sender_ended.map(|_| Side::Upstream));
        }
        match (&self.up_over, &self.down_over) {
            (Some(PumpEnd::Close), _) | (_, Some(PumpEnd::Close)) => {
                self.close();
                Poll::Ready(End { side: Side::Toxic, how: How::Fin })
            }
            (Some(PumpEnd::Reset), _) => Poll::Ready(self.reset(Side::Client, self.up.sender_ended)),
            (_, Some(PumpEnd::Reset)) => Poll::Ready(self.reset(Side::Upstream, self.down.sender_ended)),
            (Some(PumpEnd::Refused(how)), Some(_)) => Poll::Ready(self.reset(Side::Upstream, Some(*how))),
            (Some(_), Some(PumpEnd::Refused(how))) => Poll::Ready(self.reset(Side::Client, Some(*how))),
            (Some(PumpEnd::Ended), Some(PumpEnd::Ended)) => {
                Poll::Ready(End { side: self.first.unwrap_or(Side::Toxic), how: How::Fin })
            }
            (None, _) | (_, None) => Poll::Pending,
        }
    }

    /// Ends both sides by FIN.
    fn close(&self) {
        finish(&self.client);
        finish(&self.upstream);
    }

    /// Ends both sides by RST, because of what one side did if it did anything but finish regularly.
    fn reset(&self, side: Side, did: Option<How>) -> End {
        break_on_drop(&self.client);
        break_on_drop(&self.upstream);
        match did {
            Some(how) if how != How::Fin => End { side, how },
            _ => End { side: Side::Toxic, how: How::Rst },
        }
    }
}

fn ready_or_none<T>(polled: Poll<T>) -> Option<T> {
    match polled {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests;
