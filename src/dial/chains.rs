//! Loops: connections of an instance's proxies that come back to the proxy they left.
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// How long a link between two proxies is remembered after the last connection was made over it. A loop makes the next
/// connection within milliseconds.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Which proxies of an instance listen where, and which have lately connected to which.
#[derive(Debug, Default)]
pub(crate) struct Chains(Mutex<Links>);

#[derive(Debug, Default)]
struct Links {
    listeners: Vec<SocketAddr>,
    /// From one proxy's listener to another's, with the time of the last connection.
    made: HashMap<(SocketAddr, SocketAddr), Instant>,
}

impl Chains {
    fn links(&self) -> MutexGuard<'_, Links> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A proxy listens here.
    pub(crate) fn add(&self, listener: SocketAddr) {
        self.links().listeners.push(listener);
    }

    /// A proxy no longer listens here.
    pub(crate) fn remove(&self, listener: SocketAddr) {
        let mut links = self.links();
        if let Some(at) = links.listeners.iter().position(|known| *known == listener) {
            links.listeners.swap_remove(at);
        }
        links.forget(listener);
    }

    /// Another proxy listens here now, with an upstream of its own.
    pub(crate) fn forget(&self, listener: SocketAddr) {
        self.links().forget(listener);
    }

    /// The proxy that listens on `own` is about to connect to `address`. Whether that closes a loop.
    pub(crate) fn closes(&self, own: SocketAddr, address: SocketAddr) -> bool {
        let mut links = self.links();
        let Some(to) = links.listeners.iter().copied().find(|listener| arrives(address, *listener)) else {
            return false;
        };
        let now = Instant::now();
        links.made.retain(|_, last| now.duration_since(*last) < REMEMBERED);
        if links.leads(to, own) {
            return true;
        }
        links.made.insert((own, to), now);
        false
    }
}

impl Links {
    fn forget(&mut self, listener: SocketAddr) {
        self.made.retain(|(from, to), _| *from != listener && *to != listener);
    }

    /// Whether connections lead from one proxy to the other.
    fn leads(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let (mut seen, mut at) = (vec![from], 0);
        while let Some(&here) = seen.get(at) {
            if here == to {
                return true;
            }
            let next = self.made.keys().filter(|(from, _)| *from == here).map(|(_, to)| *to);
            let new: Vec<_> = next.filter(|next| !seen.contains(next)).collect();
            seen.extend(new);
            at += 1;
        }
        false
    }
}

/// Whether a connection to `address` arrives at a listener of this machine.
pub(crate) fn arrives(address: SocketAddr, listener: SocketAddr) -> bool {
    let (to, at) = (address.ip().to_canonical(), listener.ip().to_canonical());
    address.port() == listener.port()
        // Who connects to the unspecified address gets the loopback one.
        && (to == at || (to.is_unspecified() && at.is_loopback()) || (at.is_unspecified() && is_local(to)))
}

/// Whether an address is one of this machine's, on whichever interface: only those can be bound.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_09_a_loop_is_noticed_wherever_it_closes() {
        let [a, b, c] = ["127.0.0.1:1", "[::]:2", "127.0.0.1:3"].map(address);
        let chains = Chains::default();
        [a, b, c].iter().for_each(|listener| chains.add(*listener));
        assert!(chains.closes(a, address("127.0.0.1:1")), "itself");
        assert!(chains.closes(b, address("127.0.0.1:2")), "itself on another address");
        assert!(!chains.closes(a, address("127.0.0.1:2")));
        assert!(!chains.closes(a, address("127.0.0.1:2")), "again");
        assert!(!chains.closes(b, address("127.0.0.1:3")));
        assert!(!chains.closes(a, address("127.0.0.1:3")), "a second way is not a loop");
        assert!(!chains.closes(c, address("127.0.0.1:4")), "leaves the instance");
        assert!(chains.closes(c, address("127.0.0.1:1")));
        assert!(chains.closes(c, address("0.0.0.0:2")));
        // What is gone is forgotten.
        chains.remove(b);
        chains.remove(a);
        chains.add(a);
        assert!(!chains.closes(c, address("127.0.0.1:1")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_09_links_are_forgotten() {
        let [a, b] = ["127.0.0.1:1", "127.0.0.1:2"].map(address);
        let chains = Chains::default();
        chains.add(a);
        chains.add(b);
        assert!(!chains.closes(a, b));
        tokio::time::advance(REMEMBERED).await;
        assert!(!chains.closes(b, a), "the upstream was changed meanwhile");
        assert_eq!(chains.links().made.len(), 1);
    }

    #[test]
    fn a_09_every_address_of_the_machine_arrives() {
        for (to, at, arrived) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1:1", true),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "[::]:1", true),
            ("127.0.0.2:1", "0.0.0.0:1", true),
            ("127.0.0.2:1", "127.0.0.1:1", false),
            ("127.0.0.1:2", "127.0.0.1:1", false),
            ("192.0.2.1:1", "0.0.0.0:1", false),
            ("[2001:db8::1]:1", "[::]:1", false),
        ] {
            assert_eq!(arrives(address(to), address(at)), arrived, "{to} {at}");
        }
    }
}
