//! Toxiproxy's admin API, at the root: routes, statuses, texts and habits of version 2.12.0.
//!
//! It differs where Toxiproxy is in its own clients' way: errors are JSON, names with a slash can be addressed, a
//! change happens wholly or not at all, and an empty list is `[]`.
mod attributes;
mod error_response;
mod read;
mod toxic;
mod view;

use std::sync::Arc;

use aconite_toxics::Catalogue;
use axum::{
    Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, any, get, post},
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde_json::Value;

use self::{
    read::{Object, first_value},
    toxic::{ToxicRequest, embedded},
    view::{ProxyView, ToxicView, json, to_json},
};
use crate::{
    Control, ControlError, MetricsFormat,
    model::ProxySpec,
    request::{Body, Named},
};

pub(crate) use error_response::ErrorResponse;

/// The version of Toxiproxy that this behaves as; clients compare it.
const VERSION: &str = "{\"version\": \"2.12.0\"}\n";

/// The routes.
pub(crate) fn router<C: Control>() -> Router<Arc<C>> {
    let proxy_methods = get(proxy).post(change).patch(change).delete(delete);
    let toxic_methods = get(toxic).post(change_toxic).patch(change_toxic).delete(remove_toxic);
    Router::new()
        .route("/proxies", only("GET,POST", get(proxies).post(create)))
        .route("/populate", only("POST", post(populate)))
        .route("/proxies/{proxy}", only("GET,POST,PATCH,DELETE", proxy_methods))
        .route("/proxies/{proxy}/toxics", only("GET,POST", get(toxics).post(add_toxic)))
        .route("/proxies/{proxy}/toxics/{toxic}", only("GET,POST,PATCH,DELETE", toxic_methods))
        .route("/reset", only("POST", post(reset)))
        .route("/version", only("GET", get(version)))
        .route("/metrics", any(metrics))
}

/// Refuses all other methods, HEAD too as Toxiproxy does: axum would take it for GET, and list it in `allow`.
fn only<C: Control>(allow: &'static str, methods: MethodRouter<Arc<C>>) -> MethodRouter<Arc<C>> {
    let refuse = move || async move { ([(header::ALLOW, allow)], method_not_allowed().await) };
    methods.on(MethodFilter::HEAD, refuse).fallback(refuse)
}

/// A path that there is, with a method that it hasn't.
pub(crate) async fn method_not_allowed() -> ErrorResponse {
    ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
}

async fn proxies<C: Control>(State(control): State<Arc<C>>) -> Response {
    json(StatusCode::OK, to_json(&view::proxy_table(&control.proxies())))
}

async fn proxy<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
) -> Result<Response, ErrorResponse> {
    Ok(shown(StatusCode::OK, &control.proxy(&name)?))
}

async fn create<C: Control>(
    State(control): State<Arc<C>>,
    Body(body): Body,
) -> Result<Response, ErrorResponse> {
    let fields = Object::new(first_value(&body)?)?;
    let spec = read_proxy(&fields)?;
    if let Some(field) = missing(&spec) {
        return Err(ErrorResponse::new(StatusCode::BAD_REQUEST, format!("missing required field: {field}")));
    }
    if control.proxy(&spec.name).is_ok() {
        return Err(ControlError::ProxyExists(spec.name).into());
    }
    let spec = ProxySpec { toxics: embedded(fields.list("toxics"), control.catalogue())?, ..spec };
    Ok(shown(StatusCode::CREATED, &control.create_proxy(spec).await?))
}

/// A body's `toxics` are ignored here: clients send back what they once read, and so would bring removed ones back.
async fn change<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    Body(body): Body,
) -> Result<Response, ErrorResponse> {
    control.proxy(&name)?;
    let fields = Object::new(first_value(&body)?)?;
    let (listen, upstream) = (fields.text("listen")?, fields.text("upstream")?);
    let enabled = fields.flag("enabled")?;
    let change = move |mut spec: ProxySpec| {
        spec.listen = listen.unwrap_or(spec.listen);
        spec.upstream = upstream.unwrap_or(spec.upstream);
        spec.enabled = enabled.unwrap_or(spec.enabled);
        Ok(spec)
    };
    Ok(shown(StatusCode::OK, &control.change_proxy(&name, Box::new(change)).await?))
}

async fn delete<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
) -> Result<StatusCode, ErrorResponse> {
    control.delete_proxy(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn populate<C: Control>(State(control): State<Arc<C>>, Body(body): Body) -> Response {
    let mut done = Vec::new();
    match populate_all(&*control, &body, &mut done).await {
        Ok(()) => {
            #[derive(Serialize)]
            struct Populated<'a> {
                proxies: Vec<ProxyView<'a>>,
            }
            json(
                StatusCode::CREATED,
                to_json(&Populated { proxies: done.iter().map(ProxyView::new).collect() }),
            )
        }
        Err(failure) => {
            #[derive(Serialize)]
            struct Stopped<'a> {
                #[serde(flatten)]
                failure: error_response::Wire<'a>,
                proxies: Option<Vec<ProxyView<'a>>>,
            }
            let proxies = (!done.is_empty()).then(|| done.iter().map(ProxyView::new).collect());
            json(failure.status, to_json(&Stopped { failure: failure.wire(), proxies }))
        }
    }
}

