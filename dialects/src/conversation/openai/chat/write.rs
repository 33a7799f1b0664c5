//! Writing a request.

use super::{NAME, Written};
use crate::conversation::{
    Fate, Format, Json, Media, MediaKind, MediaSource, Part, Request, Role, ToolCall, ToolChoice, Turn,
    Untranslatable,
    loss::Losses,
    openai::{object, written_tool_choice},
};

pub(super) fn request(request: &Request) -> Result<Written, Untranslatable> {
    let mut losses = Losses::default();
    let sampling = &request.sampling;
    let messages: Vec<_> =
        request.turns.iter().enumerate().flat_map(|(at, turn)| messages(at, turn, &mut losses)).collect();
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            let function = object! {
                "name": tool.name,
                "description"?: tool.description,
                "parameters"?: tool.parameters,
                "strict"?: tool.strict,
            };
            object! {"type": "function", "function": function}
        })
        .collect();
    let choice = written_tool_choice(&request.tool_choice, |name| {
        object! {"type": "function", "function": object! {"name": name}}
    });
    let reasoning = request.reasoning.as_ref();
    losses.dropped_if(reasoning.is_some_and(|asked| asked.budget.is_some()), "reasoning.budget");
    let body = object! {
        "model": request.model,
        "messages": messages,
        "tools"?: (!tools.is_empty()).then_some(tools),
        "tool_choice"?: (request.tool_choice != ToolChoice::Auto).then_some(choice),
        "parallel_tool_calls"?: request.parallel_tools,
        "response_format"?: response_format(&request.format),
        "temperature"?: sampling.temperature,
        "top_p"?: sampling.top_p,
        "top_k"?: sampling.top_k,
        "presence_penalty"?: sampling.presence_penalty,
        "frequency_penalty"?: sampling.frequency_penalty,
        "seed"?: sampling.seed,
        "n"?: sampling.choices,
        "logprobs"?: sampling.logprobs,
        "top_logprobs"?: sampling.top_logprobs,
        "reasoning_effort"?: reasoning.and_then(|asked| asked.effort.as_ref()),
        "max_completion_tokens"?: request.max_tokens,
        "stop"?: (!request.stop.is_empty()).then_some(&request.stop),
        "stream"?: request.stream.then_some(true),
        "stream_options"?: (request.stream && request.stream_usage).then(|| object! {"include_usage": true}),
        "user"?: request.user,
        "metadata"?: request.metadata,
    };
    Ok(Written { body, losses: losses.checked(NAME)? })
}

fn response_format(format: &Format) -> Option<Json> {
    match format {
        Format::Text => None,
        Format::Json => Some(object! {"type": "json_object"}),
        Format::Schema { name, schema, strict } => {
            let name = name.as_deref().unwrap_or("answer");
            let schema = object! {"name": name, "schema": schema, "strict"?: strict};
            Some(object! {"type": "json_schema", "json_schema": schema})
        }
    }
}

/// The messages of a turn: one, or one for each result of a tool.
fn messages(at: usize, turn: &Turn, losses: &mut Losses) -> Vec<Json> {
    let role = match turn.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => return vec![assistant(at, turn, losses)],
        Role::Tool => return results(at, turn, losses),
    };
    let content = content(&format!("turns[{at}]"), &turn.parts, losses);
    vec![object! {"role": role, "content": content, "name"?: turn.name}]
}

