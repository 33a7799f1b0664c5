use aconite_api::MetricsFormat;

use super::*;

/// The metrics of an instance with one proxy.
fn text(series: &Arc<Series>, format: MetricsFormat) -> String {
    let proxy = ProxyMetrics {
        proxy: "p".to_owned(),
        listener: "127.0.0.1:1".to_owned(),
        upstream: "b\\a\"d\n".to_owned(),
        http: true,
        up: (1, 2),
        down: (3, 4),
        open: 5,
        connections: 6,
        series: Arc::clone(series),
    };
    Metrics { proxies: vec![proxy], in_flight: 7, chaos: true }.text(format)
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line}\n{text}");
}

#[test]
fn waits_of_many_events_are_looked_up_once_a_toxic() {
    let series = Arc::new(Series::default());
    let mut waits = WaitsByToxic::default();
    let mut looked_up = 0;
    for event in 0..1_000 {
        waits.add(event % 2, Duration::from_millis(3), || {
            looked_up += 1;
            Some(Arc::clone(series.toxic("pause")))
        });
    }
    assert_eq!(looked_up, 2);
    for toxic in 2..1_000 {
        waits.add(toxic, Duration::ZERO, || Some(Arc::clone(Series::default().toxic("other"))));
    }
    assert_eq!(waits.0.len(), MOST_LOOKED_UP, "toxics that came and went are forgotten");
    let text = text(&series, MetricsFormat::Text);
    has(&text, "aconite_added_latency_seconds_count{proxy=\"p\",type=\"pause\"} 1000");
    has(&text, "aconite_added_latency_seconds_sum{proxy=\"p\",type=\"pause\"} 3.0");
    has(&text, "aconite_added_latency_seconds_bucket{proxy=\"p\",type=\"pause\",le=\"0.001\"} 0");
    has(&text, "aconite_added_latency_seconds_bucket{proxy=\"p\",type=\"pause\",le=\"0.005\"} 1000");
}

#[test]
fn both_formats_have_the_same_samples_and_their_own_names() {
    let series = Arc::new(Series::default());
    series.exchange_ended(Some(204), Duration::from_millis(7));
    series.toxic("delay").passed("toxicity");
    let (plain, open) = (text(&series, MetricsFormat::Text), text(&series, MetricsFormat::OpenMetrics));
    for text in [&plain, &open] {
        for line in [
            "toxiproxy_proxy_received_bytes_total{direction=\"downstream\",listener=\"127.0.0.1:1\",proxy=\"p\",\
             upstream=\"b\\\\a\\\"d\\n\"} 3",
            "aconite_connections_open{proxy=\"p\"} 5",
            "aconite_connections_total{proxy=\"p\"} 6",
            "aconite_exchanges_total{proxy=\"p\",status=\"2xx\"} 1",
            "aconite_exchanges_total{proxy=\"p\",status=\"none\"} 0",
            "aconite_exchanges_in_flight 7",
            "aconite_exchange_duration_seconds_count{proxy=\"p\",status=\"2xx\"} 1",
            "aconite_exchange_duration_seconds_sum{proxy=\"p\",status=\"2xx\"} 0.007",
            "aconite_toxics_struck_total{proxy=\"p\",type=\"delay\"} 0",
            "aconite_toxics_passed_total{proxy=\"p\",reason=\"toxicity\",type=\"delay\"} 1",
            "aconite_chaos_enabled 1",
        ] {
            has(text, line);
        }
        assert!(!text.contains("_total_total") && !text.contains(".."), "{text}");
        assert!(!text.contains("aconite_first_byte_seconds"), "a histogram without a sample: {text}");
    }
    has(&plain, "aconite_exchange_duration_seconds_bucket{proxy=\"p\",status=\"2xx\",le=\"+Inf\"} 1");
    has(&open, "aconite_exchange_duration_seconds_bucket{le=\"+Inf\",proxy=\"p\",status=\"2xx\"} 1");
    has(&plain, "# TYPE aconite_connections_total counter");
    has(&open, "# TYPE aconite_connections counter");
    assert!(open.ends_with("# EOF\n") && !plain.contains("# EOF"), "{open}");
}

#[test]
fn every_status_has_a_class() {
    let of = |status| STATUSES[class(status)];
    assert_eq!(
        [100, 199, 200, 302, 404, 500, 599].map(|status| of(Some(status))),
        ["1xx", "1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]
    );
    assert_eq!((of(None), of(Some(999)), of(Some(0))), ("none", "5xx", "1xx"));
}

#[test]
fn durations_count_up_to_their_bound_and_above_all_bounds() {
    let histogram = Histogram::new(&GAPS);
    for millis in [0, 1, 2, 60_000, 60_001, 86_400_000] {
        histogram.add(Duration::from_millis(millis));
    }
    let series = Series { event_gaps: histogram, ..Series::default() };
    let text = text(&Arc::new(series), MetricsFormat::Text);
    for (bound, count) in [("0.001", 2), ("0.0025", 3), ("30", 3), ("60", 4), ("+Inf", 6)] {
        has(&text, &format!("aconite_event_gap_seconds_bucket{{proxy=\"p\",le=\"{bound}\"}} {count}"));
    }
    has(&text, "aconite_event_gap_seconds_sum{proxy=\"p\"} 86520.004");
    assert!([&EXCHANGES[..], &GAPS, &WAITS].iter().all(|bounds| bounds.is_sorted_by(|one, next| one < next)));
}

#[tokio::test(start_paused = true)]
async fn gaps_lie_between_events_however_they_are_cut() {
    let series = Series::default();
    let mut gaps = EventGaps::default();
    let after = async |millis| tokio::time::sleep(Duration::from_millis(millis)).await;
    gaps.sent(0, &series);
    assert_eq!(gaps.latest, None, "a body without events reads no clock");
    after(50).await;
    gaps.sent(1, &series);
    assert_eq!(series.event_gaps.count(), 0, "one event has no gap");
    after(20).await;
    gaps.sent(1, &series);
    after(20).await;
    gaps.sent(4, &series);
    let text = text(&Arc::new(series), MetricsFormat::Text);
    has(&text, "aconite_event_gap_seconds_bucket{proxy=\"p\",le=\"0.001\"} 2");
    has(&text, "aconite_event_gap_seconds_count{proxy=\"p\"} 3");
    has(&text, "aconite_event_gap_seconds_sum{proxy=\"p\"} 0.04");
}
