//! Whatever comes in, an answer goes out.
use proptest::prelude::*;
use serde_json::Value;

use super::{qdrant::Qdrant, *};

/// Any JSON, with words that the APIs know sprinkled in.
pub(in super::super) fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "model",
        "messages",
        "role",
        "user",
        "content",
        "text",
        "tools",
        "function",
        "name",
        "type",
        "object",
        "properties",
        "items",
        "minItems",
        "$ref",
        "#",
        "#/properties",
        "anyOf",
        "required",
        "array",
        "string",
        "input",
        "max_tokens",
        "n",
        "stop",
        "tool_choice",
        "stream",
        "response_format",
        "vectors",
        "size",
        "distance",
        "Cosine",
        "points",
        "id",
        "vector",
        "payload",
        "filter",
        "must",
        "key",
        "match",
        "value",
        "query",
        "limit",
        "offset",
        "ids",
        "batch",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone().prop_map(str::to_owned), inner), 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// A good request with any of its members replaced, at most two deep.
fn nearly(good: Value) -> impl Strategy<Value = Value> {
    let places: Vec<String> = places(&good, "");
    (prop::sample::select(places), any_json()).prop_map(move |(place, odd)| {
        let mut request = good.clone();
        if let Some(member) = request.pointer_mut(&place) {
            *member = odd;
        }
        request
    })
}

fn places(value: &Value, here: &str) -> Vec<String> {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let inner = members.iter().flat_map(|(name, value)| places(value, &format!("{here}/{name}")));
    std::iter::once(here.to_owned()).chain(inner).collect()
}

fn chat() -> Value {
    json!({
        "model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "use it"}]}], "n": 2,
        "tools": [{"type": "function", "function": {"name": "it", "parameters": {"type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string"}}}}}}],
        "tool_choice": {"type": "function", "function": {"name": "it"}}, "stop": ["x"], "max_tokens": 5,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        "stream": true, "stream_options": {"include_usage": true}, "logprobs": true,
    })
}

