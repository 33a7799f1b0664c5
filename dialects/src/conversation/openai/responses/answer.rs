//! Reading and writing a whole response, and what a stream has in common with it.

use super::{Written, read};
use crate::conversation::{
    Answer, AnswerStart, Choice, Fate, FieldError, Fields, Json, Part, Request, Signature, Stop, Usage,
    fields::parse, loss::Losses, openai::object,
};

/// Fields of the request that a response repeats, with what they are where the request left them out.
const ECHOED: [(&str, &str); 19] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("previous_response_id", "null"),
    ("prompt_cache_key", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("store", "true"),
    ("temperature", "1.0"),
    ("text", r#"{"format":{"type":"text"},"verbosity":"medium"}"#),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
];

/// The fields of a request that its answer repeats.
pub(super) fn echo(request: &Fields<'_>) -> Vec<(String, Json)> {
    read::given(request, &ECHOED.map(|(name, _)| name))
}

/// All fields of a response that repeat the request.
pub(super) fn echoed(to: &Request) -> Vec<(&'static str, Json)> {
    let field = |(name, default): (&'static str, &str)| {
        let given = to.echo.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        (name, given.or_else(|| Json::parse(default)).unwrap_or_else(|| Json::of(&())))
    };
    ECHOED.into_iter().map(field).collect()
}

pub(super) fn read(body: &[u8]) -> Result<Answer, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut answer = Answer { head: head(&fields)?, ..Answer::default() };
    let mut choice = Choice::default();
    for item in fields.list("output")? {
        let members = item.object()?;
        let kind = members.required_string("type")?;
        match read::output_item(&kind, &members, &mut answer.unmapped)? {
            Some(parts) => {
                parts.into_iter().for_each(|part| choice.push(part));
                answer.unmapped.extend(members.rest());
            }
            None => answer.unmapped.push(item.unmapped()),
        }
    }
    if let Some(stop) = stop(&fields)? {
        choice.set_stop(stop);
    }
    answer.choices = vec![choice];
    answer.usage = usage(&fields)?;
    for (name, _) in ECHOED {
        fields.get(name);
    }
    answer.unmapped.extend(fields.rest());
    Ok(answer)
}

pub(super) fn head(response: &Fields<'_>) -> Result<AnswerStart, FieldError> {
    for known in ["object", "completed_at", "error"] {
        response.get(known);
    }
    Ok(AnswerStart {
        id: response.string("id")?.unwrap_or_default(),
        model: response.string("model")?.unwrap_or_default(),
        created: response.float("created_at")?.map(|seconds| seconds.max(0.0) as u64),
        fingerprint: None,
        // What is still under way has no tier yet.
        tier: response.string("service_tier")?.filter(|tier| tier != "auto"),
        usage: None,
    })
}

/// Why a response ended; none while it goes on.
pub(super) fn stop(response: &Fields<'_>) -> Result<Option<Stop>, FieldError> {
    let details = response.object("incomplete_details")?;
    let reason = details.map(|details| details.string("reason")).transpose()?.flatten();
    Ok(match (response.string("status")?.as_deref(), reason.as_deref()) {
        (Some("completed"), _) => Some(Stop::End),
        (Some("incomplete"), Some("max_output_tokens")) => Some(Stop::Length),
        (Some("incomplete"), Some("content_filter")) => Some(Stop::Filtered(None)),
        (Some("incomplete" | "failed" | "cancelled"), _) => {
            Some(Stop::Other(reason.unwrap_or_else(|| "failed".to_owned())))
        }
        _ => None,
    })
}

pub(super) fn usage(response: &Fields<'_>) -> Result<Option<Usage>, FieldError> {
    let Some(usage) = response.object("usage")? else { return Ok(None) };
    let number =
        |fields: &Fields<'_>, name| Ok::<_, FieldError>(fields.integer(name, 0, u64::MAX)?.unwrap_or(0));
    let detail = |details, name| usage.object(details)?.map_or(Ok(0), |details| number(&details, name));
    Ok(Some(Usage {
        input: number(&usage, "input_tokens")?,
        cached: detail("input_tokens_details", "cached_tokens")?,
        cache_written: detail("input_tokens_details", "cache_write_tokens")?,
        output: number(&usage, "output_tokens")?,
        reasoning: detail("output_tokens_details", "reasoning_tokens")?,
    }))
}

pub(super) fn write(answer: &Answer, to: &Request) -> Written {
    let mut losses = Losses::default();
    let choice = answer.choices.first().cloned().unwrap_or_default();
    if answer.choices.len() > 1 {
        losses.add(Fate::Dropped, "choices");
    }
    let last = choice.parts.len().saturating_sub(1);
    let items = choice.parts.iter().enumerate().filter_map(|(index, part)| {
        let item = Item::of_part(&answer.head.id, index, part);
        if item.is_none() {
            losses.add(Fate::Dropped, format!("choices[0].parts[{index}]"));
        }
        let status = if index == last { status(choice.stop.as_ref()) } else { "completed" };
        item.map(|item| item.render(status))
    });
    let items: Vec<_> = items.collect();
    let body =
        response(&answer.head, status(choice.stop.as_ref()), choice.stop.as_ref(), &items, answer.usage, to);
    Written { body, losses: losses.into_inner() }
}

