//! Toxics on HTTP exchanges, on streams of events and on documents.
use aconite_dialects::{Event, Framing};

use crate::{BodyFilter, BodyForm, Instance, Scope, StreamFilter};

mod cut;
mod delay;
mod hang;
mod header_lines;
mod headers;
mod html;
mod kinds;
mod length_lie;
mod pause;
#[cfg(test)]
mod script;
mod slow_stream;
mod timing;

pub use cut::Cut;
pub use delay::Delay;
pub use hang::Hang;
pub use headers::Headers;
pub use html::Html;
pub(crate) use kinds::Kinds;
pub use kinds::Which;
pub use length_lie::LengthLie;
pub use pause::Pause;
pub use slow_stream::SlowStream;
pub use timing::Distribution;

/// A toxic that acts on events, where there are some.
fn on_events(scope: &Scope, filter: impl FnOnce(Framing) -> Box<dyn StreamFilter<Event>>) -> Instance {
    match scope.body {
        BodyForm::Events(framing) => Instance::Body(BodyFilter::Events(filter(framing))),
        BodyForm::Document | BodyForm::Opaque => Instance::Idle("not_a_stream"),
    }
}
