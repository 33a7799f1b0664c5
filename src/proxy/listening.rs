//! One listener: it accepts, bounds, and hands over.
use std::{
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{ProxyContext, serve};
use crate::{connection::ConnectionShared, supervisor::Shared, workers::Workers};

/// A proxy that listens.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
    served: Arc<RwLock<Served>>,
}

/// What newly accepted connections belong to.
struct Served {
    context: Arc<ProxyContext>,
    /// Closes them.
    stop: CancellationToken,
}

impl Listening {
    /// Begins to accept on a bound socket.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub(crate) fn start(
        socket: std::net::TcpListener,
        context: Arc<ProxyContext>,
        shared: &Shared,
    ) -> std::io::Result<Self> {
        let address = socket.local_addr()?;
        let served = Arc::new(RwLock::new(Served { context, stop: CancellationToken::new() }));
        let worker = shared.workers.least_busy().ok_or(std::io::ErrorKind::Unsupported)?;
        let listener = {
            let _on = worker.runtime().enter();
            TcpListener::from_std(socket)?
        };
        let doors = Doors { workers: Arc::clone(&shared.workers), tasks: shared.tracker.clone() };
        let accepting = worker.runtime().spawn(accept(listener, Arc::clone(&served), doors));
        Ok(Self { address, accepting, served })
    }

    /// Goes on for another proxy: connections of the one before are closed.
    pub(crate) fn hand_to(&self, context: Arc<ProxyContext>) {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        served.stop.cancel();
        *served = Served { context, stop: CancellationToken::new() };
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
    }
}

/// Where accepted connections go.
struct Doors {
    workers: Arc<Workers>,
    tasks: TaskTracker,
}

impl Doors {
    /// Runs a connection on the worker that has the fewest. An error says that the socket cannot be had there.
    fn open<F>(
        &self,
        stream: TcpStream,
        run: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) -> std::io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(worker) = self.workers.least_busy() else { return Ok(()) };
        let place = worker.place();
        if worker.is_here() {
            let running = run(stream);
            self.tasks.spawn(async move {
                running.await;
                drop(place);
            });
            return Ok(());
        }
        let stream = stream.into_std()?;
        let moved = async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => run(stream).await,
                Err(error) => tracing::warn!(%error, "a connection cannot go on"),
            }
            drop(place);
        };
        self.tasks.spawn_on(moved, worker.runtime());
        Ok(())
    }
}

async fn accept(listener: TcpListener, served: Arc<RwLock<Served>>, doors: Doors) {
    let now = || {
        let served = served.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&served.context), served.stop.child_token())
    };
    let limit = Arc::new(Semaphore::new(now().0.spec.max_connections.unwrap_or(10_000)));
    loop {
        let Ok(permit) = Arc::clone(&limit).acquire_owned().await else { return };
        let accepted = listener.accept().await.and_then(|(stream, peer)| {
            let (proxy, stop) = now();
            doors.open(stream, move |stream| async move {
                let shared = Arc::new(ConnectionShared::new(&proxy, peer, stop));
                let id = shared.id;
                proxy.open().insert(id, Arc::clone(&shared));
                serve(stream, shared).await;
                proxy.open().remove(&id);
                drop(permit);
            })
        });
        if let Err(error) = accepted {
            // Out of file descriptors, or a client that left while it waited: go on, gently.
            tracing::warn!(proxy = %now().0.name, %error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
