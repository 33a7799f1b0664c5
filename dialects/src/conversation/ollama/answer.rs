//! Reading and writing a whole answer, which has the form of a stream's lines.

use jiff::Timestamp;

use super::{Answer, FieldError, Written, read, write};
use crate::conversation::{
    AnswerStart, Choice, Fate, Fields, Json, Part, Reasoning, Stop, Usage, fields::parse, loss::Losses,
    text::object,
};

pub(super) fn read(body: &[u8]) -> Result<Answer, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut answer = Answer { head: head(&fields)?, ..Answer::default() };
    let mut choice = Choice::default();
    if let Some(message) = fields.object("message")? {
        message.get("role");
        if let Some(text) = message.string("thinking")?.filter(|text| !text.is_empty()) {
            choice.push(Part::Reasoning(Reasoning { text, seal: None }));
        }
        message.string("content")?.map(Part::Text).into_iter().for_each(|part| choice.push(part));
        let calls = read::tool_calls(&message, "call", &mut 0, &mut answer.unmapped)?;
        calls.into_iter().for_each(|call| choice.push(Part::ToolCall(call)));
        answer.unmapped.extend(message.rest());
    }
    if let Some(stop) = stop(&fields)? {
        choice.set_stop(stop);
    }
    answer.choices = vec![choice];
    answer.usage = usage(&fields)?;
    answer.unmapped.extend(fields.rest());
    Ok(answer)
}

pub(super) fn head(fields: &Fields<'_>) -> Result<AnswerStart, FieldError> {
    let created = fields.string("created_at")?.and_then(|at| at.parse::<Timestamp>().ok());
    let created = created.and_then(|at| u64::try_from(at.as_second()).ok());
    Ok(AnswerStart { model: fields.string("model")?.unwrap_or_default(), created, ..AnswerStart::default() })
}

/// Why an answer ends; none while it goes on.
pub(super) fn stop(fields: &Fields<'_>) -> Result<Option<Stop>, FieldError> {
    let is_done = fields.flag("done")?.unwrap_or(false);
    let reason = fields.string("done_reason")?;
    Ok(is_done.then(|| match reason.as_deref() {
        None | Some("stop") => Stop::End,
        Some("length") => Stop::Length,
        Some(other) => Stop::Other(other.to_owned()),
    }))
}

pub(super) fn usage(fields: &Fields<'_>) -> Result<Option<Usage>, FieldError> {
    let input = fields.integer("prompt_eval_count", 0, u64::MAX)?;
    let output = fields.integer("eval_count", 0, u64::MAX)?;
    let usage = Usage { input: input.unwrap_or(0), output: output.unwrap_or(0), ..Usage::default() };
    Ok((input.is_some() || output.is_some()).then_some(usage))
}

pub(super) fn write(answer: &Answer) -> Written {
    let mut losses = Losses::default();
    let choice = answer.choices.first().cloned().unwrap_or_default();
    if answer.choices.len() > 1 {
        losses.add(Fate::Dropped, "choices");
    }
    let (mut text, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for (nth, part) in choice.parts.iter().enumerate() {
        match part {
            Part::Text(said) | Part::Refusal(said) => text.push_str(said),
            Part::Reasoning(said) => thought.push_str(&said.text),
            Part::ToolCall(call) => calls.extend(write::tool_call(calls.len(), call)),
            Part::Media(media) => {
                losses.add(Fate::Dropped, format!("choices[0].parts[{nth}].{}", media.kind.name()));
            }
            Part::ToolResult(_) => {}
        }
    }
    let message = message(&text, &thought, &calls);
    let body = line(&answer.head, &message, choice.stop.as_ref(), answer.usage.as_ref());
    Written { body, losses: losses.into_inner() }
}

pub(super) fn message(text: &str, thought: &str, calls: &[Json]) -> Json {
    object! {
        "role": "assistant",
        "content": text,
        "thinking"?: (!thought.is_empty()).then_some(thought),
        "tool_calls"?: (!calls.is_empty()).then_some(calls),
    }
}

/// A line of a stream, or a whole answer. Durations are not told: nobody has measured them.
pub(super) fn line(head: &AnswerStart, message: &Json, stop: Option<&Stop>, usage: Option<&Usage>) -> Json {
    let created = head.created.and_then(|seconds| i64::try_from(seconds).ok());
    let created = created.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or_default();
    object! {
        "model": head.model,
        "created_at": created.to_string(),
        "message": message,
        "done_reason"?: stop.map(write_stop),
        "done": stop.is_some(),
        "prompt_eval_count"?: usage.map(|usage| usage.input),
        "eval_count"?: usage.map(|usage| usage.output),
    }
}

fn write_stop(stop: &Stop) -> &str {
    match stop {
        Stop::Length | Stop::Context => "length",
        Stop::Other(word) => word,
        _ => "stop",
    }
}
