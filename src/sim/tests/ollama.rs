//! `sim://ollama`.
use serde_json::Value;

use super::*;

const URL: &str = "sim://ollama";
const CHAT: &str = "/api/chat";

fn with_tool(prompt: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}});
    json!({
        "model": "llama3.2", "messages": user(prompt), "stream": false,
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}],
    })
}

async fn lines(mut body: Value) -> Vec<Value> {
    body["stream"] = json!(true);
    let response = send(URL, "POST", CHAT, body.to_string()).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let bytes = bytes_of(response).await;
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.ends_with("}\n"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_answer_whole() {
    let options = json!({"num_predict": 3});
    let request =
        json!({"model": "llama3.2", "messages": user("hello"), "stream": false, "options": options});
    let answer = post(URL, CHAT, request).await;
    let expected = json!({
        "model": "llama3.2", "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "You wrote:"},
        "done_reason": "length", "done": true, "prompt_eval_count": 8, "eval_count": 3,
    });
    assert_eq!(answer.to_string(), expected.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_the_whole_answer_and_the_default() {
    let request = json!({"model": "llama3.2", "messages": user("hello"), "stream": false});
    let whole = post(URL, CHAT, request.clone()).await;
    let lines = lines(request).await;
    let text: String =
        lines.iter().map(|line| line["message"]["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(whole["message"]["content"], text.as_str());
    let (last, before) = lines.split_last().unwrap();
    assert!(before.len() > 10 && before.iter().all(|line| line["done"] == false));
    assert_eq!(
        (&last["done"], &last["done_reason"], &last["eval_count"]),
        (&json!(true), &json!("stop"), &whole["eval_count"])
    );
    let unasked = json!({"model": "llama3.2", "messages": user("hello")}).to_string();
    let response = send(URL, "POST", CHAT, unasked).await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
}

#[tokio::test(start_paused = true)]
async fn a_named_tool_is_called_and_its_result_repeated() {
    let whole = post(URL, CHAT, with_tool("get_weather please")).await;
    let call = &whole["message"]["tool_calls"][0]["function"];
    assert_eq!(*call, json!({"index": 0, "name": "get_weather", "arguments": {"city": "Oslo"}}));
    let lines = lines(with_tool("get_weather please")).await;
    assert_eq!(lines[0]["message"]["tool_calls"][0]["function"], *call);

    let mut request = with_tool("get_weather please");
    request["messages"].as_array_mut().unwrap().extend([
        whole["message"].clone(),
        json!({"role": "tool", "tool_name": "get_weather", "content": "sunny"}),
    ]);
    let answer = post(URL, CHAT, request).await;
    let text = answer["message"]["content"].as_str().unwrap();
    assert!(text.starts_with("The tool answered: \"sunny\"."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn embeddings_and_models() {
    let vectors = post(URL, "/api/embed", json!({"model": "e", "input": ["a cat", "a dog"]})).await;
    assert_eq!(vectors["embeddings"].as_array().unwrap().len(), 2);
    assert_eq!(vectors["embeddings"][0].as_array().unwrap().len(), 768);
    assert_eq!(vectors["prompt_eval_count"], 4);
    let models = json_of(send(URL, "GET", "/api/tags", "").await).await;
    assert_eq!(models["models"][0]["name"], "llama3.2:latest");
    let shown = post(URL, "/api/show", json!({"model": "any"})).await;
    assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
}

#[tokio::test(start_paused = true)]
async fn errors_have_ollamas_shape() {
    for (body, message) in [
        ("{}", "model is required"),
        (
            r#"{"model":"m","messages":"x"}"#,
            "json: cannot unmarshal a string into Go struct field ChatRequest.messages",
        ),
    ] {
        let response = send(URL, "POST", CHAT, body).await;
        assert_eq!(response.status(), 400);
        assert_eq!(json_of(response).await, json!({"error": message}));
    }
    assert_eq!(send(URL, "GET", "/api/nothing", "").await.status(), 404);
    assert_eq!(send(URL, "GET", CHAT, "").await.status(), 405);
}
