//! The calls in flight, by age.

use std::time::Duration;

use crate::Moment;

/// Calls in the order of their admission, and how many of them are overdue. Every operation takes constant time, apart
/// from the one that finds calls overdue, which visits each of these once.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    calls: Vec<Call>,
    free: Vec<usize>,
    /// The oldest and the newest call that is not overdue.
    ends: Option<(usize, usize)>,
    overdue: u32,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    admitted: Moment,
    phase: Phase,
    older: Option<usize>,
    newer: Option<usize>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// In the list.
    Waited,
    Overdue,
    /// Its duration is known, so that it cannot become overdue.
    Timed,
    Ended,
}

impl InFlight {
    /// Adds the newest call. Returns where it is kept.
    pub(super) fn begin(&mut self, number: u64, admitted: Moment) -> usize {
        let older = self.ends.map(|(_, newest)| newest);
        let call = Call { number, admitted, phase: Phase::Waited, older, newer: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.calls[slot] = call;
                slot
            }
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        };
        if let Some(older) = older {
            self.calls[older].newer = Some(slot);
        }
        self.ends = Some((self.ends.map_or(slot, |(oldest, _)| oldest), slot));
        slot
    }

    /// Removes a call. Whether it was there.
    pub(super) fn end(&mut self, slot: usize, number: u64) -> bool {
        let Some(phase) = self.phase(slot, number) else { return false };
        self.leave(slot, phase, Phase::Ended);
        self.free.push(slot);
        true
    }

    /// From now on the call is not overdue, however long it takes.
    pub(super) fn timed(&mut self, slot: usize, number: u64) {
        if let Some(phase) = self.phase(slot, number) {
            self.leave(slot, phase, Phase::Timed);
        }
    }

    /// Marks the calls that are older than `limit`. Whether there are new ones.
    pub(super) fn mark_overdue(&mut self, now: Moment, limit: Duration) -> bool {
        let before = self.overdue;
        while let Some((oldest, _)) = self.ends
            && self.calls[oldest].admitted.saturating_add(limit) < now
        {
            self.leave(oldest, Phase::Waited, Phase::Overdue);
            self.overdue += 1;
        }
        self.overdue > before
    }

    /// The first moment at which another call is older than `limit`.
    pub(super) fn next_overdue(&self, limit: Duration) -> Option<Moment> {
        let (oldest, _) = self.ends?;
        Some(self.calls[oldest].admitted.saturating_add(limit).saturating_add(Duration::from_nanos(1)))
    }

    pub(super) const fn overdue(&self) -> u32 {
        self.overdue
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.free.clear();
        self.ends = None;
        self.overdue = 0;
    }

    fn phase(&self, slot: usize, number: u64) -> Option<Phase> {
        let call = self.calls.get(slot).filter(|call| call.number == number)?;
        (call.phase != Phase::Ended).then_some(call.phase)
    }

    fn leave(&mut self, slot: usize, phase: Phase, next: Phase) {
        self.calls[slot].phase = next;
        match phase {
            Phase::Overdue => self.overdue -= 1,
            Phase::Timed | Phase::Ended => {}
            Phase::Waited => {
                let Call { older, newer, .. } = self.calls[slot];
                if let Some(older) = older {
                    self.calls[older].newer = newer;
                }
                if let Some(newer) = newer {
                    self.calls[newer].older = older;
                }
                self.ends = self.ends.and_then(|(oldest, newest)| {
                    let oldest = if oldest == slot { newer? } else { oldest };
                    let newest = if newest == slot { older? } else { newest };
                    Some((oldest, newest))
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
