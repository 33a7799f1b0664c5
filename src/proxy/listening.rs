//! One listener: it accepts, bounds, and hands over.
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    net::TcpStream,
    runtime::Handle,
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Proxy, serve};
use crate::{connection::ConnectionShared, dial::Chains, files, workers::Workers};

/// A proxy that listens.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
    served: Arc<RwLock<Served>>,
    chains: Arc<Chains>,
}

/// What newly accepted connections belong to.
struct Served {
    proxy: Arc<Proxy>,
    /// Closes them.
    stop: CancellationToken,
}

/// A socket that is bound, and on which nobody accepts yet: clients wait in its backlog.
pub(crate) struct Bound {
    address: SocketAddr,
    listener: AsyncFd<std::net::TcpListener>,
    runtime: Handle,
    doors: Doors,
}

impl Bound {
    /// Registers a bound socket with a worker.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub(crate) fn new(
        socket: std::net::TcpListener,
        workers: &Arc<Workers>,
        tasks: &TaskTracker,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let worker = workers.least_busy().ok_or(io::ErrorKind::Unsupported)?;
        let listener = {
            let _on = worker.runtime().enter();
            #[expect(
                deprecated,
                reason = "its successor is unsafe for the sake of types that do not own what they name"
            )]
            AsyncFd::try_with_interest(socket, Interest::READABLE)?
        };
        let doors = Doors { workers: Arc::clone(workers), tasks: tasks.clone() };
        Ok(Self { address, listener, runtime: worker.runtime().clone(), doors })
    }

    /// Begins to accept.
    pub(crate) fn accept_for(self, proxy: Arc<Proxy>) -> Listening {
        let Self { address, listener, runtime, doors } = self;
        let chains = Arc::clone(&proxy.dialer().off_limits.chains);
        chains.add(address);
        let served = Arc::new(RwLock::new(Served { proxy, stop: CancellationToken::new() }));
        let accepting = runtime.spawn(accept(listener, Arc::clone(&served), doors));
        Listening { address, accepting, served, chains }
    }
}

impl Listening {
    /// Goes on for another proxy: connections of the one before are closed.
    pub(crate) fn hand_to(&self, proxy: Arc<Proxy>) {
        self.chains.forget(self.address);
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        served.stop.cancel();
        *served = Served { proxy, stop: CancellationToken::new() };
    }

    /// Stops accepting: when this is over, the address is free.
    pub(crate) async fn stop_accepting(&mut self) {
        self.accepting.abort();
        // Aborted is what it shall be.
        let _ = (&mut self.accepting).await;
    }

    /// Closes the connections.
    pub(crate) fn close_connections(&self) {
        self.served.read().unwrap_or_else(PoisonError::into_inner).stop.cancel();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
        self.chains.remove(self.address);
    }
}

/// Where accepted connections go.
struct Doors {
    workers: Arc<Workers>,
    tasks: TaskTracker,
}

impl Doors {
    /// Runs a connection on the worker that has the fewest.
    fn open<F>(&self, stream: std::net::TcpStream, run: impl FnOnce(TcpStream) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(worker) = self.workers.least_busy() else { return };
        let place = worker.place();
        let running = async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => run(stream).await,
                Err(error) => tracing::warn!(%error, "a connection cannot go on"),
            }
            drop(place);
        };
        if worker.is_here() {
            self.tasks.spawn(running);
        } else {
            self.tasks.spawn_on(running, worker.runtime());
        }
    }
}

/// The next connection, which no runtime knows yet: it is for the one of its worker to watch it.
#[cfg(target_os = "linux")]
fn next(listener: &std::net::TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    use rustix::net::{SocketFlags, acceptfrom_with};
    let (stream, peer) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((stream.into(), peer))
}

#[cfg(not(target_os = "linux"))]
fn next(listener: &std::net::TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept()?;
    stream.set_nonblocking(true)?;
    Ok((stream, peer))
}

async fn accept(listener: AsyncFd<std::net::TcpListener>, served: Arc<RwLock<Served>>, doors: Doors) {
    let now = || {
        let served = served.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&served.proxy), served.stop.child_token())
    };
    let most = now().0.site.spec.max_connections.unwrap_or(10_000);
    let limit = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    loop {
        let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
        match listener.async_io(Interest::READABLE, next).await {
            Ok((stream, peer)) => {
                if files::Use::Client.exceeds(&stream) {
                    tracing::warn!(proxy = %now().0.site.name, "few file descriptors are left: new connections wait");
                    files::room_for_clients(&stream).await;
                }
                let (proxy, stop) = now();
                doors.open(stream, move |stream| async move {
                    let shared = Arc::new(ConnectionShared::new(&proxy.site, peer, stop));
                    let id = shared.id;
                    proxy.open().insert(id, Arc::clone(&shared));
                    serve(stream, shared, &proxy.service).await;
                    proxy.open().remove(&id);
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, or a client that left while it waited: go on, gently.
                tracing::warn!(proxy = %now().0.site.name, %error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
