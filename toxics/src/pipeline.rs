//! Filters in a row, and how the row changes under a live stream.
use crate::stream::{Moment, NEVER, Report, Schedule, Step, StreamFilter, Timed, Weight};

/// Which toxic a stage stands for. A changed toxic keeps its number and gets a new revision.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct StageId {
    /// The toxic's number, unique in the process.
    pub toxic: u64,
    /// Counts the changes of its attributes.
    pub revision: u64,
}

/// Filters in a row, each fed by the one before.
///
/// Results depend on when steps are pushed, never on when the pipeline is
/// polled: each filter sees each step at that step's own moment.
pub struct Pipeline<T: Weight> {
    entry: Schedule<T>,
    stages: Vec<Stage<T>>,
    /// Nothing waits before the last stage, and no stage waits for a moment.
    settled: bool,
    /// What stages that are gone had yet to report.
    departed: Vec<(StageId, Report)>,
    /// How long they held what they let go, that was not told yet.
    departed_waits: Vec<(StageId, Moment)>,
}

struct Stage<T: Weight> {
    id: StageId,
    filter: Box<dyn StreamFilter<T>>,
    /// When the filter started.
    began: Moment,
    out: Schedule<T>,
    reported: Report,
}

impl<T: Weight> Default for Pipeline<T> {
    fn default() -> Self {
        Self {
            entry: Schedule::default(),
            stages: Vec::new(),
            settled: false,
            departed: Vec::new(),
            departed_waits: Vec::new(),
        }
    }
}

impl<T: Weight> Pipeline<T> {
    /// Puts a filter last, from now on.
    ///
    /// It acts on all that has not left the pipeline yet.
    pub fn append(&mut self, now: Moment, id: StageId, mut filter: Box<dyn StreamFilter<T>>) {
        self.advance(now);
        let mut out = Schedule::default();
        out.came = now;
        filter.on_start(now, &mut out);
        // Most have one stage, for as long as a connection lasts.
        self.stages.reserve_exact(1);
        self.stages.push(Stage { id, filter, began: now, out, reported: Report::default() });
        self.settled = false;
    }

    /// Puts a step in. Nothing enters after an end but a break of the connection.
    pub fn push(&mut self, now: Moment, step: Step<T>) {
        self.entry.came = now;
        self.entry.add(now, step);
        self.settled = false;
    }

    /// Takes the next step that is due.
    ///
    /// A close or a break can also come after the end of the stream: filters act on the whole connection.
    pub fn poll(&mut self, now: Moment) -> Option<Step<T>> {
        self.advance(now);
        self.exit_mut().take_due(now).map(|(_, step)| step)
    }

    /// Makes the stages exactly those in `wanted`, from now on.
    ///
    /// A stage with an unchanged revision is left alone. A changed one goes on
    /// from its predecessor's tally. A new one comes last. One for which
    /// `start` has no filter is left out. Nothing is lost or reordered, and
    /// nothing is waited for.
    pub fn change(
        &mut self,
        now: Moment,
        wanted: &[StageId],
        mut start: impl FnMut(StageId) -> Option<Box<dyn StreamFilter<T>>>,
    ) {
        self.advance(now);
        // From the last on, so that what one lets go does not pass another that is to go too.
        for index in (0..self.stages.len()).rev() {
            let Some(stage) = self.stages.get(index) else { continue };
            match wanted.iter().find(|id| id.toxic == stage.id.toxic) {
                Some(id) if id.revision == stage.id.revision => {}
                Some(id) => match start(*id) {
                    Some(filter) => self.replace(now, index, *id, filter),
                    None => self.remove(now, index),
                },
                None => self.remove(now, index),
            }
        }
        for id in wanted {
            if !self.stages.iter().any(|stage| stage.id.toxic == id.toxic)
                && let Some(filter) = start(*id)
            {
                self.append(now, *id, filter);
            }
        }
    }

    /// A reset of the connection that is due, however many items are queued before it.
    ///
    /// A close is none: what a slow receiver has yet to take comes before it.
    pub fn break_is_due(&mut self, now: Moment) -> Option<Step<T>> {
        self.advance(now);
        (self.exit_reset()? <= now).then_some(Step::Reset)
    }

