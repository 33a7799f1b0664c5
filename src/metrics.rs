//! Counters, in Prometheus' text format.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counters that every proxy adds to.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By proxy and type.
    struck: Mutex<BTreeMap<(String, String), u64>>,
    /// By proxy, type and reason.
    passed: Mutex<BTreeMap<(String, String, &'static str), u64>>,
    pub(crate) connections: AtomicU64,
    pub(crate) exchanges: AtomicU64,
}

/// One proxy's traffic, as it is shown.
pub(crate) struct ProxyTraffic {
    pub(crate) proxy: String,
    pub(crate) listener: String,
    pub(crate) upstream: String,
    /// Received and sent, upstream then downstream.
    pub(crate) up: (u64, u64),
    pub(crate) down: (u64, u64),
    pub(crate) open: usize,
}

impl Metrics {
    /// A toxic struck a connection or an exchange.
    pub(crate) fn struck(&self, proxy: &str, kind: &str) {
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        *struck.entry((proxy.to_owned(), kind.to_owned())).or_default() += 1;
    }

    /// A toxic was there and did not strike.
    pub(crate) fn passed(&self, proxy: &str, kind: &str, reason: &'static str) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed.entry((proxy.to_owned(), kind.to_owned(), reason)).or_default() += 1;
    }

    /// Everything, with each proxy's traffic.
    pub(crate) fn text(&self, traffic: &[ProxyTraffic], in_flight: u64, chaos: bool) -> String {
        let mut text = String::new();
        type Pair = fn((u64, u64)) -> u64;
        let directions: [(&str, Pair); 2] = [("received", |pair| pair.0), ("sent", |pair| pair.1)];
        for (name, pick) in directions {
            head(
                &mut text,
                &format!("toxiproxy_proxy_{name}_bytes_total"),
                "counter",
                "Bytes, as Toxiproxy counts them.",
            );
            for proxy in traffic {
                for (direction, pair) in [("downstream", proxy.down), ("upstream", proxy.up)] {
                    let _ = writeln!(
                        text,
                        "toxiproxy_proxy_{name}_bytes_total{{direction=\"{direction}\",listener=\"{}\",proxy=\"{}\",upstream=\"{}\"}} {}",
                        escaped(&proxy.listener),
                        escaped(&proxy.proxy),
                        escaped(&proxy.upstream),
                        pick(pair)
                    );
                }
            }
        }
        head(&mut text, "aconite_connections_open", "gauge", "Client connections that are open.");
        for proxy in traffic {
            let _ = writeln!(
                text,
                "aconite_connections_open{{proxy=\"{}\"}} {}",
                escaped(&proxy.proxy),
                proxy.open
            );
        }
        single(
            &mut text,
            "aconite_connections_total",
            "counter",
            "Client connections accepted.",
            self.connections.load(Relaxed),
        );
        single(
            &mut text,
            "aconite_exchanges_total",
            "counter",
            "HTTP exchanges begun.",
            self.exchanges.load(Relaxed),
        );
        single(&mut text, "aconite_exchanges_in_flight", "gauge", "HTTP exchanges that go on.", in_flight);
        single(&mut text, "aconite_chaos_enabled", "gauge", "Whether toxics act.", u64::from(chaos));
        head(
            &mut text,
            "aconite_toxics_struck_total",
            "counter",
            "Connections and exchanges that a toxic struck.",
        );
        for ((proxy, kind), count) in &*self.struck.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(
                text,
                "aconite_toxics_struck_total{{proxy=\"{}\",type=\"{}\"}} {count}",
                escaped(proxy),
                escaped(kind)
            );
        }
        head(
            &mut text,
            "aconite_toxics_passed_total",
            "counter",
            "Connections and exchanges that a toxic was meant for and let pass.",
        );
        for ((proxy, kind, reason), count) in &*self.passed.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(
                text,
                "aconite_toxics_passed_total{{proxy=\"{}\",reason=\"{}\",type=\"{}\"}} {count}",
                escaped(proxy),
                escaped(reason),
                escaped(kind)
            );
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn single(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    head(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

/// A label's value (Prometheus text format 0.0.4).
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Shared by all proxies of an instance.
pub(crate) type SharedMetrics = Arc<Metrics>;
