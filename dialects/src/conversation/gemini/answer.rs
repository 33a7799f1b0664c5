//! Reading and writing a whole answer, which has the form of a stream's chunks.

use super::{
    Answer, FieldError, Written,
    read::{self, Ids},
    write,
};
use crate::conversation::{
    AnswerStart, Choice, Fields, Json, Part, Stop, Unmapped, Usage, calls::stop_of, fields::parse,
    loss::Losses, text::object,
};

pub(super) fn read(body: &[u8]) -> Result<Answer, FieldError> {
    let document = parse(body)?;
    let fields = Fields::google(&document)?;
    let mut answer = Answer { head: head(&fields)?, ..Answer::default() };
    for candidate in fields.objects("candidates")? {
        let mut ids = Ids::new(&answer.head.id);
        let mut choice = Choice::default();
        let said = read_candidate(&candidate, &mut ids, &mut answer.unmapped)?;
        said.0.into_iter().for_each(|part| choice.push(part));
        if let Some(stop) = said.1 {
            choice.set_stop(stop);
        }
        answer.choices.push(choice);
        answer.unmapped.extend(candidate.rest());
    }
    if let Some(stop) = blocked(&fields)? {
        answer.choices.push(Choice { stop: Some(stop), ..Choice::default() });
    }
    answer.usage = usage(&fields)?;
    answer.unmapped.extend(fields.rest());
    Ok(answer)
}

pub(super) fn read_candidate(
    candidate: &Fields<'_>,
    ids: &mut Ids,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(Vec<Part>, Option<Stop>), FieldError> {
    candidate.get("index");
    let parts = match candidate.object("content")? {
        Some(content) => {
            content.get("role");
            read::parts(&content, ids, unmapped)?
        }
        None => Vec::new(),
    };
    Ok((parts, candidate.string("finishReason")?.map(|reason| read_stop(&reason))))
}

/// A prompt that was refused has no candidates.
pub(super) fn blocked(fields: &Fields<'_>) -> Result<Option<Stop>, FieldError> {
    let Some(feedback) = fields.object("promptFeedback")? else { return Ok(None) };
    Ok(feedback
        .string("blockReason")?
        .map(|reason| Stop::Filtered(Some(reason).filter(|word| word != "SAFETY"))))
}

pub(super) fn head(fields: &Fields<'_>) -> Result<AnswerStart, FieldError> {
    Ok(AnswerStart {
        id: fields.string("responseId")?.unwrap_or_default(),
        model: fields.string("modelVersion")?.unwrap_or_default(),
        ..AnswerStart::default()
    })
}

pub(super) fn usage(fields: &Fields<'_>) -> Result<Option<Usage>, FieldError> {
    let Some(usage) = fields.object("usageMetadata")? else { return Ok(None) };
    let number = |name| Ok::<_, FieldError>(usage.integer(name, 0, u64::MAX)?.unwrap_or(0));
    // Thoughts are not among the tokens of the candidates.
    let reasoning = number("thoughtsTokenCount")?;
    Ok(Some(Usage {
        input: number("promptTokenCount")?.saturating_add(number("toolUsePromptTokenCount")?),
        cached: number("cachedContentTokenCount")?,
        cache_written: 0,
        output: number("candidatesTokenCount")?.saturating_add(reasoning),
        reasoning,
    }))
}

fn read_stop(reason: &str) -> Stop {
    match reason {
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY" => Stop::Filtered(None),
        "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Stop::Filtered(Some(reason.to_owned())),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => Stop::MalformedCall,
        other => Stop::Other(other.to_owned()),
    }
}

pub(super) fn write_stop(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::StopText(_) | Stop::ToolCalls | Stop::Paused => "STOP",
        Stop::Length | Stop::Context => "MAX_TOKENS",
        Stop::Filtered(Some(reason)) if read_stop(reason) == *stop => reason,
        Stop::Filtered(_) | Stop::Refused => "SAFETY",
        Stop::MalformedCall => "MALFORMED_FUNCTION_CALL",
        Stop::Other(word) if word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => word,
        Stop::Other(_) => "OTHER",
    }
}

pub(super) fn write(answer: &Answer) -> Written {
    let mut losses = Losses::default();
    let candidates: Vec<_> = answer
        .choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let parts: Vec<_> =
                choice.parts.iter().filter_map(|part| part_of_answer(index, part, &mut losses)).collect();
            let calls = choice.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some(call),
                _ => None,
            });
            let stop = choice.stop.as_ref().map(|stop| stop_of(stop, calls));
            candidate(index, &parts, stop.as_ref())
        })
        .collect();
    let body = chunk(&answer.head, &candidates, answer.usage.as_ref());
    Written { body, losses: losses.into_inner() }
}

fn part_of_answer(choice: usize, part: &Part, losses: &mut Losses) -> Option<Json> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(object! {"text": text}),
        Part::Reasoning(said) => {
            let own = said.seal.as_ref().filter(|seal| seal.format == super::NAME);
            Some(
                object! {"text": said.text, "thought": true, "thoughtSignature"?: own.map(|seal| &seal.data)},
            )
        }
        Part::ToolCall(call) => write::tool_call(call),
        Part::Media(media) => write::medium(&format!("choices[{choice}]"), media, losses),
        Part::ToolResult(_) => None,
    }
}

pub(super) fn candidate(index: usize, parts: &[Json], stop: Option<&Stop>) -> Json {
    let content = object! {"parts": parts, "role": "model"};
    object! {"content": content, "finishReason"?: stop.map(write_stop), "index": index}
}

pub(super) fn chunk(head: &AnswerStart, candidates: &[Json], usage: Option<&Usage>) -> Json {
    object! {
        "candidates": candidates,
        "usageMetadata"?: usage.map(write_usage),
        "modelVersion": head.model,
        "responseId": head.id,
    }
}

fn write_usage(usage: &Usage) -> Json {
    let more = |count: u64| (count > 0).then_some(count);
    object! {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output.saturating_sub(usage.reasoning),
        "totalTokenCount": usage.total(),
        "cachedContentTokenCount"?: more(usage.cached),
        "promptTokensDetails": [object! {"modality": "TEXT", "tokenCount": usage.input}],
        "thoughtsTokenCount"?: more(usage.reasoning),
    }
}
