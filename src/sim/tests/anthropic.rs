//! `sim://anthropic`, byte for byte where it matters.
use super::*;

const URL: &str = "sim://anthropic";
const MESSAGES: &str = "/v1/messages";

fn hello() -> serde_json::Value {
    json!({"model": "claude", "max_tokens": 1000, "messages": user("hello")})
}

fn with_tool(messages: &serde_json::Value) -> serde_json::Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}});
    json!({
        "model": "claude", "max_tokens": 1000, "messages": messages,
        "tools": [{"name": "get_weather", "input_schema": schema}],
    })
}

#[tokio::test(start_paused = true)]
async fn message_whole() {
    let mut request = hello();
    request["max_tokens"] = json!(2);
    request["system"] = json!("Be brief.");
    let answer = post(URL, MESSAGES, request.clone()).await;
    let expected = json!({
        "id": answer["id"], "type": "message", "role": "assistant", "model": "claude",
        "content": [{"type": "text", "text": "You wrote"}],
        "stop_reason": "max_tokens", "stop_sequence": null,
        "usage": {
            "input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 2, "service_tier": "standard",
        },
    });
    assert_eq!(answer.to_string(), expected.to_string());
    let count = post(URL, "/v1/messages/count_tokens", request).await;
    assert_eq!(count, json!({"input_tokens": 11}));
}

#[tokio::test(start_paused = true)]
async fn message_stream() {
    let mut request = hello();
    request["max_tokens"] = json!(1);
    let events = stream(URL, MESSAGES, request).await;
    let id = events[0].json()["message"]["id"].as_str().unwrap().to_owned();
    let start = format!(
        "{{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\
         \"model\":\"claude\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{{\
         \"input_tokens\":8,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\
         \"cache_creation\":{{\"ephemeral_5m_input_tokens\":0,\"ephemeral_1h_input_tokens\":0}},\
         \"output_tokens\":1,\"service_tier\":\"standard\"}}}}}}"
    );
    let expected = [
        ("message_start", start.as_str()),
        (
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
        ("ping", r#"{"type":"ping"}"#),
        (
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"You"}}"#,
        ),
        ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
        (
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":8,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}"#,
        ),
        ("message_stop", r#"{"type":"message_stop"}"#),
    ];
    let heard: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.data.as_str())).collect();
    assert_eq!(heard, expected);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_message_is_the_whole_message_in_more_than_ten_pieces() {
    for prompt in ["hello", "什么是流？"] {
        let request = json!({"model": "claude", "max_tokens": 1000, "messages": user(prompt)});
        let whole = post(URL, MESSAGES, request.clone()).await;
        let events = stream(URL, MESSAGES, request).await;
        let deltas = events.iter().filter(|event| event.name == "content_block_delta").map(Heard::json);
        let pieces: Vec<_> =
            deltas.map(|event| event["delta"]["text"].as_str().unwrap().to_owned()).collect();
        assert!(pieces.len() > 12);
        assert_eq!(pieces.concat(), whole["content"][0]["text"].as_str().unwrap());
        assert_eq!(whole["usage"]["output_tokens"], pieces.len());
        assert_eq!(whole["stop_reason"], "end_turn");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_sequence_is_named() {
    let mut request = hello();
    request["stop_sequences"] = json!(["one token", "simulated"]);
    let answer = post(URL, MESSAGES, request).await;
    assert_eq!(answer["content"][0]["text"], "You wrote: \"hello\". This is a ");
    assert_eq!(
        (&answer["stop_reason"], &answer["stop_sequence"]),
        (&json!("stop_sequence"), &json!("simulated"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_tool_is_used_and_its_result_repeated() {
    let asked = user("use get_weather");
    let whole = post(URL, MESSAGES, with_tool(&asked)).await;
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(
        whole["content"][0],
        json!({"type": "text", "text": "I will call get_weather to answer that."})
    );
    let used = &whole["content"][1];
    let expected =
        json!({"type": "tool_use", "id": used["id"], "name": "get_weather", "input": {"city": "Oslo"}});
    assert_eq!(*used, expected);

    let events = stream(URL, MESSAGES, with_tool(&asked)).await;
    let starts: Vec<_> =
        events.iter().filter(|event| event.name == "content_block_start").map(Heard::json).collect();
    assert_eq!(starts[1]["content_block"]["input"], json!({}));
    let parts = events
        .iter()
        .map(Heard::json)
        .filter_map(|event| Some(event.pointer("/delta/partial_json")?.as_str()?.to_owned()));
    assert_eq!(parts.collect::<String>(), "{\"city\":\"Oslo\"}");

    let messages = json!([
        asked[0],
        {"role": "assistant", "content": whole["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used["id"], "content": "sunny"}]},
    ]);
    let answer = post(URL, MESSAGES, with_tool(&messages)).await;
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("The tool answered: \"sunny\"."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn errors_have_anthropics_shape() {
    for (method, path, body, status, kind, message) in [
        ("GET", MESSAGES, "", 405, "invalid_request_error", "Method Not Allowed"),
        ("POST", "/v1/complete", "", 404, "not_found_error", "Not Found"),
        ("POST", MESSAGES, "{}", 400, "invalid_request_error", "model: Field required"),
        ("POST", MESSAGES, r#"{"model":"m"}"#, 400, "invalid_request_error", "messages: Field required"),
        (
            "POST",
            MESSAGES,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
            400,
            "invalid_request_error",
            "max_tokens: Field required",
        ),
        (
            "POST",
            MESSAGES,
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"x"}]}"#,
            400,
            "invalid_request_error",
            "messages.0.role: Input should be 'user' or 'assistant'",
        ),
    ] {
        let response = send(URL, method, path, body).await;
        assert_eq!(response.status(), status, "{method} {path} {body}");
        let id = response.headers()["request-id"].to_str().unwrap().to_owned();
        assert!(id.starts_with("req_"), "{id}");
        let expected =
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": id});
        assert_eq!(json_of(response).await, expected, "{method} {path} {body}");
    }
}

#[tokio::test(start_paused = true)]
async fn key_and_version_are_required() {
    for (header, status, message) in [
        (("x-api-key", "any"), 400, "anthropic-version: header is required"),
        (("anthropic-version", "2023-06-01"), 401, "x-api-key header is required"),
    ] {
        let request =
            Request::post(MESSAGES).header(header.0, header.1).body(Full::new(Bytes::new())).unwrap();
        let response = Simulator::new(URL).unwrap().handle(request).await;
        assert_eq!(response.status(), status);
        assert_eq!(json_of(response).await["error"]["message"], message);
    }
}

#[tokio::test(start_paused = true)]
async fn headers_and_models_are_anthropics() {
    let response = send(URL, "GET", "/v1/models", "").await;
    assert_eq!(response.headers()["anthropic-ratelimit-requests-limit"], "4000");
    assert_eq!(response.headers()["anthropic-ratelimit-output-tokens-reset"], "2026-01-01T00:00:00Z");
    let models = json_of(response).await;
    assert_eq!((&models["has_more"], &models["data"][0]["type"]), (&json!(false), &json!("model")));
}
