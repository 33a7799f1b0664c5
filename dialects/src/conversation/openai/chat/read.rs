//! Reading a request.

use crate::conversation::{
    Field, FieldError, Fields, Format, Json, Kind, Media, MediaKind, MediaSource, Part, Problem, Reasoning,
    ReasoningRequest, Request, Role, Sampling, Tool, ToolCall, ToolResult, Turn, Unmapped, fields::parse,
    openai::read_tool_choice,
};

const ROLES: &[&str] = &["system", "assistant", "user", "function", "tool", "developer"];

pub(super) fn request(body: &[u8]) -> Result<Request, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut unmapped = Vec::new();
    let model = fields.required_string("model")?;
    fields.require("messages")?;
    let messages = fields.objects("messages")?;
    if messages.is_empty() {
        return Err(fields.error("messages", Problem::Empty));
    }
    let turns = turns(&messages, &mut unmapped)?;
    let tools = fields.objects("tools")?;
    let tools = tools
        .iter()
        .filter_map(|fields| tool(fields, &mut unmapped).transpose())
        .collect::<Result<_, _>>()?;
    let (tool_choice, other_choice) = read_tool_choice(&fields, |choice| {
        choice.object("function")?.map(|function| function.required_string("name")).transpose()
    })?;
    unmapped.extend(other_choice);
    let stream_usage = match fields.object("stream_options")? {
        Some(options) => {
            let usage = options.flag("include_usage")?.unwrap_or(false);
            unmapped.extend(options.rest());
            usage
        }
        None => false,
    };
    let effort = fields.string("reasoning_effort")?;
    let limit = |name| fields.integer(name, 1, u64::MAX);
    let mut request = Request {
        model,
        turns,
        tools,
        tool_choice,
        parallel_tools: fields.flag("parallel_tool_calls")?,
        format: format(&fields, &mut unmapped)?,
        sampling: sampling(&fields)?,
        reasoning: effort
            .map(|effort| ReasoningRequest { effort: Some(effort), ..ReasoningRequest::default() }),
        max_tokens: limit("max_completion_tokens")?.or(limit("max_tokens")?),
        stop: stop(&fields)?,
        stream: fields.flag("stream")?.unwrap_or(false),
        stream_usage,
        user: fields.string("user")?,
        metadata: fields.get("metadata").map(|field| field.json()),
        echo: Vec::new(),
        unmapped,
    };
    request.unmapped.extend(fields.rest());
    Ok(request)
}

fn sampling(fields: &Fields<'_>) -> Result<Sampling, FieldError> {
    Ok(Sampling {
        temperature: fields.float("temperature")?,
        top_p: fields.float("top_p")?,
        // Not OpenAI's, but vLLM's and others'.
        top_k: fields.integer("top_k", 0, u64::MAX)?,
        presence_penalty: fields.float("presence_penalty")?,
        frequency_penalty: fields.float("frequency_penalty")?,
        seed: fields.signed("seed")?,
        choices: fields.integer("n", 1, u64::MAX)?,
        logprobs: fields.flag("logprobs")?,
        top_logprobs: fields.integer("top_logprobs", 0, u64::MAX)?,
    })
}

