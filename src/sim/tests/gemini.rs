//! `sim://gemini`.
use serde_json::Value;

use super::*;

const URL: &str = "sim://gemini";
const WHOLE: &str = "/v1beta/models/gemini-2.5-flash:generateContent?key=any";
const STREAM: &str = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse&key=any";

fn asked(prompt: &str) -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": prompt}]}]})
}

fn with_tool(prompt: &str) -> Value {
    let mut request = asked(prompt);
    // As the official SDK declares functions, in capitals.
    let schema = json!({"type": "OBJECT", "properties": {"city": {"type": "STRING", "enum": ["Oslo"]}}});
    request["tools"] = json!([{"functionDeclarations": [{"name": "get_weather", "parameters": schema}]}]);
    request
}

fn part(answer: &Value, place: &str) -> Value {
    answer.pointer(&format!("/candidates/0/content/parts/0/{place}")).cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_answer_whole() {
    let mut request = asked("hello");
    request["generationConfig"] = json!({"maxOutputTokens": 3});
    let answer = post(URL, WHOLE, request).await;
    let expected = json!({
        "candidates": [{
            "content": {"parts": [{"text": "You wrote:"}], "role": "model"}, "finishReason": "MAX_TOKENS", "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": 8, "candidatesTokenCount": 3, "totalTokenCount": 11,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": answer["responseId"],
    });
    assert_eq!(answer.to_string(), expected.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_the_whole_answer_and_says_at_its_end_why_it_ends() {
    let whole = post(URL, WHOLE, asked("hello")).await;
    let events = stream(URL, STREAM, asked("hello")).await;
    assert!(events.iter().all(|event| event.name.is_empty() && event.data != "[DONE]"));
    let chunks: Vec<_> = events.iter().map(Heard::json).collect();
    let text: String = chunks.iter().map(|chunk| part(chunk, "text").as_str().unwrap().to_owned()).collect();
    assert_eq!(part(&whole, "text"), text.as_str());
    let (last, before) = chunks.split_last().unwrap();
    assert!(
        before.len() > 10 && before.iter().all(|chunk| chunk.pointer("/candidates/0/finishReason").is_none())
    );
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"], whole["usageMetadata"]);
    assert!(chunks.iter().all(|chunk| chunk["responseId"] == last["responseId"]));
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_sse_is_an_array_that_comes_piece_by_piece() {
    let path = STREAM.replace("alt=sse&", "");
    let response = send(URL, "POST", &path, asked("hello").to_string()).await;
    assert_eq!(response.headers()["content-type"], "application/json; charset=UTF-8");
    let mut body = response.into_body();
    let (mut frames, mut bytes) = (0, Vec::new());
    while let Some(frame) = body.frame().await {
        frames += 1;
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let chunks: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(frames, chunks.len() + 1, "a chunk each, and the bracket");
    assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP");
}

#[tokio::test(start_paused = true)]
async fn a_named_function_is_called_and_its_response_repeated() {
    let whole = post(URL, WHOLE, with_tool("get_weather please")).await;
    let call = part(&whole, "functionCall");
    assert_eq!((&call["name"], &call["args"]), (&json!("get_weather"), &json!({"city": "Oslo"})));
    assert_eq!(whole["candidates"][0]["finishReason"], "STOP");

    let events = stream(URL, STREAM, with_tool("get_weather please")).await;
    assert_eq!(part(&events[0].json(), "functionCall/args"), json!({"city": "Oslo"}));

    let mut request = with_tool("get_weather please");
    let response = json!({"functionResponse": {"name": "get_weather", "response": {"output": "sunny"}}});
    request["contents"]
        .as_array_mut()
        .unwrap()
        .extend([whole["candidates"][0]["content"].clone(), json!({"role": "user", "parts": [response]})]);
    let answer = post(URL, WHOLE, request).await;
    let text = part(&answer, "text");
    assert!(text.as_str().unwrap().starts_with("The tool answered: \"sunny\"."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn tokens_embeddings_and_models() {
    let tokens = post(URL, "/v1beta/models/m:countTokens?key=any", asked("hello")).await;
    assert_eq!(tokens["totalTokens"], 8);
    let content = json!({"content": {"parts": [{"text": "a cat"}]}, "output_dimensionality": 8});
    let one = post(URL, "/v1beta/models/e:embedContent?key=any", content.clone()).await;
    assert_eq!(one["embedding"]["values"].as_array().unwrap().len(), 8);
    let many = post(URL, "/v1beta/models/e:batchEmbedContents?key=any", json!({"requests": [content]})).await;
    assert_eq!(many["embeddings"][0], one["embedding"]);
    let models = json_of(send(URL, "GET", "/v1beta/models?key=any", "").await).await;
    assert_eq!(models["models"][0]["name"], "models/gemini-2.5-pro");
}

#[tokio::test(start_paused = true)]
async fn errors_have_googles_shape() {
    for (path, body, status, name, message) in [
        (WHOLE, "{", 400, "INVALID_ARGUMENT", "Invalid JSON payload received. Unexpected token."),
        (
            WHOLE,
            "{}",
            400,
            "INVALID_ARGUMENT",
            "* GenerateContentRequest.contents: contents is not specified\n",
        ),
        (
            WHOLE,
            r#"{"contents":[{"role":"assistant","parts":[]}]}"#,
            400,
            "INVALID_ARGUMENT",
            "Please use a valid role: user, model.",
        ),
        ("/v1beta/models/m:predict?key=any", "{}", 404, "NOT_FOUND", "Requested entity was not found."),
    ] {
        let response = send(URL, "POST", path, body).await;
        assert_eq!(response.status(), status, "{path} {body}");
        let error = json!({"error": {"code": status, "message": message, "status": name}});
        assert_eq!(json_of(response).await, error, "{path} {body}");
    }
    let request = Request::post("/v1beta/models/m:generateContent").body(Full::new(Bytes::new())).unwrap();
    assert_eq!(Simulator::new(URL).unwrap().handle(request).await.status(), 403);
}
