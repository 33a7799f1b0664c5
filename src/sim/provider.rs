//! The simulated providers: a row for each.

use std::{fmt::Debug, sync::Arc};

use super::{
    address::Pace,
    anthropic,
    call::{Call, Unreadable},
    gemini, ollama, openai, qdrant,
    reply::Reply,
};

/// What there is of one provider.
#[derive(Debug)]
pub(super) struct Provider {
    /// As in `sim://NAME`.
    pub(super) name: &'static str,
    /// Whether its answers are paced: it takes the options of a language model.
    pub(super) is_model: bool,
    /// Starts a server with nothing stored in it.
    pub(super) start: fn() -> Arc<dyn Server>,
}

/// All of them, in the order of the documentation.
pub(super) static PROVIDERS: &[&Provider] =
    &[&openai::PROVIDER, &anthropic::PROVIDER, &gemini::PROVIDER, &ollama::PROVIDER, &qdrant::PROVIDER];

/// A provider's names, in the same order.
pub(super) fn names() -> Vec<&'static str> {
    PROVIDERS.iter().map(|provider| provider.name).collect()
}

/// A running provider.
pub(super) trait Server: Debug + Send + Sync {
    /// Answers a request. What is wrong with it is said in the provider's own error format.
    fn answer(&self, call: &Call, pace: &Pace) -> Reply;

    /// Answers a request whose body could not be read.
    fn refuse(&self, why: Unreadable) -> Reply;
}