/// The proxies of a list such as Toxiproxy's `-config` file, read as `POST /populate` reads it.
///
/// # Errors
/// What is invalid, in Toxiproxy's words.
pub fn read_toxiproxy_list(list: Value, catalogue: &Catalogue) -> Result<Vec<ProxySpec>, ControlError> {
    read_list(list, catalogue).map_err(ErrorResponse::into_control_error)
}

fn read_list(list: Value, catalogue: &Catalogue) -> Result<Vec<ProxySpec>, ErrorResponse> {
    let entries = match list {
        Value::Array(entries) => entries,
        Value::Null => Vec::new(),
        other => return Err(read::mismatch(&other, "the body", "array of proxies")),
    };
    let entries = entries.into_iter().map(Object::new).collect::<Result<Vec<_>, _>>()?;
    let mut specs = entries.iter().map(read_proxy).collect::<Result<Vec<_>, _>>()?;
    for (number, spec) in (1..).zip(&specs) {
        if let Some(field) = missing(spec) {
            let message = format!("missing required field: {field} at proxy {number}");
            return Err(ErrorResponse::new(StatusCode::BAD_REQUEST, message));
        }
    }
    for (spec, fields) in specs.iter_mut().zip(&entries) {
        spec.toxics = embedded(fields.list("toxics"), catalogue)?;
    }
    Ok(specs)
}

/// Nothing is touched before all entries have been read; then one after the other, until one fails.
async fn populate_all<C: Control>(
    control: &C,
    body: &Bytes,
    done: &mut Vec<ProxySpec>,
) -> Result<(), ErrorResponse> {
    let specs = read_list(first_value(body)?, control.catalogue())?;
    for spec in specs {
        done.push(control.populate_proxy(spec).await?);
    }
    Ok(())
}

async fn toxics<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
) -> Result<Response, ErrorResponse> {
    Ok(json(StatusCode::OK, to_json(&view::toxic_list(&control.proxy(&name)?.toxics))))
}

async fn add_toxic<C: Control>(
    State(control): State<Arc<C>>,
    Named(name): Named<String>,
    Body(body): Body,
) -> Result<Response, ErrorResponse> {
    let proxy = control.proxy(&name)?;
    let spec = ToxicRequest::read(first_value(&body)?)?.into_spec(control.catalogue(), &proxy.toxics)?;
    Ok(toxic_shown(&control.add_toxic(&name, spec)?))
}

async fn toxic<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
) -> Result<Response, ErrorResponse> {
    let proxy = control.proxy(&proxy)?;
    let toxic = proxy.toxics.iter().find(|each| each.name == toxic).ok_or_else(ErrorResponse::no_toxic)?;
    Ok(toxic_shown(toxic))
}

async fn change_toxic<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
    Body(body): Body,
) -> Result<Response, ErrorResponse> {
    if !control.proxy(&proxy)?.toxics.iter().any(|each| each.name == toxic) {
        return Err(ErrorResponse::no_toxic());
    }
    let request = ToxicRequest::read(first_value(&body)?)?;
    let catalogue = Arc::clone(&control);
    let change = move |spec| {
        request.merge_into(spec, catalogue.catalogue()).map_err(ErrorResponse::into_control_error)
    };
    Ok(toxic_shown(&control.change_toxic(&proxy, &toxic, Box::new(change))?))
}

async fn remove_toxic<C: Control>(
    State(control): State<Arc<C>>,
    Named((proxy, toxic)): Named<(String, String)>,
) -> Result<StatusCode, ErrorResponse> {
    control.remove_toxic(&proxy, &toxic)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn reset<C: Control>(State(control): State<Arc<C>>) -> Result<StatusCode, ErrorResponse> {
    control.reset().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn version() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json;charset=utf-8")], VERSION)
}

async fn metrics<C: Control>(State(control): State<Arc<C>>, headers: HeaderMap) -> impl IntoResponse {
    let format = MetricsFormat::wanted(&headers);
    let fields = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    (fields, control.metrics(format))
}

/// A proxy's own fields, without its toxics.
fn read_proxy(fields: &Object) -> Result<ProxySpec, ErrorResponse> {
    Ok(ProxySpec {
        name: fields.text("name")?.unwrap_or_default(),
        listen: fields.text("listen")?.unwrap_or_default(),
        upstream: fields.text("upstream")?.unwrap_or_default(),
        enabled: fields.flag("enabled")?.unwrap_or(true),
        ..ProxySpec::default()
    })
}

fn missing(spec: &ProxySpec) -> Option<&'static str> {
    [("name", &spec.name), ("upstream", &spec.upstream)]
        .into_iter()
        .find_map(|(field, value)| value.is_empty().then_some(field))
}

fn shown(status: StatusCode, proxy: &ProxySpec) -> Response {
    json(status, to_json(&ProxyView::new(proxy)))
}

fn toxic_shown(toxic: &aconite_toxics::ToxicSpec) -> Response {
    json(StatusCode::OK, to_json(&ToxicView::new(toxic)))
}
