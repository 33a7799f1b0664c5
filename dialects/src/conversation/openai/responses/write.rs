//! Writing a request.

use super::{NAME, Untranslatable, Written, answer};
use crate::conversation::{
    Fate, Format, Json, Media, MediaKind, MediaSource, Part, Request, Role, ToolChoice, ToolResult, Turn,
    loss::Losses,
    openai::{object, written_tool_choice},
};

pub(super) fn request(request: &Request) -> Result<Written, Untranslatable> {
    let mut losses = Losses::default();
    let (instructions, turns) = instructions(&request.turns);
    let first = request.turns.len() - turns.len();
    let input: Vec<_> =
        turns.iter().enumerate().flat_map(|(at, turn)| items(first + at, turn, &mut losses)).collect();
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            object! {
                "type": "function",
                "name": tool.name,
                "description"?: tool.description,
                "parameters"?: tool.parameters,
                "strict"?: tool.strict,
            }
        })
        .collect();
    let choice = written_tool_choice(&request.tool_choice, |name| object! {"type": "function", "name": name});
    check(request, &mut losses);
    let reasoning = request.reasoning.as_ref().map(|asked| {
        losses.dropped_if(asked.budget.is_some(), "reasoning.budget");
        object! {"effort"?: asked.effort, "summary"?: (asked.is_shown == Some(true)).then_some("auto")}
    });
    let body = object! {
        "model": request.model,
        "instructions"?: instructions,
        "input": input,
        "tools"?: (!tools.is_empty()).then_some(tools),
        "tool_choice"?: (request.tool_choice != ToolChoice::Auto).then_some(choice),
        "parallel_tool_calls"?: request.parallel_tools,
        "text"?: format(&request.format).map(|format| object! {"format": format}),
        "reasoning"?: reasoning.filter(|reasoning| reasoning.text() != "{}"),
        "temperature"?: request.sampling.temperature,
        "top_p"?: request.sampling.top_p,
        "top_logprobs"?: request.sampling.top_logprobs,
        "max_output_tokens"?: request.max_tokens,
        "stream"?: request.stream.then_some(true),
        "user"?: request.user,
        "metadata"?: request.metadata,
    };
    Ok(Written { body, losses: losses.checked(NAME)? })
}

fn check(request: &Request, losses: &mut Losses) {
    let sampling = &request.sampling;
    if sampling.choices.is_some_and(|choices| choices > 1) {
        losses.add(Fate::Refused, "sampling.choices");
    }
    losses.dropped_if(sampling.top_k.is_some(), "sampling.top_k");
    losses.dropped_if(sampling.presence_penalty.is_some(), "sampling.presence_penalty");
    losses.dropped_if(sampling.frequency_penalty.is_some(), "sampling.frequency_penalty");
    losses.dropped_if(sampling.seed.is_some(), "sampling.seed");
    losses.dropped_if(sampling.logprobs == Some(true), "sampling.logprobs");
    losses.dropped_if(!request.stop.is_empty(), "stop");
}

/// A first system turn of one text, and the turns after it.
fn instructions(turns: &[Turn]) -> (Option<&str>, &[Turn]) {
    match turns {
        [Turn { role: Role::System, parts, .. }, rest @ ..] => match &parts[..] {
            [Part::Text(text)] => (Some(text), rest),
            _ => (None, turns),
        },
        _ => (None, turns),
    }
}

fn format(format: &Format) -> Option<Json> {
    match format {
        Format::Text => None,
        Format::Json => Some(object! {"type": "json_object"}),
        Format::Schema { name, schema, strict } => {
            let name = name.as_deref().unwrap_or("answer");
            Some(object! {"type": "json_schema", "name": name, "schema": schema, "strict"?: strict})
        }
    }
}

