//! Reading a request.

use super::{NAME, answer};
use crate::conversation::{
    Field, FieldError, Fields, Format, Json, Kind, Media, MediaKind, MediaSource, Part, Problem, Reasoning,
    ReasoningRequest, Request, Role, Sampling, Signature, Tool, ToolCall, ToolResult, Turn, Unmapped,
    fields::parse, openai::read_tool_choice,
};

const ROLES: &[&str] = &["assistant", "system", "developer", "user"];

pub(super) fn request(body: &[u8]) -> Result<Request, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let echo = answer::echo(&Fields::root(&document)?);
    let mut unmapped = Vec::new();
    let model = fields.required_string("model")?;
    let input = fields.require("input")?;
    let mut turns = Vec::new();
    if let Some(instructions) = fields.string("instructions")? {
        turns.push(Turn::new(Role::System, vec![Part::Text(instructions)]));
    }
    match input.kind() {
        Kind::String => turns.push(Turn::new(Role::User, vec![Part::Text(input.string()?.into_owned())])),
        Kind::Array => {
            let items = input.list()?;
            if items.is_empty() {
                return Err(input.error(Problem::Empty));
            }
            for item in &items {
                read_item(item, &mut turns, &mut unmapped)?;
            }
        }
        _ => return Err(input.wrong_type(Kind::String)),
    }
    let mut tools = Vec::new();
    for fields in fields.objects("tools")? {
        if fields.required_string("type")? == "function" {
            tools.push(tool(&fields)?);
            unmapped.extend(fields.rest());
        } else {
            unmapped.push(fields.unmapped());
        }
    }
    let (tool_choice, other_choice) = read_tool_choice(&fields, |choice| choice.string("name"))?;
    unmapped.extend(other_choice);
    let mut request = Request {
        model,
        turns,
        tools,
        tool_choice,
        parallel_tools: fields.flag("parallel_tool_calls")?,
        format: format(&fields, &mut unmapped)?,
        sampling: Sampling {
            temperature: fields.float("temperature")?,
            top_p: fields.float("top_p")?,
            top_logprobs: fields.integer("top_logprobs", 0, u64::MAX)?,
            ..Sampling::default()
        },
        reasoning: reasoning(&fields, &mut unmapped)?,
        max_tokens: fields.integer("max_output_tokens", 1, u64::MAX)?,
        stream: fields.flag("stream")?.unwrap_or(false),
        stream_usage: true,
        user: fields.string("user")?,
        metadata: fields.get("metadata").map(|field| field.json()),
        echo,
        ..Request::default()
    };
    request.unmapped = unmapped;
    request.unmapped.extend(fields.rest());
    Ok(request)
}

