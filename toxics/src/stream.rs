//! Filters over a stream of timed items, and the schedule that they write into.
//!
//! A filter never sleeps and reads no clock: it is told the moment at which an
//! item came, and writes into a [`Schedule`] what leaves and when. The
//! [`Pipeline`](crate::Pipeline) runs filters in a row.
use std::{collections::VecDeque, time::Duration};

use aconite_dialects::Decoder;
use bytes::Bytes;

/// Time since the connection opened, or since the exchange began.
pub type Moment = Duration;

/// A moment that never comes: what is sent then waits until the toxic is changed or removed.
pub const NEVER: Moment = Moment::MAX;

/// What passes through a pipeline.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step<T> {
    /// An item.
    Item(T),
    /// The sender has finished: a FIN on TCP, the regular end of an HTTP body.
    End,
    /// The whole connection closes: both directions of TCP by FIN, an HTTP body without its last chunk.
    Close,
    /// The whole connection breaks: an RST on TCP, RST_STREAM in HTTP/2.
    Reset,
}

impl<T> Step<T> {
    /// The same step with another item.
    pub fn map<U>(self, item: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Item(it) => Step::Item(item(it)),
            Self::End => Step::End,
            Self::Close => Step::Close,
            Self::Reset => Step::Reset,
        }
    }
}

/// How much of a buffer an item takes, in bytes.
pub trait Weight {
    /// Its weight in bytes.
    fn weight(&self) -> usize;
}

impl Weight for Bytes {
    fn weight(&self) -> usize {
        self.len()
    }
}

impl Weight for aconite_dialects::Event {
    fn weight(&self) -> usize {
        self.raw().len()
    }
}

/// Decides when each item leaves, and as what.
///
/// The moments that a filter is told never go back, except those of items that
/// it takes over from a predecessor: see [`only_delays`](Self::only_delays).
pub trait StreamFilter<T: Weight>: Send {
    /// The filter was put in place, now. `now` is not zero when it joins a live connection.
    fn on_start(&mut self, _now: Moment, _out: &mut Schedule<T>) {}

    /// An item arrived.
    fn on_item(&mut self, item: T, now: Moment, out: &mut Schedule<T>);

    /// Lets an item through that the filter would send on at once and unchanged, and that it would say nothing about.
    ///
    /// `true`: the item is counted, as [`on_item`](Self::on_item) would have done, and is not given to the filter. `false`:
    /// nothing was done, and the item has to be given to `on_item`. The pipeline asks only while nothing that the filter
    /// sent is waiting, so that filters with nothing to do cost little.
    fn pass(&mut self, _item: &T, _now: Moment) -> bool {
        false
    }

    /// The sender finished.
    fn on_end(&mut self, now: Moment, out: &mut Schedule<T>) {
        out.end(now);
    }

    /// The moment given to [`Schedule::wake_at`] has come.
    fn on_wakeup(&mut self, _now: Moment, _out: &mut Schedule<T>) {}

    /// The filter is about to be taken out of a live connection.
    ///
    /// Whatever it keeps to itself it sends now; what it scheduled already
    /// leaves at once, in order, after this call.
    fn on_stop(&mut self, _now: Moment, _out: &mut Schedule<T>) {}

    /// Whether every step that it scheduled is one that it was given, or a piece of it, merely later.
    ///
    /// Then a change of the toxic's attributes gives what is still waiting to
    /// the successor, right after its [`on_start`](Self::on_start), as of the
    /// moment at which it came. Otherwise [`on_stop`](Self::on_stop) is called
    /// and it leaves at once.
    fn only_delays(&self) -> bool {
        false
    }

    /// Whether what leaves a body may be longer or shorter than what came, so that the length announced by its head
    /// must go. Not asked for toxics of a connection.
    fn changes_length(&self) -> bool {
        true
    }

    /// How many bytes it may hold before the sender is made to wait.
    ///
    /// Each waiting step counts for a few dozen bytes more than its item weighs.
    fn capacity(&self) -> usize {
        64 * 1024
    }

    /// What it has taken of an event that is not whole yet, and where in the stream that is, for a successor with changed
    /// attributes. It has it no longer then.
    fn hand_over(&mut self) -> Option<Decoder> {
        None
    }

