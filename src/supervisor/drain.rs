//! Connections that need not be waited for when the process stops.
use std::{collections::HashMap, convert::Infallible, time::Duration};

use tokio::time::{Instant, sleep};

use super::{Supervisor, entry::Entry};

/// A connection that has moved no byte for so long is idle.
const IDLE: Duration = Duration::from_secs(1);

/// How often connections are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Closes connections that are idle, while a stop waits for the others. An exchange of HTTP never is: it may wait for its
/// answer for long. Nor is a connection whose bytes a toxic holds.
pub(super) async fn close_idle(supervisor: &Supervisor) -> Infallible {
    let mut seen = HashMap::new();
    loop {
        let live: Vec<_> = supervisor.read(|proxies| proxies.values().flat_map(Entry::connections).collect());
        let now = Instant::now();
        for connection in live {
            let (up, down) = (&connection.counters.upstream, &connection.counters.downstream);
            let held = up.received() != up.sent() || down.received() != down.sent();
            let moved = (up.received(), up.sent(), down.received(), down.sent());
            let (before, since) = seen.entry(connection.id).or_insert((moved, now));
            if *before != moved || held || connection.speaks_http() {
                (*before, *since) = (moved, now);
            } else if now - *since >= IDLE {
                connection.stop.cancel();
            }
        }
        sleep(EVERY).await;
    }
}
