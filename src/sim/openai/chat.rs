//! `/v1/chat/completions`.
use serde_json::{Value, json};

use super::{completion::Completion, refusal::Refusal};
use crate::sim::{
    address::Pace,
    answer::{Ask, Format, Tool, ToolChoice, plain_text},
    digest::Digest,
    fields::{FieldError, Fields, Kind, Problem},
    reply::Reply,
    text,
};

const ROLES: &[&str] = &["system", "assistant", "user", "function", "tool", "developer"];

pub(super) fn answer(body: &Value, digest: Digest, pace: &Pace) -> Result<Reply, Refusal> {
    let request = Fields::root(body)?;
    let model = request.required_string("model")?.to_owned();
    request.require("messages")?;
    let messages = request.objects("messages")?;
    if messages.is_empty() {
        return Err(request.error("messages", Problem::Empty).into());
    }
    let ask = read_ask(&request, &messages, pace)?;
    request.number("temperature", 0, 2)?;
    request.number("top_p", 0, 1)?;
    let choices = request.integer("n", 1, 128)?.unwrap_or(1) as usize;
    let logprobs = request.flag("logprobs")?;
    let streams = request.flag("stream")?;
    let with_usage = match request.object("stream_options")? {
        Some(options) => options.flag("include_usage")?,
        None => false,
    };

    let of_choice = |ask: &mut Ask, variant| {
        ask.variant = variant;
        Some(ask.answer())
    };
    let answers = (0..choices).scan(ask, of_choice).collect();
    let prompt_tokens = prompt_tokens(&request, &messages);
    let completion = Completion { model, digest, answers, prompt_tokens, logprobs };
    Ok(if streams {
        Reply::events(completion.stream(with_usage))
    } else {
        Reply::generated(&completion.whole())
    })
}

fn read_ask(request: &Fields<'_>, messages: &[Fields<'_>], pace: &Pace) -> Result<Ask, FieldError> {
    let mut ask = Ask { length: pace.tokens, ..Ask::default() };
    for message in messages {
        let role = message.required_string("role")?;
        if !ROLES.contains(&role) {
            return Err(message.error("role", Problem::NotOneOf { possible: ROLES, got: role.to_owned() }));
        }
        let content = message.get("content").map(plain_text).unwrap_or_default();
        ask.tool_result = (role == "tool").then(|| content.clone());
        if role == "user" {
            ask.prompt = content;
        }
    }
    for tool in request.objects("tools")? {
        if let Some(function) = tool.object("function")? {
            let schema = function.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
            ask.tools.push(Tool { name: function.required_string("name")?.to_owned(), schema });
        }
    }
    ask.choice = tool_choice(request, &ask.tools, |choice| {
        choice.object("function")?.map(|function| function.required_string("name")).transpose()
    })?;
    ask.one_tool = request.get("parallel_tool_calls") == Some(&Value::Bool(false));
    ask.stop = stop(request)?;
    ask.limit = request.integer("max_completion_tokens", 1, u64::MAX)?.or(request.integer(
        "max_tokens",
        1,
        u64::MAX,
    )?);
    ask.format = match request.object("response_format")? {
        Some(format) => match format.required_string("type")? {
            "json_object" => Format::Json,
            "json_schema" => {
                let schema = format.object("json_schema")?.and_then(|schema| schema.get("schema"));
                Format::Schema(schema.cloned().unwrap_or_else(|| json!({"type": "object"})))
            }
            _ => Format::Text,
        },
        None => Format::Text,
    };
    Ok(ask)
}

/// `none`, `auto`, `required`, or an object in which `name` finds the tool.
pub(super) fn tool_choice<'a>(
    request: &Fields<'a>,
    tools: &[Tool],
    name: impl Fn(&Fields<'a>) -> Result<Option<&'a str>, FieldError>,
) -> Result<ToolChoice, FieldError> {
    const WORDS: &[&str] = &["none", "auto", "required"];
    match request.get("tool_choice") {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "none" => Ok(ToolChoice::Never),
            "auto" => Ok(ToolChoice::Auto),
            "required" => Ok(ToolChoice::Any),
            _ => Err(request.error("tool_choice", Problem::NotOneOf { possible: WORDS, got: word.clone() })),
        },
        Some(_) => {
            let choice = request.object("tool_choice")?;
            match choice.as_ref().map(name).transpose()?.flatten() {
                None => Ok(ToolChoice::Auto),
                Some(name) if tools.iter().any(|tool| tool.name == name) => {
                    Ok(ToolChoice::Named(name.to_owned()))
                }
                Some(name) => Err(request.error("tool_choice", Problem::NoSuchTool(name.to_owned()))),
            }
        }
    }
}

fn stop(request: &Fields<'_>) -> Result<Vec<String>, FieldError> {
    let wrong = || request.wrong_type("stop", Kind::Array);
    let texts = match request.get("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(texts)) => {
            let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// Plausible, and the same for the same messages: a few tokens of frame around each message, and the tools.
fn prompt_tokens(request: &Fields<'_>, messages: &[Fields<'_>]) -> u64 {
    let of_message = |message: &Fields<'_>| {
        4 + message.get("content").map_or(0, |content| text::count(&plain_text(content)))
    };
    let tools = request.get("tools").map_or(0, |tools| text::count(&tools.to_string()));
    3 + messages.iter().map(of_message).sum::<u64>() + tools
}
