//! In place of `otlp` in a build without that feature: nothing is exported, and a user who asks for it is told.
use std::{ffi::OsString, future::Future};

use tokio::sync::mpsc;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::{Layer, layer::Identity};

use crate::journal::Finished;

/// What is exported: nothing.
#[derive(Default)]
pub(super) struct Telemetry {}

impl Telemetry {
    /// A warning if OpenTelemetry's variables ask for an export.
    pub(super) fn from_environment() -> (Self, Vec<String>) {
        (Self {}, warning(|name| std::env::var_os(name)).into_iter().collect())
    }

    /// Always false.
    pub(super) const fn is_on(&self) -> bool {
        false
    }

    /// Always `None`.
    pub(super) fn layer<S: Subscriber>(&self) -> Option<impl Layer<S> + use<S>> {
        None::<Identity>
    }

    /// Runs a command.
    pub(super) async fn around<T, F>(self, command: impl FnOnce(Option<mpsc::Sender<Finished>>) -> F) -> T
    where
        F: Future<Output = T>,
    {
        command(None).await
    }
}

/// Always true.
pub(super) fn is_logged(_event: &Metadata<'_>) -> bool {
    true
}

fn warning(variable: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let asked = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    ];
    let name = asked.into_iter().find(|name| variable(name).is_some())?;
    Some(format!(
        "{name} is set, but nothing is exported: this executable was built without the feature `otlp`. Build it with default \
         features, or unset the variable"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_an_export_is_told_that_there_is_none() {
        let with = |set: &[(&str, &str)]| {
            warning(|name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).into()))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
        assert_eq!(with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_SDK_DISABLED", "True")]), None);
        for name in [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        ] {
            let told = with(&[(name, "http://secret@x")]).unwrap();
            assert!(
                told.starts_with(name) && told.contains("feature `otlp`") && !told.contains("secret"),
                "{told}"
            );
        }
    }
}
