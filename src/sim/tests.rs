//! The simulated providers through [`Simulator::handle`], under a paused clock.
mod anthropic;
mod gemini;
mod odd;
mod ollama;
mod openai;
mod pace;
mod qdrant;

use http::Response;
use http_body_util::Full;
use serde_json::json;

use super::*;

pub(super) use odd::any_json;

/// One event of a stream: its name, empty if it has none, and its data.
#[derive(Debug, PartialEq)]
struct Heard {
    name: String,
    data: String,
}

impl Heard {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// A key for either language model, and the version that Anthropic wants.
async fn send(url: &str, method: &str, path: &str, body: impl Into<Bytes>) -> Response<SimBody> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer any")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(body.into()))
        .unwrap();
    Simulator::new(url).unwrap().handle(request).await
}

async fn bytes_of(response: Response<SimBody>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn json_of(response: Response<SimBody>) -> serde_json::Value {
    serde_json::from_slice(&bytes_of(response).await).unwrap()
}

async fn post(url: &str, path: &str, body: serde_json::Value) -> serde_json::Value {
    json_of(send(url, "POST", path, body.to_string()).await).await
}

/// The events of a streamed answer, one for each frame.
async fn stream(url: &str, path: &str, mut body: serde_json::Value) -> Vec<Heard> {
    body["stream"] = json!(true);
    let response = send(url, "POST", path, body.to_string()).await;
    assert_eq!(response.status(), 200);
    let content_type = response.headers()["content-type"].to_str().unwrap();
    assert!(content_type.starts_with("text/event-stream"), "{content_type}");
    let mut body = response.into_body();
    let mut heard = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        let text = text.strip_suffix("\n\n").expect("a frame is a whole event");
        let (name, data) =
            text.strip_prefix("event: ").and_then(|text| text.split_once('\n')).unwrap_or(("", text));
        let data = data.strip_prefix("data: ").expect("an event has data");
        assert!(!data.contains('\n'), "one event per frame: {data}");
        heard.push(Heard { name: name.to_owned(), data: data.to_owned() });
    }
    heard
}

fn user(prompt: &str) -> serde_json::Value {
    json!([{"role": "user", "content": prompt}])
}