/// Messages of tools that follow each other are one turn.
fn turns(messages: &[Fields<'_>], unmapped: &mut Vec<Unmapped>) -> Result<Vec<Turn>, FieldError> {
    let mut turns: Vec<Turn> = Vec::with_capacity(messages.len());
    for message in messages {
        let turn = turn(message, unmapped)?;
        match turns.last_mut() {
            Some(last) if last.role == Role::Tool && turn.role == Role::Tool => last.parts.extend(turn.parts),
            _ => turns.push(turn),
        }
        unmapped.extend(message.rest());
    }
    Ok(turns)
}

fn turn(message: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Turn, FieldError> {
    let said = message.required_string("role")?;
    let role = match said.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => return Err(message.error("role", Problem::NotOneOf { possible: ROLES, got: said })),
    };
    let mut parts = match message.get("content") {
        Some(content) => content_parts(&content, unmapped)?,
        None => Vec::new(),
    };
    let name = message.string("name")?;
    if role == Role::Tool {
        // The older role `function` has no ids: the function's name tells which call is meant.
        let id = message.string("tool_call_id")?.or_else(|| name.clone());
        let id = id.ok_or_else(|| message.error("tool_call_id", Problem::Missing))?;
        let result = ToolResult { id, name, parts, is_error: false };
        return Ok(Turn::new(role, vec![Part::ToolResult(result)]));
    }
    if role == Role::Assistant {
        let thought = message.string("reasoning_content")?.filter(|text| !text.is_empty());
        parts.splice(0..0, thought.map(|text| Part::Reasoning(Reasoning { text, seal: None })));
        parts.extend(message.string("refusal")?.map(Part::Refusal));
        parts.extend(tool_calls(message, unmapped)?);
    }
    Ok(Turn { role, parts, name })
}

/// The calls of a message, in a request and in an answer.
pub(super) fn tool_calls(
    message: &Fields<'_>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Vec<Part>, FieldError> {
    let mut calls = Vec::new();
    for call in message.objects("tool_calls")? {
        let Some(function) = call.object("function")? else {
            unmapped.push(call.unmapped());
            continue;
        };
        call.get("type");
        let arguments = function.string("arguments")?.unwrap_or_default();
        let (id, name) = (call.string("id")?.unwrap_or_default(), function.required_string("name")?);
        calls.push(Part::ToolCall(ToolCall { id, name, arguments, seal: None }));
        unmapped.extend(call.rest().into_iter().chain(function.rest()));
    }
    Ok(calls)
}

/// A string, or a list of parts.
pub(super) fn content_parts(
    content: &Field<'_>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Vec<Part>, FieldError> {
    match content.kind() {
        Kind::String => {
            let text = content.string()?.into_owned();
            Ok((!text.is_empty()).then_some(Part::Text(text)).into_iter().collect())
        }
        Kind::Array => {
            let mut parts = Vec::new();
            for item in content.list()? {
                let fields = item.object()?;
                match part(&fields, unmapped)? {
                    Some(part) => {
                        parts.push(part);
                        unmapped.extend(fields.rest());
                    }
                    None => unmapped.push(item.unmapped()),
                }
            }
            Ok(parts)
        }
        _ => Err(content.wrong_type(Kind::String)),
    }
}

fn part(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Option<Part>, FieldError> {
    let media = |kind, source, detail, name| Some(Part::Media(Media { kind, source, detail, name }));
    Ok(match fields.required_string("type")?.as_str() {
        "text" => Some(Part::Text(fields.required_string("text")?)),
        "refusal" => Some(Part::Refusal(fields.required_string("refusal")?)),
        "image_url" => {
            let image = fields.require("image_url")?.object()?;
            let source = MediaSource::of_url(&image.required_string("url")?);
            let detail = image.string("detail")?;
            unmapped.extend(image.rest());
            media(MediaKind::Image, source, detail, None)
        }
        "input_audio" => {
            let audio = fields.require("input_audio")?.object()?;
            let mime = format!("audio/{}", audio.required_string("format")?);
            media(
                MediaKind::Audio,
                MediaSource::Base64 { mime, data: audio.required_string("data")? },
                None,
                None,
            )
        }
        "file" => {
            let file = fields.require("file")?.object()?;
            let source = match (file.string("file_data")?, file.string("file_id")?) {
                (Some(data), _) => MediaSource::of_url(&data),
                (None, Some(id)) => MediaSource::File(id),
                (None, None) => return Err(file.error("file_data", Problem::Missing)),
            };
            media(MediaKind::Document, source, None, file.string("filename")?)
        }
        _ => None,
    })
}

fn tool(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Option<Tool>, FieldError> {
    fields.get("type");
    let Some(function) = fields.object("function")? else {
        unmapped.push(fields.unmapped());
        return Ok(None);
    };
    let tool = Tool {
        name: function.required_string("name")?,
        description: function.string("description")?,
        parameters: function.get("parameters").map(|field| field.json()),
        strict: function.flag("strict")?,
    };
    unmapped.extend(fields.rest().into_iter().chain(function.rest()));
    Ok(Some(tool))
}

fn format(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Format, FieldError> {
    let Some(format) = fields.object("response_format")? else { return Ok(Format::Text) };
    Ok(match format.required_string("type")?.as_str() {
        "json_object" => Format::Json,
        "json_schema" => match format.object("json_schema")? {
            Some(schema) => {
                let read = Format::Schema {
                    name: schema.string("name")?,
                    schema: schema.get("schema").map_or_else(any_object, |field| field.json()),
                    strict: schema.flag("strict")?,
                };
                unmapped.extend(schema.rest());
                read
            }
            None => Format::Schema { name: None, schema: any_object(), strict: None },
        },
        _ => Format::Text,
    })
}

fn any_object() -> Json {
    super::super::object! {"type": "object"}
}

/// A text or a list of texts. Empty ones end nothing.
fn stop(fields: &Fields<'_>) -> Result<Vec<String>, FieldError> {
    let texts = match fields.get("stop") {
        Some(stop) if stop.kind() == Kind::String => vec![stop.string()?.into_owned()],
        Some(stop) if stop.kind() != Kind::Array => return Err(stop.wrong_type(Kind::Array)),
        _ => fields.strings("stop")?,
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}
