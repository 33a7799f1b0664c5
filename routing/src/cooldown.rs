//! How long a provider that asks to wait is left alone.
//!
//! What it asked for is read by [`outcome::classify`](aconite_dialects::outcome::classify), in every form: `retry-after-ms`,
//! `retry-after` as seconds or as a date, the headers of its limits, and what the body says.

use std::time::Duration;

use crate::Moment;

/// The length of a cool-down: what was told, at most `longest`. A provider that says nothing, or names a moment that is past,
/// is left alone for `base`.
#[must_use]
pub fn length(told: Option<Duration>, base: Duration, longest: Duration) -> Duration {
    told.filter(|told| !told.is_zero()).unwrap_or(base).min(longest)
}

/// Moves the end of a wait to a later moment. A provider that later names a shorter wait does not shorten one that was told
/// before. Whether the end has moved.
pub fn raise(until: &mut Option<Moment>, to: Moment) -> bool {
    let is_later = until.is_none_or(|until| to > until);
    if is_later {
        *until = Some(to);
    }
    is_later
}
