//! One direction of one stream: the toxics on it, the clock that they see, and the timer that wakes it.
use std::task::{Context, Poll, ready};

use aconite_toxics::{Moment, Pipeline, Step, Weight};
use bytes::Bytes;
use tokio::time::Instant;

use super::{Governor, held_bytes::HeldBytes, timer::Timer};

/// A pipeline of toxics that a [`Governor`] keeps up to date.
///
/// It does no I/O: whoever owns the stream pushes what arrives and sends what
/// [`poll_next`](Self::poll_next) gives. All polling must come from one task.
pub struct Lane<G, T: Weight = Bytes> {
    pipeline: Pipeline<T>,
    governor: G,
    timer: Timer,
    opened: Instant,
    held: HeldBytes,
}

impl<T: Weight, G: Governor<T>> Lane<G, T> {
    /// A lane with the toxics that the governor wants now. Moments count from `opened`.
    pub fn new(opened: Instant, governor: G) -> Self {
        let held = HeldBytes::within(governor.held());
        let mut lane =
            Self { pipeline: Pipeline::default(), governor, timer: Timer::default(), opened, held };
        lane.follow();
        lane
    }

    /// Follows the governor's changes so far. Cheaper than [`poll_changes`](Self::poll_changes), which has to be
    /// asked as well before the owner sleeps.
    pub fn follow_changes(&mut self) {
        if self.governor.has_changed() {
            self.follow();
        }
    }

    /// Follows the governor's changes, and tells whether there were any; `cx` is woken by the next one.
    pub fn poll_changes(&mut self, cx: &mut Context<'_>) -> bool {
        let mut changed = false;
        while self.governor.poll_changed(cx).is_ready() {
            self.follow();
            changed = true;
        }
        changed
    }

    /// Who decides on the toxics.
    pub fn governor(&self) -> &G {
        &self.governor
    }

    /// Who decides on the toxics.
    pub fn governor_mut(&mut self) -> &mut G {
        &mut self.governor
    }

    /// Whether what is pushed would come out at once and as it is, so that it may pass beside the lane.
    pub fn is_transparent(&self) -> bool {
        self.pipeline.is_transparent()
    }

