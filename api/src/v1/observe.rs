//! What happens and has happened: journal, connections, live feed; and the kill switch.
use std::{convert::Infallible, future::ready, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::{Stream, StreamExt, stream};
use http::{StatusCode, Uri, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;

use super::read;
use crate::{
    Control, ControlError, Problem,
    model::{Chaos, Connection, Exchange, ExchangeFilter, Switch},
    request::{Body, Named},
};

/// How often a feed with nothing to say shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A page of the journal.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Exchanges {
    /// Oldest first.
    pub exchanges: Vec<Exchange>,
    /// What to ask `since` for what comes after these.
    pub next: u64,
}

/// All live connections.
#[derive(Deserialize, JsonSchema, Serialize)]
pub(crate) struct Connections {
    /// In the order in which they were accepted.
    pub(crate) connections: Vec<Connection>,
}

pub(super) async fn chaos<C: Control>(State(control): State<Arc<C>>) -> Json<Chaos> {
    Json(control.chaos())
}

pub(super) async fn enable<C: Control>(
    State(control): State<Arc<C>>,
    Body(body): Body,
) -> Result<Json<Chaos>, Problem> {
    let switch: Switch = read::optional_body(&body)?;
    Ok(Json(control.set_chaos(true, switch)?))
}

pub(super) async fn disable<C: Control>(
    State(control): State<Arc<C>>,
    Body(body): Body,
) -> Result<Json<Chaos>, Problem> {
    let switch: Switch = read::optional_body(&body)?;
    Ok(Json(control.set_chaos(false, switch)?))
}

pub(super) async fn exchanges<C: Control>(
    State(control): State<Arc<C>>,
    uri: Uri,
) -> Result<Json<Exchanges>, Problem> {
    let filter: ExchangeFilter = read::query(uri.query())?;
    if filter.wait.is_some_and(|wait| wait != 0) {
        control.exchanges_settled().await;
    }
    let (exchanges, next) = control.exchanges(&filter);
    Ok(Json(Exchanges { exchanges, next }))
}

pub(super) async fn exchange<C: Control>(
    State(control): State<Arc<C>>,
    Named(id): Named<String>,
) -> Result<Json<Exchange>, Problem> {
    Ok(Json(control.exchange(number(&id, "exchange")?)?))
}

pub(super) async fn clear_exchanges<C: Control>(State(control): State<Arc<C>>) -> StatusCode {
    control.clear_exchanges();
    StatusCode::NO_CONTENT
}

pub(super) async fn connections<C: Control>(State(control): State<Arc<C>>) -> Json<Connections> {
    Json(Connections { connections: control.connections() })
}

pub(super) async fn reset_connection<C: Control>(
    State(control): State<Arc<C>>,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    control.reset_connection(number(&id, "connection")?)?;
    Ok(StatusCode::NO_CONTENT)
}

fn number(id: &str, what: &str) -> Result<u64, ControlError> {
    id.parse().map_err(|_| ControlError::NotFound(format!("{what} `{id}`")))
}

/// The live feed. A reader that is too slow is told how much it missed.
pub(super) async fn events<C: Control>(
    State(control): State<Arc<C>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let feed = stream::unfold(control.happenings(), |mut feed| async {
        let event = match feed.recv().await {
            Ok(happening) => {
                let data = serde_json::to_string(&happening).unwrap_or_default();
                Event::default().event(happening.event).data(data)
            }
            Err(RecvError::Lagged(missed)) => {
                Event::default().event("missed").data(serde_json::json!({"missed": missed}).to_string())
            }
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), feed))
    });
    let greeting = stream::once(ready(Ok(Event::default().comment("live"))));
    Sse::new(greeting.chain(feed)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE).text("alive"))
}

pub(super) async fn ca_pem<C: Control>(State(control): State<Arc<C>>) -> Result<Response, Problem> {
    let pem = control.ca_pem().ok_or_else(|| ControlError::NotFound("certificate authority".to_owned()))?;
    Ok(([(header::CONTENT_TYPE, "application/x-pem-file")], pem).into_response())
}

pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz<C: Control>(State(control): State<Arc<C>>) -> (StatusCode, &'static str) {
    if control.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "an enabled proxy does not listen\n")
    }
}
