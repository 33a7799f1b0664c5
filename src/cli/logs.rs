//! Logs: to standard error, text on a terminal, JSON otherwise; and to an OTLP collector where one is configured.
use std::io::IsTerminal;

use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use super::otlp::{self, Telemetry};

/// Begins to log. `RUST_LOG` says what; `default` if it is not set. As a replacement for Toxiproxy `LOG_LEVEL` is honoured too.
pub(super) fn init(default: &str, drop_in: bool) {
    start(default, drop_in, &Telemetry::default());
}

/// The same, and begins to export what OpenTelemetry's variables ask for.
pub(super) fn init_and_export(default: &str, drop_in: bool) -> Telemetry {
    let (telemetry, warnings) = Telemetry::from_environment();
    start(default, drop_in, &telemetry);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    telemetry
}

fn start(default: &str, drop_in: bool, telemetry: &Telemetry) {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let level = variable("LOG_LEVEL").filter(|_| drop_in);
    let wish = variable("RUST_LOG").or_else(|| level.as_deref().and_then(ours).map(str::to_owned));
    let (filter, bad) = match wish.as_deref().map(|wish| (EnvFilter::try_new(wish), wish)) {
        Some((Ok(filter), _)) => (filter, None),
        Some((Err(error), wish)) => (EnvFilter::new(default), Some(format!("RUST_LOG=`{wish}`: {error}"))),
        None => (EnvFilter::new(default), None),
    };
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = if std::io::stderr().is_terminal() {
        lines.with_ansi(std::env::var_os("NO_COLOR").is_none()).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    };
    let logs = tracing_subscriber::registry().with(filter).with(lines);
    // A second start in one process, as in a test, goes on with the first one's logs.
    let _ = match telemetry.layer() {
        _ if !telemetry.is_on() => logs.try_init(),
        None => logs.with(filter_fn(otlp::is_logged)).try_init(),
        Some(export) => logs.with(export).with(filter_fn(otlp::is_logged)).try_init(),
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
