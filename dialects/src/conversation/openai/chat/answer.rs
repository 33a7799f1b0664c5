//! Reading and writing a whole answer, and what a stream's chunks have in common with it.

use super::{Usage, Written, read, write};
use crate::conversation::{
    Answer, AnswerStart, Choice, Fate, FieldError, Fields, Json, Part, Reasoning, Stop, Unmapped,
    fields::parse, loss::Losses, openai::object,
};

pub(super) fn read(body: &[u8]) -> Result<Answer, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut answer = Answer { head: head(&fields)?, ..Answer::default() };
    for choice in fields.objects("choices")? {
        answer.choices.push(read_choice(&choice, &mut answer.unmapped)?);
        answer.unmapped.extend(choice.rest());
    }
    answer.usage = fields.object("usage")?.map(|usage| read_usage(&usage)).transpose()?;
    answer.unmapped.extend(fields.rest());
    Ok(answer)
}

fn read_choice(choice: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<Choice, FieldError> {
    let mut read = Choice { logprobs: choice.get("logprobs").map(|field| field.json()), ..Choice::default() };
    choice.get("index");
    let Some(message) = choice.object("message")? else { return Ok(read) };
    message.get("role");
    if let Some(text) = reasoning(&message)? {
        read.push(Part::Reasoning(Reasoning { text, seal: None }));
    }
    if let Some(content) = message.get("content") {
        read::content_parts(&content, unmapped)?.into_iter().for_each(|part| read.push(part));
    }
    message.string("refusal")?.map(Part::Refusal).into_iter().for_each(|part| read.push(part));
    read::tool_calls(&message, unmapped)?.into_iter().for_each(|part| read.push(part));
    if message.list("annotations")?.is_empty() {
        unmapped.extend(message.rest());
    } else {
        unmapped.extend(
            message.get("annotations").map(|field| field.unmapped()).into_iter().chain(message.rest()),
        );
    }
    if let Some(reason) = choice.string("finish_reason")? {
        read.set_stop(read_stop(&reason));
    }
    Ok(read)
}

/// A thought: DeepSeek's and vLLM's name for it, or OpenRouter's.
pub(super) fn reasoning(message: &Fields<'_>) -> Result<Option<String>, FieldError> {
    let text = match message.string("reasoning_content")? {
        Some(text) => Some(text),
        None => message.string("reasoning").ok().flatten(),
    };
    Ok(text.filter(|text| !text.is_empty()))
}

pub(super) fn head(fields: &Fields<'_>) -> Result<AnswerStart, FieldError> {
    fields.get("object");
    Ok(AnswerStart {
        id: fields.string("id")?.unwrap_or_default(),
        model: fields.string("model")?.unwrap_or_default(),
        created: fields.integer("created", 0, u64::MAX).ok().flatten(),
        fingerprint: fields.string("system_fingerprint")?,
        tier: fields.string("service_tier")?,
        usage: None,
    })
}

pub(super) fn read_usage(usage: &Fields<'_>) -> Result<Usage, FieldError> {
    let number =
        |fields: &Fields<'_>, name| Ok::<_, FieldError>(fields.integer(name, 0, u64::MAX)?.unwrap_or(0));
    let detail = |details, name| usage.object(details)?.map_or(Ok(0), |details| number(&details, name));
    Ok(Usage {
        input: number(usage, "prompt_tokens")?,
        cached: detail("prompt_tokens_details", "cached_tokens")?,
        cache_written: 0,
        output: number(usage, "completion_tokens")?,
        reasoning: detail("completion_tokens_details", "reasoning_tokens")?,
    })
}

pub(super) fn read_stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::End,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::Filtered(None),
        other => Stop::Other(other.to_owned()),
    }
}

pub(super) fn write(answer: &Answer) -> Written {
    let mut losses = Losses::default();
    let choices: Vec<_> = answer
        .choices
        .iter()
        .enumerate()
        .map(|(index, choice)| write_choice(index, choice, &mut losses))
        .collect();
    let body = object! {
        ..frame(&answer.head, "chat.completion"),
        "choices": choices,
        "usage"?: answer.usage.as_ref().map(write_usage),
        ..frame_end(&answer.head),
    };
    Written { body, losses: losses.into_inner() }
}

fn write_choice(index: usize, choice: &Choice, losses: &mut Losses) -> Json {
    let (mut refusal, mut thought, mut calls) = (None, None::<String>, Vec::new());
    for part in &choice.parts {
        match part {
            Part::ToolCall(call) => calls.push(write::tool_call(call)),
            Part::Refusal(text) => refusal = Some(text),
            Part::Reasoning(said) if !said.text.is_empty() => {
                thought.get_or_insert_default().push_str(&said.text)
            }
            Part::Media(media) => {
                losses.add(Fate::Dropped, format!("choices[{index}].{}", media.kind.name()));
            }
            Part::Text(_) | Part::Reasoning(_) | Part::ToolResult(_) => {}
        }
    }
    let text = choice.text();
    let is_silent = text.is_empty() && (!calls.is_empty() || refusal.is_some());
    let message = object! {
        "role": "assistant",
        "content": (!is_silent).then_some(text),
        "refusal": refusal,
        "annotations": [(); 0],
        "reasoning_content"?: thought,
        "tool_calls"?: (!calls.is_empty()).then_some(calls),
    };
    object! {
        "index": index,
        "message": message,
        "logprobs": choice.logprobs,
        "finish_reason": choice.stop.as_ref().map(write_stop),
    }
}

/// What an answer and each chunk begin with.
pub(super) fn frame(head: &AnswerStart, object: &str) -> Vec<(&'static str, Json)> {
    vec![
        ("id", Json::of(&head.id)),
        ("object", Json::of(object)),
        ("created", Json::of(&head.created.unwrap_or(0))),
        ("model", Json::of(&head.model)),
    ]
}

/// What an answer ends with, and a chunk has before its choices.
pub(super) fn frame_end(head: &AnswerStart) -> Vec<(&'static str, Json)> {
    let tier = head.tier.as_ref().map(|tier| ("service_tier", Json::of(tier)));
    tier.into_iter().chain([("system_fingerprint", Json::of(&head.fingerprint))]).collect()
}

pub(super) fn write_usage(usage: &Usage) -> Json {
    object! {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": object! {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": object! {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
}

pub(super) fn write_stop(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::StopText(_) | Stop::Paused => "stop",
        Stop::Length | Stop::Context => "length",
        Stop::ToolCalls => "tool_calls",
        Stop::Filtered(_) | Stop::Refused => "content_filter",
        Stop::MalformedCall => "error",
        // Words of compatible servers, such as DeepSeek's `insufficient_system_resource`.
        Stop::Other(word) => word,
    }
}