/// The status of a response, and of its last item.
pub(super) fn status(stop: Option<&Stop>) -> &'static str {
    match stop {
        Some(Stop::Length | Stop::Context | Stop::Filtered(_) | Stop::Refused) => "incomplete",
        Some(_) => "completed",
        None => "in_progress",
    }
}

pub(super) fn response(
    head: &AnswerStart,
    status: &str,
    stop: Option<&Stop>,
    output: &[Json],
    usage: Option<Usage>,
    to: &Request,
) -> Json {
    let reason = match stop {
        Some(Stop::Filtered(_) | Stop::Refused) => "content_filter",
        _ => "max_output_tokens",
    };
    let created = head.created.unwrap_or(0);
    let has_ended = status != "in_progress";
    object! {
        "id": head.id,
        "object": "response",
        "created_at": created,
        "status": status,
        "completed_at": (status == "completed").then_some(created),
        "error": None::<&str>,
        "incomplete_details": (status == "incomplete").then(|| object! {"reason": reason}),
        "model": head.model,
        "output": output,
        // What is still under way has no tier yet.
        "service_tier"?: if has_ended { head.tier.as_deref() } else { Some("auto") },
        "usage": usage.filter(|_| has_ended).as_ref().map(write_usage),
        ..echoed(to),
    }
}

fn write_usage(usage: &Usage) -> Json {
    object! {
        "input_tokens": usage.input,
        "input_tokens_details": object! {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_written,
        },
        "output_tokens": usage.output,
        "output_tokens_details": object! {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    }
}

/// An item of the output, and what it has said so far.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: ItemKind,
    pub(super) said: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ItemKind {
    Text,
    Refusal,
    Reasoning(Option<Signature>),
    Call { id: String, name: String },
}

impl Item {
    /// An item's id derives from the response's and from its place, as real ones look alike.
    pub(super) fn new(response: &str, index: usize, kind: ItemKind) -> Self {
        let prefix = match kind {
            ItemKind::Text | ItemKind::Refusal => "msg",
            ItemKind::Reasoning(_) => "rs",
            ItemKind::Call { .. } => "fc",
        };
        let tail = response.split_once('_').map_or(response, |(_, tail)| tail);
        let kept: String = tail.chars().take(tail.chars().count().saturating_sub(2)).collect();
        Self { id: format!("{prefix}_{kept}{index:02x}"), kind, said: String::new() }
    }

    fn of_part(response: &str, index: usize, part: &Part) -> Option<Self> {
        let (kind, said) = match part {
            Part::Text(text) => (ItemKind::Text, text.clone()),
            Part::Refusal(text) => (ItemKind::Refusal, text.clone()),
            Part::Reasoning(said) => (ItemKind::Reasoning(said.seal.clone()), said.text.clone()),
            Part::ToolCall(call) => {
                let (id, name) = (call.id.clone(), call.name.clone());
                (ItemKind::Call { id, name }, call.arguments.clone())
            }
            Part::Media(_) | Part::ToolResult(_) => return None,
        };
        Some(Self { said, ..Self::new(response, index, kind) })
    }

    /// With all that it has said.
    pub(super) fn render(&self, status: &str) -> Json {
        match &self.kind {
            ItemKind::Text | ItemKind::Refusal => self.message(status, &[self.part(&self.said)]),
            ItemKind::Reasoning(seal) => thought(&self.id, &self.said, seal.as_ref()),
            ItemKind::Call { .. } => self.call(status, &self.said),
        }
    }

    /// Before it has said anything.
    pub(super) fn begun(&self) -> Json {
        match &self.kind {
            ItemKind::Text | ItemKind::Refusal => self.message("in_progress", &[]),
            ItemKind::Reasoning(_) => thought(&self.id, "", None),
            ItemKind::Call { .. } => self.call("in_progress", ""),
        }
    }

    fn message(&self, status: &str, content: &[Json]) -> Json {
        object! {"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"}
    }

    fn call(&self, status: &str, arguments: &str) -> Json {
        let ItemKind::Call { id, name } = &self.kind else { return object! {} };
        object! {
            "id": self.id,
            "type": "function_call",
            "status": status,
            "arguments": arguments,
            "call_id": id,
            "name": name,
        }
    }

    /// The one part of its content, with what is said in it.
    pub(super) fn part(&self, said: &str) -> Json {
        match self.kind {
            ItemKind::Refusal => object! {"type": "refusal", "refusal": said},
            ItemKind::Reasoning(_) => object! {"type": "summary_text", "text": said},
            ItemKind::Text | ItemKind::Call { .. } => {
                object! {"type": "output_text", "annotations": [(); 0], "logprobs": [(); 0], "text": said}
            }
        }
    }
}

/// A thought as an item. Only what this format has sealed goes with it.
pub(super) fn thought(id: &str, text: &str, seal: Option<&Signature>) -> Json {
    let part = || object! {"type": "summary_text", "text": text};
    let summary: Vec<_> = (!text.is_empty()).then(part).into_iter().collect();
    let data = seal.filter(|seal| seal.format == super::NAME).map(|seal| &seal.data);
    object! {"id": id, "type": "reasoning", "summary": summary, "encrypted_content"?: data}
}
