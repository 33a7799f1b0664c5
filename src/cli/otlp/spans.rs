//! Spans: one for each exchange that has ended.
use std::time::{Duration, SystemTime};

use aconite_api::model::{Exchange, How, Side};
use aconite_dialects::Dialect;
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Event, Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
        Tracer,
    },
};

use crate::journal::Finished;

/// Makes an exchange's span, by OpenTelemetry's conventions for HTTP servers and generative AI.
///
/// What a query, a header or a body says stays out of it, but for the request's `traceparent`, its test and its scene.
pub(super) fn record(tracer: &impl Tracer, finished: &Finished) {
    let Finished { exchange, traceparent } = finished;
    let parent = match traceparent.as_deref().and_then(remote) {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    };
    let started = moment(&exchange.started);
    let after = |ms: f64| started + Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default();
    let strikes = exchange.toxics.iter().filter(|strike| strike.struck);
    let events = strikes.map(|strike| {
        let attributes = vec![
            KeyValue::new("aconite.toxic", strike.name.clone()),
            KeyValue::new("aconite.toxic.type", strike.kind.clone()),
        ];
        Event::new("toxic", after(strike.at.unwrap_or_default()), attributes, 0)
    });
    let mut span = tracer
        .span_builder(name(exchange))
        .with_kind(SpanKind::Server)
        .with_start_time(started)
        .with_attributes(attributes(exchange))
        .with_events(events.collect())
        .start_with_context(tracer, &parent);
    if let Some(error) = error(exchange) {
        span.set_attribute(KeyValue::new("error.type", error));
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(after(exchange.duration_ms.unwrap_or_default()));
}

fn moment(rfc3339: &str) -> SystemTime {
    let micros = rfc3339.parse().map_or(0, jiff::Timestamp::as_microsecond);
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.try_into().unwrap_or(0))
}

/// A method of the standard's, and what it is for where that is known: few names, whatever clients send.
fn name(exchange: &Exchange) -> String {
    let method = known(&exchange.method).unwrap_or("HTTP");
    match &exchange.operation {
        Some(operation) => format!("{method} {operation}"),
        None => method.to_owned(),
    }
}

fn known(method: &str) -> Option<&str> {
    const KNOWN: [&str; 10] =
        ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "QUERY"];
    KNOWN.contains(&method).then_some(method)
}

fn attributes(exchange: &Exchange) -> Vec<KeyValue> {
    let text = |name: &'static str, value: &str| KeyValue::new(name, value.to_owned());
    let number =
        |name: &'static str, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    let path = exchange.path.split_once('?').map_or(exchange.path.as_str(), |(path, _)| path);
    let mut attributes = vec![
        text("http.request.method", known(&exchange.method).unwrap_or("_OTHER")),
        text("server.address", &exchange.host),
        text("url.path", path),
        text("aconite.proxy", &exchange.proxy),
        number("aconite.exchange", exchange.id),
    ];
    attributes.extend(exchange.status.map(|status| number("http.response.status_code", status.into())));
    attributes.extend(provider(exchange).map(|provider| text("gen_ai.provider.name", provider)));
    attributes.extend(purpose(exchange).map(|purpose| text("gen_ai.operation.name", purpose)));
    attributes.extend(exchange.model.as_deref().map(|model| text("gen_ai.request.model", model)));
    attributes.extend(exchange.test_id.as_deref().map(|test| text("aconite.test_id", test)));
    attributes.extend(exchange.scene.as_deref().map(|scene| text("aconite.scene", scene)));
    if let Some(end) = exchange.ending {
        attributes.push(text("aconite.ending.side", side(end.side)));
        attributes.push(text("aconite.ending.how", how(end.how)));
    }
    attributes
}

/// The standard's word for whose models are asked; our own where it has none. None if nobody's are.
fn provider(exchange: &Exchange) -> Option<&'static str> {
    Dialect::of_name(exchange.dialect.as_deref()?)?.provider().telemetry
}

