//! The web page: one document, nothing fetched from elsewhere.
use axum::response::{Html, IntoResponse};
use http::header;

const PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<title>Aconite</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n",
    include_str!("page/style.css"),
    "</style>\n<body>\n",
    include_str!("page/body.html"),
    "<script>\n",
    include_str!("page/script.js"),
    include_str!("page/live.js"),
    "</script>\n</body>\n</html>\n",
);

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
