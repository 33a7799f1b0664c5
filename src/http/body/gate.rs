//! Requests whose body waits for leave.
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::oneshot, time::Sleep};

/// Holds a request's body back until the upstream asks for it (`Expect: 100-continue`).
pub(crate) struct Gate {
    pub(crate) asked: oneshot::Receiver<()>,
    pub(crate) patience: Pin<Box<Sleep>>,
}

impl Gate {
    /// How long an upstream may be silent before the body is sent all the same (RFC 9110, section 10.1.1).
    pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

    /// Whether the body may go.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if Pin::new(&mut self.asked).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.patience.as_mut().poll(cx)
    }
}
