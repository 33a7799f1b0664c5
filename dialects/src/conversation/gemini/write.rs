//! Writing a request.

use super::{NAME, Untranslatable, Written};
use crate::conversation::{
    Fate, Format, Json, Media, MediaKind, MediaSource, Part, Request, Role, ToolCall, ToolChoice, ToolResult,
    Turn, calls::tool_name, loss::Losses, request::text_of, text::object,
};

pub(super) fn request(request: &Request) -> Result<Written, Untranslatable> {
    let mut losses = Losses::default();
    let declarations: Vec<_> = request
        .tools
        .iter()
        .map(|tool| {
            object! {
                "name": tool.name,
                "description"?: tool.description,
                "parametersJsonSchema"?: tool.parameters,
            }
        })
        .collect();
    losses.dropped_if(request.tools.iter().any(|tool| tool.strict == Some(true)), "tools.strict");
    let system = system(request, &mut losses);
    let contents = contents(request, &mut losses);
    let config = generation(request, &mut losses);
    let body = object! {
        "systemInstruction"?: system,
        "contents": contents,
        "tools"?: (!declarations.is_empty()).then(|| [object! {"functionDeclarations": declarations}]),
        "toolConfig"?: tool_config(request, &mut losses),
        "generationConfig"?: (config.text() != "{}").then_some(config),
    };
    losses.dropped_if(request.parallel_tools.is_some(), "parallel_tools");
    losses.dropped_if(request.user.is_some(), "user");
    losses.dropped_if(request.metadata.is_some(), "metadata");
    Ok(Written { body, losses: losses.checked(NAME)? })
}

fn is_system(turn: &Turn) -> bool {
    matches!(turn.role, Role::System | Role::Developer)
}

/// All system turns, wherever they stand, go to the front.
fn system(request: &Request, losses: &mut Losses) -> Option<Json> {
    let first_other = request.turns.iter().position(|turn| !is_system(turn)).unwrap_or(request.turns.len());
    let mut written = Vec::new();
    for (at, turn) in request.turns.iter().enumerate().filter(|(_, turn)| is_system(turn)) {
        if at > first_other {
            losses.add(Fate::Emulated, format!("turns[{at}]"));
        }
        written.extend(parts(at, turn, request, losses));
    }
    (!written.is_empty()).then(|| object! {"parts": written})
}

/// Results of tools and what the user says after them are one content.
fn contents(request: &Request, losses: &mut Losses) -> Vec<Json> {
    let mut contents: Vec<(&str, Vec<Json>, bool)> = Vec::new();
    for (at, turn) in request.turns.iter().enumerate().filter(|(_, turn)| !is_system(turn)) {
        losses.dropped_if(turn.name.is_some(), &format!("turns[{at}].name"));
        let role = if turn.role == Role::Assistant { "model" } else { "user" };
        let parts = parts(at, turn, request, losses);
        let is_results = turn.role == Role::Tool;
        match contents.last_mut() {
            Some((last, before, after_results)) if *last == role && *after_results => {
                before.extend(parts);
                *after_results = is_results;
            }
            _ => contents.push((role, parts, is_results)),
        }
    }
    contents.into_iter().map(|(role, parts, _)| object! {"role": role, "parts": parts}).collect()
}

fn parts(at: usize, turn: &Turn, request: &Request, losses: &mut Losses) -> Vec<Json> {
    let mut written = Vec::new();
    for (nth, part) in turn.parts.iter().enumerate() {
        let field = format!("turns[{at}].parts[{nth}]");
        match part {
            Part::Text(text) | Part::Refusal(text) => written.push(object! {"text": text}),
            Part::Media(media) => written.extend(medium(&field, media, losses)),
            Part::ToolCall(call) => match tool_call(call) {
                Some(call) => written.push(call),
                None => losses.add(Fate::Refused, format!("{field}.arguments")),
            },
            Part::ToolResult(result) => written.extend(tool_result(&field, result, request, losses)),
            Part::Reasoning(said) => match said.seal.as_ref().filter(|seal| seal.format == NAME) {
                Some(seal) => written.push(object! {
                    "text": said.text,
                    "thought": true,
                    "thoughtSignature": seal.data,
                }),
                None => losses.add(Fate::Dropped, format!("{field}.reasoning")),
            },
        }
    }
    written
}

