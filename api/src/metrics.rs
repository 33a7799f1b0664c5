//! In which format a scraper gets the metrics.
use http::{HeaderMap, header};

/// A format in which metrics are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MetricsFormat {
    /// Prometheus' text format, version 0.0.4.
    #[default]
    Text,
    /// `OpenMetrics`, version 1.0.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a client gets by its `Accept`: `OpenMetrics` if it names that and wants text no more. Any other client gets
    /// text, even one that accepts neither.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let fields = headers.get_all(header::ACCEPT).into_iter().filter_map(|field| field.to_str().ok());
        let ranges: Vec<_> = fields.flat_map(|field| field.split(',')).filter_map(Range::read).collect();
        let quality = |names: &[&str]| {
            let of = |name: &&str| {
                let named = ranges.iter().filter(|range| range.name.eq_ignore_ascii_case(name));
                named.map(|range| range.quality).reduce(f32::max)
            };
            // The most specific range counts.
            names.iter().find_map(of).unwrap_or(0.0)
        };
        let open_metrics = quality(&["application/openmetrics-text"]);
        if open_metrics > 0.0 && open_metrics >= quality(&["text/plain", "text/*", "*/*"]) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

/// A media range of `Accept`.
struct Range<'a> {
    name: &'a str,
    /// From 0 to 1; 1 if not given.
    quality: f32,
}

impl<'a> Range<'a> {
    /// `None` if it cannot be read, or is of a version that is not written here.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next()?;
        let mut quality = 1.0;
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            if key.eq_ignore_ascii_case("q") {
                quality = value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality))?;
            } else if key.eq_ignore_ascii_case("version") {
                let known = match name.to_ascii_lowercase().as_str() {
                    "application/openmetrics-text" => ["0.0.1", "1.0.0"].contains(&value),
                    "text/plain" => value == "0.0.4",
                    _ => true,
                };
                known.then_some(())?;
            }
        }
        Some(Self { name, quality })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(fields: &[&str]) -> MetricsFormat {
        let fields = fields.iter().map(|field| (header::ACCEPT, field.parse().unwrap()));
        MetricsFormat::wanted(&fields.collect())
    }

    #[test]
    fn who_prefers_open_metrics_gets_it_and_everybody_else_text() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                            q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;\
                            escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [
            prometheus_2,
            prometheus_3,
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; Version=1.0.0, text/plain",
            "text/*;q=0.4, application/openmetrics-text;q=0.5, */*;q=0.9, text/plain;q=0.5",
        ] {
            assert_eq!(wanted(&[accept]), MetricsFormat::OpenMetrics, "{accept}");
        }
        assert_eq!(wanted(&["*/*;q=0.1", "application/openmetrics-text;q=0.2"]), MetricsFormat::OpenMetrics);
        for accept in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4;q=0.7,application/openmetrics-text;q=0.6",
            "application/openmetrics-text;q=0.5, */*;q=0.6",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0,application/json",
            "application/openmetrics-text;version=2.0.0",
            "application/openmetrics-text;q=x",
            "application/json",
            ",;=,q=1;;",
        ] {
            assert_eq!(wanted(&[accept]), MetricsFormat::Text, "{accept}");
        }
        assert_eq!(wanted(&[]), MetricsFormat::Text);
    }
}
