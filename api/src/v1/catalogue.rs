//! The toxics that there are.
use std::sync::Arc;

use aconite_toxics::Definition;
use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Control, ControlError, Problem, request::Named};

/// All types of toxics.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Types {
    /// In the manual's order.
    toxics: Vec<ToxicType>,
}

/// A type of toxic.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ToxicType {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it acts on: `bytes`, `connect`, `exchange`, `events` or `document`.
    pub level: String,
    /// Whether it acts on whole documents too.
    pub documents_too: bool,
    /// One line.
    pub summary: String,
    /// The manual's text.
    pub description: String,
    /// The JSON Schema of its attributes.
    pub schema: Value,
    /// An example, as JSON.
    pub example: Value,
    /// The same example, as a command.
    pub command: String,
}

impl ToxicType {
    /// What a definition says of itself.
    pub fn new(definition: &Definition) -> Self {
        let attributes = definition.example();
        Self {
            kind: definition.kind.to_owned(),
            level: serde_json::json!(definition.level).as_str().unwrap_or_default().to_owned(),
            documents_too: definition.documents_too,
            summary: definition.summary(),
            description: definition.description(),
            schema: definition.schema(),
            command: command(definition.kind, &attributes),
            example: serde_json::json!({"type": definition.kind, "attributes": attributes}),
        }
    }
}

/// The command that adds such a toxic. What is not a plain word is written as JSON, in single quotes.
fn command(kind: &str, attributes: &Value) -> String {
    let mut command = format!("aconite toxic add PROXY {kind}");
    for (name, value) in attributes.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/+%".contains(c));
        let text = if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) };
        command.push_str(&format!(" {name}={text}"));
    }
    command
}

pub(super) async fn list<C: Control>(State(control): State<Arc<C>>) -> Json<Types> {
    Json(Types { toxics: control.catalogue().definitions().iter().map(ToxicType::new).collect() })
}

pub(super) async fn get<C: Control>(
    State(control): State<Arc<C>>,
    Named(kind): Named<String>,
) -> Result<Json<ToxicType>, Problem> {
    let definition = control.catalogue().definition(&kind).map_err(|error| {
        let hint = Problem::from(error.clone()).hint;
        Problem { hint, ..ControlError::NotFound(format!("toxic type `{kind}`")).into() }
    })?;
    Ok(Json(ToxicType::new(definition)))
}
