//! The web page: one file, nothing fetched from elsewhere.
use axum::response::{Html, IntoResponse};
use http::header;

const PAGE: &str = include_str!("page.html");

/// The page takes nothing from elsewhere, sends nothing elsewhere, and cannot be framed by a page that wants its
/// buttons clicked.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(super) async fn get() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Html(PAGE))
}
