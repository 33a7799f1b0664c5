//! The toxics of a proxy.
use std::sync::Arc;

use aconite_toxics::{SpecError, ToxicSpec};
use axum::{Json, extract::State};
use http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{proxies::TestScope, read};
use crate::{
    Control, ControlError, Problem, check,
    request::{Body, Named},
};

/// A proxy's toxics.
#[derive(Deserialize, JsonSchema, Serialize)]
pub(crate) struct ToxicList {
    /// Upstream ones first, each in the order in which data meets them.
    pub(crate) toxics: Vec<ToxicSpec>,
}

pub(super) async fn list<C: Control>(
    State(control): State<Arc<C>>,
    Named(proxy): Named<String>,
    uri: Uri,
) -> Result<Json<ToxicList>, Problem> {
    let scope: TestScope = read::query(uri.query())?;
    let mut toxics = control.proxy(&proxy)?.toxics;
    toxics.retain(|toxic| scope.has(toxic));
    Ok(Json(ToxicList { toxics }))
}

pub(super) async fn add<C: Control>(
    State(control): State<Arc<C>>,
    Named(proxy): Named<String>,
    uri: Uri,
    Body(body): Body,
) -> Result<(StatusCode, Told, Json<ToxicSpec>), Problem> {
    let scope: TestScope = read::query(uri.query())?;
    control.proxy(&proxy)?;
    let mut spec: ToxicSpec = read::body(&body)?;
    if scope.test_id.is_some() {
        spec.matching.get_or_insert_default().test_id = scope.test_id;
    }
    check::strict_toxic(&spec)?;
    let added = control.add_toxic(&proxy, spec)?;
    Ok((StatusCode::CREATED, told(&*control), Json(added)))
}

/// Removes all, or those of one test.
pub(super) async fn clear<C: Control>(
    State(control): State<Arc<C>>,
    Named(proxy): Named<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let scope: TestScope = read::query(uri.query())?;
    for toxic in control.proxy(&proxy)?.toxics.iter().filter(|toxic| scope.has(toxic)) {
        match control.remove_toxic(&proxy, &toxic.name) {
            // Another call was quicker.
            Ok(()) | Err(ControlError::NoToxic { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn get<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
) -> Result<Json<ToxicSpec>, Problem> {
    Ok(Json(find(&*control, &proxy, &toxic)?))
}

pub(super) async fn replace<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
    Body(body): Body,
) -> Result<(Told, Json<ToxicSpec>), Problem> {
    let current = find(&*control, &proxy, &toxic)?;
    let mut body: Map<String, Value> = read::body(&body)?;
    body.entry("name").or_insert_with(|| current.name.clone().into());
    body.entry("type").or_insert_with(|| current.kind.clone().into());
    body.entry("stream").or_insert_with(|| serde_json::json!(current.stream));
    let spec: ToxicSpec = read::body(&serde_json::to_vec(&body).unwrap_or_default())?;
    change(&control, &proxy, &toxic, move |_| Ok(spec))
}

pub(super) async fn patch<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
    Body(body): Body,
) -> Result<(Told, Json<ToxicSpec>), Problem> {
    find(&*control, &proxy, &toxic)?;
    let patch: Value = read::body(&body)?;
    change(&control, &proxy, &toxic, move |current| read::merged(current, &patch))
}

pub(super) async fn remove<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.remove_toxic(&proxy, &toxic)?;
    Ok(StatusCode::NO_CONTENT)
}

fn find<C: Control>(control: &C, proxy: &str, toxic: &str) -> Result<ToxicSpec, ControlError> {
    let toxics = control.proxy(proxy)?.toxics;
    let found = toxics.iter().find(|each| each.name == toxic).cloned();
    found.ok_or_else(|| ControlError::no_toxic(toxic, &toxics))
}

fn change<C: Control>(
    control: &Arc<C>,
    proxy: &str,
    toxic: &str,
    next: impl FnOnce(&ToxicSpec) -> Result<ToxicSpec, ControlError> + Send + 'static,
) -> Result<(Told, Json<ToxicSpec>), Problem> {
    let change = move |current: ToxicSpec| {
        let spec = next(&current)?;
        keeps("name", &current.name, &spec.name)?;
        keeps("type", &current.kind, &spec.kind)?;
        keeps("stream", &format!("{:?}", current.stream), &format!("{:?}", spec.stream))?;
        check::strict_toxic(&spec)?;
        Ok(spec)
    };
    let changed = control.change_toxic(proxy, toxic, Box::new(change))?;
    Ok((told(&**control), Json(changed)))
}

/// The field `x-aconite-chaos: disabled` on the answer, while the kill switch is off.
type Told = Option<[(&'static str, &'static str); 1]>;

fn told<C: Control>(control: &C) -> Told {
    (!control.chaos().enabled).then_some([("x-aconite-chaos", "disabled")])
}

fn keeps(field: &str, current: &str, next: &str) -> Result<(), ControlError> {
    if current == next {
        return Ok(());
    }
    let text = format!("a toxic keeps its {field}: `{}`", current.to_lowercase());
    Err(SpecError::new(field, text).hint("remove the toxic and add another").into())
}
