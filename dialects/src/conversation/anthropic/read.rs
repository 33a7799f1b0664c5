//! Reading a request.

use super::{redacted, signature};
use crate::conversation::{
    Field, FieldError, Fields, Format, Kind, Media, MediaKind, MediaSource, Part, Problem, Reasoning,
    ReasoningRequest, Request, Role, Sampling, Tool, ToolCall, ToolChoice, ToolResult, Turn, Unmapped,
    fields::parse,
};

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
    let mut turns = Vec::new();
    if let Some(system) = fields.get("system") {
        let parts = content(&system, &mut unmapped)?;
        turns.extend((!parts.is_empty()).then(|| Turn::new(Role::System, parts)));
    }
    for message in &messages {
        turns.extend(turns_of(message, &mut unmapped)?);
        unmapped.extend(message.rest());
    }
    let tools = fields.objects("tools")?;
    let tools = tools
        .iter()
        .filter_map(|fields| tool(fields, &mut unmapped).transpose())
        .collect::<Result<_, _>>()?;
    let (tool_choice, parallel_tools) = tool_choice(&fields, &mut unmapped)?;
    let (format, effort) = output(&fields, &mut unmapped)?;
    let stop = fields.strings("stop_sequences")?;
    let mut request = Request {
        model,
        turns,
        tools,
        tool_choice,
        parallel_tools,
        format,
        sampling: Sampling {
            temperature: fields.float("temperature")?,
            top_p: fields.float("top_p")?,
            top_k: fields.integer("top_k", 0, u64::MAX)?,
            ..Sampling::default()
        },
        reasoning: thinking(&fields, effort, &mut unmapped)?,
        max_tokens: fields.integer("max_tokens", 1, u64::MAX)?,
        stop: stop.into_iter().filter(|text| !text.trim().is_empty()).collect(),
        stream: fields.flag("stream")?.unwrap_or(false),
        stream_usage: true,
        ..Request::default()
    };
    if let Some(metadata) = fields.object("metadata")? {
        request.user = metadata.string("user_id")?;
        unmapped.extend(metadata.rest());
    }
    request.unmapped = unmapped;
    request.unmapped.extend(fields.rest());
    Ok(request)
}

/// A message of the user may hold results of tools, which are a turn of their own.
fn turns_of(message: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Vec<Turn>, FieldError> {
    let content_field = message.require("content")?;
    let role = match message.required_string("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        got => {
            let problem = Problem::NotOneOf { possible: &["user", "assistant"], got: got.to_owned() };
            return Err(message.error("role", problem));
        }
    };
    let parts = content(&content_field, unmapped)?;
    if parts.is_empty() {
        return Ok(vec![Turn::new(role, parts)]);
    }
    let mut turns: Vec<Turn> = Vec::new();
    for part in parts {
        let role = if matches!(part, Part::ToolResult(_)) { Role::Tool } else { role };
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.parts.push(part),
            _ => turns.push(Turn::new(role, vec![part])),
        }
    }
    Ok(turns)
}

