//! Causes of failure, and how each provider words them.
use std::collections::BTreeMap;

use aconite_dialects::{Cause, Dialect, Failure, FailureContext, failure::render};
use axum::Json;
use http::Uri;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read;
use crate::Problem;

/// Which presets to list.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PresetFilter {
    /// Only as this provider words them.
    dialect: Option<Dialect>,
    /// Only this cause.
    cause: Option<Cause>,
}

/// All causes.
#[derive(JsonSchema, Serialize)]
pub(super) struct Presets {
    /// In the manual's order.
    presets: Vec<Preset>,
}

/// A cause of failure.
#[derive(JsonSchema, Serialize)]
struct Preset {
    /// Its name, as the toxic `fail` takes it.
    cause: Cause,
    /// Other names that are taken too.
    aliases: Vec<&'static str>,
    /// What it means.
    description: String,
    /// By dialect, what the provider answers. Absent are those of which it is not known.
    renders: BTreeMap<&'static str, Rendered>,
}

/// An answer that is a failure.
#[derive(JsonSchema, Serialize)]
struct Rendered {
    /// The HTTP status.
    status: u16,
    /// Its own headers.
    headers: BTreeMap<&'static str, String>,
    /// The body.
    body: String,
}

impl From<Failure> for Rendered {
    fn from(failure: Failure) -> Self {
        let body = String::from_utf8_lossy(&failure.body).into_owned();
        Self { status: failure.status, headers: failure.headers.into_iter().collect(), body }
    }
}

pub(super) async fn list(uri: Uri) -> Result<Json<Presets>, Problem> {
    let filter: PresetFilter = read::query(uri.query())?;
    let descriptions = descriptions();
    let wanted = |cause: &Cause| filter.cause.is_none_or(|only| only == *cause);
    let presets = Cause::ALL.iter().copied().filter(wanted).map(|cause| Preset {
        cause,
        aliases: aliases(cause),
        description: descriptions.get(cause.name()).cloned().unwrap_or_default(),
        renders: renders(cause, filter.dialect),
    });
    Ok(Json(Presets { presets: presets.collect() }))
}

fn renders(cause: Cause, only: Option<Dialect>) -> BTreeMap<&'static str, Rendered> {
    let dialects = Dialect::ALL.iter().filter(|dialect| only.is_none_or(|only| only == **dialect));
    let rendered = dialects.filter_map(|dialect| {
        Some((dialect.name(), render(Some(*dialect), None, cause, &FailureContext::default())?.into()))
    });
    rendered.collect()
}

fn aliases(cause: Cause) -> Vec<&'static str> {
    let names = Cause::NAMES.iter().copied();
    names.filter(|name| *name != cause.name() && Cause::of_name(name) == Some(cause)).collect()
}

/// The causes' own doc comments, by name: their schema carries them.
fn descriptions() -> BTreeMap<String, String> {
    let schema = Cause::json_schema(&mut SchemaGenerator::default());
    let variants = schema.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |variant: &Value, key: &str| variant.get(key).and_then(Value::as_str).map(str::to_owned);
    variants.iter().filter_map(|each| Some((text(each, "const")?, text(each, "description")?))).collect()
}