    /// Goes on from what a predecessor [handed over](Self::hand_over). Called before [`on_start`](Self::on_start).
    fn take_over(&mut self, _decoder: Decoder) {}

    /// What it has counted so far, for a successor with changed attributes.
    fn tally(&self) -> u64 {
        0
    }

    /// Goes on from a predecessor's [`tally`](Self::tally).
    fn resume(&mut self, _tally: u64) {}
}

/// One step with its moments.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    /// When it leaves.
    pub(crate) at: Moment,
    /// When it came to the filter that scheduled it.
    pub(crate) came: Moment,
    /// Whether it went before what waits.
    ahead: bool,
    pub(crate) step: Step<T>,
}

/// Steps waiting for their moment, in order: none overtakes an earlier one.
#[derive(Debug)]
pub struct Schedule<T> {
    pub(crate) steps: VecDeque<Timed<T>>,
    last: Moment,
    /// When the filter at work was last given something.
    pub(crate) came: Moment,
    pub(crate) wake: Option<Moment>,
    pub(crate) weight: usize,
    /// Whether the stream's end was scheduled: only a break or close of the connection comes after it.
    ended: bool,
    /// Whether a break or close was scheduled: nothing comes after it.
    broken: bool,
    /// Whether the filter dropped what waited, since [`adopt`](Self::adopt) was last called.
    cleared: bool,
    pub(crate) report: Report,
    /// How long each item was held that has left since [`Pipeline::waits`](crate::Pipeline::waits) was last asked; only
    /// where the steps are a filter's.
    pub(crate) waits: Vec<Moment>,
}

/// What a filter says of itself, for the record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// When it first changed, delayed or dropped something.
    pub struck: Option<Moment>,
    /// Why it let something pass that it should have struck.
    pub skipped: Option<&'static str>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self {
            steps: VecDeque::new(),
            last: Moment::ZERO,
            came: Moment::ZERO,
            wake: None,
            weight: 0,
            ended: false,
            broken: false,
            cleared: false,
            report: Report::default(),
            waits: Vec::new(),
        }
    }
}

impl<T: Weight> Schedule<T> {
    /// Sends an item at a moment, or right after what was scheduled before if that is later.
    pub fn send(&mut self, at: Moment, item: T) {
        self.add(at, Step::Item(item));
    }

    /// Sends an item before everything that still waits after `at`.
    ///
    /// For what a delay does not concern, such as keep-alive comments among delayed events.
    /// Dropped, as all else, if the stream ends before it.
    pub fn send_ahead(&mut self, at: Moment, item: T) {
        let place = self.steps.partition_point(|timed| timed.at <= at);
        if self.is_over() && place == self.steps.len() {
            return;
        }
        self.last = self.last.max(at);
        self.weight += item.weight();
        self.steps.insert(place, Timed { at, came: self.came, ahead: true, step: Step::Item(item) });
    }

    /// Lets nothing that is not scheduled yet leave before a moment.
    pub fn hold_until(&mut self, at: Moment) {
        self.last = self.last.max(at);
    }

    /// Finishes the stream at a moment.
    pub fn end(&mut self, at: Moment) {
        self.add(at, Step::End);
    }

    /// Closes the whole connection at a moment.
    pub fn close(&mut self, at: Moment) {
        self.add(at, Step::Close);
    }

    /// Breaks the whole connection at a moment.
    pub fn reset(&mut self, at: Moment) {
        self.add(at, Step::Reset);
    }

    /// Drops everything that has not left yet, an end too.
    pub fn clear(&mut self) {
        for timed in std::mem::take(&mut self.steps) {
            match timed.step {
                Step::Item(_) => {}
                Step::End => self.ended = false,
                Step::Close | Step::Reset => self.broken = false,
            }
        }
        self.weight = 0;
        self.last = Moment::ZERO;
        self.cleared = true;
    }

    /// Asks for [`StreamFilter::on_wakeup`] at a moment; replaces an earlier wish.
    pub fn wake_at(&mut self, at: Moment) {
        self.wake = Some(at);
    }

    /// Takes the wish for a wake-up back.
    pub fn cancel_wake(&mut self) {
        self.wake = None;
    }

