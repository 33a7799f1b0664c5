//! Reading and writing a whole message, and what a stream has in common with it.

use super::{Answer, FieldError, Usage, Written, object, read, write};
use crate::conversation::{AnswerStart, Choice, Fate, Fields, Json, Part, Stop, fields::parse, loss::Losses};

pub(super) fn read(body: &[u8]) -> Result<Answer, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut answer = Answer { head: head(&fields)?, ..Answer::default() };
    let mut choice = Choice::default();
    if let Some(content) = fields.get("content") {
        read::content(&content, &mut answer.unmapped)?.into_iter().for_each(|part| choice.push(part));
    }
    if let Some(stop) = stop(&fields)? {
        choice.set_stop(stop);
    }
    answer.choices = vec![choice];
    answer.usage = answer.head.usage.take();
    answer.unmapped.extend(fields.rest());
    Ok(answer)
}

/// The head of a message. Its usage is that of the whole message, or, at the start of a stream, so far.
pub(super) fn head(message: &Fields<'_>) -> Result<AnswerStart, FieldError> {
    for known in ["type", "role", "content", "stop_reason", "stop_sequence"] {
        message.get(known);
    }
    let usage = message.object("usage")?;
    Ok(AnswerStart {
        id: message.string("id")?.unwrap_or_default(),
        model: message.string("model")?.unwrap_or_default(),
        created: None,
        fingerprint: None,
        tier: usage.as_ref().map(|usage| usage.string("service_tier")).transpose()?.flatten(),
        usage: usage.map(|usage| read_usage(&usage, Usage::default())).transpose()?,
    })
}

/// The usage, where what it leaves out is as it was before.
pub(super) fn read_usage(usage: &Fields<'_>, before: Usage) -> Result<Usage, FieldError> {
    let number = |name| usage.integer(name, 0, u64::MAX);
    let cached = number("cache_read_input_tokens")?.unwrap_or(before.cached);
    let cache_written = number("cache_creation_input_tokens")?.unwrap_or(before.cache_written);
    let input = match number("input_tokens")? {
        // What came from the cache or went there is not in it.
        Some(input) => input.saturating_add(cached).saturating_add(cache_written),
        None => before.input,
    };
    let output = number("output_tokens")?.unwrap_or(before.output);
    Ok(Usage { input, cached, cache_written, output, reasoning: before.reasoning })
}

/// Why a message, or a `message_delta`, ends.
pub(super) fn stop(fields: &Fields<'_>) -> Result<Option<Stop>, FieldError> {
    let sequence = fields.string("stop_sequence")?;
    let reason = fields.string("stop_reason")?;
    Ok(reason.map(|reason| match reason.as_str() {
        "end_turn" => Stop::End,
        "stop_sequence" => Stop::StopText(sequence.unwrap_or_default()),
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::Context,
        "tool_use" => Stop::ToolCalls,
        "refusal" => Stop::Refused,
        "pause_turn" => Stop::Paused,
        _ => Stop::Other(reason),
    }))
}

pub(super) fn write(answer: &Answer) -> Written {
    let mut losses = Losses::default();
    let choice = answer.choices.first();
    if answer.choices.len() > 1 {
        losses.add(Fate::Dropped, "choices");
    }
    let parts = choice.map_or(&[][..], |choice| &choice.parts);
    let content: Vec<_> =
        parts.iter().enumerate().filter_map(|(nth, part)| block(nth, part, &mut losses)).collect();
    let stop = choice.and_then(|choice| choice.stop.as_ref());
    let body = message(&answer.head, &content, stop, &answer.usage.unwrap_or_default());
    Written { body, losses: losses.into_inner() }
}

pub(super) fn message(head: &AnswerStart, content: &[Json], stop: Option<&Stop>, usage: &Usage) -> Json {
    let (reason, sequence) = stop.map_or((None, None), written_stop);
    object! {
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": object! {
            "input_tokens": uncached(usage),
            "cache_creation_input_tokens": usage.cache_written,
            "cache_read_input_tokens": usage.cached,
            "cache_creation": object! {
                "ephemeral_5m_input_tokens": usage.cache_written,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": usage.output,
            "service_tier": head.tier.as_deref().unwrap_or("standard"),
        },
    }
}

/// Input that neither came from the cache nor went there.
pub(super) fn uncached(usage: &Usage) -> u64 {
    usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written)
}

/// The reason, and the stop text if that was it.
pub(super) fn written_stop(stop: &Stop) -> (Option<&str>, Option<&str>) {
    match stop {
        Stop::StopText(text) => (Some("stop_sequence"), Some(text)),
        Stop::End | Stop::MalformedCall => (Some("end_turn"), None),
        Stop::Length => (Some("max_tokens"), None),
        Stop::Context => (Some("model_context_window_exceeded"), None),
        Stop::ToolCalls => (Some("tool_use"), None),
        Stop::Filtered(_) | Stop::Refused => (Some("refusal"), None),
        Stop::Paused => (Some("pause_turn"), None),
        Stop::Other(word) => (Some(word), None),
    }
}

/// A part as a block. The input of a call whose JSON was cut is empty, as with a real message that its limit cut.
fn block(nth: usize, part: &Part, losses: &mut Losses) -> Option<Json> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(object! {"type": "text", "text": text}),
        Part::Reasoning(said) => Some(write::thought(&said.text, said.seal.as_ref())),
        Part::ToolCall(call) => {
            let input = call.object().unwrap_or_else(|| object! {});
            Some(object! {"type": "tool_use", "id": call.id, "name": call.name, "input": input})
        }
        Part::Media(media) => {
            losses.add(Fate::Dropped, format!("choices[0].parts[{nth}].{}", media.kind.name()));
            None
        }
        Part::ToolResult(_) => None,
    }
}
