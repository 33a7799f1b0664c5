//! Writing a request.

use super::{NAME, Signature, Untranslatable, Written, object};
use crate::conversation::{
    Fate, Format, Json, Media, MediaKind, MediaSource, Part, Request, Role, ToolChoice, ToolResult, Turn,
    loss::Losses,
};

/// What `max_tokens`, which is required, is where the request does not say it.
const DEFAULT_MAX_TOKENS: u64 = 4_096;

pub(super) fn request(request: &Request) -> Result<Written, Untranslatable> {
    let mut losses = Losses::default();
    if request.max_tokens.is_none() {
        losses.add(Fate::Emulated, "max_tokens");
    }
    let system = system(request, &mut losses);
    let messages = messages(&request.turns, &mut losses);
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            let schema = tool.parameters.clone().unwrap_or_else(|| object! {"type": "object"});
            object! {
                "name": tool.name,
                "description"?: tool.description,
                "input_schema": schema,
                "strict"?: tool.strict,
            }
        })
        .collect();
    let stop: Vec<_> = request.stop.iter().filter(|text| !text.trim().is_empty()).collect();
    losses.dropped_if(stop.len() < request.stop.len(), "stop");
    check_sampling(request, &mut losses);
    let temperature = request.sampling.temperature.map(|temperature| {
        if temperature > 1.0 {
            losses.add(Fate::Emulated, "sampling.temperature");
        }
        temperature.min(1.0)
    });
    let body = object! {
        "model": request.model,
        "max_tokens": request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        "system"?: system,
        "messages": messages,
        "tools"?: (!tools.is_empty()).then_some(&tools),
        "tool_choice"?: tool_choice(request, &mut losses),
        "output_config"?: output_config(request, &mut losses),
        "thinking"?: thinking(request, &mut losses),
        "temperature"?: temperature,
        "top_p"?: request.sampling.top_p,
        "top_k"?: request.sampling.top_k,
        "stop_sequences"?: (!stop.is_empty()).then_some(stop),
        "stream"?: request.stream.then_some(true),
        "metadata"?: request.user.as_ref().map(|user| object! {"user_id": user}),
    };
    losses.dropped_if(request.metadata.is_some(), "metadata");
    Ok(Written { body, losses: losses.checked(NAME)? })
}

fn check_sampling(request: &Request, losses: &mut Losses) {
    let sampling = &request.sampling;
    if sampling.choices.is_some_and(|choices| choices > 1) {
        losses.add(Fate::Refused, "sampling.choices");
    }
    losses.dropped_if(sampling.presence_penalty.is_some(), "sampling.presence_penalty");
    losses.dropped_if(sampling.frequency_penalty.is_some(), "sampling.frequency_penalty");
    losses.dropped_if(sampling.seed.is_some(), "sampling.seed");
    losses.dropped_if(sampling.logprobs == Some(true), "sampling.logprobs");
    losses.dropped_if(sampling.top_logprobs.is_some(), "sampling.top_logprobs");
}

/// All system turns, wherever they stand, go to the front.
fn system(request: &Request, losses: &mut Losses) -> Option<Json> {
    let is_system = |turn: &Turn| matches!(turn.role, Role::System | Role::Developer);
    let first_other = request.turns.iter().position(|turn| !is_system(turn)).unwrap_or(request.turns.len());
    let mut parts = Vec::new();
    for (at, turn) in request.turns.iter().enumerate().filter(|(_, turn)| is_system(turn)) {
        if at > first_other {
            losses.add(Fate::Emulated, format!("turns[{at}]"));
        }
        losses.dropped_if(turn.name.is_some(), &format!("turns[{at}].name"));
        parts.extend(turn.parts.iter().cloned());
    }
    match &parts[..] {
        [] => None,
        [Part::Text(text)] => (!text.is_empty()).then(|| Json::of(text)),
        parts => Some(Json::of(&blocks("system", parts, losses))),
    }
}

/// Results of tools and what the user says after them are one message.
fn messages(turns: &[Turn], losses: &mut Losses) -> Vec<Json> {
    let mut messages: Vec<(&str, Vec<Json>, bool)> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let role = match turn.role {
            Role::System | Role::Developer => continue,
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        losses.dropped_if(turn.name.is_some(), &format!("turns[{at}].name"));
        let blocks = blocks(&format!("turns[{at}]"), &turn.parts, losses);
        let is_results = turn.role == Role::Tool;
        match messages.last_mut() {
            Some((last, before, after_results)) if *last == role && *after_results => {
                before.extend(blocks);
                *after_results = is_results;
            }
            _ => messages.push((role, blocks, is_results)),
        }
    }
    messages
        .into_iter()
        .map(|(role, blocks, _)| object! {"role": role, "content": simplest(&blocks)})
        .collect()
}

/// A single text as a string.
fn simplest(blocks: &[Json]) -> Json {
    let text = |block: &Json| {
        Json::parse(block.text().strip_prefix("{\"type\":\"text\",\"text\":")?.strip_suffix('}')?)
    };
    match blocks {
        [] => Json::of(""),
        [block] => text(block).unwrap_or_else(|| Json::of(blocks)),
        blocks => Json::of(blocks),
    }
}