fn items(at: usize, turn: &Turn, losses: &mut Losses) -> Vec<Json> {
    let role = match turn.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => return assistant(at, turn, losses),
        Role::Tool => return results(at, turn, losses),
    };
    losses.dropped_if(turn.name.is_some(), &format!("turns[{at}].name"));
    let content = input_parts(&format!("turns[{at}]"), &turn.parts, losses);
    vec![object! {"type": "message", "role": role, "content": content}]
}

/// What the model said: each part is an item.
fn assistant(at: usize, turn: &Turn, losses: &mut Losses) -> Vec<Json> {
    let mut items = Vec::new();
    for (nth, part) in turn.parts.iter().enumerate() {
        let field = format!("turns[{at}].parts[{nth}]");
        let message = |part: Json| object! {"type": "message", "role": "assistant", "content": [part]};
        match part {
            Part::Text(text) => items.push(message(object! {"type": "output_text", "text": text})),
            Part::Refusal(text) => items.push(message(object! {"type": "refusal", "refusal": text})),
            Part::ToolCall(call) => items.push(object! {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }),
            Part::Reasoning(said) => match said.seal.as_ref().filter(|seal| seal.format == NAME) {
                Some(seal) => items.push(answer::thought(
                    seal.id.as_deref().unwrap_or_default(),
                    &said.text,
                    Some(seal),
                )),
                None => losses.add(Fate::Dropped, format!("{field}.reasoning")),
            },
            Part::Media(media) => losses.add(Fate::Refused, format!("{field}.{}", media.kind.name())),
            Part::ToolResult(_) => {}
        }
    }
    items
}

fn results(at: usize, turn: &Turn, losses: &mut Losses) -> Vec<Json> {
    let result = |(nth, part): (usize, &Part)| {
        let Part::ToolResult(result) = part else { return None };
        let field = format!("turns[{at}].parts[{nth}]");
        losses.dropped_if(result.is_error, &format!("{field}.is_error"));
        let output = output(&field, result, losses);
        Some(object! {"type": "function_call_output", "call_id": result.id, "output": output})
    };
    turn.parts.iter().enumerate().filter_map(result).collect()
}

fn output(field: &str, result: &ToolResult, losses: &mut Losses) -> Json {
    match &result.parts[..] {
        [] => Json::of(""),
        [Part::Text(text)] => Json::of(text),
        parts => Json::of(&input_parts(field, parts, losses)),
    }
}

fn input_parts(field: &str, parts: &[Part], losses: &mut Losses) -> Vec<Json> {
    let part = |(nth, part): (usize, &Part)| match part {
        Part::Text(text) | Part::Refusal(text) => Some(object! {"type": "input_text", "text": text}),
        Part::Media(media) => {
            let written = medium(media);
            if written.is_none() {
                losses.add(Fate::Refused, format!("{field}.parts[{nth}].{}", media.kind.name()));
            }
            written
        }
        Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning(_) => None,
    };
    parts.iter().enumerate().filter_map(part).collect()
}

fn medium(media: &Media) -> Option<Json> {
    let url = media.source.url();
    let name = media.name.as_deref();
    match (media.kind, &media.source) {
        (MediaKind::Image, MediaSource::File(id)) => {
            Some(object! {"type": "input_image", "file_id": id, "detail"?: media.detail})
        }
        (MediaKind::Image, _) => {
            Some(object! {"type": "input_image", "image_url": url?, "detail"?: media.detail})
        }
        (MediaKind::Document, MediaSource::Text(text)) => Some(object! {"type": "input_text", "text": text}),
        (MediaKind::Document, MediaSource::File(id)) => {
            Some(object! {"type": "input_file", "file_id": id, "filename"?: name})
        }
        (MediaKind::Document, MediaSource::Url { .. }) => {
            Some(object! {"type": "input_file", "file_url": url?, "filename"?: name})
        }
        (MediaKind::Document, MediaSource::Base64 { .. }) => {
            let name = name.unwrap_or("document");
            Some(object! {"type": "input_file", "filename": name, "file_data": url?})
        }
        (MediaKind::Audio | MediaKind::Video, _) => None,
    }
}
