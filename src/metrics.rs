//! Counters, in Prometheus' text format.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Counters that every proxy adds to.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By proxy and type.
    struck: Mutex<BTreeMap<(String, String), u64>>,
    /// By proxy, type and reason.
    passed: Mutex<BTreeMap<(String, String, &'static str), u64>>,
    /// By proxy and type.
    waits: Mutex<BTreeMap<(String, String), Arc<Waits>>>,
    pub(crate) connections: AtomicU64,
    pub(crate) exchanges: AtomicU64,
}

/// The upper bounds of the classes of waits, in seconds: from a slicer's pauses to a hang.
const BOUNDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// How long the toxics of one type held something on one proxy, counted by class.
#[derive(Default)]
pub(crate) struct Waits {
    /// Of waits up to the bound and over the one before.
    counts: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    nanos: AtomicU64,
}

/// Where to count the waits of each toxic of one stream: looked up once, so that an event that was held takes no lock.
#[derive(Default)]
pub(crate) struct WaitsByToxic(Vec<(u64, Arc<Waits>)>);

/// A stream remembers where to count for so many toxics: those that were removed are forgotten in time.
const MOST_LOOKED_UP: usize = 16;

impl WaitsByToxic {
    /// Counts a wait. `look_up` is asked at the first one of a toxic.
    pub(crate) fn add(&mut self, toxic: u64, wait: Duration, look_up: impl FnOnce() -> Option<Arc<Waits>>) {
        if let Some((_, waits)) = self.0.iter().find(|(known, _)| *known == toxic) {
            waits.add(wait);
        } else if let Some(waits) = look_up() {
            waits.add(wait);
            if self.0.len() >= MOST_LOOKED_UP {
                self.0.remove(0);
            }
            self.0.push((toxic, waits));
        }
    }
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

    /// Where to count how long a toxic of this type held requests, responses, pieces of them, or runs of bytes.
    pub(crate) fn waits(&self, proxy: &str, kind: &str) -> Arc<Waits> {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(waits.entry((proxy.to_owned(), kind.to_owned())).or_default())
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
        self.toxics(&mut text);
        text
    }

    /// What toxics did.
    fn toxics(&self, text: &mut String) {
        head(
            text,
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
            text,
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
        let name = "aconite_added_latency_seconds";
        head(
            text,
            name,
            "histogram",
            "How long toxics held what they delayed: requests, answers, events, runs of bytes.",
        );
        for ((proxy, kind), waits) in &*self.waits.lock().unwrap_or_else(PoisonError::into_inner) {
            waits.write(text, name, &format!("proxy=\"{}\",type=\"{}\"", escaped(proxy), escaped(kind)));
        }
    }
}

impl Waits {
    /// Counts a wait.
    pub(crate) fn add(&self, wait: Duration) {
        let seconds = wait.as_secs_f64();
        if let Some(class) =
            BOUNDS.iter().position(|bound| seconds <= *bound).and_then(|at| self.counts.get(at))
        {
            class.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// As a histogram: each class counts what is in the ones below too.
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut up_to = 0;
        for (bound, count) in BOUNDS.iter().zip(&self.counts) {
            up_to += count.load(Relaxed);
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {up_to}");
        }
        let (count, sum) = (self.count.load(Relaxed), Duration::from_nanos(self.nanos.load(Relaxed)));
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", sum.as_secs_f64());
        let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_many_events_are_looked_up_once_a_toxic() {
        let metrics = Metrics::default();
        let mut waits = WaitsByToxic::default();
        let mut looked_up = 0;
        for event in 0..1_000 {
            waits.add(event % 2, Duration::from_millis(3), || {
                looked_up += 1;
                Some(metrics.waits("p", "pause"))
            });
        }
        assert_eq!(looked_up, 2);
        for toxic in 2..1_000 {
            WaitsByToxic::add(&mut waits, toxic, Duration::ZERO, || Some(Arc::default()));
        }
        assert_eq!(waits.0.len(), MOST_LOOKED_UP, "toxics that came and went are forgotten");
        let text = metrics.text(&[], 0, true);
        assert!(
            text.contains("aconite_added_latency_seconds_count{proxy=\"p\",type=\"pause\"} 1000\n"),
            "{text}"
        );
        assert!(text.contains("aconite_added_latency_seconds_sum{proxy=\"p\",type=\"pause\"} 3\n"), "{text}");
        assert!(text.contains("le=\"0.001\"} 0\n") && text.contains("le=\"0.005\"} 1000\n"), "{text}");
    }
}
