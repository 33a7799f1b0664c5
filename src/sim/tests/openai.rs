//! `sim://openai`, byte for byte where it matters.
use serde_json::Value;

use super::*;

const URL: &str = "sim://openai";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

fn weather() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}, "required": ["city"]})
}

fn contents(events: &[Heard]) -> Vec<String> {
    let deltas = events.iter().filter(|event| event.data != "[DONE]").map(Heard::json);
    deltas
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/content")?.as_str().map(str::to_owned))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn chat_whole() {
    let answer =
        post(URL, CHAT, json!({"model": "gpt-4o", "messages": user("hello"), "max_tokens": 3})).await;
    let expected = json!({
        "id": answer["id"], "object": "chat.completion", "created": 1_767_225_600, "model": "gpt-4o",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "You wrote:", "refusal": null, "annotations": []},
            "logprobs": null,
            "finish_reason": "length",
        }],
        "usage": {
            "prompt_tokens": 8, "completion_tokens": 3, "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": answer["system_fingerprint"],
    });
    assert_eq!(answer.to_string(), expected.to_string());
    assert_eq!(answer["id"].as_str().unwrap().len(), "chatcmpl-".len() + 29);
}

#[tokio::test(start_paused = true)]
async fn chat_stream() {
    let request = json!({"model": "gpt-4o", "messages": user("hello"), "max_tokens": 1});
    let events = stream(URL, CHAT, request).await;
    let id = events[0].json()["id"].as_str().unwrap().to_owned();
    let print = events[0].json()["system_fingerprint"].as_str().unwrap().to_owned();
    let frame = format!(
        "{{\"id\":\"{id}\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"gpt-4o\",\
         \"service_tier\":\"default\",\"system_fingerprint\":\"{print}\",\"choices\":[{{\"index\":0,\"delta\":"
    );
    let data: Vec<_> =
        events.iter().map(|event| event.data.strip_prefix(&frame).unwrap_or(&event.data)).collect();
    assert_eq!(
        data,
        [
            r#"{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}"#,
            r#"{"content":"You"},"logprobs":null,"finish_reason":null}]}"#,
            r#"{},"logprobs":null,"finish_reason":"length"}]}"#,
            "[DONE]",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_is_the_whole_answer_in_more_than_ten_pieces() {
    for prompt in ["hello", "什么是流？", "", "猫は何ですか"] {
        let request =
            json!({"model": "m", "messages": user(prompt), "stream_options": {"include_usage": true}});
        let whole = post(URL, CHAT, request.clone()).await;
        let events = stream(URL, CHAT, request).await;
        let pieces = contents(&events);
        assert!(pieces.len() > 12, "{pieces:?}");
        assert_eq!(pieces.concat(), whole["choices"][0]["message"]["content"].as_str().unwrap());
        let usage = events[events.len() - 2].json();
        assert_eq!((&usage["choices"], &usage["usage"]), (&json!([]), &whole["usage"]));
        assert_eq!(whole["usage"]["completion_tokens"], pieces.len() - 1, "the first piece is empty");
        assert!(events[..events.len() - 2].iter().all(|event| event.json()["usage"].is_null()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_request_gets_the_same_bytes() {
    for streams in [true, false] {
        let body = |prompt| json!({"model": "m", "messages": user(prompt), "stream": streams}).to_string();
        let first = send(URL, "POST", CHAT, body("hello")).await;
        let second = send(URL, "POST", CHAT, body("hello")).await;
        assert_eq!(first.headers(), second.headers());
        let other = bytes_of(send(URL, "POST", CHAT, body("hullo")).await).await;
        let first = bytes_of(first).await;
        assert_eq!(first, bytes_of(second).await);
        assert_ne!(first, other);
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_tool_is_called() {
    let request = json!({
        "model": "m",
        "messages": user("get_weather please"),
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": weather()}}],
    });
    let whole = post(URL, CHAT, request.clone()).await;
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["function"], json!({"name": "get_weather", "arguments": "{\"city\":\"Oslo\"}"}));

    let events = stream(URL, CHAT, request).await;
    let deltas: Vec<_> = events.iter().filter(|event| event.data != "[DONE]").map(Heard::json).collect();
    let calls: Vec<_> =
        deltas.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0")).collect();
    let start = json!({
        "index": 0, "id": calls[0]["id"], "type": "function", "function": {"name": "get_weather", "arguments": ""},
    });
    assert_eq!(*calls[0], start);
    assert!(calls[0]["id"].as_str().unwrap().starts_with("call_"));
    assert!(calls[1..].iter().all(|call| call.get("id").is_none() && call["function"].get("name").is_none()));
    let arguments = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap());
    assert_eq!(arguments.collect::<String>(), "{\"city\":\"Oslo\"}");
}

#[tokio::test(start_paused = true)]
async fn choices_stops_formats_and_logprobs() {
    let three = json!({"model": "m", "messages": user("hello"), "n": 3});
    let whole = post(URL, CHAT, three.clone()).await;
    let texts: Vec<_> = (0..3).map(|n| whole["choices"][n]["message"]["content"].clone()).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    let events = stream(URL, CHAT, three).await;
    for (n, text) in texts.iter().enumerate() {
        let chunks = events.iter().filter(|event| event.data != "[DONE]").map(Heard::json);
        let of_choice = chunks.filter(|chunk| chunk["choices"][0]["index"] == n);
        let heard: String = of_choice
            .filter_map(|chunk| Some(chunk.pointer("/choices/0/delta/content")?.as_str()?.to_owned()))
            .collect();
        assert_eq!(heard, text.as_str().unwrap());
    }

    let stopped =
        post(URL, CHAT, json!({"model": "m", "messages": user("hello"), "stop": "simulated"})).await;
    assert_eq!(stopped["choices"][0]["message"]["content"], "You wrote: \"hello\". This is a ");
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");

    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": weather()}});
    let shaped =
        post(URL, CHAT, json!({"model": "m", "messages": user("hello"), "response_format": format})).await;
    assert_eq!(shaped["choices"][0]["message"]["content"], "{\"city\":\"Oslo\"}");

    let sure =
        post(URL, CHAT, json!({"model": "m", "messages": user("hello"), "logprobs": true, "max_tokens": 1}))
            .await;
    let expected = json!([{"token": "You", "logprob": -0.125, "bytes": [89, 111, 117], "top_logprobs": []}]);
    assert_eq!(sure["choices"][0]["logprobs"]["content"], expected);
}

#[tokio::test(start_paused = true)]
async fn responses_events_in_their_order() {
    let request = json!({"model": "gpt-4o", "input": "hello"});
    let events = stream(URL, RESPONSES, request.clone()).await;
    let mut names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.json()["sequence_number"], number);
        assert_eq!(event.json()["type"], event.name);
    }
    let deltas = names.iter().filter(|name| **name == "response.output_text.delta").count();
    assert!(deltas > 10);
    names.dedup();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let mut whole = post(URL, RESPONSES, request).await;
    let last = events.last().unwrap().json()["response"].clone();
    assert_eq!(last["usage"]["output_tokens"], deltas);
    // Ids derive from the whole request, and one of the two asks for a stream.
    whole["id"] = last["id"].clone();
    whole["output"][0]["id"] = last["output"][0]["id"].clone();
    assert_eq!(last, whole);
}

#[tokio::test(start_paused = true)]
async fn a_response_cut_by_its_limit_is_incomplete() {
    let request = json!({"model": "m", "input": "hello", "max_output_tokens": 2, "metadata": {"a": "b"}});
    let events = stream(URL, RESPONSES, request).await;
    let last = events.last().unwrap();
    assert_eq!(last.name, "response.incomplete");
    let response = &last.json()["response"];
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["output"][0]["content"][0]["text"], "You wrote");
    assert_eq!((&response["max_output_tokens"], &response["metadata"]), (&json!(2), &json!({"a": "b"})));
}

#[tokio::test(start_paused = true)]
async fn a_response_calls_a_tool_and_then_repeats_its_output() {
    let tools = json!([{"type": "function", "name": "get_weather", "parameters": weather()}]);
    let ask = json!({"role": "user", "content": [{"type": "input_text", "text": "get_weather"}]});
    let events = stream(URL, RESPONSES, json!({"model": "m", "input": [ask], "tools": tools})).await;
    let mut names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    names.dedup();
    assert_eq!(
        names[2..],
        [
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let call = events.last().unwrap().json()["response"]["output"][0].clone();
    assert_eq!((&call["type"], &call["arguments"]), (&json!("function_call"), &json!("{\"city\":\"Oslo\"}")));
    let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"});
    let answer =
        post(URL, RESPONSES, json!({"model": "m", "input": [ask, call, output], "tools": tools})).await;
    let text = answer["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("The tool answered: \"sunny\"."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn embeddings_as_floats_and_base64() {
    let ask = |format: &str| json!({"model": "text-embedding-3-small", "input": ["a cat", "a dog"], "dimensions": 8, "encoding_format": format});
    let floats = post(URL, "/v1/embeddings", ask("float")).await;
    let base64 = post(URL, "/v1/embeddings", ask("base64")).await;
    assert_eq!(floats["usage"], json!({"prompt_tokens": 4, "total_tokens": 4}));
    for n in 0..2 {
        use base64::Engine as _;
        let text = base64["data"][n]["embedding"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let decoded: Vec<f32> =
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        let given: Vec<f32> = serde_json::from_value(floats["data"][n]["embedding"].clone()).unwrap();
        assert_eq!((decoded.len(), &decoded), (8, &given));
        assert_eq!(floats["data"][n]["index"], n);
    }
    let plain =
        post(URL, "/v1/embeddings", json!({"model": "text-embedding-3-large", "input": [1, 2, 3]})).await;
    assert_eq!(plain["data"][0]["embedding"].as_array().unwrap().len(), 3_072);
}

#[tokio::test(start_paused = true)]
async fn errors_have_openais_shape() {
    let bad = |message: &str, param: Value, code: Value| json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}});
    for (method, path, body, status, error) in [
        (
            "GET",
            "/v1/chat/completions",
            "",
            405,
            bad(
                "Not allowed to GET on /v1/chat/completions (HINT: Perhaps you meant to use a different HTTP method?)",
                Value::Null,
                json!("method_not_supported"),
            ),
        ),
        ("POST", "/v1/nothing", "", 404, bad("Invalid URL (POST /v1/nothing)", Value::Null, Value::Null)),
        ("POST", CHAT, "{}", 400, bad("you must provide a model parameter", Value::Null, Value::Null)),
        (
            "POST",
            CHAT,
            r#"{"model":"m"}"#,
            400,
            bad(
                "Missing required parameter: 'messages'.",
                json!("messages"),
                json!("missing_required_parameter"),
            ),
        ),
        (
            "POST",
            CHAT,
            r#"{"model":"m","messages":"x"}"#,
            400,
            bad(
                "Invalid type for 'messages': expected an array, but got a string instead.",
                json!("messages"),
                json!("invalid_type"),
            ),
        ),
        (
            "POST",
            CHAT,
            r#"{"model":"m","messages":[{"content":"x"}]}"#,
            400,
            bad(
                "Missing required parameter: 'messages[0].role'.",
                json!("messages[0].role"),
                json!("missing_required_parameter"),
            ),
        ),
        (
            "POST",
            CHAT,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":2.5}"#,
            400,
            bad(
                "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5 instead.",
                json!("temperature"),
                json!("decimal_above_max_value"),
            ),
        ),
        (
            "POST",
            CHAT,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}"#,
            400,
            bad(
                "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 instead.",
                json!("max_tokens"),
                json!("integer_below_min_value"),
            ),
        ),
        (
            "POST",
            RESPONSES,
            r#"{"model":"m"}"#,
            400,
            bad("Missing required parameter: 'input'.", json!("input"), json!("missing_required_parameter")),
        ),
        (
            "POST",
            "/v1/embeddings",
            r#"{"model":"m","input":[]}"#,
            400,
            bad(
                "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.",
                Value::Null,
                Value::Null,
            ),
        ),
    ] {
        let response = send(URL, method, path, body).await;
        assert_eq!(response.status(), status, "{method} {path} {body}");
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(json_of(response).await, error, "{method} {path} {body}");
    }
    let not_json = send(URL, "POST", CHAT, "{\"model\":").await;
    assert_eq!(not_json.status(), 400);
    let request = Request::post(CHAT).body(Full::new(Bytes::new())).unwrap();
    let no_key = Simulator::new(URL).unwrap().handle(request).await;
    assert_eq!(no_key.status(), 401);
}

#[tokio::test(start_paused = true)]
async fn headers_are_openais() {
    let response = send(URL, "GET", "/v1/models", "").await;
    for name in ["openai-processing-ms", "openai-version", "x-ratelimit-remaining-tokens", "content-length"] {
        assert!(response.headers().contains_key(name), "{name}");
    }
    assert!(response.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
    let models = json_of(response).await;
    assert_eq!(
        models["data"][0],
        json!({"id": "gpt-4o", "object": "model", "created": 1_767_225_600, "owned_by": "system"})
    );
    let one = json_of(send(URL, "GET", "/v1/models/some%2Fmodel", "").await).await;
    assert_eq!(one["id"], "some/model");
}