    /// When to ask for [`break_is_due`](Self::break_is_due) next, while no step is taken out.
    pub fn next_break_wakeup(&self) -> Option<Moment> {
        let inner = self.stages.len().saturating_sub(1);
        let fronts = self.stages.iter().take(inner).map(|stage| stage.out.next_at());
        let wakes = self.stages.iter().map(|stage| stage.out.wake);
        let entry = (!self.stages.is_empty()).then(|| self.entry.next_at()).flatten();
        fronts.chain(wakes).chain([entry, self.exit_reset()]).flatten().filter(|at| *at != NEVER).min()
    }

    /// When to poll next; `None` if nothing waits for a moment that comes.
    pub fn next_wakeup(&self) -> Option<Moment> {
        let queues = self.stages.iter().flat_map(|stage| [stage.out.next_at(), stage.out.wake]);
        queues.chain([self.entry.next_at()]).flatten().filter(|at| *at != NEVER).min()
    }

    /// Whether more may be pushed: each stage holds less than it may, or without stages nothing waits.
    pub fn has_room(&self) -> bool {
        if self.stages.is_empty() {
            return self.entry.weight == 0;
        }
        self.entry.load() < MAX_UNFILTERED
            && self.stages.iter().all(|stage| stage.out.load() < stage.filter.capacity())
    }

    /// Whether there are no stages, and nothing is inside.
    pub fn is_transparent(&self) -> bool {
        self.stages.is_empty() && self.entry.steps.is_empty()
    }

    /// Whether there are no steps inside.
    pub fn is_empty(&self) -> bool {
        self.entry.steps.is_empty() && self.stages.iter().all(|stage| stage.out.steps.is_empty())
    }

    /// How many bytes are inside.
    pub fn weight(&self) -> usize {
        self.entry.weight + self.stages.iter().map(|stage| stage.out.weight).sum::<usize>()
    }

    /// The stages in order.
    pub fn stages(&self) -> impl Iterator<Item = StageId> + '_ {
        self.stages.iter().map(|stage| stage.id)
    }

    /// Gives each report that has changed since it was last asked for.
    pub fn reports(&mut self, mut tell: impl FnMut(StageId, Report)) {
        for (id, report) in self.departed.drain(..) {
            tell(id, report);
        }
        for stage in &mut self.stages {
            if stage.out.report != stage.reported {
                stage.reported = stage.out.report;
                tell(stage.id, stage.reported);
            }
        }
    }

    /// Gives how long each piece was held by which stage, of all that have left one since it was last asked for. What
    /// was not held is not told.
    pub fn waits(&mut self, mut tell: impl FnMut(StageId, Moment)) {
        for (id, wait) in self.departed_waits.drain(..) {
            tell(id, wait);
        }
        for stage in &mut self.stages {
            for wait in stage.out.waits.drain(..) {
                tell(stage.id, wait);
            }
        }
    }

    /// The moment of a reset that has come to the exit: nothing is queued behind it.
    fn exit_reset(&self) -> Option<Moment> {
        let exit = self.stages.last().map_or(&self.entry, |stage| &stage.out);
        exit.steps.back().filter(|last| matches!(last.step, Step::Reset)).map(|last| last.at)
    }

    fn exit_mut(&mut self) -> &mut Schedule<T> {
        self.stages.last_mut().map_or(&mut self.entry, |stage| &mut stage.out)
    }

    /// Runs every filter up to `now`.
    fn advance(&mut self, now: Moment) {
        if self.settled {
            return;
        }
        let mut waits = false;
        let mut source = &mut self.entry;
        let mut stages = &mut self.stages[..];
        while let Some((stage, behind)) = stages.split_first_mut() {
            stage.run(source, behind, now);
            waits |= !source.steps.is_empty() || stage.out.wake.is_some();
            source = &mut stage.out;
            stages = behind;
        }
        self.settled = !waits;
    }

    fn remove(&mut self, now: Moment, index: usize) {
        self.settled = false;
        let mut stage = self.stages.remove(index);
        stage.filter.on_stop(now, &mut stage.out);
        stage.out.release(now);
        stage.out.settle();
        let id = stage.id;
        self.departed_waits.extend(stage.out.waits.drain(..).map(|wait| (id, wait)));
        if stage.out.report != stage.reported {
            self.departed.push((stage.id, stage.out.report));
        }
        self.queue_before(index).put_first(stage.out);
        self.advance(now);
    }

    fn replace(&mut self, now: Moment, index: usize, id: StageId, mut filter: Box<dyn StreamFilter<T>>) {
        self.settled = false;
        let Some(stage) = self.stages.get_mut(index) else { return };
        filter.resume(stage.filter.tally());
        if let Some(decoder) = stage.filter.hand_over() {
            filter.take_over(decoder);
        }
        let hand_over = stage.filter.only_delays() && filter.only_delays();
        if !hand_over {
            stage.filter.on_stop(now, &mut stage.out);
            stage.out.release(now);
        }
        let mut held = std::mem::take(&mut stage.out);
        stage.out.report = held.report;
        stage.out.waits = std::mem::take(&mut held.waits);
        stage.out.came = now;
        filter.on_start(now, &mut stage.out);
        stage.filter = filter;
        stage.began = now;
        stage.id = id;
        if hand_over {
            for Timed { came, step, .. } in held.steps {
                stage.give(came, step);
            }
        } else {
            stage.out.put_first(held);
        }
        self.advance(now);
    }

    /// The queue that feeds the stage at `index`.
    fn queue_before(&mut self, index: usize) -> &mut Schedule<T> {
        match index.checked_sub(1).and_then(|before| self.stages.get_mut(before)) {
            Some(stage) => &mut stage.out,
            None => &mut self.entry,
        }
    }
}

