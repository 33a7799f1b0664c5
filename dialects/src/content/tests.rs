use super::*;

fn sse(name: Option<&str>, data: &str) -> Event {
    Event::new(Framing::Sse, name, data.as_bytes())
}

/// What an event is for, asked with the shape known and unknown.
fn roles(shape: Shape, event: &Event) -> String {
    let of = |shape: Shape| {
        let roles = [
            ("content", shape.is_content(event)),
            ("end", shape.is_terminator(event)),
            ("usage", shape.is_usage(event)),
            ("failure", shape.is_failure(event)),
        ];
        roles.iter().filter(|(_, is)| *is).map(|(role, _)| *role).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(shape), of(Shape::Unknown), "{event:?}");
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
        (r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#, "content"),
        (r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#, ""),
        (r#"{"choices":[],"usage":{"prompt_tokens":1}}"#, "usage"),
        (r#"{"choices":[{"text":"x"}]}"#, "content"),
        (r#"{"error":{"message":"boom","type":"server_error","param":null,"code":null}}"#, "failure"),
        ("[DONE]", "end"),
        ("", ""),
        ("{\"choices\":[{\"delta\":{\"content\":\"x\"", ""),
    ] {
        assert_eq!(roles(Shape::OpenAi, &sse(None, data)), role, "{data}");
    }
}

#[test]
fn openai_responses() {
    for (name, rest, role) in [
        ("response.created", r#""response":{"usage":null}"#, ""),
        ("response.output_text.delta", r#""delta":"x""#, "content"),
        ("response.output_text.delta", r#""delta":"""#, ""),
        ("response.function_call_arguments.delta", r#""delta":"{""#, "content"),
        ("response.output_text.done", r#""text":"x""#, ""),
        ("response.completed", r#""response":{"usage":{}}"#, "end"),
        ("response.incomplete", r#""response":{}"#, "end"),
        ("response.failed", r#""response":{}"#, "end failure"),
        ("error", r#""code":"server_error""#, "failure"),
    ] {
        let data = format!(r#"{{"type":"{name}","sequence_number":1,{rest}}}"#);
        assert_eq!(roles(Shape::Responses, &sse(Some(name), &data)), role, "{data}");
    }
}

#[test]
fn anthropic_messages() {
    for (name, rest, role) in [
        ("message_start", r#""message":{"content":[],"usage":{"input_tokens":1}}"#, ""),
        ("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#, ""),
        ("ping", r#""x":0"#, ""),
        ("content_block_delta", r#""delta":{"type":"text_delta","text":"hi"}"#, "content"),
        ("content_block_delta", r#""delta":{"type":"input_json_delta","partial_json":"{"}"#, "content"),
        ("content_block_delta", r#""delta":{"type":"signature_delta","signature":"x"}"#, ""),
        ("message_delta", r#""delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}"#, "usage"),
        ("message_stop", r#""x":0"#, "end"),
        ("error", r#""error":{"type":"overloaded_error","message":"Overloaded"}"#, "failure"),
    ] {
        let data = format!(r#"{{"type":"{name}",{rest}}}"#);
        assert_eq!(roles(Shape::Anthropic, &sse(Some(name), &data)), role, "{data}");
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
        assert_eq!(roles(Shape::Gemini, &sse(None, data)), role, "{data}");
    }
    for (data, role) in [
        (r#"{"message":{"role":"assistant","content":"你"},"done":false}"#, "content"),
        (r#"{"response":"x","done":false}"#, "content"),
        (r#"{"message":{"content":""},"done":true,"eval_count":3}"#, "end"),
        (r#"{"error":"boom"}"#, "failure"),
    ] {
        assert_eq!(roles(Shape::Ollama, &Event::new(Framing::Ndjson, None, data.as_bytes())), role, "{data}");
    }
    for (data, role) in [
        (r#"{"type":"content-delta","delta":{"message":{"content":{"text":"x"}}}}"#, "content"),
        (r#"{"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{}}}"#, "end"),
        (r#"{"type":"message-end","delta":{"finish_reason":"ERROR","error":"boom"}}"#, "end failure"),
    ] {
        assert_eq!(roles(Shape::Cohere, &sse(None, data)), role, "{data}");
    }
}

#[test]
fn sse_34_what_is_no_event_has_no_role() {
    for raw in [": [DONE]\n", "data: [DONE]\n", "\n", "id: 1\n\n"] {
        assert_eq!(roles(Shape::OpenAi, &Event::from_raw(Framing::Sse, raw.into())), "");
    }
    assert_eq!(roles(Shape::OpenAi, &Event::from_raw(Framing::Sse, "data:[DONE]\r\n\r\n".into())), "end");
}

#[test]
fn the_shape_follows_the_request() {
    assert_eq!(Shape::of(Some(Dialect::Azure), Some(Operation::Chat)), Shape::OpenAi);
    assert_eq!(Shape::of(Some(Dialect::OpenAi), Some(Operation::Responses)), Shape::Responses);
    assert_eq!(Shape::of(Some(Dialect::Anthropic), None), Shape::Anthropic);
    assert_eq!(Shape::of(None, None), Shape::Unknown);
}