fn responses() -> Value {
    json!({
        "model": "m", "input": [{"role": "user", "content": "use it"}], "instructions": "be brief",
        "tools": [{"type": "function", "name": "it", "parameters": {"type": "object"}}],
        "tool_choice": {"type": "function", "name": "it"}, "max_output_tokens": 5, "stream": true,
        "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    })
}

fn messages() -> Value {
    json!({
        "model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "be brief"}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}],
        "tools": [{"name": "it", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
        "stop_sequences": ["x"], "stream": true, "output_config": {"format": {"schema": {}}},
    })
}

fn contents() -> Value {
    json!({
        "contents": [
            {"role": "model", "parts": [{"functionCall": {"name": "it", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "it", "response": {"output": "ok"}}}]},
        ],
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "tools": [{"functionDeclarations": [{"name": "it", "parameters": {"type": "OBJECT"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["it"]}},
        "generationConfig": {"candidateCount": 2, "maxOutputTokens": 5, "stopSequences": ["x"], "responseSchema": {},
            "thinkingConfig": {"thinkingBudget": 1}},
    })
}

fn ollama() -> Value {
    json!({
        "model": "m", "messages": [{"role": "user", "content": "use it", "images": ["aaaa"]},
            {"role": "assistant", "tool_calls": [{"function": {"name": "it", "arguments": {}}}]},
            {"role": "tool", "tool_name": "it", "content": "ok"}],
        "tools": [{"type": "function", "function": {"name": "it", "parameters": {"type": "object"}}}],
        "format": {"type": "object"}, "options": {"num_predict": 5, "stop": ["x"]}, "think": true,
    })
}

/// A good body for each of Qdrant's routes.
fn qdrant() -> Vec<(&'static str, &'static str, Value)> {
    let filter = json!({
        "must": [{"key": "n", "range": {"gte": 1}}, {"key": "d", "range": {"lt": "2024-01-01"}}],
        "should": {"key": "n", "match": {"any": [1, 2]}}, "must_not": [{"has_id": [3]}, {"is_null": {"key": "n"}}],
    });
    let search = json!({
        "vector": [1.0, 2.0], "limit": 3, "offset": 0, "with_payload": {"include": ["n"]}, "with_vector": true,
        "filter": filter, "score_threshold": 0.1,
    });
    vec![
        ("PUT", "/collections/new", json!({"vectors": {"a": {"size": 2, "distance": "Dot"}}})),
        ("PUT", "/collections/c/index", json!({"field_name": "n", "field_schema": {"type": "integer"}})),
        (
            "PUT",
            "/collections/c/points",
            json!({"points": [{"id": 1, "vector": [1, 2], "payload": {"n": [1]}}]}),
        ),
        (
            "PUT",
            "/collections/c/points",
            json!({"batch": {"ids": [1], "vectors": [[1, 2]], "payloads": [{"n": 1}]}}),
        ),
        ("POST", "/collections/c/points", json!({"ids": [1], "with_payload": ["n"], "with_vector": ["a"]})),
        ("POST", "/collections/c/points/delete", json!({"filter": filter})),
        ("POST", "/collections/c/points/payload", json!({"payload": {"n": 2}, "points": [1]})),
        ("POST", "/collections/c/points/payload/delete", json!({"keys": ["n.m"], "filter": filter})),
        ("POST", "/collections/c/points/payload/clear", json!({"points": [1]})),
        ("POST", "/collections/c/points/count", json!({"filter": filter})),
        ("POST", "/collections/c/points/scroll", json!({"limit": 1, "offset": 1, "filter": filter})),
        ("POST", "/collections/c/points/search", search.clone()),
        ("POST", "/collections/c/points/search/batch", json!({"searches": [search]})),
        (
            "POST",
            "/collections/c/points/query",
            json!({"query": {"nearest": [1.0, 2.0]}, "using": "", "limit": 2}),
        ),
        ("POST", "/collections/c/points/query", json!({"query": 1, "filter": filter})),
    ]
}

fn nearly_qdrant() -> impl Strategy<Value = (&'static str, &'static str, Value)> {
    let of_route = |(method, path, good)| nearly(good).prop_map(move |body| (method, path, body)).boxed();
    prop::strategy::Union::new(qdrant().into_iter().map(of_route))
}

fn answered(url: &str, method: &str, path: &str, body: impl Into<Bytes>) -> u16 {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let response = send(url, method, path, body).await;
        let status = response.status().as_u16();
        bytes_of(response).await;
        status
    })
}

proptest! {
    #[test]
    fn any_json_is_answered_or_refused(body in any_json()) {
        for path in ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] {
            prop_assert!([200, 400].contains(&answered("sim://openai", "POST", path, body.to_string())));
        }
        for verb in ["generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents"] {
            let path = format!("/v1beta/models/m:{verb}");
            prop_assert!([200, 400].contains(&answered("sim://gemini", "POST", &path, body.to_string())));
        }
        for path in ["/api/chat", "/api/embed", "/api/show"] {
            prop_assert!([200, 400].contains(&answered("sim://ollama", "POST", path, body.to_string())));
        }
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            prop_assert!([200, 400].contains(&answered("sim://anthropic", "POST", path, body.to_string())));
        }
    }

    #[test]
    fn nearly_good_requests_are_answered_or_refused(
        chat in nearly(chat()), responses in nearly(responses()), messages in nearly(messages()),
        contents in nearly(contents()), ollama in nearly(ollama()),
    ) {
        for (url, path, body) in [
            ("sim://openai", "/v1/chat/completions", chat),
            ("sim://openai", "/v1/responses", responses),
            ("sim://anthropic", "/v1/messages", messages),
            ("sim://gemini", "/v1beta/models/m:streamGenerateContent", contents),
            ("sim://ollama", "/api/chat", ollama),
        ] {
            prop_assert!([200, 400].contains(&answered(url, "POST", path, body.to_string())), "{}", path);
        }
    }

    #[test]
    fn nearly_good_requests_to_qdrant_are_answered_or_refused(
        requests in prop::collection::vec(nearly_qdrant(), 1..8),
    ) {
        let qdrant = Qdrant::new();
        qdrant.send("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": "Cosine"}}));
        for (method, path, body) in requests {
            let (status, answer) = qdrant.send(method, path, &body);
            prop_assert!([200, 400, 404, 409, 422].contains(&status), "{} {} {}: {}", method, path, body, status);
            prop_assert!(answer["result"].is_null() != answer["status"]["error"].is_null(), "{}", answer);
        }
    }

    #[test]
    fn any_bytes_on_any_path_are_answered(
        body in prop::collection::vec(any::<u8>(), 0..64), path in "/[!-~&&[^#]]{0,20}", method in "[A-Z]{1,7}",
    ) {
        for url in provider::names().into_iter().map(|name| format!("sim://{name}")) {
            let Ok(_) = path.parse::<http::Uri>() else { continue };
            prop_assert!(answered(&url, &method, &path, body.clone()) < 500);
        }
    }
}