    /// Notes that the toxic has changed, delayed or dropped something, at this moment.
    pub fn strike(&mut self, now: Moment) {
        self.report.struck.get_or_insert(now);
    }

    /// Notes that the toxic let something pass that it should have struck, and why.
    pub fn skip(&mut self, reason: &'static str) {
        self.report.skipped = Some(reason);
    }

    /// Takes over what was scheduled in another schedule, as items of this one's type.
    ///
    /// What the other one's filter dropped is dropped here.
    pub(crate) fn adopt<U: Weight>(&mut self, other: &mut Schedule<U>, mut encode: impl FnMut(U) -> T) {
        if std::mem::take(&mut other.cleared) {
            self.clear();
        }
        for Timed { at, ahead, step, .. } in other.steps.drain(..) {
            match step {
                Step::Item(item) if ahead => self.send_ahead(at, encode(item)),
                Step::Item(item) => self.send(at, encode(item)),
                Step::End => self.end(at),
                Step::Close => self.close(at),
                Step::Reset => self.reset(at),
            }
        }
        other.weight = 0;
        self.hold_until(other.last);
        self.wake = other.wake;
        if let Some(at) = other.report.struck {
            self.strike(at);
        }
        self.report.skipped = self.report.skipped.or(other.report.skipped);
    }

    pub(crate) fn add(&mut self, at: Moment, step: Step<T>) {
        match &step {
            _ if self.broken => return,
            Step::Item(_) | Step::End if self.ended => return,
            Step::Item(item) => self.weight += item.weight(),
            Step::End => self.ended = true,
            Step::Close | Step::Reset => self.broken = true,
        }
        self.last = self.last.max(at);
        self.steps.push_back(Timed { at: self.last, came: self.came, ahead: false, step });
    }

    /// Lets everything leave at `now` at the latest.
    pub(crate) fn release(&mut self, now: Moment) {
        for timed in &mut self.steps {
            timed.at = timed.at.min(now);
        }
        self.last = self.last.min(now);
    }

    /// Puts what another schedule holds in front of what this one holds.
    pub(crate) fn put_first(&mut self, mut other: Self) {
        if other.is_over() {
            self.weight = 0;
            self.steps.retain(|timed| !other.broken && matches!(timed.step, Step::Close | Step::Reset));
        }
        self.weight += other.weight;
        self.last = self.last.max(other.last);
        self.ended |= other.ended;
        self.broken |= other.broken;
        std::mem::swap(&mut self.steps, &mut other.steps);
        self.steps.append(&mut other.steps);
    }

    /// Whether an item that is sent at `at` leaves at `at`, after all that waits.
    pub(crate) fn is_open_at(&self, at: Moment) -> bool {
        !self.is_over() && self.last <= at
    }

    /// Whether no item comes any more.
    pub(crate) fn is_over(&self) -> bool {
        self.ended || self.broken
    }

    pub(crate) fn next_at(&self) -> Option<Moment> {
        self.steps.front().map(|timed| timed.at)
    }

    /// Notes how long the steps were held that leave now, and lets whoever takes them over count from now on.
    pub(crate) fn settle(&mut self) {
        for timed in &mut self.steps {
            if timed.at > timed.came && matches!(timed.step, Step::Item(_)) {
                self.waits.push(timed.at - timed.came);
            }
            timed.came = timed.at;
        }
    }

    pub(crate) fn take_due(&mut self, now: Moment) -> Option<(Moment, Step<T>)> {
        if self.next_at()? > now {
            return None;
        }
        let timed = self.steps.pop_front()?;
        if timed.at > timed.came && matches!(timed.step, Step::Item(_)) {
            self.waits.push(timed.at - timed.came);
        }
        if let Step::Item(item) = &timed.step {
            self.weight -= item.weight();
        }
        if self.steps.is_empty() && self.steps.capacity() > KEPT_STEPS {
            self.steps = VecDeque::new();
        }
        Some((timed.at, timed.step))
    }

    /// How much memory it takes: its items, and what it costs to keep them.
    pub(crate) fn load(&self) -> usize {
        self.weight + self.steps.len() * size_of::<Timed<T>>()
    }
}

/// Room for so many steps is kept when none waits; more, left by a burst, is given back.
const KEPT_STEPS: usize = 256;

#[cfg(test)]
mod tests;