fn blocks(field: &str, parts: &[Part], losses: &mut Losses) -> Vec<Json> {
    let mut blocks = Vec::with_capacity(parts.len());
    for (nth, part) in parts.iter().enumerate() {
        let field = format!("{field}.parts[{nth}]");
        blocks.extend(block(&field, part, losses));
    }
    blocks
}

fn block(field: &str, part: &Part, losses: &mut Losses) -> Option<Json> {
    match part {
        // An empty block is refused.
        Part::Text(text) | Part::Refusal(text) => {
            (!text.is_empty()).then(|| object! {"type": "text", "text": text})
        }
        Part::Media(media) => {
            let written = medium(media);
            if written.is_none() {
                losses.add(Fate::Refused, format!("{field}.{}", media.kind.name()));
            }
            losses.dropped_if(media.detail.is_some(), &format!("{field}.detail"));
            written
        }
        Part::ToolCall(call) => {
            let Some(input) = call.object() else {
                losses.add(Fate::Refused, format!("{field}.arguments"));
                return None;
            };
            Some(object! {"type": "tool_use", "id": call.id, "name": call.name, "input": input})
        }
        Part::ToolResult(result) => Some(tool_result(field, result, losses)),
        Part::Reasoning(said) => {
            let own = said.seal.as_ref().filter(|seal| seal.format == NAME);
            losses.dropped_if(own.is_none(), &format!("{field}.reasoning"));
            own.map(|seal| thought(&said.text, Some(seal)))
        }
    }
}

/// A thought as a block, in requests and in answers.
pub(super) fn thought(text: &str, seal: Option<&Signature>) -> Json {
    match seal {
        Some(Signature { is_redacted: true, data, .. }) => {
            object! {"type": "redacted_thinking", "data": data}
        }
        seal => {
            let signature = seal.map_or("", |seal| &seal.data);
            object! {"type": "thinking", "thinking": text, "signature": signature}
        }
    }
}

fn tool_result(field: &str, result: &ToolResult, losses: &mut Losses) -> Json {
    let content = blocks(field, &result.parts, losses);
    object! {
        "type": "tool_result",
        "tool_use_id": result.id,
        "content"?: (!content.is_empty()).then(|| simplest(&content)),
        "is_error"?: result.is_error.then_some(true),
    }
}

fn medium(media: &Media) -> Option<Json> {
    let source = match &media.source {
        MediaSource::Base64 { mime, data } => object! {"type": "base64", "media_type": mime, "data": data},
        MediaSource::Url { url, .. } => object! {"type": "url", "url": url},
        MediaSource::Text(text) => object! {"type": "text", "media_type": "text/plain", "data": text},
        MediaSource::File(id) => object! {"type": "file", "file_id": id},
    };
    match media.kind {
        MediaKind::Image => Some(object! {"type": "image", "source": source}),
        MediaKind::Document => Some(object! {"type": "document", "source": source, "title"?: media.name}),
        MediaKind::Audio | MediaKind::Video => None,
    }
}

/// A choice without tools is refused, so it is not written then.
fn tool_choice(request: &Request, losses: &mut Losses) -> Option<Json> {
    let is_default = request.tool_choice == ToolChoice::Auto && request.parallel_tools.is_none();
    if is_default {
        return None;
    }
    if request.tools.is_empty() {
        losses.add(Fate::Dropped, "tool_choice");
        return None;
    }
    let (kind, name) = match &request.tool_choice {
        ToolChoice::Auto => ("auto", None),
        ToolChoice::Never => ("none", None),
        ToolChoice::Any => ("any", None),
        ToolChoice::Named(name) => ("tool", Some(name)),
    };
    let is_disabled = request.parallel_tools.filter(|_| kind != "none").map(|parallel| !parallel);
    Some(object! {"type": kind, "name"?: name, "disable_parallel_tool_use"?: is_disabled})
}

fn output_config(request: &Request, losses: &mut Losses) -> Option<Json> {
    let format = match &request.format {
        Format::Text => None,
        Format::Json => {
            losses.add(Fate::Dropped, "format");
            None
        }
        Format::Schema { name, schema, .. } => {
            losses.dropped_if(name.is_some(), "format.name");
            Some(object! {"type": "json_schema", "schema": schema})
        }
    };
    let effort = request.reasoning.as_ref().and_then(|asked| asked.effort.as_deref());
    let is_known = effort.is_none_or(|effort| matches!(effort, "low" | "medium" | "high" | "xhigh" | "max"));
    losses.dropped_if(!is_known, "reasoning.effort");
    let effort = effort.filter(|_| is_known);
    (format.is_some() || effort.is_some()).then(|| object! {"format"?: format, "effort"?: effort})
}

fn thinking(request: &Request, losses: &mut Losses) -> Option<Json> {
    let asked = request.reasoning.as_ref()?;
    losses.dropped_if(asked.is_shown.is_some(), "reasoning.is_shown");
    match asked.budget? {
        0 => Some(object! {"type": "disabled"}),
        budget => Some(object! {"type": "enabled", "budget_tokens": budget}),
    }
}