/// What the model says in several items is one turn, and so are the results of several tools.
fn read_item(
    item: &Field<'_>,
    turns: &mut Vec<Turn>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(), FieldError> {
    let fields = item.object()?;
    let kind = fields.string("type")?;
    let (role, parts) = match kind.as_deref() {
        None | Some("message") => message(&fields, unmapped)?,
        Some("function_call_output") => (Role::Tool, vec![result(&fields, unmapped)?]),
        Some(kind) => match output_item(kind, &fields, unmapped)? {
            Some(parts) => (Role::Assistant, parts),
            None => {
                unmapped.push(item.unmapped());
                return Ok(());
            }
        },
    };
    unmapped.extend(fields.rest());
    match turns.last_mut() {
        Some(turn) if turn.role == role && matches!(role, Role::Assistant | Role::Tool) => {
            turn.parts.extend(parts)
        }
        _ => turns.push(Turn::new(role, parts)),
    }
    Ok(())
}

fn message(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<(Role, Vec<Part>), FieldError> {
    let role = match fields.required_string("role")?.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        got => return Err(fields.error("role", Problem::NotOneOf { possible: ROLES, got: got.to_owned() })),
    };
    for of_output in ["id", "status"] {
        fields.get(of_output);
    }
    let parts =
        fields.get("content").map_or_else(|| Ok(Vec::new()), |content| content_parts(&content, unmapped))?;
    Ok((role, parts))
}

fn result(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Part, FieldError> {
    for of_output in ["id", "status"] {
        fields.get(of_output);
    }
    let id = fields.required_string("call_id")?;
    let parts =
        fields.get("output").map_or_else(|| Ok(Vec::new()), |output| content_parts(&output, unmapped))?;
    Ok(Part::ToolResult(ToolResult { id, name: None, parts, is_error: false }))
}

/// The parts of an item of an answer's output, which a request may hold as well.
pub(super) fn output_item(
    kind: &str,
    fields: &Fields<'_>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Option<Vec<Part>>, FieldError> {
    Ok(match kind {
        "message" => Some(message(fields, unmapped)?.1),
        "function_call" => {
            fields.get("status");
            fields.get("id");
            Some(vec![Part::ToolCall(ToolCall {
                id: fields.string("call_id")?.unwrap_or_default(),
                name: fields.required_string("name")?,
                arguments: fields.string("arguments")?.unwrap_or_default(),
                seal: None,
            })])
        }
        "reasoning" => Some(vec![Part::Reasoning(thought(fields)?)]),
        _ => None,
    })
}

fn thought(fields: &Fields<'_>) -> Result<Reasoning, FieldError> {
    fields.get("status");
    let mut text = String::new();
    for part in fields.objects("summary")?.iter().chain(&fields.objects("content")?) {
        text.push_str(&part.string("text")?.unwrap_or_default());
    }
    Ok(Reasoning { text, seal: seal(fields)? })
}

/// The encrypted thought, which goes with the id of its item.
pub(super) fn seal(item: &Fields<'_>) -> Result<Option<Signature>, FieldError> {
    let (id, data) = (item.string("id")?, item.string("encrypted_content")?);
    Ok(data.map(|data| Signature { format: NAME, data, id, is_redacted: false }))
}

fn content_parts(content: &Field<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Vec<Part>, FieldError> {
    if content.kind() == Kind::String {
        let text = content.string()?.into_owned();
        return Ok((!text.is_empty()).then_some(Part::Text(text)).into_iter().collect());
    }
    let mut parts = Vec::new();
    for item in content.list()? {
        let fields = item.object()?;
        match part(&fields)? {
            Some(part) => {
                parts.push(part);
                unmapped.extend(fields.rest().into_iter().filter(|rest| rest.value.text() != "[]"));
            }
            None => unmapped.push(item.unmapped()),
        }
    }
    Ok(parts)
}

fn part(fields: &Fields<'_>) -> Result<Option<Part>, FieldError> {
    let file = |name| Ok::<_, FieldError>(fields.string(name)?.map(MediaSource::File));
    let url = |name| Ok::<_, FieldError>(fields.string(name)?.map(|url| MediaSource::of_url(&url)));
    let medium = |kind, source: Option<MediaSource>, detail, name| {
        source.map(|source| Part::Media(Media { kind, source, detail, name }))
    };
    Ok(match fields.required_string("type")?.as_str() {
        "input_text" | "output_text" | "text" => Some(Part::Text(fields.required_string("text")?)),
        "refusal" => Some(Part::Refusal(fields.required_string("refusal")?)),
        "input_image" => {
            let source = url("image_url")?.or(file("file_id")?);
            medium(MediaKind::Image, source, fields.string("detail")?, None)
        }
        "input_file" => {
            let source = url("file_data")?.or(url("file_url")?).or(file("file_id")?);
            medium(MediaKind::Document, source, None, fields.string("filename")?)
        }
        _ => None,
    })
}

fn tool(fields: &Fields<'_>) -> Result<Tool, FieldError> {
    Ok(Tool {
        name: fields.required_string("name")?,
        description: fields.string("description")?,
        parameters: fields.get("parameters").map(|field| field.json()),
        strict: fields.flag("strict")?,
    })
}

fn format(fields: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Format, FieldError> {
    let Some(text) = fields.object("text")? else { return Ok(Format::Text) };
    let format = text.object("format")?;
    unmapped.extend(text.rest());
    let Some(format) = format else { return Ok(Format::Text) };
    let read = match format.required_string("type")?.as_str() {
        "json_object" => Format::Json,
        "json_schema" => Format::Schema {
            name: format.string("name")?,
            schema: format.require("schema")?.json(),
            strict: format.flag("strict")?,
        },
        _ => Format::Text,
    };
    unmapped.extend(format.rest());
    Ok(read)
}

fn reasoning(
    fields: &Fields<'_>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Option<ReasoningRequest>, FieldError> {
    let Some(asked) = fields.object("reasoning")? else { return Ok(None) };
    let (effort, summary) = (asked.string("effort")?, asked.string("summary")?);
    unmapped.extend(asked.rest());
    let is_shown = summary.map(|_| true);
    let is_empty = effort.is_none() && is_shown.is_none();
    Ok((!is_empty).then_some(ReasoningRequest { effort, budget: None, is_shown }))
}

/// The fields of a request that are there, of those of these names.
pub(super) fn given(fields: &Fields<'_>, names: &[&'static str]) -> Vec<(String, Json)> {
    let given = |name: &&'static str| Some(((*name).to_owned(), fields.get(name)?.json()));
    names.iter().filter_map(given).collect()
}
