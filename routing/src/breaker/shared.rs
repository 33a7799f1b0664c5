//! A breaker that threads share, and permits that cannot be lost.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use aconite_dialects::outcome::Outcome;

use super::{Breaker, Denied, Report, Role, Ticket, Timing};
use crate::Now;

/// Where a shared breaker has the moment and the dice from.
///
/// A permit may be dropped anywhere, also while a task is aborted or a thread panics, where nobody can hand it the moment. So
/// the handle has to be able to ask.
pub trait Clock: Send + Sync {
    /// The moment, and a new roll of the dice.
    ///
    /// It is asked while the breaker is locked, so that moments arrive in order: it must neither block nor use the breaker.
    fn now(&self) -> Now;
}

/// A breaker that threads and tasks share. Cloning it is cheap.
///
/// The lock is held for one operation of the breaker, which never blocks.
#[derive(Clone)]
pub struct SharedBreaker(Arc<Shared>);

struct Shared {
    breaker: Mutex<Breaker>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for SharedBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBreaker").field(&self.0.breaker).finish()
    }
}

impl SharedBreaker {
    /// Shares a breaker.
    pub fn new(breaker: Breaker, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared { breaker: Mutex::new(breaker), clock }))
    }

    /// Asks whether a call may be made.
    ///
    /// # Errors
    /// Why it may not, and when to ask again.
    pub fn try_acquire(&self) -> Result<Permit, Denied> {
        let ticket = self.with(Breaker::try_acquire)?;
        Ok(Permit { ticket: Some(ticket), breaker: self.clone() })
    }

    /// Does something with the breaker, under its lock, at the clock's moment.
    pub fn with<T>(&self, act: impl FnOnce(&mut Breaker, Now) -> T) -> T {
        let mut breaker = self.lock();
        let now = self.0.clock.now();
        act(&mut breaker, now)
    }

    /// A panic in `act` above leaves nothing half done that the breaker could not go on with: it changes by whole operations.
    fn lock(&self) -> MutexGuard<'_, Breaker> {
        self.0.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission to make one call. Dropping it without a result says that the call was cancelled.
#[derive(Debug)]
#[must_use = "dropping a permit cancels its call"]
pub struct Permit {
    /// None once the result is reported.
    ticket: Option<Ticket>,
    breaker: SharedBreaker,
}

impl Permit {
    /// Reports how the attempt came out.
    pub fn report(self, outcome: &Outcome, timing: impl Into<Timing>) {
        let timing = timing.into();
        self.finish(|breaker, ticket, now| breaker.report(ticket, outcome, timing, now));
    }

    /// Reports a result.
    pub fn record(self, report: Report) {
        self.finish(|breaker, ticket, now| breaker.record(ticket, report, now));
    }

    /// The first content has come.
    pub fn first_content(&self) {
        if let Some(ticket) = &self.ticket {
            self.breaker.with(|breaker, now| breaker.first_content(ticket, now));
        }
    }

    /// What the call was admitted for.
    pub fn role(&self) -> Role {
        self.ticket.as_ref().map_or(Role::Normal, Ticket::role)
    }

    fn finish(mut self, act: impl FnOnce(&mut Breaker, Ticket, Now)) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.with(|breaker, now| act(breaker, ticket, now));
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.with(|breaker, now| breaker.release(ticket, now));
        }
    }
}
