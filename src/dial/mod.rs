//! Connections to upstreams: names to addresses, addresses to sockets.
mod chains;
mod target;

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use http::StatusCode;
use thiserror::Error;
use tokio::{net::TcpStream, sync::Semaphore, task::JoinSet, time::timeout};

use crate::{files, link, tls::host::Readable};
pub(crate) use chains::Chains;
use chains::arrives;
pub(crate) use target::{DialPlan, DialTarget, Dialer};

/// How long one address may take before the next is tried beside it (RFC 8305, section 5).
const STAGGER: Duration = Duration::from_millis(250);

/// Why there is no connection to an upstream.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    /// The name has no address.
    #[error("no address for `{}`: {source}", Readable(host))]
    Resolve { host: String, source: io::Error },
    /// No address answered.
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    /// It took too long.
    #[error("no connection to `{}` within {} ms", Readable(host), limit.as_millis())]
    Timeout { host: String, limit: Duration },
    /// It would come back to the proxy itself.
    #[error("a connection to {0} would come back to this proxy")]
    Loop(SocketAddr),
    /// It would lead to the admin API, which takes whoever connects from this machine for its operator.
    #[error(
        "{0} is the admin API: a proxy connects to it only if the configuration writes its address; connect to it directly (NO_PROXY), or give it a token"
    )]
    Admin(SocketAddr),
}

/// Where no connection of a proxy may lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffLimits {
    /// The proxy's own listener.
    pub(crate) own: Option<SocketAddr>,
    /// The admin API.
    pub(crate) admin: Option<SocketAddr>,
    /// The instance's other proxies.
    pub(crate) chains: Arc<Chains>,
}

impl OffLimits {
    /// Whether a connection to `address` may be made. The admin API may be connected to if the configuration has
    /// `written` its address.
    ///
    /// # Errors
    /// Whose address it is.
    pub(crate) fn check(&self, address: SocketAddr, written: bool) -> Result<(), DialError> {
        self.check_kept(address, written)?;
        if self.own.is_some_and(|own| self.chains.closes(own, address)) {
            return Err(DialError::Loop(address));
        }
        Ok(())
    }

    /// The same for a connection that was made before.
    ///
    /// # Errors
    /// Whose address it is.
    pub(crate) fn check_kept(&self, address: SocketAddr, written: bool) -> Result<(), DialError> {
        let arrives_at = |listener: Option<SocketAddr>| listener.is_some_and(|own| arrives(address, own));
        if arrives_at(self.own) {
            return Err(DialError::Loop(address));
        }
        if !written && arrives_at(self.admin) {
            return Err(DialError::Admin(address));
        }
        Ok(())
    }
}

impl DialError {
    /// The status of the proxy's own answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Resolve { .. } | Self::Connect { .. } => StatusCode::BAD_GATEWAY,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Loop(_) => StatusCode::LOOP_DETECTED,
            Self::Admin(_) => StatusCode::FORBIDDEN,
        }
    }

    /// A word for `x-aconite-error` and the journal.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "upstream_dns",
            Self::Connect { .. } => "upstream_connect",
            Self::Timeout { .. } => "upstream_connect_timeout",
            Self::Loop(_) => "loop",
            Self::Admin(_) => "admin_api",
        }
    }
}

/// Connects to the first address that answers, and tells it: all are tried, staggered.
///
/// # Errors
/// If none answers within `limit`, or one of them `may` not be connected to.
async fn dial(
    host: &str,
    port: u16,
    limit: Duration,
    may: impl Fn(SocketAddr) -> Result<(), DialError>,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let attempt = async {
        let addresses = resolve(host, port).await?;
        addresses.iter().copied().try_for_each(&may)?;
        first_to_answer(host, addresses).await
    };
    let mut attempt = pin!(attempt);
    let (stream, address) = match at_once(attempt.as_mut()).await {
        Some(dialled) => dialled?,
        None => timeout(limit, attempt)
            .await
            .unwrap_or_else(|_| Err(DialError::Timeout { host: host.to_owned(), limit }))?,
    };
    // The kernel may refuse on a socket that is gone already; the first read then tells.
    link::prepare(&stream);
    Ok((stream, address))
}

/// What a future comes to as soon as the runtime has looked at its sockets once. To wait for more a clock has to be set,
/// and setting it wakes the runtime for nothing where the upstream is near.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..2 {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let failed = |source| DialError::Resolve { host: host.to_owned(), source };
    let name = (host.to_owned(), port);
    let found = LOOKUPS.run(move || name.to_socket_addrs().map(Vec::from_iter)).await.map_err(failed)?;
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "no addresses")));
    }
    Ok(interleaved(found))
}

/// Look-ups of names under way. The system's resolver blocks a thread for each and cannot be interrupted: slow name
/// servers must not use up the threads that the runtime has for such work.
static LOOKUPS: Lookups = Lookups(Semaphore::const_new(64));

struct Lookups(Semaphore);

impl Lookups {
    /// Looks a name up on a thread that may block. Whoever stops waiting leaves the place taken until that is over.
    async fn run<T: Send + 'static>(
        &'static self,
        look: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let place = self.0.acquire().await.map_err(io::Error::other)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "the resolver of the system can only be waited for; how many wait is bounded"
        )]
        let looking = tokio::task::spawn_blocking(move || {
            let _place = place;
            look()
        });
        looking.await.map_err(io::Error::other)?
    }
}

