//! The router in one hand, the fake in the other.
use std::{sync::Arc, time::Duration};

use aconite_api::{Security, router};
use axum::{Router, body::Body};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{contract, fake::Fake};

/// What never takes so long is said to hang.
pub(crate) const HANG: Duration = Duration::from_secs(20);

/// The API.
pub(crate) struct App {
    pub(crate) control: Arc<Fake>,
    pub(crate) router: Router,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The status and the message of an error, in either surface's shape.
    pub(crate) fn error(&self) -> (u16, String) {
        let json = self.json();
        let message = json["error"]["message"].as_str().or_else(|| json["error"].as_str());
        (self.status.as_u16(), message.unwrap_or_else(|| panic!("no error in {self:?}")).to_owned())
    }
}

impl App {
    pub(crate) fn new() -> Self {
        Self::with(Security::open())
    }

    pub(crate) fn with(security: Security) -> Self {
        let control = Arc::new(Fake::default());
        Self { router: router(Arc::clone(&control), security), control }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        self.call_with(method, path, body, &[]).await
    }

    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        sent: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8474");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(sent.to_owned())).unwrap();
        let answer = timeout(HANG, self.router.clone().oneshot(request)).await.expect("it answers");
        let (parts, body) = answer.unwrap().into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        contract::check(method, path, sent, &answer).await;
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, body).await
    }

    /// An app with the proxy `p` at 127.0.0.1:1000.
    pub(crate) async fn with_proxy() -> Self {
        let app = Self::new();
        let body = r#"{"name":"p","listen":"127.0.0.1:1000","upstream":"127.0.0.1:2000"}"#;
        assert_eq!(app.post("/proxies", body).await.status, 201);
        app
    }
}