/// A string, or a list of blocks.
pub(super) fn content(content: &Field<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Vec<Part>, FieldError> {
    match content.kind() {
        Kind::String => {
            let text = content.string()?.into_owned();
            Ok((!text.is_empty()).then_some(Part::Text(text)).into_iter().collect())
        }
        Kind::Array => {
            let mut parts = Vec::new();
            for item in content.list()? {
                let fields = item.object()?;
                match block(&fields, unmapped)? {
                    Some(part) => {
                        parts.push(part);
                        unmapped.extend(fields.rest());
                    }
                    None => unmapped.push(item.unmapped()),
                }
            }
            Ok(parts)
        }
        _ => Err(content.wrong_type(Kind::Array)),
    }
}

fn block(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Option<Part>, FieldError> {
    Ok(match fields.required_string("type")?.as_str() {
        "text" => Some(Part::Text(fields.required_string("text")?)),
        kind @ ("image" | "document") => {
            let source = fields.require("source")?.object()?;
            let Some(source) = media_source(&source)? else { return Ok(None) };
            let kind = if kind == "image" { MediaKind::Image } else { MediaKind::Document };
            Some(Part::Media(Media { kind, source, detail: None, name: fields.string("title")? }))
        }
        "tool_use" => Some(Part::ToolCall(ToolCall {
            id: fields.required_string("id")?,
            name: fields.required_string("name")?,
            arguments: fields.get("input").map_or_else(String::new, |input| input.json().text().to_owned()),
            seal: None,
        })),
        "tool_result" => Some(Part::ToolResult(ToolResult {
            id: fields.required_string("tool_use_id")?,
            name: None,
            parts: fields.get("content").map_or_else(|| Ok(Vec::new()), |inner| content(&inner, unmapped))?,
            is_error: fields.flag("is_error")?.unwrap_or(false),
        })),
        "thinking" => Some(Part::Reasoning(Reasoning {
            text: fields.string("thinking")?.unwrap_or_default(),
            seal: fields.string("signature")?.filter(|data| !data.is_empty()).map(signature),
        })),
        "redacted_thinking" => Some(Part::Reasoning(Reasoning {
            text: String::new(),
            seal: Some(redacted(fields.required_string("data")?)),
        })),
        _ => None,
    })
}

fn media_source(source: &Fields<'_>) -> Result<Option<MediaSource>, FieldError> {
    Ok(match source.required_string("type")?.as_str() {
        "base64" => Some(MediaSource::Base64 {
            mime: source.required_string("media_type")?,
            data: source.required_string("data")?,
        }),
        "url" => Some(MediaSource::Url { url: source.required_string("url")?, mime: None }),
        "text" => Some(MediaSource::Text(source.required_string("data")?)),
        "file" => Some(MediaSource::File(source.required_string("file_id")?)),
        _ => None,
    })
}

fn tool(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Option<Tool>, FieldError> {
    // Without a schema it is one of the provider's own tools, which runs on its side.
    let Some(schema) = fields.get("input_schema") else {
        unmapped.push(fields.unmapped());
        return Ok(None);
    };
    fields.get("type");
    let tool = Tool {
        name: fields.required_string("name")?,
        description: fields.string("description")?,
        parameters: Some(schema.json()),
        strict: fields.flag("strict")?,
    };
    unmapped.extend(fields.rest());
    Ok(Some(tool))
}

fn tool_choice(
    fields: &Fields<'_>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(ToolChoice, Option<bool>), FieldError> {
    const TYPES: &[&str] = &["auto", "any", "tool", "none"];
    let Some(choice) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, None)) };
    let read = match choice.required_string("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Any,
        "none" => ToolChoice::Never,
        "tool" => ToolChoice::Named(choice.required_string("name")?),
        got => return Err(choice.error("type", Problem::NotOneOf { possible: TYPES, got: got.to_owned() })),
    };
    let parallel = choice.flag("disable_parallel_tool_use")?.map(|is_disabled| !is_disabled);
    unmapped.extend(choice.rest());
    Ok((read, parallel))
}

/// The form of the answer, and how much effort it is worth.
fn output(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<(Format, Option<String>), FieldError> {
    let Some(config) = fields.object("output_config")? else { return Ok((Format::Text, None)) };
    let format = match config.object("format")? {
        Some(format) => {
            format.get("type");
            let schema = format.require("schema")?.json();
            unmapped.extend(format.rest());
            Format::Schema { name: None, schema, strict: None }
        }
        None => Format::Text,
    };
    let effort = config.string("effort")?;
    unmapped.extend(config.rest());
    Ok((format, effort))
}

fn thinking(
    fields: &Fields<'_>,
    effort: Option<String>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Option<ReasoningRequest>, FieldError> {
    let Some(thinking) = fields.object("thinking")? else {
        return Ok(
            effort.map(|effort| ReasoningRequest { effort: Some(effort), ..ReasoningRequest::default() })
        );
    };
    let budget = match thinking.required_string("type")?.as_str() {
        "disabled" => Some(0),
        "enabled" => thinking.integer("budget_tokens", 1, u64::MAX)?,
        _ => None,
    };
    unmapped.extend(thinking.rest());
    Ok(Some(ReasoningRequest { effort, budget, is_shown: None }))
}
