//! Toxics on HTTP exchanges, on streams of events and on documents.
use aconite_dialects::{Event, Framing};

use crate::{BodyFilter, BodyForm, Instance, Scope, StreamFilter};

mod cause;
mod cut;
mod delay;
mod fail;
mod garble;
mod hang;
mod header_lines;
mod headers;
mod html;
mod length_lie;
mod pause;
#[cfg(test)]
mod script;
mod slow_stream;
mod stream_error;
mod timing;
mod which;

pub use cut::Cut;
pub use delay::Delay;
pub use fail::Fail;
pub use garble::Garble;
pub use hang::Hang;
pub use headers::Headers;
pub use html::Html;
pub use length_lie::LengthLie;
pub use pause::Pause;
pub use slow_stream::SlowStream;
pub use stream_error::StreamError;
pub use timing::Distribution;
pub use which::Which;

/// A toxic that acts on events, where there are some.
fn on_events(scope: &Scope, filter: impl FnOnce(Framing) -> Box<dyn StreamFilter<Event>>) -> Instance {
    match scope.body {
        BodyForm::Events(framing) => Instance::Body(BodyFilter::Events(filter(framing))),
        BodyForm::Document | BodyForm::Opaque => Instance::Idle("not_a_stream"),
    }
}