/// A call as a part, in requests and in answers. None if its arguments are no object.
pub(super) fn tool_call(call: &ToolCall) -> Option<Json> {
    let function = object! {"id": call.id, "name": call.name, "args": call.object()?};
    let own = call.seal.as_ref().filter(|seal| seal.format == NAME);
    Some(object! {"functionCall": function, "thoughtSignature"?: own.map(|seal| &seal.data)})
}

/// A result names the function. Media follow it as parts of their own.
fn tool_result(field: &str, result: &ToolResult, request: &Request, losses: &mut Losses) -> Vec<Json> {
    let Some(name) = tool_name(request, result) else {
        losses.add(Fate::Refused, format!("{field}.name"));
        return Vec::new();
    };
    let text = text_of(&result.parts);
    let response = if result.is_error {
        object! {"error": text}
    } else {
        object! {"output": text}
    };
    let function = object! {"id": result.id, "name": name, "response": response};
    let mut written = vec![object! {"functionResponse": function}];
    for part in &result.parts {
        if let Part::Media(media) = part {
            losses.add(Fate::Emulated, format!("{field}.media"));
            written.extend(medium(field, media, losses));
        }
    }
    written
}

/// The bytes, or where they are.
pub(super) fn medium(field: &str, media: &Media, losses: &mut Losses) -> Option<Json> {
    losses.dropped_if(media.detail.is_some(), &format!("{field}.detail"));
    let usual = match media.kind {
        MediaKind::Image => "image/png",
        MediaKind::Audio => "audio/wav",
        MediaKind::Video => "video/mp4",
        MediaKind::Document => "application/pdf",
    };
    match &media.source {
        MediaSource::Base64 { mime, data } => {
            Some(object! {"inlineData": object! {"mimeType": mime, "data": data}})
        }
        MediaSource::Url { url, mime } => {
            if mime.is_none() {
                losses.add(Fate::Emulated, format!("{field}.mime"));
            }
            let mime = mime.as_deref().unwrap_or(usual);
            Some(object! {"fileData": object! {"mimeType": mime, "fileUri": url}})
        }
        MediaSource::Text(text) => Some(object! {"text": text}),
        MediaSource::File(uri) if uri.contains("://") => {
            Some(object! {"fileData": object! {"mimeType": usual, "fileUri": uri}})
        }
        MediaSource::File(_) => {
            losses.add(Fate::Refused, format!("{field}.file"));
            None
        }
    }
}

fn tool_config(request: &Request, losses: &mut Losses) -> Option<Json> {
    let (mode, allowed) = match &request.tool_choice {
        ToolChoice::Auto => return None,
        ToolChoice::Never => ("NONE", None),
        ToolChoice::Any => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some([name])),
    };
    if request.tools.is_empty() {
        losses.add(Fate::Dropped, "tool_choice");
        return None;
    }
    let calling = object! {"mode": mode, "allowedFunctionNames"?: allowed};
    Some(object! {"functionCallingConfig": calling})
}

fn generation(request: &Request, losses: &mut Losses) -> Json {
    let sampling = &request.sampling;
    let (mime, schema) = match &request.format {
        Format::Text => (None, None),
        Format::Json => (Some("application/json"), None),
        Format::Schema { name, schema, strict } => {
            losses.dropped_if(name.is_some(), "format.name");
            losses.dropped_if(*strict == Some(true), "format.strict");
            (Some("application/json"), Some(schema))
        }
    };
    let thinking = request.reasoning.as_ref().map(|asked| {
        object! {
            "thinkingBudget"?: asked.budget,
            "thinkingLevel"?: asked.effort,
            "includeThoughts"?: asked.is_shown,
        }
    });
    object! {
        "temperature"?: sampling.temperature,
        "topP"?: sampling.top_p,
        "topK"?: sampling.top_k,
        "presencePenalty"?: sampling.presence_penalty,
        "frequencyPenalty"?: sampling.frequency_penalty,
        "seed"?: sampling.seed,
        "candidateCount"?: sampling.choices,
        "responseLogprobs"?: sampling.logprobs,
        "logprobs"?: sampling.top_logprobs,
        "maxOutputTokens"?: request.max_tokens,
        "stopSequences"?: (!request.stop.is_empty()).then_some(&request.stop),
        "responseMimeType"?: mime,
        "responseJsonSchema"?: schema,
        "thinkingConfig"?: thinking.filter(|thinking| thinking.text() != "{}"),
    }
}
