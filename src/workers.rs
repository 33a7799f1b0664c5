//! The threads on which connections live.
use std::{
    cell::Cell,
    io,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Handle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

thread_local! {
    static HERE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Which of an instance's workers this thread is, if it is one.
pub(crate) fn here() -> Option<usize> {
    HERE.get()
}

/// Threads with a runtime each. A connection stays on its thread, so that whoever wakes it is that thread itself:
/// with a queue that all threads share, each event of each stream would start another one for nothing.
pub(crate) struct Workers {
    all: Vec<Worker>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// One of the threads.
pub(crate) struct Worker {
    index: usize,
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// Counts as a connection of its worker for as long as it is held.
pub(crate) struct WorkerSlot(Arc<AtomicUsize>);

/// How long what was told to stop may take to do so.
const GRACE: Duration = Duration::from_secs(1);

impl Workers {
    /// Starts so many threads; `tasks` is all that runs on them.
    ///
    /// # Errors
    /// If the system refuses a thread or what its runtime needs.
    pub(crate) fn start(count: usize, tasks: &TaskTracker) -> io::Result<Arc<Self>> {
        let mut workers =
            Self { all: Vec::with_capacity(count), tasks: tasks.clone(), stop: CancellationToken::new() };
        for index in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let handle = runtime.handle().clone();
            let (stop, tasks) = (workers.stop.clone(), tasks.clone());
            thread::Builder::new().name(format!("aconite-{index}")).spawn(move || {
                HERE.set(Some(index));
                runtime.block_on(async {
                    stop.cancelled().await;
                    // What is left then is dropped with the runtime.
                    let _ = tokio::time::timeout(GRACE, tasks.wait()).await;
                });
            })?;
            workers.all.push(Worker { index, runtime: handle, connections: Arc::default() });
        }
        Ok(Arc::new(workers))
    }

    /// The worker with the fewest connections; this thread before others that have hardly fewer. `None` without workers.
    pub(crate) fn least_busy(&self) -> Option<&Worker> {
        let least = self.all.iter().min_by_key(|worker| worker.load())?;
        let own = here().and_then(|here| self.all.get(here));
        own.filter(|own| own.load() <= least.load() + least.load() / 8 + 1).or(Some(least))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks.close();
        self.stop.cancel();
    }
}

impl Worker {
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether it is this thread.
    pub(crate) fn is_here(&self) -> bool {
        here() == Some(self.index)
    }

    /// Takes a place for a connection.
    pub(crate) fn place(&self) -> WorkerSlot {
        self.connections.fetch_add(1, AcqRel);
        WorkerSlot(Arc::clone(&self.connections))
    }

    fn load(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_spread_and_tasks_end_with_their_workers() {
        let tasks = TaskTracker::new();
        let workers = Workers::start(2, &tasks).unwrap();
        let places: Vec<_> = (0..10).map(|_| workers.least_busy().unwrap().place()).collect();
        assert!(workers.all.iter().all(|worker| worker.load() == 5));
        drop(places);
        let dropped = CancellationToken::new();
        let guard = dropped.clone().drop_guard();
        let first = workers.least_busy().unwrap().runtime().clone();
        first.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        drop(workers);
        tokio::time::timeout(Duration::from_secs(10), dropped.cancelled()).await.unwrap();
    }

    #[tokio::test]
    async fn a_worker_keeps_a_connection_while_others_have_hardly_fewer() {
        let workers = Workers::start(2, &TaskTracker::new()).unwrap();
        let second = workers.all[1].runtime().clone();
        let asked = Arc::clone(&workers);
        let placed = second.spawn(async move {
            let mut places = Vec::new();
            let mut at_home = Vec::new();
            for _ in 0..3 {
                let worker = asked.least_busy().unwrap();
                at_home.push(worker.is_here());
                places.push(worker.place());
            }
            at_home
        });
        assert_eq!(placed.await.unwrap(), [true, true, false]);
    }
}
