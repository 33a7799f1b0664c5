//! Answers in Toxiproxy's shape: its fields in its order, its toxics only, its JSON.
use std::collections::BTreeMap;

use aconite_toxics::{Direction, ToxicSpec};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::attributes;
use crate::model::ProxySpec;

/// A proxy as Toxiproxy shows it.
#[derive(Serialize)]
pub(super) struct ProxyView<'a> {
    name: &'a str,
    listen: &'a str,
    upstream: &'a str,
    enabled: bool,
    toxics: Vec<ToxicView<'a>>,
}

impl<'a> ProxyView<'a> {
    pub(super) fn new(proxy: &'a ProxySpec) -> Self {
        let ProxySpec { name, listen, upstream, enabled, toxics, .. } = proxy;
        Self { name, listen, upstream, enabled: *enabled, toxics: toxic_list(toxics) }
    }
}

/// All proxies by name. The keys are sorted: clients index the list by position.
pub(super) fn proxy_table(proxies: &[ProxySpec]) -> BTreeMap<&str, ProxyView<'_>> {
    proxies.iter().map(|proxy| (proxy.name.as_str(), ProxyView::new(proxy))).collect()
}

/// A toxic as Toxiproxy shows it.
#[derive(Serialize)]
pub(super) struct ToxicView<'a> {
    attributes: Map<String, Value>,
    name: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    stream: Direction,
    toxicity: Box<RawValue>,
}

impl<'a> ToxicView<'a> {
    pub(super) fn new(toxic: &'a ToxicSpec) -> Self {
        Self {
            attributes: attributes::shown(toxic),
            name: &toxic.name,
            kind: &toxic.kind,
            stream: toxic.stream,
            toxicity: RawValue::from_string(number(toxic.toxicity))
                .unwrap_or_else(|_| RawValue::NULL.to_owned()),
        }
    }
}

/// Toxics of Toxiproxy's own types, upstream ones first. Typed clients fail on any other type or attribute.
pub(super) fn toxic_list(toxics: &[ToxicSpec]) -> Vec<ToxicView<'_>> {
    let of = |stream: Direction| {
        toxics.iter().filter(move |toxic| toxic.stream == stream && attributes::is_own(&toxic.kind))
    };
    of(Direction::Upstream).chain(of(Direction::Downstream)).map(ToxicView::new).collect()
}

/// Compact JSON, escaped as Go does it for HTML.
pub(super) fn to_json(value: &impl Serialize) -> String {
    let mut out = String::new();
    for c in serde_json::to_string(value).expect("plain data with string keys").chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// The shortest decimal that reads back as the same 32-bit float, in Go's notation: `1`, `0.5`, `1e-7`, `1e+21`.
fn number(value: f32) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        return if size < 1.0 { text } else { text.replace('e', "e+") };
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (1.0, "1"),
            (0.0, "0"),
            (80.0, "80"),
            (-5.0, "-5"),
            (0.2, "0.2"),
            (0.333_333_34, "0.33333334"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.333_333_333_3_f64 as f32), "0.33333334");
    }

    #[test]
    fn json_is_safe_inside_html() {
        assert_eq!(to_json(&"<a&b>\u{2028}é\"\n"), r#""\u003ca\u0026b\u003e\u2028é\"\n""#);
    }
}