/// The two families in turn, the resolver's first one first.
fn interleaved(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let v6_first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| address.is_ipv6() == v6_first);
    let longest = first.len().max(second.len());
    (0..longest).flat_map(|i| [first.get(i), second.get(i)]).flatten().copied().collect()
}

async fn first_to_answer(
    host: &str,
    addresses: Vec<SocketAddr>,
) -> Result<(TcpStream, SocketAddr), DialError> {
    let mut addresses = addresses.into_iter();
    let mut tries = JoinSet::new();
    let mut failure = None;
    loop {
        match addresses.next() {
            // The usual case needs no task of its own.
            Some(address) if tries.is_empty() && addresses.len() == 0 => {
                return connect(address).await.map_err(|last| failure.unwrap_or(last));
            }
            Some(address) => {
                tries.spawn(connect(address));
            }
            None if tries.is_empty() => {
                let nothing = io::Error::new(io::ErrorKind::NotFound, "no addresses");
                let nowhere = || DialError::Resolve { host: host.to_owned(), source: nothing };
                return Err(failure.unwrap_or_else(nowhere));
            }
            None => {}
        }
        let more = addresses.len() > 0;
        tokio::select! {
            Some(joined) = tries.join_next() => match joined {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => { failure.get_or_insert(error); }
                Err(_) => {}
            },
            () = tokio::time::sleep(STAGGER), if more => {}
        }
    }
}

async fn connect(address: SocketAddr) -> Result<(TcpStream, SocketAddr), DialError> {
    let connected = TcpStream::connect(address).await.and_then(|stream| files::Use::Upstream.check(stream));
    connected.map(|stream| (stream, address)).map_err(|source| DialError::Connect { address, source })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn prx_14_an_upstream_on_the_second_family_is_found() {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let refused: SocketAddr = ([127, 0, 0, 1], port).into();
        let works = listener.local_addr().unwrap();
        let (stream, address) = first_to_answer("localhost", vec![refused, works]).await.unwrap();
        assert_eq!((stream.peer_addr().unwrap(), address), (works, works));
    }

    #[tokio::test]
    async fn prx_14_an_address_that_never_answers_does_not_hold_up_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let works = listener.local_addr().unwrap();
        // A listener that never accepts: once its queue is full, the kernel drops what comes.
        let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        silent.listen(0).unwrap();
        let address = silent.local_addr().unwrap().as_socket().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
            queued.push(stream.unwrap());
        }
        let dialled = timeout(Duration::from_secs(3), first_to_answer("x", vec![address, works])).await;
        let (stream, told) = dialled.unwrap().unwrap();
        assert_eq!((stream.peer_addr().unwrap(), told), (works, works));
    }

    #[tokio::test]
    async fn prx_13_the_proxy_does_not_connect_to_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let off_limits = OffLimits { own: Some(own), ..OffLimits::default() };
        for host in ["localhost", "127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"] {
            let may = |address| off_limits.check(address, true);
            let error = dial(host, own.port(), LIMIT, may).await.unwrap_err();
            assert!(matches!(error, DialError::Loop(_)), "{host}: {error}");
        }
        dial("127.0.0.1", own.port(), LIMIT, |_| Ok(())).await.unwrap();
    }

    /// A slow name server holds up other look-ups at most until theirs, and takes no more threads than it may.
    #[tokio::test]
    async fn a_15_name_look_ups_cannot_use_up_the_threads() {
        static TWO: Lookups = Lookups(Semaphore::const_new(2));
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = Arc::new(std::sync::Mutex::new(blocked));
        let slow = || {
            let blocked = Arc::clone(&blocked);
            TWO.run(move || blocked.lock().unwrap().recv().map_err(io::Error::other))
        };
        for _ in 0..2 {
            // Whoever asked has stopped waiting; the thread has not.
            timeout(Duration::from_millis(20), slow()).await.unwrap_err();
        }
        let third = tokio::spawn(TWO.run(|| Ok("third")));
        tokio::task::yield_now().await;
        assert!(TWO.0.available_permits() == 0 && !third.is_finished());
        release.send(()).unwrap();
        assert_eq!(timeout(LIMIT, third).await.unwrap().unwrap().unwrap(), "third");
        release.send(()).unwrap();
    }

    /// Whoever answers for a name decides where it leads, so that only a written address may be the admin API's.
    #[test]
    fn a_01_the_admin_api_is_only_for_who_writes_its_address() {
        let admin: SocketAddr = ([127, 0, 0, 1], 8474).into();
        let off_limits = OffLimits { admin: Some(admin), ..OffLimits::default() };
        assert!(matches!(off_limits.check(admin, false), Err(DialError::Admin(_))));
        off_limits.check(admin, true).unwrap();
    }

    #[test]
    fn families_take_turns() {
        let all = ["[::1]:1", "[::2]:1", "127.0.0.1:1"].map(|address| address.parse().unwrap());
        let order = ["[::1]:1", "127.0.0.1:1", "[::2]:1"].map(|address| address.parse().unwrap());
        assert_eq!(interleaved(all.to_vec()), order);
    }
}
