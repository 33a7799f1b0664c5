//! Proxies, with every field and every toxic.
use std::sync::Arc;

use aconite_toxics::ToxicSpec;
use axum::{Json, extract::State};
use http::{StatusCode, Uri, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{check, read};
use crate::{
    Control, ControlError, Problem,
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
        shown(proxy)
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
    let mut spec: ProxySpec = read::body(&body)?;
    check::proxy(&mut spec, control.catalogue(), "")?;
    let created = control.create_proxy(spec).await?;
    let location = format!("/v1/proxies/{}", crate::client::segment(&created.name));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(shown(created))))
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
    check::proxy(&mut spec, control.catalogue(), "")?;
    let change = |current: ProxySpec| keeping(&current, spec);
    Ok(Json(shown(control.change_proxy(&name, Box::new(change)).await?)))
}

pub(super) async fn patch<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    Body(body): Body,
) -> Result<Json<ProxySpec>, Problem> {
    control.proxy(&name)?;
    let patch: Value = read::body(&body)?;
    let catalogue = Arc::clone(&control);
    let change = move |current: ProxySpec| {
        let mut spec = keeping(&current, read::merged(&current, &patch)?)?;
        check::proxy(&mut spec, catalogue.catalogue(), "")?;
        Ok(spec)
    };
    Ok(Json(shown(control.change_proxy(&name, Box::new(change)).await?)))
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
    let mut apply: Apply = read::body(&body)?;
    for (index, spec) in apply.proxies.iter_mut().enumerate() {
        check::proxy(spec, control.catalogue(), &format!("proxies[{index}]."))?;
    }
    Ok(Json(Changes { changes: control.apply(apply).await? }))
}

/// A change may not rename, and what was shown without its secret comes back without it.
fn keeping(current: &ProxySpec, mut next: ProxySpec) -> Result<ProxySpec, ControlError> {
    if next.name != current.name {
        return Err(ControlError::Invalid {
            path: "name".to_owned(),
            message: format!("the proxy is named `{}`, and keeps its name", current.name),
            hint: Some("create another proxy and delete this one".to_owned()),
        });
    }
    if next.credentials == current.credentials.as_deref().map(hidden) {
        next.credentials.clone_from(&current.credentials);
    }
    Ok(next)
}

/// A proxy as it is shown: without its password.
fn shown(mut proxy: ProxySpec) -> ProxySpec {
    proxy.credentials = proxy.credentials.as_deref().map(hidden);
    proxy
}

fn hidden(credentials: &str) -> String {
    let user = credentials.split_once(':').map_or("", |(user, _)| user);
    format!("{user}:***")
}
