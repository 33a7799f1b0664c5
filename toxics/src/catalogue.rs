//! The toxics that a proxy knows.
use std::{fmt, sync::Arc};

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{Connect, Dice, Instance, Level, Scope, Toxic, ToxicSpec, bytes, message};

/// Every built-in toxic, in the order in which the manual lists them.
const BUILT_IN: &[Definition] = &[
    Definition::of::<bytes::Latency>(),
    Definition::of::<bytes::Bandwidth>(),
    Definition::of::<bytes::SlowClose>(),
    Definition::of::<bytes::Timeout>(),
    Definition::of::<bytes::ResetPeer>(),
    Definition::of::<bytes::Slicer>(),
    Definition::of::<bytes::LimitData>(),
    Definition::of::<bytes::LimitTime>(),
    Definition::of::<bytes::Corrupt>(),
    Definition::of::<bytes::Stall>(),
    Definition::of::<bytes::Loss>(),
    Definition::of::<bytes::Noop>(),
    Definition::of::<Connect>(),
    Definition::of::<message::Cut>(),
];

/// A toxic with its type erased.
#[derive(Clone, Copy)]
pub struct Definition {
    /// Its `type` in configuration.
    pub kind: &'static str,
    /// What it acts on.
    pub level: Level,
    /// Whether it acts on whole documents too.
    pub documents_too: bool,
    parse: fn(Value) -> Result<Arc<dyn Start>, Rejection>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    example: fn() -> Value,
}

impl Definition {
    /// The definition of a toxic.
    pub const fn of<T: Toxic>() -> Self {
        Self {
            kind: T::TYPE,
            level: T::LEVEL,
            documents_too: T::DOCUMENTS_TOO,
            parse: |attributes| {
                let toxic: T = serde_path_to_error::deserialize(attributes).map_err(|error| Rejection {
                    path: error.path().to_string(),
                    reason: error.into_inner().to_string(),
                })?;
                toxic.check().map_err(|reason| Rejection { path: String::new(), reason })?;
                Ok(Arc::new(toxic))
            },
            schema: |generator| generator.subschema_for::<T>(),
            example: || serde_json::to_value(T::example()).expect("a toxic is plain data with string keys"),
        }
    }

    /// The JSON Schema of its attributes; `description` is the manual's text.
    pub fn schema(&self) -> Value {
        let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
        (self.schema)(&mut SchemaGenerator::new(settings)).into()
    }

    /// The manual's text.
    pub fn description(&self) -> String {
        self.schema().get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The manual's first sentence.
    pub fn summary(&self) -> String {
        let text = self.description();
        let paragraph = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        paragraph.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
    }

    /// The attributes of a typical configuration.
    pub fn example(&self) -> Value {
        (self.example)()
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("kind", &self.kind)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

/// A configured toxic, ready to start.
pub trait Start: Send + Sync {
    /// See [`Toxic::start`].
    fn start(&self, scope: &Scope, dice: Dice) -> Instance;
    /// All its attributes, defaults too.
    fn attributes(&self) -> Map<String, Value>;
}

impl<T: Toxic> Start for T {
    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        Toxic::start(self, scope, dice)
    }

    fn attributes(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }
}

/// Toxics by type.
#[derive(Clone, Debug)]
pub struct Catalogue(Vec<Definition>);

impl Default for Catalogue {
    fn default() -> Self {
        Self(BUILT_IN.to_vec())
    }
}

impl Catalogue {
    /// Adds a toxic of one's own.
    #[must_use]
    pub fn with<T: Toxic>(mut self) -> Self {
        self.0.push(Definition::of::<T>());
        self
    }

    /// All definitions, in the manual's order.
    pub fn definitions(&self) -> &[Definition] {
        &self.0
    }

    /// The definition of a type.
    ///
    /// # Errors
    /// If there is none.
    pub fn definition(&self, kind: &str) -> Result<&Definition, SpecError> {
        self.0
            .iter()
            .find(|definition| definition.kind == kind)
            .ok_or_else(|| SpecError::UnknownType { kind: kind.to_owned(), nearest: self.nearest(kind) })
    }

    /// Reads a spec's attributes.
    ///
    /// # Errors
    /// If the type is unknown or the attributes do not fit it.
    pub fn parse(&self, spec: &ToxicSpec) -> Result<Arc<dyn Start>, SpecError> {
        let definition = self.definition(&spec.kind)?;
        (definition.parse)(Value::Object(spec.attributes.clone())).map_err(|rejection| {
            SpecError::Attributes {
                path: if rejection.path.is_empty() || rejection.path == "." {
                    "attributes".to_owned()
                } else {
                    format!("attributes.{}", rejection.path)
                },
                reason: rejection.reason,
            }
        })
    }

    fn nearest(&self, kind: &str) -> Vec<&'static str> {
        let mut scored: Vec<_> = self
            .0
            .iter()
            .map(|d| (strsim::damerau_levenshtein(&kind.to_lowercase(), d.kind), d.kind))
            .collect();
        scored.sort_unstable();
        scored.into_iter().take(3).map(|(_, kind)| kind).collect()
    }
}

/// Why attributes were refused.
struct Rejection {
    path: String,
    reason: String,
}

/// Why a spec cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SpecError {
    /// No toxic has this type.
    #[error("no toxic has the type `{kind}`")]
    UnknownType {
        /// The type asked for.
        kind: String,
        /// The most similar types there are.
        nearest: Vec<&'static str>,
    },
    /// A field does not fit.
    #[error("{reason}")]
    Attributes {
        /// The field, from the toxic down.
        path: String,
        /// What was expected.
        reason: String,
    },
}
