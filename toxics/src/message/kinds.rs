//! Which events of a stream a toxic is after.
use aconite_dialects::{Dialect, Event, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Scope;

/// A kind of event.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Which {
    /// Those that carry a piece of the model's output: text, thoughts, arguments of tool calls.
    #[default]
    Content,
    /// The one that says that the stream is complete: `[DONE]`, `message_stop`, `response.completed`, `done: true`.
    Terminator,
    /// Those that say how many tokens were used.
    Usage,
    /// All.
    Any,
}

/// Tells kinds of events apart, as the protocol at hand has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    dialect: Option<Dialect>,
    operation: Option<Operation>,
}

impl Kinds {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self { dialect: scope.dialect, operation: scope.operation }
    }

    /// Whether an event carries a piece of the model's output.
    pub(crate) fn is_content(self, event: &Event) -> bool {
        event.is_event()
    }

    /// Whether an event is of a kind. Pieces that are no events are of none.
    pub(crate) fn is(self, which: Which, event: &Event) -> bool {
        event.is_event() && matches!(which, Which::Any | Which::Content)
    }
}
