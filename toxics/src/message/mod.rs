//! Toxics on HTTP exchanges, on streams of events and on documents.
use aconite_dialects::{Event, EventFormat};

use crate::{BodyFilter, BodyForm, DocumentFilter, Instance, Scope, StreamFilter};

mod cause;
mod content;
mod cut;
mod delay;
mod drop;
mod duplicate;
mod edit;
mod embedding;
mod fail;
mod finish;
mod garble;
mod hang;
mod header_lines;
mod headers;
mod hits;
mod html;
mod json_edit;
#[cfg(test)]
mod laws;
mod length_lie;
mod model;
mod pause;
mod reframe;
mod reorder;
#[cfg(test)]
mod script;
mod slow_stream;
mod stream_error;
mod text;
mod timing;
mod tool_call;
mod usage;
mod which;

pub use content::Content;
pub use cut::Cut;
pub use delay::Delay;
pub use drop::Drop;
pub use duplicate::Duplicate;
pub use edit::Edit;
pub use embedding::Embedding;
pub use fail::Fail;
pub use finish::Finish;
pub use garble::Garble;
pub use hang::Hang;
pub use headers::Headers;
pub use hits::Hits;
pub use html::Html;
pub use length_lie::LengthLie;
pub use model::Model;
pub use pause::Pause;
pub use reframe::Reframe;
pub use reorder::Reorder;
pub use slow_stream::SlowStream;
pub use stream_error::StreamError;
pub use timing::Distribution;
pub use tool_call::ToolCall;
pub use usage::Usage;
pub use which::Which;

/// A toxic that acts on events, where there are some.
fn on_events(scope: &Scope, filter: impl FnOnce(EventFormat) -> Box<dyn StreamFilter<Event>>) -> Instance {
    match scope.body {
        BodyForm::Events(framing) => Instance::Body(BodyFilter::Events(filter(framing))),
        BodyForm::Document | BodyForm::Opaque => Instance::Idle("not_a_stream"),
    }
}

/// A toxic that acts on a JSON document, where there is one.
fn on_document(scope: &Scope, filter: impl FnOnce() -> Box<dyn DocumentFilter>) -> Instance {
    match scope.body {
        BodyForm::Document => Instance::Body(BodyFilter::Document(filter())),
        BodyForm::Events(_) | BodyForm::Opaque => Instance::Idle("not_json"),
    }
}
