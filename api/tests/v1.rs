//! The whole product under `/v1`.

use crate::app::{Answer, App};

mod documents;
mod exact;
mod proxies;
mod records;

const PROXY: &str = r#"{"name":"p","listen":"127.0.0.1:1000","upstream":"http://127.0.0.1:2000","exclusive":true,
    "toxics":[{"type":"latency","attributes":{"latency":"5s"}},{"type":"corrupt","stream":"upstream","toxicity":0.1}]}"#;

async fn with_proxy() -> App {
    let app = App::new();
    assert_eq!(app.post("/v1/proxies", PROXY).await.status, 201);
    app
}

/// Status, code, path and hint of an error.
fn problem(answer: &Answer) -> (u16, String, String, String) {
    let error = &answer.json()["error"];
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    assert!(!text("message").is_empty(), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    (answer.status.as_u16(), text("code"), text("path"), text("hint"))
}
