//! Export by OTLP over HTTP, where OpenTelemetry's environment variables ask for it: log events, and a span for each
//! exchange. Where they do not there is nothing: no thread, no layer, no task.
mod client;
mod settings;
mod spans;

use std::{fmt::Display, future::Future, thread, time::Duration};

use opentelemetry::{
    InstrumentationScope, Key, KeyValue,
    trace::{Tracer, TracerProvider},
};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    logs::SdkLoggerProvider,
    resource::{
        EnvResourceDetector, ResourceDetector, SdkProvidedResourceDetector, TelemetryResourceDetector,
    },
    trace::SdkTracerProvider,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use crate::journal::Finished;
use client::Client;
use settings::{Destination, Signal};

/// Exchanges that may wait to be made spans of. The batch processors have queues of the same length.
const QUEUE: usize = 2_048;

/// How long the end of the program waits for a collector to take what is left.
const FLUSH: Duration = Duration::from_secs(3);

/// What is exported.
#[derive(Default)]
pub(super) struct Telemetry {
    spans: Option<SdkTracerProvider>,
    logs: Option<SdkLoggerProvider>,
}

impl Telemetry {
    /// What the environment asks for, and what has to be told of that once there are logs.
    pub(super) fn from_environment() -> (Self, Vec<String>) {
        let mut telemetry = Self::default();
        let mut warnings = Vec::new();
        let mut warn = |warning: String| {
            // Both signals may stumble over one variable.
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        };
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        if let Some(destination) = Destination::of(Signal::Traces, variable, &mut warn) {
            match spans_to(&destination) {
                Ok(provider) => telemetry.spans = Some(provider),
                Err(error) => warn(not_exported(Signal::Traces, &error)),
            }
        }
        if let Some(destination) = Destination::of(Signal::Logs, variable, &mut warn) {
            match logs_to(&destination) {
                Ok(provider) => telemetry.logs = Some(provider),
                Err(error) => warn(not_exported(Signal::Logs, &error)),
            }
        }
        (telemetry, warnings)
    }

    /// Whether there is anything to export.
    pub(super) fn is_on(&self) -> bool {
        self.spans.is_some() || self.logs.is_some()
    }

    /// What exports the log events, if that is wanted.
    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let bridge = OpenTelemetryTracingBridge::new(self.logs.as_ref()?);
        Some(bridge.with_filter(filter_fn(is_exported)))
    }

    /// Runs a command, which is given where finished exchanges go, and then sends what is left, for a while.
    pub(super) async fn around<T, F>(self, command: impl FnOnce(Option<mpsc::Sender<Finished>>) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let Some(provider) = &self.spans else {
            let result = command(None).await;
            self.flush();
            return result;
        };
        let scope = InstrumentationScope::builder("aconite").with_version(env!("CARGO_PKG_VERSION")).build();
        let tracer = provider.tracer_with_scope(scope);
        let (finished, receiver) = mpsc::channel(QUEUE);
        let finish = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "`finish` ends it")]
        let task = tokio::spawn(record(tracer, receiver, finish.clone()));
        let result = command(Some(finished)).await;
        finish.cancel();
        if let Err(error) = task.await {
            tracing::error!(%error, "the last spans may be missing");
        }
        self.flush();
        result
    }

    /// Sends what is left, of both signals at once. A collector that does not take it holds nobody for long.
    fn flush(self) {
        let Self { spans, logs } = self;
        #[expect(clippy::disallowed_methods, reason = "it is joined below, and its flush has a limit")]
        let traces = spans.map(|spans| thread::spawn(move || spans.shutdown_with_timeout(FLUSH).is_ok()));
        #[expect(clippy::disallowed_methods, reason = "it is joined below, and its flush has a limit")]
        let logs = logs.map(|logs| thread::spawn(move || logs.shutdown_with_timeout(FLUSH).is_ok()));
        for (signal, flushed) in [(Signal::Traces, traces), (Signal::Logs, logs)] {
            if flushed.is_some_and(|flushed| !flushed.join().unwrap_or(false)) {
                tracing::warn!("the last {} may not have reached the OTLP collector", signal.things());
            }
        }
    }
}

/// Makes spans until it is to finish, and then of what is there.
async fn record(tracer: impl Tracer, mut finished: mpsc::Receiver<Finished>, finish: CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            next = finished.recv() => next,
            () = finish.cancelled() => return,
        };
        let Some(next) = next else { return };
        spans::record(&tracer, &next);
    }
}

type Unusable = Box<dyn std::error::Error>;

fn spans_to(destination: &Destination) -> Result<SdkTracerProvider, Unusable> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(destination.endpoint.to_string())
        .with_timeout(destination.timeout)
        .with_http_client(Client::new(Signal::Traces, destination)?)
        .build()?;
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build())
}

fn logs_to(destination: &Destination) -> Result<SdkLoggerProvider, Unusable> {
    let exporter = LogExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(destination.endpoint.to_string())
        .with_timeout(destination.timeout)
        .with_http_client(Client::new(Signal::Logs, destination)?)
        .build()?;
    Ok(SdkLoggerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build())
}

fn not_exported(signal: Signal, error: &dyn Display) -> String {
    format!("no {} are exported: {error}", signal.things())
}

/// Who exports: what the environment says, and what it leaves open.
fn resource() -> Resource {
    const NAME: Key = Key::from_static_str("service.name");
    // The library makes up a name where none is given, and lets the general variable go before OTEL_SERVICE_NAME.
    let given = SdkProvidedResourceDetector.detect().get(&NAME);
    let given = given.filter(|name| !name.as_str().starts_with("unknown_service"));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())])
        .with_attribute(KeyValue::new(NAME, given.unwrap_or_else(|| "aconite".into())))
        .build()
}

/// Whether a log event may be exported: not if exporting may be what brought it about, for that would never end.
fn is_exported(event: &Metadata<'_>) -> bool {
    const NEVER: [&str; 6] = ["aconite::cli::otlp", "opentelemetry", "hyper", "h2", "rustls", "tokio"];
    !NEVER.iter().any(|target| event.target().starts_with(target))
}

/// Whether an event belongs into the log: of the exporters' own only that a queue overflows. They tell of each try that
/// fails, and name no collector; the client does that better.
pub(super) fn is_logged(event: &Metadata<'_>) -> bool {
    !event.target().starts_with("opentelemetry") || *event.level() == Level::WARN
}
