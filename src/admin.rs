//! The admin API's listener.
use std::{convert::Infallible, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How long a request's head may take.
const HEADER_TIME: Duration = Duration::from_secs(15);

/// A running admin API. Ends when it is dropped.
pub(crate) struct AdminServer {
    /// Answers what was asked and takes no more.
    closing: CancellationToken,
    /// Lets go of the connections.
    dropped: CancellationToken,
    tasks: TaskTracker,
}

impl AdminServer {
    /// Begins to answer on a bound socket.
    ///
    /// # Errors
    /// If the socket cannot be used.
    pub(crate) fn start(socket: std::net::TcpListener, router: Router) -> std::io::Result<Self> {
        let listener = TcpListener::from_std(socket)?;
        let (closing, dropped, tasks) =
            (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let accepting = accept(listener, router, closing.clone(), dropped.clone(), tasks.clone());
        let closed = closing.clone();
        tasks.spawn(async move {
            tokio::select! {
                never = accepting => match never {},
                () = closed.cancelled() => {}
            }
        });
        Ok(Self { closing, dropped, tasks })
    }

    /// Stops accepting and lets answers under way end, at most so long.
    pub(crate) async fn close(self, patience: Duration) {
        self.closing.cancel();
        self.tasks.close();
        // What goes on longer, such as the live feed, ends with `self`.
        let _ = timeout(patience, self.tasks.wait()).await;
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.closing.cancel();
        self.dropped.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    closing: CancellationToken,
    dropped: CancellationToken,
    tasks: TaskTracker,
) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // The kernel may refuse on a socket that is gone already; the first read then tells.
                let _ = stream.set_nodelay(true);
                let service = TowerToHyperService::new(router.clone());
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIME)
                    .serve_connection(TokioIo::new(stream), service);
                let (closing, dropped) = (closing.clone(), dropped.clone());
                tasks.spawn(async move {
                    let mut connection = std::pin::pin!(connection);
                    let ended = tokio::select! {
                        ended = connection.as_mut() => ended,
                        () = dropped.cancelled() => return,
                        () = closing.cancelled() => {
                            connection.as_mut().graceful_shutdown();
                            tokio::select! {
                                ended = connection.as_mut() => ended,
                                () = dropped.cancelled() => return,
                            }
                        }
                    };
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection to the admin API broke");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, or a client that left while it waited: go on, gently.
                tracing::warn!(%error, "cannot accept a connection to the admin API");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
