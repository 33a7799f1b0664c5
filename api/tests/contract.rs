//! The OpenAPI document, held against every call of every test here: what is answered is documented, and what is refused or
//! accepted is so by its schema.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use aconite_api::{Security, router};
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use jsonschema::Validator;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{app::Answer, fake::Fake};

/// The document, read once.
async fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    if let Some(document) = DOCUMENT.get() {
        return document;
    }
    let router = router(Arc::new(Fake::default()), Security::open());
    let request =
        Request::get("/v1/openapi.json").header("host", "127.0.0.1:8474").body(Body::empty()).unwrap();
    let body = router.oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    DOCUMENT.get_or_init(|| serde_json::from_slice(&body).unwrap())
}

/// A validator of the schema at a place in the document, made once.
fn validator(schema: &Value, document: &Value) -> Arc<Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let make = || {
        let mut schema = schema.clone();
        schema["components"] = document["components"].clone();
        Arc::new(jsonschema::draft202012::new(&schema).unwrap())
    };
    Arc::clone(made.entry(schema.to_string()).or_insert_with(make))
}

/// Whether a path is of this template.
fn is_of(path: &str, template: &str) -> bool {
    let (path, template): (Vec<_>, Vec<_>) = (path.split('/').collect(), template.split('/').collect());
    path.len() == template.len()
        && path
            .iter()
            .zip(&template)
            .all(|(part, of)| part == of || (of.starts_with('{') && !part.is_empty()))
}

/// Holds one call against the document.
pub(crate) async fn check(method: &str, path: &str, body: &str, answer: &Answer) {
    let document = document().await;
    let path = path.split('?').next().unwrap();
    let paths = document["paths"].as_object().unwrap();
    let exact = paths.get_key_value(path);
    let Some((template, operations)) =
        exact.or_else(|| paths.iter().find(|(template, _)| is_of(path, template)))
    else {
        return;
    };
    let Some(operation) = operations.get(method.to_lowercase()) else { return };
    let case = format!("{method} {template} with {body}: {} {}", answer.status, answer.body);
    let status = answer.status.as_u16();
    let response = operation["responses"].get(status.to_string());
    let response = response.unwrap_or_else(|| panic!("an undocumented status: {case}"));
    if let Some(schema) = response.pointer("/content/application~1json/schema") {
        let json = answer.json();
        let errors: Vec<_> =
            validator(schema, document).iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "an undocumented answer: {errors:?} {case}");
    }
    if let Some(content) = operation["requestBody"]["content"].as_object() {
        let schema = &content.values().next().unwrap()["schema"];
        check_request(body, answer, &validator(schema, document), &case);
    }
}

/// What is accepted has to be valid; what is refused as invalid must not be.
fn check_request(body: &str, answer: &Answer, schema: &Validator, case: &str) {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return };
    let errors: Vec<_> = schema.iter_errors(&body).map(|error| error.to_string()).collect();
    if answer.status.is_success() {
        assert!(errors.is_empty(), "accepted, but not valid: {errors:?} {case}");
    } else if answer.status == 400 && errors.is_empty() {
        let error = &answer.json()["error"];
        let message = error["message"].as_str().unwrap_or_default();
        let known = BEYOND_SCHEMAS.iter().any(|(words, _)| message.contains(words));
        assert!(known, "valid, but refused: {case}");
    }
}

/// What a schema cannot say, by words of the message.
const BEYOND_SCHEMAS: &[(&str, &str)] = &[
    ("keeps its", "which members a change may have depends on what is changed"),
    ("needs an upstream", "which members a proxy needs depends on its protocol"),
    ("another toxic of the proxy is named", "two toxics have the same name, which a type may give them"),
    ("nothing is changed", "one of several attributes has to be there"),
    ("nothing is slowed down", "one of several attributes has to be there"),
    ("give a `cause` or a `status`", "one of two attributes has to be there"),
    ("expected exactly one of", "one of several members has to be there"),
    ("goes only with", "an attribute depends on another one"),
    ("`keep` needs `n`", "an attribute depends on another one"),
    ("is for `how: replace` alone", "an attribute depends on another one"),
    ("exclude each other", "an attribute depends on another one"),
    ("is not a lie", "0 alone is excluded"),
    ("is not a JSONPath", "the grammar of RFC 9535"),
    ("has no port", "what an upstream has to be depends on the protocol"),
];

#[test]
fn paths_are_of_their_templates() {
    assert!(is_of("/v1/proxies/a", "/v1/proxies/{proxy}"));
    assert!(!is_of("/v1/proxies/", "/v1/proxies/{proxy}"));
    assert!(!is_of("/v1/proxies/a/toxics", "/v1/proxies/{proxy}"));
    assert!(json!({}).is_object());
}
