//! Writing a request.

use super::{NAME, Untranslatable, Written};
use crate::conversation::{
    Fate, Format, Json, MediaKind, MediaSource, Part, Request, Role, ToolCall, ToolChoice, Turn,
    calls::tool_name, loss::Losses, request::text_of, text::object,
};

pub(super) fn request(request: &Request) -> Result<Written, Untranslatable> {
    let mut losses = Losses::default();
    let messages: Vec<_> = request
        .turns
        .iter()
        .enumerate()
        .flat_map(|(at, turn)| messages(at, turn, request, &mut losses))
        .collect();
    // There is no choice: a tool that must not be called is not offered.
    let is_offered = request.tool_choice != ToolChoice::Never;
    match request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::Never => losses.add(Fate::Emulated, "tool_choice"),
        ToolChoice::Any | ToolChoice::Named(_) => losses.add(Fate::Dropped, "tool_choice"),
    }
    let tools: Vec<_> = request
        .tools
        .iter()
        .filter(|_| is_offered)
        .map(|tool| {
            let function = object! {
                "name": tool.name,
                "description"?: tool.description,
                "parameters"?: tool.parameters,
            };
            object! {"type": "function", "function": function}
        })
        .collect();
    let options = options(request, &mut losses);
    let think = request.reasoning.as_ref().and_then(|asked| match &asked.effort {
        Some(effort) => Some(Json::of(effort)),
        None => asked
            .budget
            .map(|budget| Json::of(&(budget > 0)))
            .or_else(|| asked.is_shown.map(|shown| Json::of(&shown))),
    });
    let body = object! {
        "model": request.model,
        "messages": messages,
        "tools"?: (!tools.is_empty()).then_some(tools),
        "format"?: format(&request.format, &mut losses),
        "think"?: think,
        "options"?: (options.text() != "{}").then_some(options),
        "stream": request.stream,
    };
    losses.dropped_if(request.parallel_tools.is_some(), "parallel_tools");
    losses.dropped_if(request.user.is_some(), "user");
    losses.dropped_if(request.metadata.is_some(), "metadata");
    Ok(Written { body, losses: losses.checked(NAME)? })
}

fn format(format: &Format, losses: &mut Losses) -> Option<Json> {
    match format {
        Format::Text => None,
        Format::Json => Some(Json::of("json")),
        Format::Schema { name, schema, .. } => {
            losses.dropped_if(name.is_some(), "format.name");
            Some(schema.clone())
        }
    }
}

fn options(request: &Request, losses: &mut Losses) -> Json {
    let sampling = &request.sampling;
    if sampling.choices.is_some_and(|choices| choices > 1) {
        losses.add(Fate::Refused, "sampling.choices");
    }
    losses.dropped_if(sampling.logprobs == Some(true), "sampling.logprobs");
    losses.dropped_if(sampling.top_logprobs.is_some(), "sampling.top_logprobs");
    object! {
        "temperature"?: sampling.temperature,
        "top_p"?: sampling.top_p,
        "top_k"?: sampling.top_k,
        "presence_penalty"?: sampling.presence_penalty,
        "frequency_penalty"?: sampling.frequency_penalty,
        "seed"?: sampling.seed,
        "num_predict"?: request.max_tokens,
        "stop"?: (!request.stop.is_empty()).then_some(&request.stop),
    }
}

/// The messages of a turn: one, or one for each result of a tool.
fn messages(at: usize, turn: &Turn, request: &Request, losses: &mut Losses) -> Vec<Json> {
    losses.dropped_if(turn.name.is_some(), &format!("turns[{at}].name"));
    let role = match turn.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => {
            let result = |(nth, part): (usize, &Part)| {
                let Part::ToolResult(result) = part else { return None };
                losses.dropped_if(result.is_error, &format!("turns[{at}].parts[{nth}].is_error"));
                Some(object! {
                    "role": "tool",
                    "content": text_of(&result.parts),
                    "tool_name"?: tool_name(request, result),
                    "tool_call_id": result.id,
                })
            };
            return turn.parts.iter().enumerate().filter_map(result).collect();
        }
    };
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    for (nth, part) in turn.parts.iter().enumerate() {
        let field = format!("turns[{at}].parts[{nth}]");
        match part {
            Part::Media(media) => match (media.kind, &media.source) {
                (MediaKind::Image, MediaSource::Base64 { data, .. }) => images.push(data),
                _ => losses.add(Fate::Refused, format!("{field}.{}", media.kind.name())),
            },
            Part::ToolCall(call) => match tool_call(calls.len(), call) {
                Some(call) => calls.push(call),
                None => losses.add(Fate::Refused, format!("{field}.arguments")),
            },
            Part::Reasoning(_) => losses.add(Fate::Dropped, format!("{field}.reasoning")),
            Part::Text(_) | Part::Refusal(_) | Part::ToolResult(_) => {}
        }
    }
    vec![object! {
        "role": role,
        "content": text_of(&turn.parts),
        "images"?: (!images.is_empty()).then_some(images),
        "tool_calls"?: (!calls.is_empty()).then_some(calls),
    }]
}

/// A call, in requests and in answers. None if its arguments are no object.
pub(super) fn tool_call(index: usize, call: &ToolCall) -> Option<Json> {
    let function = object! {"index": index, "name": call.name, "arguments": call.object()?};
    Some(object! {"id": call.id, "function": function})
}
