//! `/v1/messages` and `/v1/messages/count_tokens`.
use serde_json::{Value, json};

use super::{message::Message, refusal::Refusal};
use crate::sim::{
    address::Pace,
    answer::{Ask, Format, Tool, ToolChoice, plain_text},
    digest::Digest,
    fields::{FieldError, Fields, Kind, Problem},
    reply::Reply,
    text,
};

pub(super) fn answer(body: &Value, digest: Digest, pace: &Pace) -> Result<Reply, Refusal> {
    let request = Fields::root(body)?;
    let model = request.required_string("model")?.to_owned();
    let mut ask = read_ask(&request)?;
    request.require("max_tokens")?;
    ask.limit = request.integer("max_tokens", 1, u64::MAX)?;
    ask.length = pace.tokens;
    request.number("temperature", 0, 1)?;
    let streams = request.flag("stream")?;
    let message = Message { model, digest, answer: ask.answer(), input_tokens: input_tokens(&request)? };
    Ok(if streams { Reply::events(message.stream()) } else { Reply::generated(&message.whole()) })
}

/// Tokens of the same request's input, as its answer's usage would say.
pub(super) fn count(body: &Value) -> Result<u64, Refusal> {
    let request = Fields::root(body)?;
    request.required_string("model")?;
    read_ask(&request)?;
    Ok(input_tokens(&request)?)
}

fn read_ask(request: &Fields<'_>) -> Result<Ask, FieldError> {
    let mut ask = Ask { talks_first: true, ..Ask::default() };
    request.require("messages")?;
    let messages = request.objects("messages")?;
    if messages.is_empty() {
        return Err(request.error("messages", Problem::Empty));
    }
    for message in messages {
        let content = message.require("content")?;
        ask.tool_result = None;
        match message.required_string("role")? {
            "user" => {
                ask.tool_result = tool_result(content);
                let said = plain_text(content);
                // A message that brings nothing but a tool's result is not a new question.
                if ask.tool_result.is_none() || !said.is_empty() {
                    ask.prompt = said;
                }
            }
            "assistant" => {}
            other => {
                let problem = Problem::NotOneOf { possible: &["user", "assistant"], got: other.to_owned() };
                return Err(message.error("role", problem));
            }
        }
    }
    for tool in request.objects("tools")? {
        // Without a schema it is one of the provider's own tools, which runs on its side.
        if let Some(schema) = tool.get("input_schema") {
            ask.tools.push(Tool { name: tool.required_string("name")?.to_owned(), schema: schema.clone() });
        }
    }
    if let Some(choice) = request.object("tool_choice")? {
        ask.choice = tool_choice(&choice, &ask.tools)?;
        ask.one_tool = choice.flag("disable_parallel_tool_use")?;
    }
    if let Some(config) =
        request.object("output_config")?.map(|config| config.object("format")).transpose()?.flatten()
    {
        ask.format = Format::Schema(config.require("schema")?.clone());
    }
    ask.stop = stop_sequences(request)?;
    Ok(ask)
}

fn tool_choice(choice: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, FieldError> {
    const TYPES: &[&str] = &["auto", "any", "tool", "none"];
    match choice.required_string("type")? {
        "auto" => Ok(ToolChoice::Auto),
        "any" => Ok(ToolChoice::Any),
        "none" => Ok(ToolChoice::Never),
        "tool" => {
            let name = choice.required_string("name")?.to_owned();
            if tools.iter().any(|tool| tool.name == name) {
                Ok(ToolChoice::Named(name))
            } else {
                Err(choice.error("name", Problem::NoSuchTool(name)))
            }
        }
        other => Err(choice.error("type", Problem::NotOneOf { possible: TYPES, got: other.to_owned() })),
    }
}

fn stop_sequences(request: &Fields<'_>) -> Result<Vec<String>, FieldError> {
    let wrong = || request.wrong_type("stop_sequences", Kind::Array);
    let Some(stop) = request.get("stop_sequences") else { return Ok(Vec::new()) };
    let texts = stop.as_array().ok_or_else(wrong)?.iter().map(|text| text.as_str().map(str::to_owned));
    let texts: Vec<_> = texts.collect::<Option<_>>().ok_or_else(wrong)?;
    Ok(texts.into_iter().filter(|text| !text.trim().is_empty()).collect())
}

/// What the last tool result in a message says.
fn tool_result(content: &Value) -> Option<String> {
    let blocks = content.as_array()?;
    let result = blocks.iter().rev().find(|block| block.get("type") == Some(&json!("tool_result")))?;
    Some(result.get("content").map(plain_text).unwrap_or_default())
}

/// Plausible, and the same for the same messages: a few tokens of frame around each message, and the tools.
fn input_tokens(request: &Fields<'_>) -> Result<u64, FieldError> {
    let of_content = |content: &Value| {
        text::count(&plain_text(content)) + tool_result(content).map_or(0, |result| text::count(&result))
    };
    let messages = request.objects("messages")?;
    let messages: u64 = messages.iter().map(|message| 4 + message.get("content").map_or(0, of_content)).sum();
    let system = request.get("system").map_or(0, of_content);
    let tools = request.get("tools").map_or(0, |tools| text::count(&tools.to_string()));
    Ok(3 + messages + system + tools)
}
