//! What a body is made of.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::{Dialect, EventFormat, media_type::MediaType};

/// What a body is made of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BodyForm {
    /// A stream of events.
    Events(EventFormat),
    /// A JSON document.
    Document,
    /// Anything else, or not known yet.
    #[default]
    Opaque,
}

impl BodyForm {
    /// The form that a `content-type` header announces.
    pub fn of_content_type(value: &str) -> Self {
        let media_type = MediaType::of(value);
        if let Some(framing) = EventFormat::of_media_type(media_type) {
            Self::Events(framing)
        } else if media_type.is("application/json") || media_type.has_suffix("json") {
            Self::Document
        } else {
            Self::Opaque
        }
    }
}

/// What decides on the form of a response's body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// Whose protocol it speaks.
    pub dialect: Option<Dialect>,
    /// Whether the request asked for a stream.
    pub streaming: bool,
    /// Whether the status is a success.
    pub success: bool,
    /// The `content-type` header.
    pub content_type: Option<&'a str>,
}

impl Response<'_> {
    /// The form of the body. A content type that names a framing decides. One that names none leaves it to the
    /// provider: Gemini streams `application/json`, and SDKs read a stream without any content type all the same.
    pub fn form(&self) -> BodyForm {
        let announced = self.content_type.map_or(BodyForm::Opaque, BodyForm::of_content_type);
        let streams = self.streaming && self.success;
        let provider = self.dialect.filter(|_| streams).map(Dialect::provider);
        let framing = match announced {
            BodyForm::Document => provider.and_then(|provider| provider.framing_of_json),
            BodyForm::Opaque if self.says_nothing() => provider.map(|provider| provider.framing),
            _ => None,
        };
        framing.map_or(announced, BodyForm::Events)
    }

    fn says_nothing(&self) -> bool {
        self.content_type.is_none_or(|value| MediaType::of(value).is("application/octet-stream"))
    }
}

/// What a request says before its body.
pub struct RequestHead<'a> {
    /// The path, as it was sent.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: &'a str,
    /// The value of the header of a lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<&'a [u8]>,
}

impl RequestHead<'_> {
    /// The last segment of the path, decoded.
    pub(crate) fn last_step(&self) -> Cow<'_, str> {
        let step = self.path.rsplit('/').next().unwrap_or_default();
        percent_decode_str(step).decode_utf8_lossy()
    }

    /// Whether the request asks for a stream, or for none. None: that is for the body to say.
    pub fn asks_for_stream(&self, dialect: Option<Dialect>) -> Option<bool> {
        (dialect?.provider().asks_for_stream)(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_25_a_content_type_is_compared_as_a_media_type() {
        for (value, form) in [
            ("application/json", BodyForm::Document),
            ("Application/JSON; charset=utf-8", BodyForm::Document),
            ("application/json ;x", BodyForm::Document),
            ("application/problem+json", BodyForm::Document),
            ("application/vnd.api+JSON;x=y", BodyForm::Document),
            ("application/json-seq", BodyForm::Opaque),
            ("application/jsonx", BodyForm::Opaque),
            ("application/json+x", BodyForm::Opaque),
            ("application/geo+json-seq", BodyForm::Opaque),
            ("text/event-stream;charset=utf-8", BodyForm::Events(EventFormat::Sse)),
            ("TEXT/Event-Stream", BodyForm::Events(EventFormat::Sse)),
            ("text/event-stream-x", BodyForm::Opaque),
            ("text/event-streams", BodyForm::Opaque),
            ("application/x-ndjson", BodyForm::Events(EventFormat::Ndjson)),
            ("application/x-ndjsonx", BodyForm::Opaque),
            ("application/stream+json", BodyForm::Events(EventFormat::Ndjson)),
            ("application/vnd.amazon.eventstream", BodyForm::Events(EventFormat::AwsEventStream)),
            ("application/vnd.amazon.eventstream2", BodyForm::Opaque),
            ("", BodyForm::Opaque),
        ] {
            assert_eq!(BodyForm::of_content_type(value), form, "{value}");
        }
    }

    #[test]
    fn paths_and_headers_ask_for_streams() {
        let ask = |dialect, path: &str, value: Option<&'static str>| {
            let header = |name: &str| value.filter(|_| name == "x-dashscope-sse").map(str::as_bytes);
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            RequestHead { path, query, header: &header }.asks_for_stream(Some(dialect))
        };
        for (dialect, path, header, streams) in [
            (Dialect::Gemini, "/v1beta/models/g:streamGenerateContent?alt=sse", None, Some(true)),
            (Dialect::Gemini, "/v1beta/models/g:streamGenerateContent", None, Some(true)),
            (Dialect::Gemini, "/v1beta/models/g%3AstreamGenerateContent?key=k", None, Some(true)),
            (Dialect::Gemini, "/v1/projects/p/models/g:streamRawPredict", None, Some(true)),
            (Dialect::Gemini, "/v1beta/models/g:generateContent?x=stream", None, Some(false)),
            (Dialect::Gemini, "/v1beta/openai/chat/completions", None, None),
            (Dialect::Anthropic, "/v1/publishers/anthropic/models/m:streamRawPredict", None, Some(true)),
            (Dialect::Anthropic, "/v1/messages", None, None),
            (Dialect::Bedrock, "/model/a.b:0/converse-stream", None, Some(true)),
            (Dialect::Bedrock, "/model/a.b:0/invoke-with-response-stream", None, Some(true)),
            (Dialect::Bedrock, "/model/a.b:0/invoke", None, Some(false)),
            (Dialect::DashScope, "/api/v1/services/x", Some("enable"), Some(true)),
            (Dialect::DashScope, "/api/v1/services/x", Some("disable"), Some(false)),
            (Dialect::DashScope, "/compatible-mode/v1/chat/completions", None, None),
            (Dialect::OpenAi, "/v1/chat/completions?alt=sse", Some("enable"), None),
        ] {
            assert_eq!(ask(dialect, path, header), streams, "{dialect:?} {path} {header:?}");
        }
    }

    #[test]
    fn the_provider_decides_where_the_content_type_does_not() {
        let gemini = Response {
            dialect: Some(Dialect::Gemini),
            streaming: true,
            success: true,
            content_type: Some("application/json; charset=UTF-8"),
        };
        let array = BodyForm::Events(EventFormat::JsonArray);
        assert_eq!(gemini.form(), array);
        assert_eq!(
            Response { content_type: Some("text/event-stream"), ..gemini }.form(),
            BodyForm::Events(EventFormat::Sse)
        );
        for document in [
            Response { success: false, ..gemini },
            Response { streaming: false, ..gemini },
            Response { dialect: Some(Dialect::OpenAi), ..gemini },
        ] {
            assert_eq!(document.form(), BodyForm::Document, "{document:?}");
        }
        let silent = Response { content_type: None, ..gemini };
        for (dialect, framing) in [
            (Dialect::OpenAi, EventFormat::Sse),
            (Dialect::Ollama, EventFormat::Ndjson),
            (Dialect::Bedrock, EventFormat::AwsEventStream),
        ] {
            let response = Response { dialect: Some(dialect), ..silent };
            assert_eq!(response.form(), BodyForm::Events(framing));
            assert_eq!(Response { streaming: false, ..response }.form(), BodyForm::Opaque);
            assert_eq!(Response { content_type: Some("text/html"), ..response }.form(), BodyForm::Opaque);
        }
        assert_eq!(Response { dialect: None, ..silent }.form(), BodyForm::Opaque);
    }
}
