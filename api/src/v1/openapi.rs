//! The OpenAPI document, made of the endpoints, the resources' types and the catalogue.
use std::sync::Arc;

use aconite_toxics::{Catalogue, ToxicSpec, scenarios};
use axum::{Json, extract::State};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::endpoint::{Content, Endpoint};
use crate::{Control, problem::ErrorBody};

const COMPONENTS: &str = "/components/schemas";

pub(super) async fn get<C: Control>(State(control): State<Arc<C>>) -> Json<Value> {
    Json(document(&super::endpoints::<C>(), control.catalogue()))
}

/// The document, OpenAPI 3.1.
fn document<C>(endpoints: &[Endpoint<C>], catalogue: &Catalogue) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = COMPONENTS.into());
    let mut generator = SchemaGenerator::new(settings);
    let error = generator.subschema_for::<ErrorBody>();
    let error = json!({"description": "Why not", "content": {"application/json": {"schema": error}}});

    let mut paths = Map::new();
    for endpoint in endpoints {
        let operations = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        operations[endpoint.method] = operation(endpoint, &mut generator, &error);
    }
    generator.subschema_for::<ToxicSpec>();
    let mut schemas = generator.take_definitions(true);
    specialise(&mut schemas, catalogue);
    schemas.values_mut().for_each(bound_integers);
    paths.values_mut().for_each(bound_integers);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Aconite",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The admin API. At the root, besides these, are Toxiproxy's routes.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation<C>(endpoint: &Endpoint<C>, generator: &mut SchemaGenerator, error: &Value) -> Value {
    let mut operation = json!({
        "operationId": operation_id(endpoint.method, endpoint.path),
        "summary": endpoint.summary,
        "responses": {},
    });
    for status in failures(endpoint) {
        operation["responses"][status.to_string()] = error.clone();
    }
    if endpoint.path == "/readyz" {
        operation["responses"]["503"] = json!({"description": "One does not", "content": {"text/plain": {}}});
    }
    let mut answer = json!({"description": endpoint.summary});
    if let Some(content) = &endpoint.answer {
        answer["content"] = body(content, generator);
    }
    operation["responses"][endpoint.status.to_string()] = answer;
    if let Some(content) = &endpoint.request {
        operation["requestBody"] = json!({"content": body(content, generator)});
    }
    let in_path = names_in(endpoint.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let mut parameters: Vec<_> = in_path.collect();
    if let Some(query) = endpoint.query {
        let schema = query(generator);
        for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            parameters.push(json!({"name": name, "in": "query", "schema": schema}));
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn body(content: &Content, generator: &mut SchemaGenerator) -> Value {
    match content {
        Content::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
        Content::Patch(schema) => {
            let reference = schema(generator);
            let schema = patch_of(reference.as_value(), generator.definitions());
            json!({"application/merge-patch+json": {"schema": schema}})
        }
        Content::Replacement(schema) => {
            let reference = schema(generator);
            let mut schema = resolved(reference.as_value(), generator.definitions()).clone();
            if let Some(schema) = schema.as_object_mut() {
                schema.shift_remove("required");
            }
            json!({"application/json": {"schema": schema}})
        }
        Content::Other(media_type) => json!({*media_type: {}}),
    }
}

/// The statuses of the failures that it can answer with.
fn failures<C>(endpoint: &Endpoint<C>) -> Vec<u16> {
    let path = endpoint.path;
    if !path.starts_with("/v1/") {
        return Vec::new();
    }
    let mut statuses = vec![400, 401, 403];
    if path.contains('{') || path == "/v1/ca.pem" {
        statuses.push(404);
    }
    if endpoint.request.is_some() {
        statuses.extend([408, 413]);
    }
    if endpoint.conflicts {
        statuses.push(409);
    }
    statuses
}

/// What a reference leads to.
fn resolved<'s>(schema: &'s Value, definitions: &'s Map<String, Value>) -> &'s Value {
    let named = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    named.and_then(|name| definitions.get(name)).unwrap_or(schema)
}

/// The schema of a merge patch: every member can be left out, and `null` removes it. Lists are replaced whole.
fn patch_of(schema: &Value, definitions: &Map<String, Value>) -> Value {
    let schema = resolved(schema, definitions);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return schema.clone() };
    let member = |(name, schema): (&String, &Value)| {
        let patch = match schema.get("anyOf").and_then(Value::as_array) {
            // What is there or null.
            Some(choices) => {
                choices.first().map_or_else(|| schema.clone(), |choice| patch_of(choice, definitions))
            }
            None => patch_of(schema, definitions),
        };
        (name.clone(), json!({"anyOf": [patch, {"type": "null"}]}))
    };
    let mut patch =
        json!({"type": "object", "properties": properties.iter().map(member).collect::<Map<_, _>>()});
    if let Some(others) = schema.get("additionalProperties") {
        patch["additionalProperties"] = others.clone();
    }
    patch
}

/// `get /v1/proxies/{proxy}` → `get_v1_proxies_proxy`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    [method].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// Says how large integers of a fixed size may be: JSON Schema takes `1e30` for an integer.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let largest = match members.get("format").and_then(Value::as_str) {
                Some("uint" | "uint64") => Some(u64::MAX),
                Some("int" | "int64") => i64::MAX.try_into().ok(),
                _ => None,
            };
            if let Some(largest) = largest {
                members.entry("maximum").or_insert(largest.into());
            }
            members.values_mut().for_each(bound_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

/// Makes a toxic one of the catalogue's: its type decides what its attributes are. What all share is said once.
fn specialise(schemas: &mut Map<String, Value>, catalogue: &Catalogue) {
    let Some(Value::Object(mut envelope)) = schemas.shift_remove("ToxicSpec") else { return };
    let description = envelope.get("description").cloned();
    envelope.retain(|key, _| key == "properties" || key == "type");
    if let Some(shared) = envelope.get_mut("properties").and_then(Value::as_object_mut) {
        shared.retain(|name, _| name != "type" && name != "attributes");
    }
    schemas.insert("ToxicEnvelope".to_owned(), envelope.into());
    let (mut variants, mut mapping) = (Vec::new(), Map::new());
    for definition in catalogue.definitions() {
        let mut attributes = definition.schema();
        if let Some(attributes) = attributes.as_object_mut() {
            attributes.shift_remove("$schema");
        }
        let name = format!("Toxic_{}", definition.kind);
        let reference = format!("#{COMPONENTS}/{name}");
        variants.push(json!({"$ref": reference}));
        mapping.insert(definition.kind.to_owned(), reference.into());
        let needs_attributes = attributes.get("required").is_some();
        let variant = json!({
            "title": definition.kind,
            "description": definition.summary(),
            "allOf": [{"$ref": format!("#{COMPONENTS}/ToxicEnvelope")}],
            "properties": {"type": {"const": definition.kind}, "attributes": attributes},
            "required": if needs_attributes { json!(["type", "attributes"]) } else { json!(["type"]) },
            "unevaluatedProperties": false,
        });
        schemas.insert(name, variant);
    }
    let reference = format!("#{COMPONENTS}/Toxic_SCENARIO");
    variants.push(json!({"$ref": reference}));
    let names: Vec<_> = scenarios().collect();
    let scenario = json!({
        "title": "A scenario",
        "description": "Another name for a type, with parameters of its own.",
        "allOf": [{"$ref": format!("#{COMPONENTS}/ToxicEnvelope")}],
        "properties": {"type": {"enum": names}, "attributes": {"type": "object"}},
        "required": ["type"],
        "unevaluatedProperties": false,
    });
    schemas.insert("Toxic_SCENARIO".to_owned(), scenario);
    for name in names {
        mapping.insert(name.to_owned(), reference.clone().into());
    }
    let toxic = json!({
        "description": description,
        "oneOf": variants,
        "discriminator": {"propertyName": "type", "mapping": mapping},
    });
    schemas.insert("ToxicSpec".to_owned(), toxic);
}
