//! Drives a toxic through a pipeline at chosen moments.
use bytes::Bytes;
use serde_json::Value;

use crate::{
    Catalogue, Dice, Direction, Instance, Moment, Pipeline, Scope, StageId, Step, StreamFilter, ToxicSpec,
};

pub(super) fn ms(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// Starts a toxic by type and attributes, with dice of seed 1.
pub(super) fn start(kind: &str, attributes: &Value) -> Box<dyn StreamFilter<Bytes>> {
    start_on(&Scope::default(), kind, attributes)
}

fn start_on(scope: &Scope, kind: &str, attributes: &Value) -> Box<dyn StreamFilter<Bytes>> {
    let spec = ToxicSpec::new(kind, attributes.as_object().cloned().unwrap_or_default());
    let toxic = Catalogue::default().parse(&spec).unwrap();
    match toxic.start(scope, Dice::new(1, "proxy", kind, 0)) {
        Instance::Bytes(filter) => filter,
        _ => panic!("{kind} does not act on bytes"),
    }
}

/// A pipeline with toxics in it, and all that has left it.
pub(super) struct Line {
    pub(super) pipeline: Pipeline<Bytes>,
    pub(super) sent: Vec<(Moment, Step<Bytes>)>,
    toxics: Vec<StageId>,
    now: Moment,
    scope: Scope,
}

impl Line {
    /// A line with one toxic from the beginning.
    pub(super) fn with(kind: &str, attributes: &Value) -> Self {
        Self::on(Direction::default(), kind, attributes)
    }

    /// A line with one toxic on this direction from the beginning.
    pub(super) fn on(direction: Direction, kind: &str, attributes: &Value) -> Self {
        let mut line = Self {
            pipeline: Pipeline::default(),
            sent: Vec::new(),
            toxics: Vec::new(),
            now: Moment::ZERO,
            scope: Scope { direction, ..Scope::default() },
        };
        line.add(kind, attributes);
        line
    }

    /// Adds a toxic now; the first has number 0.
    pub(super) fn add(&mut self, kind: &str, attributes: &Value) {
        let id = StageId { toxic: self.toxics.len() as u64, revision: 0 };
        self.toxics.push(id);
        self.pipeline.append(self.now, id, start_on(&self.scope, kind, attributes));
        self.at(self.now);
    }

    /// Changes the first toxic's attributes now.
    pub(super) fn change(&mut self, kind: &str, attributes: &Value) {
        if let Some(first) = self.toxics.first_mut() {
            first.revision += 1;
        }
        let wanted = self.toxics.clone();
        self.pipeline.change(self.now, &wanted, |_| Some(start_on(&self.scope, kind, attributes)));
        self.at(self.now);
    }

    /// Removes all toxics now.
    pub(super) fn remove(&mut self) {
        self.toxics.clear();
        self.pipeline.change(self.now, &[], |_| None);
        self.at(self.now);
    }

    /// Lets time pass until a moment, taking each step as soon as it is due.
    pub(super) fn at(&mut self, until: Moment) {
        loop {
            while let Some(step) = self.pipeline.poll(self.now) {
                self.sent.push((self.now, step));
            }
            match self.pipeline.next_wakeup() {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => break,
            }
        }
        self.now = until;
    }

    /// Sends data in at a moment.
    pub(super) fn push(&mut self, at: Moment, data: impl AsRef<[u8]>) {
        self.at(at);
        self.pipeline.push(at, Step::Item(Bytes::copy_from_slice(data.as_ref())));
        self.at(at);
    }

    /// Ends the data at a moment.
    pub(super) fn end(&mut self, at: Moment) {
        self.at(at);
        self.pipeline.push(at, Step::End);
        self.at(at);
    }

    /// What left, and when: text for data.
    pub(super) fn log(&self) -> Vec<(u64, String)> {
        let name = |step: &Step<Bytes>| match step {
            Step::Item(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Step::End => "<end>".to_owned(),
            Step::Close => "<close>".to_owned(),
            Step::Reset => "<reset>".to_owned(),
        };
        self.sent.iter().map(|(at, step)| (at.as_millis() as u64, name(step))).collect()
    }

    /// All data that left.
    pub(super) fn data(&self) -> Vec<u8> {
        let items = self.sent.iter().filter_map(|(_, step)| match step {
            Step::Item(bytes) => Some(&bytes[..]),
            _ => None,
        });
        items.collect::<Vec<_>>().concat()
    }

    /// Whether the first toxic says that it has struck, and when.
    pub(super) fn struck(&mut self) -> Option<Moment> {
        let mut struck = None;
        self.pipeline.reports(|id, report| {
            if id.toxic == 0 {
                struck = report.struck;
            }
        });
        struck
    }
}

/// Shorthand for a log.
pub(super) fn log<const N: usize>(entries: [(u64, &str); N]) -> Vec<(u64, String)> {
    entries.into_iter().map(|(at, what)| (at, what.to_owned())).collect()
}