/// What may wait in front of the first filter.
const MAX_UNFILTERED: usize = 64 * 1024;

impl<T: Weight> Stage<T> {
    /// Gives the filter all that is due, in the order of the moments. What it lets through goes past the stages behind
    /// it that let it through too.
    fn run(&mut self, source: &mut Schedule<T>, behind: &mut [Self], now: Moment) {
        loop {
            let item = source.next_at().filter(|at| *at <= now);
            let wake = self.out.wake.filter(|at| *at <= now);
            match (item, wake) {
                (item, Some(wake)) if item.is_none_or(|at| wake < at) => {
                    self.out.wake = None;
                    self.out.came = wake;
                    self.filter.on_wakeup(wake, &mut self.out);
                    if self.out.wake.is_some_and(|next| next <= wake) {
                        // Time goes on, whatever a filter asks for.
                        self.out.wake = Some(wake.saturating_add(Moment::from_millis(1)));
                    }
                }
                (Some(_), _) => {
                    let Some((at, step)) = source.take_due(now) else { return };
                    // What was due before the filter joined comes to it as it joins.
                    let at = at.max(self.began);
                    match step {
                        Step::Item(item) if self.passes(&item, at) => {
                            let mut last = &mut *self;
                            for next in &mut *behind {
                                if !last.out.steps.is_empty() || !next.passes(&item, at) {
                                    break;
                                }
                                last = next;
                            }
                            last.out.came = at;
                            last.out.send(at, item);
                        }
                        step => self.give(at, step),
                    }
                }
                (None, _) => return,
            }
        }
    }

    /// Whether the filter lets an item through that came at `at`, with nothing to be done before.
    fn passes(&mut self, item: &T, at: Moment) -> bool {
        self.began <= at
            && self.out.is_open_at(at)
            && self.out.wake.is_none_or(|wake| at <= wake)
            && self.filter.pass(item, at)
    }

    fn give(&mut self, at: Moment, step: Step<T>) {
        self.out.came = at;
        match step {
            Step::Item(item) if !self.out.is_over() => self.filter.on_item(item, at, &mut self.out),
            Step::Item(_) => {}
            Step::End => self.filter.on_end(at, &mut self.out),
            Step::Close => self.out.close(at),
            Step::Reset => self.out.reset(at),
        }
    }
}

#[cfg(test)]
mod tests;
