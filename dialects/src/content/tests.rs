use base64::{Engine, engine::general_purpose::STANDARD};

use super::*;
use crate::recognise;

fn sse(name: Option<&str>, data: &str) -> Event {
    Event::new(EventFormat::Sse, name, data.as_bytes())
}

fn of(dialect: Dialect, operation: Operation) -> Shape {
    Shape::of(Some(dialect), Some(operation))
}

/// What an event is for, asked with the shape known and unknown.
fn roles(shape: Shape, event: &Event) -> String {
    let of = |shape: Shape| {
        let roles = [
            ("content", shape.is_content(event)),
            ("tool", shape.is_tool_call(event)),
            ("end", shape.is_terminator(event)),
            ("usage", shape.is_usage(event)),
            ("failure", shape.is_failure(event)),
        ];
        roles.iter().filter(|(_, is)| *is).map(|(role, _)| *role).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(shape), of(Shape::UNKNOWN), "{event:?}");
    of(shape)
}

#[test]
fn openai_chat_and_completions() {
    for (data, role) in [
        (r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#, ""),
        (
            r#"{"choices":[{"index":0,"delta":{"content":"好"},"finish_reason":null}],"usage":null}"#,
            "content",
        ),
        (r#"{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}"#, "content"),
        (
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#,
            "content tool",
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, ""),
        (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, "usage"),
        (r#"{"choices":[{"text":"x"}]}"#, "content"),
        (r#"{"error":{"message":"boom","type":"server_error","param":null,"code":null}}"#, "failure"),
        ("[DONE]", "end"),
        ("", ""),
        ("{\"choices\":[{\"delta\":{\"content\":\"x\"", ""),
    ] {
        assert_eq!(roles(of(Dialect::OpenAi, Operation::Chat), &sse(None, data)), role, "{data}");
    }
}

#[test]
fn openai_responses() {
    for (name, rest, role) in [
        ("response.created", r#""response":{"usage":null}"#, ""),
        ("response.output_text.delta", r#""delta":"x""#, "content"),
        ("response.output_text.delta", r#""delta":"""#, ""),
        ("response.function_call_arguments.delta", r#""delta":"{""#, "content tool"),
        ("response.output_text.done", r#""text":"x""#, ""),
        ("response.completed", r#""response":{"usage":{}}"#, "end"),
        ("response.incomplete", r#""response":{}"#, "end"),
        ("response.failed", r#""response":{}"#, "end failure"),
        ("error", r#""code":"server_error""#, "failure"),
    ] {
        let data = format!(r#"{{"type":"{name}","sequence_number":1,{rest}}}"#);
        assert_eq!(roles(of(Dialect::OpenAi, Operation::Responses), &sse(Some(name), &data)), role, "{data}");
    }
}

#[test]
fn anthropic_messages() {
    for (name, rest, role) in [
        ("message_start", r#""message":{"content":[],"usage":{"input_tokens":1}}"#, ""),
        ("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#, ""),
        ("ping", r#""x":0"#, ""),
        ("content_block_delta", r#""delta":{"type":"text_delta","text":"hi"}"#, "content"),
        ("content_block_delta", r#""delta":{"type":"input_json_delta","partial_json":"{"}"#, "content tool"),
        (
            "content_block_start",
            r#""content_block":{"type":"tool_use","id":"t","name":"n","input":{}}"#,
            "tool",
        ),
        ("content_block_delta", r#""delta":{"type":"signature_delta","signature":"x"}"#, ""),
        ("message_delta", r#""delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}"#, "usage"),
        ("message_stop", r#""x":0"#, "end"),
        ("error", r#""error":{"type":"overloaded_error","message":"Overloaded"}"#, "failure"),
    ] {
        let data = format!(r#"{{"type":"{name}",{rest}}}"#);
        assert_eq!(roles(of(Dialect::Anthropic, Operation::Chat), &sse(Some(name), &data)), role, "{data}");
    }
}

#[test]
fn gemini_ollama_and_cohere() {
    for (data, role) in [
        (r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{}}"#, "content"),
        (r#"{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}"#, "end"),
        (r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#, "content end"),
        (r#"{"usageMetadata":{"totalTokenCount":1}}"#, "usage"),
    ] {
        assert_eq!(roles(of(Dialect::Gemini, Operation::Chat), &sse(None, data)), role, "{data}");
    }
    for (data, role) in [
        (r#"{"message":{"role":"assistant","content":"你"},"done":false}"#, "content"),
        (r#"{"response":"x","done":false}"#, "content"),
        (r#"{"message":{"content":""},"done":true,"eval_count":3}"#, "end"),
        (r#"{"error":"boom"}"#, "failure"),
    ] {
        assert_eq!(
            roles(
                of(Dialect::Ollama, Operation::Chat),
                &Event::new(EventFormat::Ndjson, None, data.as_bytes())
            ),
            role,
            "{data}"
        );
    }
    for (data, role) in [
        (r#"{"type":"content-delta","delta":{"message":{"content":{"text":"x"}}}}"#, "content"),
        (r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{}}}"#, "end"),
        (r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"boom"}}"#, "end failure"),
    ] {
        assert_eq!(roles(of(Dialect::Cohere, Operation::Chat), &sse(None, data)), role, "{data}");
    }
}

#[test]
fn sse_34_what_is_no_event_has_no_role() {
    for raw in [": [DONE]\n", "data: [DONE]\n", "\n", "id: 1\n\n"] {
        assert_eq!(
            roles(of(Dialect::OpenAi, Operation::Chat), &Event::from_raw(EventFormat::Sse, raw.into())),
            ""
        );
    }
    assert_eq!(
        roles(
            of(Dialect::OpenAi, Operation::Chat),
            &Event::from_raw(EventFormat::Sse, "data:[DONE]\r\n\r\n".into())
        ),
        "end"
    );
}

#[test]
fn r2_15_transcripts_speech_and_pictures() {
    for (operation, data, role) in [
        (Operation::Transcription, r#"{"type":"transcript.text.delta","delta":"你好"}"#, "content"),
        (Operation::Transcription, r#"{"type":"transcript.text.delta","delta":""}"#, ""),
        (
            Operation::Transcription,
            r#"{"type":"transcript.text.segment","id":"s","start":0,"end":1.5,"text":"hi"}"#,
            "",
        ),
        (
            Operation::Transcription,
            r#"{"type":"transcript.text.done","text":"hi","usage":{"type":"tokens"}}"#,
            "end",
        ),
        (
            Operation::Transcription,
            r#"{"object":"transcription.chunk","choices":[{"delta":{"content":"hi"}}]}"#,
            "content",
        ),
        (Operation::Transcription, r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, "usage"),
        (Operation::Transcription, "[DONE]", "end"),
        (Operation::Transcription, r#"{"error":{"message":"boom"}}"#, "failure"),
        (Operation::Speech, r#"{"type":"speech.audio.delta","audio":"AAAA"}"#, "content"),
        (Operation::Speech, r#"{"type":"speech.audio.delta","audio":""}"#, ""),
        (Operation::Speech, r#"{"type":"speech.audio.done","usage":{"total_tokens":3}}"#, "end"),
        (
            Operation::Images,
            r#"{"type":"image_generation.partial_image","partial_image_index":0,"b64_json":"AAAA"}"#,
            "content",
        ),
        (
            Operation::Images,
            r#"{"type":"image_generation.completed","b64_json":"AAAA","usage":{"total_tokens":3}}"#,
            "content end",
        ),
        (Operation::Images, r#"{"type":"image_edit.completed","b64_json":"AAAA"}"#, "content end"),
        (Operation::Images, r#"{"error":{"message":"boom"}}"#, "failure"),
    ] {
        assert_eq!(roles(of(Dialect::OpenAi, operation), &sse(None, data)), role, "{data}");
    }
}

#[test]
fn r2_15_such_requests_are_recognised() {
    for (path, operation) in [
        ("/v1/audio/transcriptions", Operation::Transcription),
        ("/v1/audio/translations", Operation::Transcription),
        ("/v1/audio/speech", Operation::Speech),
        ("/openai/deployments/tts/audio/speech", Operation::Speech),
        ("/v1/images/generations", Operation::Images),
        ("/v1/images/edits", Operation::Images),
    ] {
        assert_eq!(recognise("127.0.0.1", "POST", path, |_| false).operation, Some(operation), "{path}");
    }
}

/// A payload as `invoke-with-response-stream` wraps it.
fn invoked(payload: &str) -> String {
    format!(r#"{{"bytes":"{}","p":"ab"}}"#, STANDARD.encode(payload))
}

#[test]
fn bedrock() {
    let stop = invoked(r#"{"type":"message_stop"}"#);
    let delta = invoked(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}"#);
    for (data, role) in [
        (r#"{"contentBlockIndex":0,"delta":{"text":"hi"},"p":"abc"}"#, "content"),
        (r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{"}}}"#, "content tool"),
        (r#"{"contentBlockIndex":1,"start":{"toolUse":{"name":"n","toolUseId":"t"}}}"#, "tool"),
        (r#"{"contentBlockIndex":0}"#, ""),
        (r#"{"stopReason":"end_turn"}"#, "end"),
        (&delta, "content"),
        (&stop, "end"),
        (r#"{"bytes":"%"}"#, ""),
    ] {
        assert_eq!(roles(of(Dialect::Bedrock, Operation::Chat), &sse(None, data)), role, "{data}");
    }
    let usage = r#"{"usage":{"inputTokens":1},"metrics":{"latencyMs":9}}"#;
    assert!(of(Dialect::Bedrock, Operation::Chat).is_usage(&sse(None, usage)));
}

#[test]
fn an_event_looks_like_one_of_one_stream_at_most() {
    for (name, data) in [
        ("chat", r#"{"choices":[{"delta":{"content":"x"}}]}"#),
        ("error", r#"{"error":{"message":"boom"}}"#),
        ("responses", r#"{"type":"response.output_text.delta","sequence_number":1}"#),
        ("responses error", r#"{"type":"error","sequence_number":1}"#),
        ("transcript", r#"{"type":"transcript.text.delta"}"#),
        ("speech", r#"{"type":"speech.audio.delta"}"#),
        ("image", r#"{"type":"image_generation.completed"}"#),
        ("anthropic", r#"{"type":"message_delta","delta":{},"usage":{}}"#),
        ("anthropic error", r#"{"type":"error","error":{"type":"api_error"}}"#),
        ("ping", r#"{"type":"ping"}"#),
        ("cohere", r#"{"type":"message-end"}"#),
        ("gemini", r#"{"candidates":[]}"#),
        ("bedrock", r#"{"contentBlockIndex":0,"delta":{"text":"x"}}"#),
        ("dashscope", r#"{"output":{"choices":[{"finish_reason":"null","message":{"content":"x"}}]}}"#),
        ("ollama", r#"{"done":false,"response":"x"}"#),
    ] {
        let document = Document::parse(data.as_bytes()).unwrap();
        let mut claims: Vec<*const Stream> = Dialect::ALL
            .iter()
            .flat_map(|dialect| dialect.provider().streams)
            .filter(|stream| (stream.looks)(EventFormat::Sse, document.root()))
            .map(|stream| std::ptr::from_ref(*stream))
            .collect();
        claims.sort_unstable();
        claims.dedup();
        assert_eq!(claims.len(), 1, "{name}");
    }
}

#[test]
fn dashscope_natively() {
    for (data, role) in [
        (
            r#"{"output":{"choices":[{"finish_reason":"null","message":{"role":"assistant","content":"你"}}]}}"#,
            "content",
        ),
        (
            r#"{"output":{"choices":[{"finish_reason":"stop","message":{"content":"你好"}}]},"usage":{}}"#,
            "content end",
        ),
        (r#"{"output":{"finish_reason":"null","text":"你"}}"#, "content"),
        (r#"{"output":{"finish_reason":"stop","text":""}}"#, "end"),
        (r#"{"code":"Throttling","message":"slow","request_id":"r"}"#, "failure"),
    ] {
        assert_eq!(roles(of(Dialect::DashScope, Operation::Chat), &sse(None, data)), role, "{data}");
    }
    let chunk = sse(None, r#"{"choices":[{"delta":{"content":"x"}}]}"#);
    assert_eq!(roles(of(Dialect::DashScope, Operation::Chat), &chunk), "content");
}

#[test]
fn the_shape_follows_the_request() {
    assert_eq!(of(Dialect::Azure, Operation::Chat), of(Dialect::OpenAi, Operation::Completions));
    assert!(of(Dialect::OpenAi, Operation::Responses).is_numbered());
    assert!(!of(Dialect::OpenAi, Operation::Chat).is_numbered());
    assert!(Shape::of(None, Some(Operation::Responses)).is_numbered());
    assert_eq!(Shape::of(Some(Dialect::Anthropic), None), of(Dialect::Anthropic, Operation::Chat));
    assert_ne!(Shape::of(Some(Dialect::Anthropic), None), of(Dialect::OpenAi, Operation::Chat));
    assert_eq!(Shape::of(None, None), Shape::UNKNOWN);
    assert_eq!(of(Dialect::Qdrant, Operation::VectorSearch), Shape::UNKNOWN);
}
