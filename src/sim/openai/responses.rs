//! `/v1/responses`.
use serde_json::{Value, json};

use super::{chat::tool_choice, refusal::Refusal, response::Response};
use crate::sim::{
    address::Pace,
    answer::{Ask, Format, Tool, plain_text},
    digest::Digest,
    fields::{FieldError, Fields, Kind, Problem},
    reply::Reply,
    text,
};

pub(super) fn answer(body: &Value, digest: Digest, pace: &Pace) -> Result<Reply, Refusal> {
    let request = Fields::root(body)?;
    let model = request.required_string("model")?.to_owned();
    let ask = read_ask(&request, pace)?;
    request.number("temperature", 0, 2)?;
    request.number("top_p", 0, 1)?;
    let streams = request.flag("stream")?;
    let response = Response::new(model, digest, ask.answer(), input_tokens(&request), echoed(&request));
    Ok(if streams { Reply::events(response.stream()) } else { Reply::generated(&response.whole()) })
}

fn read_ask(request: &Fields<'_>, pace: &Pace) -> Result<Ask, FieldError> {
    let mut ask = Ask { length: pace.tokens, ..Ask::default() };
    match request.require("input")? {
        Value::String(prompt) => ask.prompt = prompt.clone(),
        Value::Array(items) if items.is_empty() => return Err(request.error("input", Problem::Empty)),
        Value::Array(_) => read_items(&mut ask, request.objects("input")?)?,
        _ => return Err(request.wrong_type("input", Kind::String)),
    }
    for tool in request.objects("tools")? {
        if tool.required_string("type")? == "function" {
            let schema = tool.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
            ask.tools.push(Tool { name: tool.required_string("name")?.to_owned(), schema });
        }
    }
    ask.choice = tool_choice(request, &ask.tools, |choice| choice.string("name"))?;
    ask.one_tool = request.get("parallel_tool_calls") == Some(&Value::Bool(false));
    ask.limit = request.integer("max_output_tokens", 1, u64::MAX)?;
    if let Some(format) = request.object("text")?.map(|text| text.object("format")).transpose()?.flatten() {
        ask.format = match format.required_string("type")? {
            "json_object" => Format::Json,
            "json_schema" => Format::Schema(format.require("schema")?.clone()),
            _ => Format::Text,
        };
    }
    Ok(ask)
}

fn read_items(ask: &mut Ask, items: Vec<Fields<'_>>) -> Result<(), FieldError> {
    for item in items {
        let output = item.get("output").filter(|_| item.get("type") == Some(&json!("function_call_output")));
        ask.tool_result = output.map(plain_text);
        if item.string("role")? == Some("user") {
            ask.prompt = item.get("content").map(plain_text).unwrap_or_default();
        }
    }
    Ok(())
}

/// Plausible, and the same for the same input: a few tokens of frame around each item, and the tools.
fn input_tokens(request: &Fields<'_>) -> u64 {
    let of_text = |value: &Value| 4 + text::count(&plain_text(value));
    let of_item =
        |item: &Value| ["content", "output"].iter().find_map(|key| item.get(key)).map_or(4, of_text);
    let input = match request.get("input") {
        Some(Value::Array(items)) => items.iter().map(of_item).sum(),
        Some(input) => of_text(input),
        None => 0,
    };
    let instructions = request.get("instructions").map_or(0, of_text);
    let tools = request.get("tools").map_or(0, |tools| text::count(&tools.to_string()));
    3 + input + instructions + tools
}

/// What the response says of the request, with the defaults of what the request left out.
fn echoed(request: &Fields<'_>) -> Value {
    let mut echoed = json!({
        "background": false,
        "instructions": null,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "prompt_cache_key": null,
        "reasoning": {"effort": null, "summary": null},
        "safety_identifier": null,
        "store": true,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "user": null,
    });
    for (name, value) in echoed.as_object_mut().into_iter().flatten() {
        if let Some(given) = request.get(name) {
            *value = given.clone();
        }
    }
    echoed
}
