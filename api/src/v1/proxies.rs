//! Proxies, with every field and every toxic.
use std::sync::Arc;

use aconite_toxics::ToxicSpec;
use axum::{Json, extract::State};
use http::{StatusCode, Uri, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read;
use crate::{
    Control, Problem, check,
    model::{Apply, Change, ProxySpec},
    request::{Body, Named},
};

/// All proxies.
#[derive(Deserialize, JsonSchema, Serialize)]
pub(crate) struct ProxyList {
    /// Sorted by name.
    pub(crate) proxies: Vec<ProxySpec>,
}

/// What applying a configuration changed.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Changes {
    /// In the order in which they were made; with `dry_run`, would be.
    pub(crate) changes: Vec<Change>,
}

/// Whose toxics are meant.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TestScope {
    /// Only toxics that match this test.
    pub(super) test_id: Option<String>,
}

impl TestScope {
    pub(super) fn has(&self, toxic: &ToxicSpec) -> bool {
        let of = toxic.matching.as_ref().and_then(|matching| matching.test_id.as_deref());
        self.test_id.is_none() || self.test_id.as_deref() == of
    }

    fn cut(&self, mut proxy: ProxySpec) -> ProxySpec {
        proxy.toxics.retain(|toxic| self.has(toxic));
        proxy
    }
}

pub(super) async fn list<C: Control>(
    State(control): State<Arc<C>>,
    uri: Uri,
) -> Result<Json<ProxyList>, Problem> {
    let scope: TestScope = read::query(uri.query())?;
    let proxies = control.proxies().into_iter().map(|proxy| scope.cut(proxy)).collect();
    Ok(Json(ProxyList { proxies }))
}

pub(super) async fn get<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    uri: Uri,
) -> Result<Json<ProxySpec>, Problem> {
    let scope: TestScope = read::query(uri.query())?;
    Ok(Json(scope.cut(control.proxy(&name)?)))
}

pub(super) async fn create<C: Control>(
    State(control): State<Arc<C>>,
    Body(body): Body,
) -> Result<(StatusCode, [(header::HeaderName, String); 1], Json<ProxySpec>), Problem> {
    let spec: ProxySpec = read::body(&body)?;
    check::strict_proxy(&spec)?;
    let created = control.create_proxy(spec).await?;
    let location = format!("/v1/proxies/{}", crate::client::segment(&created.name));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(created)))
}

pub(super) async fn replace<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    Body(body): Body,
) -> Result<Json<ProxySpec>, Problem> {
    control.proxy(&name)?;
    let mut spec: ProxySpec = read::body(&body)?;
    if spec.name.is_empty() {
        spec.name.clone_from(&name);
    }
    check::strict_proxy(&spec)?;
    Ok(Json(control.change_proxy(&name, Box::new(|_| Ok(spec))).await?))
}

pub(super) async fn patch<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    Body(body): Body,
) -> Result<Json<ProxySpec>, Problem> {
    control.proxy(&name)?;
    let patch: Value = read::body(&body)?;
    let change = move |current: ProxySpec| {
        let spec = read::merged(&current, &patch)?;
        check::strict_proxy(&spec)?;
        Ok(spec)
    };
    Ok(Json(control.change_proxy(&name, Box::new(change)).await?))
}

pub(super) async fn delete<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    control.delete_proxy(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn apply<C: Control>(
    State(control): State<Arc<C>>,
    Body(body): Body,
) -> Result<Json<Changes>, Problem> {
    let apply: Apply = read::body(&body)?;
    for (index, spec) in apply.proxies.iter().enumerate() {
        check::strict_proxy(spec).map_err(|error| error.within(&format!("proxies[{index}]")))?;
    }
    Ok(Json(Changes { changes: control.apply(apply).await? }))
}
