//! A strict reader of what `/metrics` writes, in both formats.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aconite::Aconite;
use tokio::io::AsyncWriteExt;

use crate::support::hear;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = BTreeMap<String, String>;

/// The samples of one scrape, by name and labels.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Scrape {
    samples: BTreeMap<(String, Labels), f64>,
}

/// What a TYPE line said.
struct Family<'a> {
    name: &'a str,
    kind: &'a str,
}

/// Asks for the metrics; `accept` is what the client says it takes. Answers the type and the body.
pub(super) async fn fetch(aconite: &Aconite, accept: Option<&str>) -> (String, String) {
    let mut admin = tokio::net::TcpStream::connect(aconite.admin_address()).await.unwrap();
    let accept = accept.map(|accept| format!("Accept: {accept}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}Connection: close\r\n\r\n");
    admin.write_all(request.as_bytes()).await.unwrap();
    let heard = hear(&mut admin, Duration::from_secs(5)).await;
    assert_eq!(heard.status(), 200);
    (heard.header("content-type").concat(), String::from_utf8(heard.body()).unwrap())
}

/// Asks for the metrics and reads them.
pub(super) async fn scrape(aconite: &Aconite) -> Scrape {
    let (kind, text) = fetch(aconite, None).await;
    assert_eq!(kind, TEXT);
    Scrape::read(&text, false)
}

/// The same of an instance on which nothing goes on: both formats have to tell the same.
pub(super) async fn scrape_at_rest(aconite: &Aconite) -> Scrape {
    let text = scrape(aconite).await;
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let (kind, open) = fetch(aconite, Some(accept)).await;
    assert_eq!(kind, OPEN_METRICS);
    assert_eq!(text, Scrape::read(&open, true));
    text
}

impl Scrape {
    /// Reads a whole body.
    pub(super) fn read(body: &str, open_metrics: bool) -> Self {
        let mut lines: Vec<_> = body.strip_suffix('\n').expect("the last line ends").split('\n').collect();
        if open_metrics {
            assert_eq!(lines.pop(), Some("# EOF"));
        }
        let (mut scrape, mut known) = (Self::default(), BTreeSet::new());
        let mut lines = lines.into_iter().peekable();
        while let Some(line) = lines.next() {
            let (name, help) =
                line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).expect(line);
            assert!(is_name(name) && help.ends_with('.') && !help.ends_with(".."), "{line}");
            assert!(known.insert(name), "{name} comes twice");
            let line = lines.next().unwrap();
            let (typed, kind) =
                line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')).expect(line);
            assert_eq!(typed, name);
            assert_eq!(
                typed.ends_with("_total"),
                kind == "counter" && !open_metrics,
                "a counter's samples are named after it, and in OpenMetrics have a suffix: {line}"
            );
            let family = Family { name, kind };
            let mut count = 0;
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                scrape.sample(line, &family, open_metrics);
                count += 1;
            }
            assert!(count > 0, "{name} has no samples");
            if kind == "histogram" {
                scrape.check_histograms(name);
            }
        }
        scrape
    }

    fn sample(&mut self, line: &str, family: &Family<'_>, open_metrics: bool) {
        let end = line.find(['{', ' ']).expect(line);
        let (name, rest) = line.split_at(end);
        let suffix = name.strip_prefix(family.name).expect(line);
        let suffixes: &[&str] = match family.kind {
            "counter" if open_metrics => &["_total"],
            "counter" | "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            kind => panic!("unknown type {kind}"),
        };
        assert!(is_name(name) && suffixes.contains(&suffix), "{line}");
        let (mut labels, rest) = rest.strip_prefix('{').map_or((Labels::new(), rest), labels);
        if let Some(bound) = labels.get_mut("le") {
            // Written as 1 or 1.0.
            *bound = number(bound).to_string();
        }
        assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{line}");
        let value = number(rest.strip_prefix(' ').expect(line));
        assert!(value >= 0.0 && value.is_finite(), "{line}");
        let earlier = self.samples.insert((name.to_owned(), labels), value);
        assert_eq!(earlier, None, "{line} comes twice");
    }

    /// Buckets rise up to the count, and nothing is missing.
    fn check_histograms(&self, name: &str) {
        let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        for ((_, labels), value) in self.of(&format!("{name}_bucket")) {
            let mut labels = labels.clone();
            let bound = number(&labels.remove("le").unwrap());
            buckets.entry(labels).or_default().push((bound, *value));
        }
        for suffix in ["sum", "count"] {
            let labels: Vec<_> =
                self.of(&format!("{name}_{suffix}")).map(|((_, labels), _)| labels).collect();
            assert!(buckets.keys().eq(labels), "{name}");
        }
        for (labels, mut buckets) in buckets {
            buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
            assert!(
                buckets.len() > 10 && buckets.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1)
            );
            let count = self.samples[&(format!("{name}_count"), labels)];
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)));
        }
    }

    fn of(&self, name: &str) -> impl Iterator<Item = (&(String, Labels), &f64)> {
        self.samples.iter().filter(move |((found, _), _)| found == name)
    }

    /// The value of a sample with exactly these labels.
    pub(super) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    /// The names of the samples with this label.
    pub(super) fn names(&self, label: (&str, &str)) -> BTreeSet<&str> {
        let has = |labels: &Labels| labels.get(label.0).is_some_and(|value| value == label.1);
        self.samples.keys().filter(|(_, labels)| has(labels)).map(|(name, _)| &**name).collect()
    }

    /// How many series there are.
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }
}

/// Reads `name="value",…}`. Answers the labels and what is behind them.
fn labels(mut text: &str) -> (Labels, &str) {
    let mut labels = Labels::new();
    loop {
        let (name, rest) = text.split_once("=\"").expect(text);
        assert!(is_name(name) && !name.contains(':'), "{text}");
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next().expect(text) {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().expect(text).1 {
                    'n' => '\n',
                    same @ ('\\' | '"') => same,
                    other => panic!("\\{other} in {text}"),
                }),
                (_, same) => value.push(same),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "{name} comes twice");
        match rest[end..].chars().next() {
            Some(',') => text = &rest[end + 1..],
            Some('}') => return (labels, &rest[end + 1..]),
            _ => panic!("no end of labels in {text}"),
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    let first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':');
    chars.next().is_some_and(first) && chars.all(|c| first(c) || c.is_ascii_digit())
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" | "inf" => f64::INFINITY,
        _ => {
            assert!(text.chars().all(|c| c.is_ascii_digit() || "+-.e".contains(c)), "{text} is not a number");
            text.parse().expect(text)
        }
    }
}
