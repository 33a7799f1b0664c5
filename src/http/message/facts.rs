//! What is known of a request.
use std::{
    borrow::Cow,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use aconite_dialects::{
    Dialect, Operation,
    form::{RequestHead, Response},
    json,
    provider::Provider,
};
use aconite_toxics::{BodyForm, Direction, JsonBody, RequestFacts, Scope};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request, uri::PathAndQuery};

/// What is known of a request, kept for as long as its exchange lasts.
pub(crate) struct Facts {
    pub(crate) method: Method,
    /// The host asked for, lower case, without port or brackets.
    pub(crate) host: Arc<str>,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) operation: Option<Operation>,
    pub(crate) scene: Option<String>,
    pub(crate) test_id: Option<String>,
    /// What the body says, if it was read.
    pub(crate) said: RequestParams,
    pub(crate) body: Option<JsonBody>,
    /// Why the body was not read, if there is one and it was not.
    pub(crate) unread: Option<&'static str>,
}

/// Why a request's body was not read.
pub(crate) const NOT_JSON: &str = "request_not_json";
pub(crate) const TOO_LARGE: &str = "request_too_large";
pub(crate) const ENCODED: &str = "request_encoded";
/// No toxic needed it when the request came.
pub(crate) const NOT_READ: &str = "request_not_read";

/// What a request says of itself: in its path, its header section or its body.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestParams {
    pub(crate) model: Option<String>,
    pub(crate) streaming: Option<bool>,
}

impl RequestParams {
    /// Reads the two members of a JSON body that tell; of duplicates the last counts. `None` if it is not JSON.
    pub(crate) fn by(body: &[u8]) -> Option<Self> {
        let [model, streaming] = json::members(body, ["model", "stream"]).ok()?;
        let value = |span: Option<json::Span>| body.get(span?);
        Some(Self {
            model: value(model)
                .filter(|raw| raw.starts_with(b"\""))
                .map(|raw| json::unquote(raw).into_owned()),
            streaming: value(streaming).map(|raw| raw == b"true"),
        })
    }
}

impl Facts {
    /// What the head alone says; its headers move here. `host` is the one that the request leads to.
    pub(crate) fn of(head: &mut request::Parts, host: &Arc<str>) -> Self {
        let headers = std::mem::take(&mut head.headers);
        let text = |name: &header::HeaderName| {
            headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let has_header = |name: &str| headers.contains_key(name);
        let known = aconite_dialects::recognise(host, head.method.as_str(), path.path(), has_header);
        let model = Provider::of(known.dialect).model_in_path(path.path()).map(Cow::into_owned);
        Self {
            method: head.method.clone(),
            host: if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
                host.to_ascii_lowercase().into()
            } else {
                Arc::clone(host)
            },
            dialect: known.dialect,
            operation: known.operation,
            scene: text(&super::headers::SCENE),
            test_id: text(&super::headers::TEST_ID),
            headers,
            said: RequestParams { model, streaming: None },
            body: None,
            unread: None,
            path,
        }
    }

    /// The body was read, and is this when decoded.
    pub(crate) fn read(&mut self, body: Bytes) {
        match RequestParams::by(&body) {
            Some(said) => {
                self.said.model = said.model.or_else(|| self.said.model.take());
                self.said.streaming = said.streaming;
                self.body = Some(JsonBody::new(body));
                self.unread = None;
            }
            None => self.unread = Some(NOT_JSON),
        }
    }

    /// What the body of a response in this dialect is made of, by its head and by what was asked for.
    pub(crate) fn response_form(
        &self,
        dialect: Option<Dialect>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> BodyForm {
        let response = Response {
            dialect,
            streaming: self.streaming() == Some(true),
            success: status.is_success(),
            content_type: content_type(headers),
        };
        response.form()
    }

    /// Whether the request asks for a streamed answer, as far as is known.
    pub(crate) fn streaming(&self) -> Option<bool> {
        let by_head = || {
            let header = |name: &str| self.headers.get(name).map(HeaderValue::as_bytes);
            let (path, query) = (self.path.path(), self.path.query().unwrap_or_default());
            RequestHead { path, query, header: &header }.asks_for_stream(self.dialect)
        };
        // A body that says nothing leaves it to the default; a body that was not read could still say it.
        let by_default = || {
            let streams = Provider::of(self.dialect).streams_by_default(self.operation);
            (self.body.is_some() && streams).then_some(true)
        };
        self.said.streaming.or_else(by_head).or_else(by_default)
    }

    pub(crate) fn as_request_facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            method: self.method.as_str(),
            host: &self.host,
            path: self.path.path(),
            headers: &self.headers,
            dialect: self.dialect,
            operation: self.operation,
            model: self.said.model.as_deref(),
            scene: self.scene.as_deref(),
            test_id: self.test_id.as_deref(),
            // What is not JSON does not ask for a stream.
            streaming: self.streaming().or_else(|| (self.unread == Some(NOT_JSON)).then_some(false)),
            body: self.body.as_ref(),
            unread: self.unread,
        }
    }

    /// The place of a message, for the toxics.
    #[expect(clippy::disallowed_methods, reason = "toxics tell the date in headers")]
    pub(crate) fn scope(&self, direction: Direction, body: BodyForm, length: Option<u64>) -> Scope {
        Scope {
            direction,
            dialect: self.dialect,
            operation: self.operation,
            model: self.said.model.clone(),
            body,
            length,
            passed: 0,
            date: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }
}

/// What a request's body is made of, by its head.
pub(crate) fn body_form(headers: &HeaderMap) -> BodyForm {
    content_type(headers).map_or(BodyForm::Opaque, BodyForm::of_content_type)
}

/// The content type, if it is text.
fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// Whether a request's body may be JSON, by its head. Many clients do not say so; but whoever waits for a gRPC stream's
/// end may wait for ever.
pub(crate) fn may_be_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    let others = ["application/grpc", "multipart/", "image/", "audio/", "video/", "text/event-stream"];
    value.is_none_or(|value| !others.iter().any(|other| value.starts_with(other.as_bytes())))
}

/// The length that a head announces.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(path: &str, body: Option<&'static str>) -> (Option<String>, Option<bool>) {
        let request = http::Request::post(path).body(()).unwrap();
        let mut facts = Facts::of(&mut request.into_parts().0, &"127.0.0.1".into());
        if let Some(body) = body {
            facts.read(Bytes::from_static(body.as_bytes()));
        }
        (facts.said.model.clone(), facts.streaming())
    }

    #[test]
    fn the_model_and_the_stream_are_read_where_the_provider_has_them() {
        let model = |name: &str| Some(name.to_owned());
        let gemini = "/v1beta/models/g:streamGenerateContent";
        assert_eq!(facts(gemini, None), (model("g"), Some(true)));
        assert_eq!(facts(gemini, Some("{}")), (model("g"), Some(true)));
        assert_eq!(facts("/model/b/invoke", None), (model("b"), Some(false)));
        let chat = "/v1/chat/completions";
        assert_eq!(facts(chat, None), (None, None));
        assert_eq!(facts(chat, Some(r#"{"model":"m","stream":true}"#)), (model("m"), Some(true)));
        assert_eq!(facts("/api/chat", Some(r#"{"model":"m"}"#)), (model("m"), Some(true)));
        assert_eq!(facts("/api/chat", Some(r#"{"model":"m","stream":false}"#)), (model("m"), Some(false)));
    }
}
