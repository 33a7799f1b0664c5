//! The toxics that a proxy knows.
use std::{fmt, sync::Arc};

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::{
    Connect, Dice, Instance, Level, Scope, SpecError, Toxic, ToxicSpec, alias, bytes, message, plain_words,
    similar::nearest,
};

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
    Definition::of::<message::Delay>(),
    Definition::of::<message::Fail>(),
    Definition::of::<message::Hang>(),
    Definition::of::<message::Cut>(),
    Definition::of::<message::Headers>(),
    Definition::of::<message::LengthLie>(),
    Definition::of::<message::Html>(),
    Definition::of::<message::SlowStream>(),
    Definition::of::<message::Pause>(),
    Definition::of::<message::Drop>(),
    Definition::of::<message::Duplicate>(),
    Definition::of::<message::Reorder>(),
    Definition::of::<message::Garble>(),
    Definition::of::<message::StreamError>(),
    Definition::of::<message::Reframe>(),
    Definition::of::<message::Edit>(),
    Definition::of::<message::Finish>(),
    Definition::of::<message::Content>(),
    Definition::of::<message::ToolCall>(),
    Definition::of::<message::Model>(),
    Definition::of::<message::Usage>(),
    Definition::of::<message::Embedding>(),
    Definition::of::<message::Hits>(),
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
    /// Whether what it sends names the model that the request asks for.
    pub names_model: bool,
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
            names_model: T::NAMES_MODEL,
            parse: |attributes| {
                let toxic: T = serde_path_to_error::deserialize(attributes).map_err(|error| Rejection {
                    path: error.path().to_string(),
                    reason: plain_words(error.into_inner().to_string()),
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

    /// The definition of a type, or of the type behind a scenario's name.
    ///
    /// # Errors
    /// If there is none.
    pub fn definition(&self, kind: &str) -> Result<&Definition, SpecError> {
        let kind = alias::kind_of(kind);
        self.0
            .iter()
            .find(|definition| definition.kind == kind)
            .ok_or_else(|| SpecError::of_unknown_type(kind, &self.nearest(kind)))
    }

    /// The same spec, with a scenario's name (`DELAY`, `TRUNCATED_RESPONSE` …) and parameters replaced by a
    /// type and its attributes. A spec that names a type stays as it is.
    pub fn resolve(&self, spec: &ToxicSpec) -> ToxicSpec {
        alias::resolve(spec)
    }

    /// Reads a spec's attributes; scenario names are [resolved](Self::resolve).
    ///
    /// # Errors
    /// If the type is unknown or the attributes do not fit it.
    pub fn parse(&self, spec: &ToxicSpec) -> Result<Arc<dyn Start>, SpecError> {
        let spec = self.resolve(spec);
        let definition = self.definition(&spec.kind)?;
        (definition.parse)(Value::Object(spec.attributes)).map_err(|rejection| {
            let inside = SpecError::new(
                rejection.path.trim_start_matches('.'),
                explained(rejection.reason, definition),
            );
            inside.within("attributes")
        })
    }

    /// Reads a spec's attributes as Toxiproxy would: see [`lenient`](Self::lenient).
    ///
    /// # Errors
    /// If the type is unknown or a value does not fit. Unlike Toxiproxy's, whole numbers may not be negative.
    pub fn parse_lenient(&self, spec: &ToxicSpec) -> Result<Arc<dyn Start>, SpecError> {
        self.parse(&self.lenient(spec)?)
    }

    /// The same spec, resolved, with its attributes as Toxiproxy reads them: a key matches an attribute
    /// in any case, the last one counts, unknown keys and nulls are left out.
    ///
    /// # Errors
    /// If the type is unknown.
    pub fn lenient(&self, spec: &ToxicSpec) -> Result<ToxicSpec, SpecError> {
        let mut spec = self.resolve(spec);
        let schema = self.definition(&spec.kind)?.schema();
        let known = schema.get("properties").and_then(Value::as_object);
        let mut attributes = Map::new();
        for (key, value) in spec.attributes {
            let name = known.and_then(|known| known.keys().find(|name| name.eq_ignore_ascii_case(&key)));
            if let Some(name) = name.filter(|_| !value.is_null()) {
                attributes.insert(name.clone(), value);
            }
        }
        spec.attributes = attributes;
        Ok(spec)
    }

    fn nearest(&self, kind: &str) -> Vec<&'static str> {
        nearest(kind, self.0.iter().map(|definition| definition.kind))
    }
}

/// Why attributes were refused, with an example where the reason alone does not tell what they look like.
fn explained(reason: String, definition: &Definition) -> String {
    if reason.starts_with("missing field") || reason.ends_with("expected an object") {
        return format!("{reason}; an example is {}", definition.example());
    }
    reason
}

/// Why attributes were refused.
struct Rejection {
    path: String,
    reason: String,
}

#[cfg(test)]
mod tests;
