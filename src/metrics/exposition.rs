//! All metrics of an instance, written for a scraper.
use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use aconite_api::MetricsFormat;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, prometheus_text, text},
    metrics::{TypedMetric, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::{STATUSES, Series, histogram::Histogram};

/// The metrics of an instance at a moment.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) proxies: Vec<ProxyMetrics>,
    /// Exchanges in progress.
    pub(crate) in_flight: u64,
    /// Whether the kill switch lets toxics act.
    pub(crate) chaos: bool,
}

/// The metrics of one proxy.
#[derive(Debug)]
pub(crate) struct ProxyMetrics {
    pub(crate) proxy: String,
    pub(crate) listener: String,
    pub(crate) upstream: String,
    /// Whether it has exchanges.
    pub(crate) http: bool,
    /// Bytes received and sent, to the upstream.
    pub(crate) up: (u64, u64),
    /// Bytes received and sent, to the client.
    pub(crate) down: (u64, u64),
    /// Client connections that are open.
    pub(crate) open: usize,
    /// Client connections accepted.
    pub(crate) connections: u64,
    pub(crate) series: Arc<Series>,
}

impl Metrics {
    /// As text.
    pub(crate) fn text(self, format: MetricsFormat) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut written = String::new();
        // Writing to a String cannot fail.
        let _ = match format {
            MetricsFormat::Text => prometheus_text::encode(&mut written, &registry),
            MetricsFormat::OpenMetrics => text::encode(&mut written, &registry),
        };
        written
    }

    fn traffic(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Pick = fn((u64, u64)) -> u64;
        let picks: [(_, Pick); 2] = [
            ("toxiproxy_proxy_received_bytes", |(received, _)| received),
            ("toxiproxy_proxy_sent_bytes", |(_, sent)| sent),
        ];
        for (name, pick) in picks {
            let samples = self.proxies.iter().flat_map(|proxy| {
                [("downstream", proxy.down), ("upstream", proxy.up)].map(|(direction, bytes)| {
                    // Toxiproxy's order.
                    let labels = [
                        ("direction", direction),
                        ("listener", &*proxy.listener),
                        ("proxy", &*proxy.proxy),
                        ("upstream", &*proxy.upstream),
                    ];
                    (labels, ConstCounter::new(pick(bytes)))
                })
            });
            family(encoder, name, "Bytes, as Toxiproxy counts them.", samples)?;
        }
        Ok(())
    }

    fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let open = self.proxies.iter().map(|proxy| (proxy.label(), ConstGauge::new(proxy.open)));
        family(encoder, "aconite_connections_open", "Client connections that are open.", open)?;
        let total = self.proxies.iter().map(|proxy| (proxy.label(), ConstCounter::new(proxy.connections)));
        family(encoder, "aconite_connections", "Client connections accepted.", total)
    }

    fn exchanges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let classes = || {
            self.proxies.iter().filter(|proxy| proxy.http).flat_map(|proxy| {
                let classes = STATUSES.iter().zip(&proxy.series.exchanges);
                classes.map(|(status, took)| ([("proxy", &*proxy.proxy), ("status", *status)], took))
            })
        };
        let ended = classes().map(|(labels, took)| (labels, ConstCounter::new(took.count())));
        let help = "HTTP exchanges that have ended, by the class of the response's status.";
        family(encoder, "aconite_exchanges", help, ended)?;
        let help = "HTTP exchanges in progress.";
        family(encoder, "aconite_exchanges_in_flight", help, [(NONE, ConstGauge::new(self.in_flight))])?;
        let help = "Time from the request to the end of the exchange.";
        histograms(encoder, "aconite_exchange_duration_seconds", help, classes())?;
        let first_bytes = self.proxies.iter().map(|proxy| (proxy.label(), &proxy.series.first_bytes));
        let help = "Time from the request to the first byte of the response's body.";
        histograms(encoder, "aconite_first_byte_seconds", help, first_bytes)?;
        let gaps = self.proxies.iter().map(|proxy| (proxy.label(), &proxy.series.event_gaps));
        let help = "Time between two events of a streamed response, as they are sent to the client.";
        histograms(encoder, "aconite_event_gap_seconds", help, gaps)
    }

    fn toxics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let toxics = || {
            self.proxies
                .iter()
                .flat_map(|proxy| proxy.series.toxics.iter().map(move |toxic| (&*proxy.proxy, &**toxic)))
        };
        let struck = toxics().map(|(proxy, toxic)| {
            ([("proxy", proxy), ("type", &*toxic.kind)], ConstCounter::new(toxic.struck.load(Relaxed)))
        });
        let help = "Connections and exchanges that a toxic struck.";
        family(encoder, "aconite_toxics_struck", help, struck)?;
        let passed = toxics().flat_map(|(proxy, toxic)| {
            toxic.passed.iter().map(move |passed| {
                let labels = [("proxy", proxy), ("reason", passed.reason), ("type", &*toxic.kind)];
                (labels, ConstCounter::new(passed.count.load(Relaxed)))
            })
        });
        let help = "Connections and exchanges that a toxic was meant for and let pass.";
        family(encoder, "aconite_toxics_passed", help, passed)?;
        let waits = toxics().map(|(proxy, toxic)| ([("proxy", proxy), ("type", &*toxic.kind)], &toxic.waits));
        let help = "How long toxics held what they delayed: requests, responses, events, runs of bytes.";
        histograms(encoder, "aconite_added_latency_seconds", help, waits)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.traffic(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.exchanges(&mut encoder)?;
        self.toxics(&mut encoder)?;
        let chaos = [(NONE, ConstGauge::new(u32::from(self.chaos)))];
        family(&mut encoder, "aconite_chaos_enabled", "Whether toxics act.", chaos)
    }
}

impl ProxyMetrics {
    fn label(&self) -> [(&str, &str); 1] {
        [("proxy", &self.proxy)]
    }
}

/// No labels.
const NONE: [(&str, &str); 0] = [];

/// Writes the samples of one name, if there are any. Counters get `_total` behind it.
fn family<L: EncodeLabelSet, M: EncodeMetric + TypedMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, M)>,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
    for (labels, metric) in samples {
        metric.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Writes histograms. Those that have counted nothing are left out: each is many lines.
fn histograms<'a, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl Iterator<Item = (L, &'a Histogram)>,
) -> fmt::Result {
    family(encoder, name, help, samples.filter(|(_, histogram)| histogram.count() > 0))
}
