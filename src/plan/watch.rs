//! Hearing of a plan's changes.
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use atomic_waker::AtomicWaker;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Plan;

/// The plan of a proxy as it changes, and the order to break one connection.
pub(crate) struct PlanWatch {
    plan: watch::Receiver<Arc<Plan>>,
    break_off: Option<CancellationToken>,
    waiting: Option<(Changed, Arc<ChangeFlag>)>,
}

/// Gives the receiver back, and whether the order came.
type Changed = Pin<Box<dyn Future<Output = (watch::Receiver<Arc<Plan>>, bool)> + Send>>;

/// Remembers that something may have changed, so that a task that is polled for other reasons need not look.
struct ChangeFlag {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for ChangeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Release);
        self.task.wake();
    }
}

impl PlanWatch {
    pub(crate) fn new(plan: watch::Receiver<Arc<Plan>>, break_off: Option<CancellationToken>) -> Self {
        Self { plan, break_off, waiting: None }
    }

    /// Whether the plan is no longer the one that was last seen.
    pub(crate) fn has_changed(&self) -> bool {
        // An error says that the proxy is gone; its connections end by other means.
        self.plan.has_changed().unwrap_or(false)
    }

    /// Comes back ready when the plan is no longer the one that was last seen, or the order came.
    pub(crate) fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (changed, bell) = self.waiting.get_or_insert_with(|| {
            let bell = ChangeFlag { rung: AtomicBool::new(true), task: AtomicWaker::new() };
            (Box::pin(changed(self.plan.clone(), self.break_off.clone())), Arc::new(bell))
        });
        bell.task.register(cx.waker());
        if !bell.rung.swap(false, Acquire) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(bell));
        let (plan, broken) = ready!(changed.as_mut().poll(&mut Context::from_waker(&waker)));
        self.plan = plan;
        self.waiting = None;
        if broken {
            self.break_off = None;
        }
        Poll::Ready(())
    }

    /// Whether the order to break the connection has come.
    pub(crate) fn is_broken(&self) -> bool {
        self.break_off.is_none()
    }

    /// The plan now, which counts as seen.
    pub(crate) fn see(&mut self) -> Arc<Plan> {
        Arc::clone(&self.plan.borrow_and_update())
    }
}

async fn changed(
    mut plan: watch::Receiver<Arc<Plan>>,
    break_off: Option<CancellationToken>,
) -> (watch::Receiver<Arc<Plan>>, bool) {
    let ordered = async {
        match &break_off {
            Some(order) => order.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let broken = tokio::select! {
        Ok(()) = plan.changed() => false,
        () = ordered => true,
    };
    (plan, broken)
}
