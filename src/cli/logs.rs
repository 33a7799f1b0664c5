//! Logs: to standard error, text on a terminal, JSON otherwise.
use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

/// Begins to log. `RUST_LOG` says what; `default` if it is not set. In Toxiproxy's place `LOG_LEVEL` is honoured too.
pub(super) fn init(default: &str, drop_in: bool) {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let level = variable("LOG_LEVEL").filter(|_| drop_in);
    let wish = variable("RUST_LOG").or_else(|| level.as_deref().and_then(ours).map(str::to_owned));
    let (filter, bad) = match wish.as_deref().map(|wish| (EnvFilter::try_new(wish), wish)) {
        Some((Ok(filter), _)) => (filter, None),
        Some((Err(error), wish)) => (EnvFilter::new(default), Some(format!("RUST_LOG=`{wish}`: {error}"))),
        None => (EnvFilter::new(default), None),
    };
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let terminal = std::io::stderr().is_terminal();
    // A second start in one process, as in a test, goes on with the first one's logs.
    let _ = if terminal {
        builder.with_ansi(std::env::var_os("NO_COLOR").is_none()).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    if let Some(bad) = bad {
        tracing::warn!("{bad}; logging at `{default}`");
    }
    if let Some(level) = level.filter(|level| ours(level).is_none()) {
        tracing::warn!("LOG_LEVEL=`{level}` is none of panic, fatal, error, warn, info, debug, trace");
    }
}

/// Toxiproxy's levels in our words.
fn ours(level: &str) -> Option<&'static str> {
    match level.to_ascii_lowercase().as_str() {
        "panic" | "fatal" | "error" => Some("error"),
        "warn" => Some("warn"),
        "info" => Some("info"),
        "debug" => Some("debug"),
        "trace" => Some("trace"),
        _ => None,
    }
}