/// The standard's word for what the models are asked for.
fn purpose(exchange: &Exchange) -> Option<&'static str> {
    match exchange.operation.as_deref()? {
        "chat" | "responses" => Some("chat"),
        "completions" => Some("text_completion"),
        "embeddings" => Some("embeddings"),
        _ => None,
    }
}

/// Why an exchange counts as failed, if it does.
fn error(exchange: &Exchange) -> Option<String> {
    if let Some(error) = &exchange.error {
        return Some(error.clone());
    }
    if let Some(status) = exchange.status.filter(|status| *status >= 500) {
        return Some(status.to_string());
    }
    let how_it_ended = exchange.ending?.how;
    matches!(how_it_ended, How::Error | How::Timeout | How::Rst).then(|| how(how_it_ended).to_owned())
}

const fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Upstream => "upstream",
        Side::Toxic => "toxic",
        Side::Proxy => "proxy",
    }
}

const fn how(how: How) -> &'static str {
    match how {
        How::Clean => "clean",
        How::Fin => "fin",
        How::Rst => "rst",
        How::Hang => "hang",
        How::Timeout => "timeout",
        How::Error => "error",
    }
}

/// The span that a `traceparent` names, if it is valid by W3C Trace Context, level 1; later versions are read by it too.
fn remote(traceparent: &str) -> Option<SpanContext> {
    let mut fields = traceparent.trim().split('-');
    let mut field = |length: usize| {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        fields.next().filter(|field| field.len() == length && field.bytes().all(hex))
    };
    let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    if version == "ff" || (version == "00" && fields.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use aconite_api::model::End;

    use super::*;

    #[test]
    fn only_a_valid_traceparent_names_a_parent() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        let parent = remote(&format!("00-{TRACE}-{SPAN}-03")).unwrap();
        assert_eq!(
            (parent.trace_id().to_string(), parent.span_id().to_string()),
            (TRACE.into(), SPAN.into())
        );
        assert!(parent.is_sampled() && parent.is_remote());
        assert!(!remote(&format!("00-{TRACE}-{SPAN}-02")).unwrap().is_sampled());
        // A later version may have more to say.
        assert!(remote(&format!("01-{TRACE}-{SPAN}-01-what-else")).is_some());
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
        ] {
            assert!(remote(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn names_are_few_and_providers_are_called_as_the_standard_has_them() {
        let exchange = |method: &str, dialect: &str, operation: Option<&str>| Exchange {
            method: method.to_owned(),
            dialect: Some(dialect.to_owned()),
            operation: operation.map(str::to_owned),
            ..Exchange::default()
        };
        let told =
            |exchange: &Exchange| (name(exchange), provider(exchange).map(str::to_owned), purpose(exchange));
        let search = exchange("POST", "qdrant", Some("vector.search"));
        assert_eq!(told(&search), ("POST vector.search".to_owned(), None, None));
        let vectors = exchange("POST", "azure", Some("embeddings"));
        let azure = Some("azure.ai.openai".to_owned());
        assert_eq!(told(&vectors), ("POST embeddings".to_owned(), azure, Some("embeddings")));
        let made_up = exchange("BREW", "ollama", None);
        assert_eq!(told(&made_up), ("HTTP".to_owned(), Some("ollama".to_owned()), None));
        assert!(attributes(&made_up).contains(&KeyValue::new("http.request.method", "_OTHER")));
    }

    #[test]
    fn an_exchange_fails_by_its_status_or_its_end() {
        let error = |status, how| {
            let ending = Some(End { side: Side::Upstream, how });
            error(&Exchange { status, ending, ..Exchange::default() })
        };
        assert_eq!(error(Some(200), How::Clean), None);
        assert_eq!(error(Some(404), How::Fin), None);
        assert_eq!(error(Some(200), How::Hang), None);
        assert_eq!(error(Some(503), How::Clean).as_deref(), Some("503"));
        assert_eq!(error(Some(200), How::Rst).as_deref(), Some("rst"));
        assert_eq!(error(None, How::Timeout).as_deref(), Some("timeout"));
        assert_eq!(error(None, How::Error).as_deref(), Some("error"));
    }
}