    /// Whether the sender may go on; what is pushed all the same is kept.
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room() && self.held.may_grow()
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.pipeline.is_empty()
    }

    /// How many bytes are inside.
    pub fn weight(&self) -> usize {
        self.pipeline.weight()
    }

    /// Puts in what arrives now. Nothing enters after an end.
    pub fn push(&mut self, step: Step<T>) {
        let now = self.now();
        self.pipeline.push(now, step);
        self.held.set(self.pipeline.weight());
    }

    /// Gives the next step that is due; pending until then, and for ever if nothing waits for a moment.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Step<T>> {
        loop {
            let now = self.now();
            let due = self.pipeline.poll(now);
            self.tell();
            if let Some(step) = due {
                self.held.set(self.pipeline.weight());
                return Poll::Ready(step);
            }
            ready!(self.poll_wakeup(cx, self.pipeline.next_wakeup()));
        }
    }

    /// Gives a close or reset that is due, however many items are queued before it.
    ///
    /// To be asked instead of [`poll_next`](Self::poll_next) while the receiver takes nothing more.
    pub fn poll_break(&mut self, cx: &mut Context<'_>) -> Poll<Step<T>> {
        loop {
            let now = self.now();
            let due = self.pipeline.break_is_due(now);
            self.tell();
            if let Some(step) = due {
                return Poll::Ready(step);
            }
            ready!(self.poll_wakeup(cx, self.pipeline.next_break_wakeup()));
        }
    }

    fn now(&self) -> Moment {
        self.opened.elapsed()
    }

    fn follow(&mut self) {
        let now = self.now();
        let wanted = self.governor.wanted();
        self.pipeline.change(now, &wanted, |id| self.governor.start(id));
        self.tell();
    }

    fn tell(&mut self) {
        self.pipeline.reports(|id, report| self.governor.report(id, report));
        self.pipeline.waits(|id, wait| self.governor.waited(id, wait));
    }

    /// Ready when the moment has come. A moment beyond the clock's range never comes.
    fn poll_wakeup(&mut self, cx: &mut Context<'_>, at: Option<Moment>) -> Poll<()> {
        match at.and_then(|at| self.opened.checked_add(at)) {
            Some(deadline) => self.timer.poll_until(cx, deadline),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use aconite_toxics::NEVER;

    use super::{
        super::testing::{Fault, Plan, guarded, ms},
        *,
    };

    fn item(text: &'static str) -> Step<Bytes> {
        Step::Item(Bytes::from_static(text.as_bytes()))
    }

    async fn next<G: Governor>(lane: &mut Lane<G>) -> Step<Bytes> {
        guarded(poll_fn(|cx| {
            lane.poll_changes(cx);
            lane.poll_next(cx)
        }))
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn steps_leave_exactly_when_they_are_due_and_delays_add_up() {
        let plan = Plan::of(&[Fault::Delay(ms(250)), Fault::Delay(ms(1_000))]);
        let start = Instant::now();
        let mut lane = Lane::new(start, plan.governor());
        lane.push(item("a"));
        lane.push(Step::End);
        assert_eq!(next(&mut lane).await, item("a"));
        assert_eq!(start.elapsed(), ms(1_250));
        assert_eq!(next(&mut lane).await, Step::End);
        assert_eq!(start.elapsed(), ms(1_250));
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_ever_leaves_as_soon_as_the_toxic_is_gone() {
        let plan = Plan::of(&[Fault::Delay(NEVER)]);
        let start = Instant::now();
        let mut lane = Lane::new(start, plan.governor());
        lane.push(item("a"));
        let removal = async {
            tokio::time::sleep(ms(700)).await;
            plan.set(&[]);
        };
        let (step, ()) = tokio::join!(next(&mut lane), removal);
        assert_eq!(step, item("a"));
        assert_eq!(start.elapsed(), ms(700));
        assert!(lane.is_transparent());
    }

    #[tokio::test(start_paused = true)]
    async fn a_break_comes_on_time_behind_what_the_receiver_refuses() {
        // The reset is scheduled by the first of two toxics, so it has to travel on its own.
        for faults in
            [&[Fault::Reset(ms(700)), Fault::Delay(ms(0))][..], &[Fault::Delay(ms(0)), Fault::Reset(ms(700))]]
        {
            let plan = Plan::of(faults);
            let start = Instant::now();
            let mut lane = Lane::new(start, plan.governor());
            lane.push(item("a"));
            lane.push(item("b"));
            assert_eq!(next(&mut lane).await, item("a"));
            assert_eq!(guarded(poll_fn(|cx| lane.poll_break(cx))).await, Step::Reset);
            assert_eq!(start.elapsed(), ms(700));
            assert_eq!(next(&mut lane).await, item("b"));
            assert_eq!(next(&mut lane).await, Step::Reset);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_toxic_that_joins_counts_its_time_from_then() {
        let plan = Plan::of(&[]);
        let start = Instant::now();
        let mut lane = Lane::new(start, plan.governor());
        assert!(lane.is_transparent());
        tokio::time::sleep(ms(300)).await;
        plan.set(&[Fault::Reset(ms(200))]);
        assert_eq!(next(&mut lane).await, Step::Reset);
        assert_eq!(start.elapsed(), ms(500));
        assert_eq!(plan.struck(), [ms(500)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_has_no_room_until_it_drains() {
        let plan = Plan::of(&[Fault::Delay(ms(10))]);
        let mut lane = Lane::new(Instant::now(), plan.governor());
        while lane.has_room() {
            lane.push(Step::Item(Bytes::from_static(&[0; 16 * 1024])));
        }
        assert_eq!(lane.weight(), 64 * 1024);
        next(&mut lane).await;
        assert!(lane.has_room());
    }
}
