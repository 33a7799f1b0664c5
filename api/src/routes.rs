//! The router: Toxiproxy's API at the root, the whole product under `/v1`.
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, Uri, header};

use crate::{
    Control, Problem, Security,
    request::{MAX_BODY, is_v1, refusal},
    toxiproxy, v1,
};

/// The whole API over the proxies that `control` governs, for those whom `security` admits.
///
/// It needs no connection information: serve it as it is. No answer waits for a proxied connection, except the two
/// that are asked to (`GET /v1/exchanges?wait=1` and the feed `GET /v1/events`).
pub fn router<C: Control>(control: Arc<C>, security: Security) -> Router {
    let security = Arc::new(security);
    let guarded = |routes: Router<Arc<C>>| {
        routes
            .method_not_allowed_fallback(wrong_method)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .layer(middleware::from_fn_with_state(Arc::clone(&security), admit))
    };
    let root = guarded(toxiproxy::router()).layer(middleware::map_response(name_request));
    Router::new()
        .merge(root)
        .merge(guarded(v1::router()))
        .fallback(not_found)
        .layer(middleware::from_fn(clean_path))
        .with_state(control)
}

async fn admit(State(security): State<Arc<Security>>, request: Request, next: Next) -> Response {
    match security.admit(request.method(), request.uri(), request.version(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            let challenge = problem.status == StatusCode::UNAUTHORIZED;
            let mut response = refusal(request.uri().path(), problem);
            if challenge {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

async fn wrong_method(uri: Uri) -> Response {
    if is_v1(uri.path()) {
        let hint = "the header `allow` lists the methods";
        return Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path has no such method",
        )
        .hint(hint)
        .into_response();
    }
    toxiproxy::method_not_allowed().await.into_response()
}

async fn not_found(uri: Uri) -> Response {
    refusal(uri.path(), Problem::not_found("page not found").hint("GET /v1/openapi.json lists the routes"))
}

/// Sends a request for an unclean path to the clean one, as Go's routers do.
async fn clean_path(request: Request, next: Next) -> Response {
    let Some(mut clean) = cleaned(request.uri().path()) else { return next.run(request).await };
    if let Some(query) = request.uri().query() {
        clean = format!("{clean}?{query}");
    }
    (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, clean)]).into_response()
}

/// The path without empty and dot segments, if it has any. A last slash stays.
fn cleaned(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    let mut kept = Vec::new();
    for segment in rest.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut clean = format!("/{}", kept.join("/"));
    if rest.ends_with('/') && !kept.is_empty() {
        clean.push('/');
    }
    (clean != path).then_some(clean)
}

/// Toxiproxy numbers the requests that it routes.
async fn name_request(mut response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED
        && let Ok(id) = HeaderValue::try_from(request_id())
    {
        response.headers_mut().insert("x-toxiproxy-request-id", id);
    }
    response
}

/// A new id of 20 characters, made as an xid is: of the time, the process and a counter.
fn request_id() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    #[expect(clippy::disallowed_methods, reason = "an answer tells the time")]
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    let id = u128::from(seconds) << 64 | u128::from(process::id()) << 32 | u128::from(counter);
    (0..20).rev().map(|place| char::from(ALPHABET[(id >> (5 * place)) as usize % 32])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_cleans_them() {
        for (path, clean) in [
            ("//proxies", "/proxies"),
            ("/proxies//a", "/proxies/a"),
            ("/./version", "/version"),
            ("/proxies/../version", "/version"),
            ("/../../version", "/version"),
            ("/proxies//", "/proxies/"),
            ("//", "/"),
            ("/proxies/.", "/proxies"),
        ] {
            assert_eq!(cleaned(path).as_deref(), Some(clean), "{path}");
        }
        for path in ["/", "/proxies", "/proxies/", "/proxies/a%2F%2Fb", "/proxies/...", "*"] {
            assert_eq!(cleaned(path), None, "{path}");
        }
    }

    #[test]
    fn request_ids_differ() {
        let (one, two) = (request_id(), request_id());
        assert_eq!((one.len(), two.len()), (20, 20));
        assert_ne!(one, two);
    }
}
