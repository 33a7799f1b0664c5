//! The results that a breaker decides by: the last calls, or the calls of the last seconds.

use serde::{Deserialize, Serialize};

use crate::Moment;

/// How many calls a window holds, and how many of them failed or were slow. A call can be both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Totals {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

impl Totals {
    fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed = self.failed.saturating_add(other.failed);
        self.slow = self.slow.saturating_add(other.slow);
    }

    fn subtract(&mut self, other: Self) {
        self.calls = self.calls.saturating_sub(other.calls);
        self.failed = self.failed.saturating_sub(other.failed);
        self.slow = self.slow.saturating_sub(other.slow);
    }

    fn of(mark: Mark) -> Self {
        Self { calls: 1, failed: u32::from(mark.failed), slow: u32::from(mark.slow) }
    }
}

/// A share in percent, in single precision as in resilience4j: a threshold of 100/3 has to meet a rate of one in three.
pub(super) fn percent(part: u32, whole: u32) -> f32 {
    100.0 * part as f32 / whole as f32
}

/// What one call left in a window.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Mark {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// A window over results, and how many it must hold before rates exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Window {
    pub(super) minimum: u32,
    /// Whether it began half open. An open breaker can still have such a window.
    pub(super) is_of_probes: bool,
    results: Results,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Results {
    Count(LastCalls),
    Time(LastSeconds),
}

impl Window {
    /// The last `size` calls. The minimum cannot be more than fit.
    pub(super) fn count(size: u32, minimum: u32) -> Self {
        let results = Results::Count(LastCalls::new(size));
        Self { minimum: minimum.min(size), is_of_probes: false, results }
    }

    /// The last `size` calls, since the breaker became half open.
    pub(super) fn of_probes(size: u32, minimum: u32) -> Self {
        Self { is_of_probes: true, ..Self::count(size, minimum) }
    }

    /// The calls of the last `seconds`, of which the current one is the last.
    pub(super) fn time(seconds: u32, minimum: u32, now: Moment) -> Self {
        Self { minimum, is_of_probes: false, results: Results::Time(LastSeconds::new(seconds, now)) }
    }

    /// Changes how many results it must hold, as far as they fit.
    pub(super) fn set_minimum(&mut self, minimum: u32) {
        self.minimum = match &self.results {
            Results::Count(calls) => minimum.min(u32::try_from(calls.ring.len()).unwrap_or(u32::MAX)),
            Results::Time(_) => minimum,
        };
    }

    pub(super) fn record(&mut self, mark: Mark, now: Moment) {
        match &mut self.results {
            Results::Count(calls) => calls.push(mark),
            Results::Time(seconds) => seconds.push(mark, now),
        }
    }

    /// What the window holds at a moment that is not before the last record.
    pub(super) fn totals(&self, now: Moment) -> Totals {
        match &self.results {
            Results::Count(calls) => calls.totals,
            Results::Time(seconds) => seconds.totals(now),
        }
    }

    /// The contents, to be kept beyond the process.
    pub(super) fn saved(&self, now: Moment) -> Saved {
        match &self.results {
            Results::Count(calls) => Saved::Calls(calls.oldest_first().collect()),
            Results::Time(seconds) => Saved::Seconds(seconds.newest_first(now)),
        }
    }

    /// Puts back what was saved some whole seconds ago, if it comes from a window of this kind.
    pub(super) fn load(&mut self, saved: &Saved, seconds_ago: u64) {
        match (&mut self.results, saved) {
            (Results::Count(calls), Saved::Calls(marks)) => marks.iter().for_each(|mark| calls.push(*mark)),
            (Results::Time(seconds), Saved::Seconds(totals)) => seconds.load(totals, seconds_ago),
            _ => {}
        }
    }

    /// How many marks or buckets it has room for. It never grows.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        match &self.results {
            Results::Count(calls) => calls.ring.len(),
            Results::Time(seconds) => seconds.ring.len(),
        }
    }
}

/// The contents of a window outside of it: marks with the oldest first, or the totals of seconds with the newest first.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Saved {
    Calls(Vec<Mark>),
    Seconds(Vec<Totals>),
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct LastCalls {
    ring: Box<[Mark]>,
    /// Where the next mark goes: the oldest one's place once the ring is full.
    next: usize,
    totals: Totals,
}

impl LastCalls {
    fn new(size: u32) -> Self {
        Self { ring: vec![Mark::default(); size.max(1) as usize].into(), next: 0, totals: Totals::default() }
    }

    fn is_full(&self) -> bool {
        self.totals.calls as usize == self.ring.len()
    }

    fn push(&mut self, mark: Mark) {
        let is_full = self.is_full();
        if let Some(place) = self.ring.get_mut(self.next) {
            let oldest = std::mem::replace(place, mark);
            if is_full {
                self.totals.subtract(Totals::of(oldest));
            }
        }
        self.totals.add(Totals::of(mark));
        self.next = (self.next + 1) % self.ring.len();
    }

    fn oldest_first(&self) -> impl Iterator<Item = Mark> {
        let (newer, older) = self.ring.split_at(self.next);
        let older = if self.is_full() { older } else { &[] };
        older.iter().chain(newer).copied()
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct LastSeconds {
    /// The totals of a second are at its number modulo the length.
    ring: Box<[Totals]>,
    second: u64,
    totals: Totals,
}

impl LastSeconds {
    fn new(seconds: u32, now: Moment) -> Self {
        let ring = vec![Totals::default(); seconds.max(1) as usize].into();
        Self { ring, second: now.as_secs(), totals: Totals::default() }
    }

    /// The place of the second that lies `back` before the current one, which is less than the length.
    ///
    /// Numbers of seconds begin with the process, so that loaded ones may lie before 0.
    fn place(&self, back: u64) -> usize {
        let length = self.ring.len() as u64;
        ((self.second % length + length - back) % length) as usize
    }

    /// The places of the seconds that have left the window by a moment.
    fn left(&self, now: Moment) -> impl Iterator<Item = usize> + use<> {
        let length = self.ring.len() as u64;
        let passed = now.as_secs().saturating_sub(self.second).min(length);
        let second = self.second;
        (1..=passed).map(move |ahead| (second.wrapping_add(ahead) % length) as usize)
    }

    fn push(&mut self, mark: Mark, now: Moment) {
        for place in self.left(now) {
            let gone = std::mem::take(&mut self.ring[place]);
            self.totals.subtract(gone);
        }
        self.second = self.second.max(now.as_secs());
        let place = self.place(0);
        self.ring[place].add(Totals::of(mark));
        self.totals.add(Totals::of(mark));
    }

    fn totals(&self, now: Moment) -> Totals {
        let mut totals = self.totals;
        self.left(now).for_each(|place| totals.subtract(self.ring[place]));
        totals
    }

    fn newest_first(&self, now: Moment) -> Vec<Totals> {
        let length = self.ring.len() as u64;
        let passed = now.as_secs().saturating_sub(self.second).min(length);
        let empty = (0..passed).map(|_| Totals::default());
        let kept = (0..length - passed).map(|back| self.ring[self.place(back)]);
        empty.chain(kept).collect()
    }

    fn load(&mut self, newest_first: &[Totals], seconds_ago: u64) {
        for (back, totals) in (seconds_ago..self.ring.len() as u64).zip(newest_first) {
            let place = self.place(back);
            self.ring[place].add(*totals);
            self.totals.add(*totals);
        }
    }
}

#[cfg(test)]
mod tests;