fn assistant(at: usize, turn: &Turn, losses: &mut Losses) -> Json {
    let is_said = |part: &&Part| matches!(part, Part::Text(_) | Part::Media(_));
    let said: Vec<_> = turn.parts.iter().filter(is_said).cloned().collect();
    let mut refusal = None;
    let mut calls = Vec::new();
    for (nth, part) in turn.parts.iter().enumerate() {
        match part {
            Part::ToolCall(call) => calls.push(tool_call(call)),
            Part::Refusal(text) => refusal = Some(text),
            // A thought that is sent back as text is refused, or taken for something that was said.
            Part::Reasoning(_) => losses.add(Fate::Dropped, format!("turns[{at}].parts[{nth}].reasoning")),
            Part::Text(_) | Part::Media(_) | Part::ToolResult(_) => {}
        }
    }
    let content =
        if said.is_empty() { Json::of(&()) } else { content(&format!("turns[{at}]"), &said, losses) };
    object! {
        "role": "assistant",
        "content": content,
        "refusal"?: refusal,
        "tool_calls"?: (!calls.is_empty()).then_some(calls),
        "name"?: turn.name,
    }
}

/// A call, as requests and answers have it.
pub(super) fn tool_call(call: &ToolCall) -> Json {
    let function = object! {"name": call.name, "arguments": call.arguments};
    object! {"id": call.id, "type": "function", "function": function}
}

/// A message for each result. Only text fits into one: media go to a message of the user after them.
fn results(at: usize, turn: &Turn, losses: &mut Losses) -> Vec<Json> {
    let (mut messages, mut moved) = (Vec::new(), Vec::new());
    for (nth, part) in turn.parts.iter().enumerate() {
        let Part::ToolResult(result) = part else { continue };
        let field = format!("turns[{at}].parts[{nth}]");
        losses.dropped_if(result.is_error, &format!("{field}.is_error"));
        let (media, texts): (Vec<_>, Vec<_>) =
            result.parts.iter().cloned().partition(|part| matches!(part, Part::Media(_)));
        if !media.is_empty() {
            losses.add(Fate::Emulated, format!("{field}.media"));
            moved.extend(media);
        }
        let content = content(&field, &texts, losses);
        messages.push(object! {"role": "tool", "tool_call_id": result.id, "content": content});
    }
    if !moved.is_empty() {
        let content = content(&format!("turns[{at}]"), &moved, losses);
        messages.push(object! {"role": "user", "content": content});
    }
    messages
}

/// One text as a string, all else as a list.
fn content(field: &str, parts: &[Part], losses: &mut Losses) -> Json {
    match parts {
        [] => Json::of(""),
        [Part::Text(text)] => Json::of(text),
        parts => {
            let parts = parts.iter().enumerate().filter_map(|(nth, part)| match part {
                Part::Text(text) => Some(object! {"type": "text", "text": text}),
                Part::Refusal(text) => Some(object! {"type": "refusal", "refusal": text}),
                Part::Media(media) => {
                    let written = medium(media);
                    if written.is_none() {
                        losses.add(Fate::Refused, format!("{field}.parts[{nth}].{}", media.kind.name()));
                    }
                    written
                }
                Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => None,
            });
            Json::of(&parts.collect::<Vec<_>>())
        }
    }
}

fn medium(media: &Media) -> Option<Json> {
    match (media.kind, &media.source) {
        (MediaKind::Image, source) => {
            let image = object! {"url": source.url()?, "detail"?: media.detail};
            Some(object! {"type": "image_url", "image_url": image})
        }
        (MediaKind::Audio, MediaSource::Base64 { mime, data }) => {
            let audio = object! {"data": data, "format": mime.split_once('/')?.1};
            Some(object! {"type": "input_audio", "input_audio": audio})
        }
        (MediaKind::Document, MediaSource::Text(text)) => Some(object! {"type": "text", "text": text}),
        (MediaKind::Document, source @ MediaSource::Base64 { .. }) => {
            let name = media.name.as_deref().unwrap_or("document");
            let file = object! {"filename": name, "file_data": source.url()?};
            Some(object! {"type": "file", "file": file})
        }
        (MediaKind::Document, MediaSource::File(id)) => {
            Some(object! {"type": "file", "file": object! {"file_id": id, "filename"?: media.name}})
        }
        (MediaKind::Audio | MediaKind::Video | MediaKind::Document, _) => None,
    }
}
