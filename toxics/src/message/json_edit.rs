//! What toxics have in common that edit JSON: a document, or the data of each event of a stream.
use aconite_dialects::{Event, json::Document};
use bytes::Bytes;

use crate::{BodyFilter, BodyForm, DocumentFilter, Instance, Moment, Schedule, Scope, StreamFilter};

/// An edit of JSON.
pub(super) trait JsonEdit: Send {
    /// Edits a document, or the data of an event if that is given.
    ///
    /// # Errors
    /// Why nothing was changed: `not_json`, or that it has no such part.
    fn edit(&mut self, data: &[u8], event: Option<&Event>) -> Result<EditResult, &'static str>;
}

/// What becomes of a document or an event.
pub(super) enum EditResult {
    /// It has this data instead.
    Data(Bytes),
    /// The event has this data and, if it has a name, this one.
    Renamed(&'static str, Bytes),
    /// The event is removed. A document is never removed.
    Removed,
}

/// Why data is left alone that has nothing to edit.
pub(super) const NO_MATCH: &str = "no_match";

/// The data as JSON.
pub(super) fn parse(data: &[u8]) -> Result<Document<'_>, &'static str> {
    Document::parse(data).map_err(|_| "not_json")
}

/// A toxic that edits a document or each event, where there are some.
pub(super) fn on_json(scope: &Scope, edit: impl JsonEdit + 'static) -> Instance {
    let editor = Editor { edit, struck: false, skipped: "no_events" };
    match scope.body {
        BodyForm::Events(_) => Instance::Body(BodyFilter::Events(Box::new(editor))),
        BodyForm::Document => Instance::Body(BodyFilter::Document(Box::new(editor))),
        BodyForm::Opaque => Instance::Idle("not_json"),
    }
}

struct Editor<E> {
    edit: E,
    struck: bool,
    /// Why the last event was left alone.
    skipped: &'static str,
}

impl<E: JsonEdit> DocumentFilter for Editor<E> {
    fn edit(&mut self, body: &Bytes) -> Result<Bytes, &'static str> {
        match self.edit.edit(body, None)? {
            EditResult::Data(edited) | EditResult::Renamed(_, edited) => Ok(edited),
            EditResult::Removed => Err(NO_MATCH),
        }
    }
}

impl<E: JsonEdit> StreamFilter<Event> for Editor<E> {
    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        if !item.is_event() {
            out.send(now, item);
            return;
        }
        match self.edit.edit(&item.data(), Some(&item)) {
            Ok(edited) => {
                self.struck = true;
                out.strike(now);
                match edited {
                    EditResult::Data(data) => out.send(now, item.with_data(&data)),
                    EditResult::Renamed(name, data) => out.send(now, item.with_data(&data).renamed(name)),
                    EditResult::Removed => {}
                }
            }
            Err(reason) => {
                // That an event could be read says more than that another could not.
                if self.skipped == "no_events" || reason != "not_json" {
                    self.skipped = reason;
                }
                out.send(now, item);
            }
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if !self.struck {
            out.skip(self.skipped);
        }
        out.end(now);
    }
}
