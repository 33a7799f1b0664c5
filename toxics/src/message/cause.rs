//! Causes of failure, as configuration names them.
use aconite_dialects::{
    Cause, Dialect, Event, EventFormat, Failure, FailureContext, Operation,
    failure::{in_stream, render},
};
use serde::{Deserialize, Deserializer, de};

use crate::{Dice, Scope, similar::nearest};

/// Reads a cause; what is none is refused with the names that come nearest.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cause, D::Error> {
    let name = String::deserialize(deserializer)?;
    Cause::of_name(&name).ok_or_else(|| {
        let nearest = nearest(&name, Cause::NAMES.iter().copied()).join("`, `");
        de::Error::custom(format!("there is no cause `{name}`; the nearest are `{nearest}`"))
    })
}

/// As [`read`].
pub(super) fn read_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cause>, D::Error> {
    read(deserializer).map(Some)
}

/// Refuses a cause that no provider words, of those that can be tried by `words`.
pub(super) fn check(cause: Cause, words: impl Fn(Option<Dialect>, Cause) -> bool) -> Result<(), String> {
    let anybody_words = |cause| {
        let dialects = Dialect::ALL.iter().copied().map(Some).chain([None]);
        dialects.into_iter().any(|dialect| words(dialect, cause))
    };
    if anybody_words(cause) {
        return Ok(());
    }
    let others = Cause::ALL.iter().filter(|other| anybody_words(**other)).map(|other| other.name());
    let nearest = nearest(cause.name(), others).join("`, `");
    Err(format!("no provider fails with `{cause}` here; the nearest causes that one does are `{nearest}`"))
}

/// What a failure tells about the exchange that it strikes.
#[derive(Clone, Debug)]
pub(super) struct Wording {
    pub(super) cause: Cause,
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    model: String,
    id: u64,
    now: u64,
    pub(super) retry_after: Option<std::time::Duration>,
}

impl Wording {
    pub(super) fn new(cause: Cause, scope: &Scope, dice: &mut Dice) -> Self {
        Self {
            cause,
            dialect: scope.dialect,
            operation: scope.operation,
            model: scope.model.clone().unwrap_or_default(),
            id: dice.bits(),
            now: scope.date,
            retry_after: None,
        }
    }

    /// The answer, if it is known how the provider words the cause.
    pub(super) fn answer(&self) -> Option<Failure> {
        render(self.dialect, self.operation, self.cause, &self.facts())
    }

    /// The frames in a stream, if it is known how the provider words the cause there.
    pub(super) fn frames(&self, framing: EventFormat, seq: u64) -> Vec<Event> {
        let frames = in_stream(self.dialect, self.operation, self.cause, &self.facts(), seq);
        let framed = |frame: Event| match (frame.framing(), framing) {
            (own, asked) if own == asked => Some(frame),
            // Gemini says the same in both.
            (EventFormat::Sse, EventFormat::JsonArray) => Some(Event::new(framing, None, &frame.data())),
            _ => None,
        };
        frames.into_iter().filter_map(framed).collect()
    }

    fn facts(&self) -> FailureContext<'_> {
        FailureContext {
            model: &self.model,
            collection: "",
            id: self.id,
            now: self.now,
            retry_after: self.retry_after,
        }
    }
}
