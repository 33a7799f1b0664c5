//! Reading and writing chunks.

use std::collections::HashMap;

use super::{Usage, answer};
use crate::conversation::{
    AnswerStart, Delta, FieldError, Fields, Frame, Json, Stop, StreamError, StreamReader, StreamWriter,
    fields::parse,
    openai::{ERRORS, object, read_error},
};

/// Reads chunks.
#[derive(Debug, Default)]
pub(super) struct Reader {
    has_begun: bool,
    /// By the choice's index and the call's index in the chunks: the call's number in the model and its id.
    calls: HashMap<(usize, u64), (usize, String)>,
    /// How many calls each choice has.
    counts: HashMap<usize, usize>,
}

impl StreamReader for Reader {
    fn read(&mut self, _name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(vec![Delta::Done]);
        }
        let document = parse(data)?;
        let chunk = Fields::root(&document)?;
        if let Some(error) = chunk.get("error").and_then(|field| field.object().ok()) {
            return Ok(vec![Delta::Error(read_error(&error)?)]);
        }
        let mut deltas = Vec::new();
        let choices = chunk.objects("choices")?;
        // Azure's first chunk has no choices, and neither id nor model.
        let is_prelude = choices.is_empty() && chunk.string("model")?.is_none_or(|model| model.is_empty());
        if !self.has_begun && !is_prelude {
            self.has_begun = true;
            deltas.push(Delta::Start(answer::head(&chunk)?));
        }
        for (nth, choice) in choices.iter().enumerate() {
            self.read_choice(nth, choice, &mut deltas)?;
        }
        if let Some(usage) = chunk.object("usage")? {
            deltas.push(Delta::Usage(answer::read_usage(&usage)?));
        }
        Ok(deltas)
    }
}

impl Reader {
    fn read_choice(
        &mut self,
        nth: usize,
        fields: &Fields<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), FieldError> {
        let index = fields.integer("index", 0, 1 << 20)?;
        let choice = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(nth);
        if let Some(delta) = fields.object("delta")? {
            deltas.extend(answer::reasoning(&delta)?.map(|text| Delta::Reasoning { choice, text }));
            let logprobs = fields.get("logprobs").map(|field| field.json());
            let filled = |text: &String| !text.is_empty();
            let text = delta.string("content")?.filter(filled);
            deltas.extend(text.map(|text| Delta::Text { choice, text, logprobs }));
            deltas
                .extend(delta.string("refusal")?.filter(filled).map(|text| Delta::Refusal { choice, text }));
            for (nth, call) in delta.objects("tool_calls")?.iter().enumerate() {
                self.read_call(choice, nth, call, deltas)?;
            }
        }
        if let Some(reason) = fields.string("finish_reason")? {
            let has_calls = self.counts.get(&choice).is_some_and(|calls| *calls > 0);
            let stop = match answer::read_stop(&reason) {
                Stop::End if has_calls => Stop::ToolCalls,
                stop => stop,
            };
            deltas.push(Delta::Stop { choice, stop });
        }
        Ok(())
    }

    fn read_call(
        &mut self,
        choice: usize,
        nth: usize,
        fields: &Fields<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), FieldError> {
        let index = fields.integer("index", 0, u64::MAX)?.unwrap_or(nth as u64);
        let id = fields.string("id")?.unwrap_or_default();
        let function = fields.object("function")?;
        let name = function.as_ref().map(|function| function.string("name")).transpose()?.flatten();
        let known = self.calls.get(&(choice, index));
        // Some servers give every call the index 0 and tell them apart by their ids.
        let call = match known {
            Some((call, known)) if id.is_empty() || id == *known => *call,
            _ => {
                let count = self.counts.entry(choice).or_default();
                let call = *count;
                *count += 1;
                self.calls.insert((choice, index), (call, id.clone()));
                deltas.push(Delta::ToolCall { choice, call, id, name: name.unwrap_or_default(), seal: None });
                call
            }
        };
        let arguments = function.map(|function| function.string("arguments")).transpose()?.flatten();
        let arguments = arguments.filter(|text| !text.is_empty());
        deltas.extend(arguments.map(|text| Delta::Arguments { choice, call, text }));
        Ok(())
    }
}

/// Writes chunks.
#[derive(Debug)]
pub(super) struct Writer {
    with_usage: bool,
    head: AnswerStart,
    /// The choices whose first chunk is out.
    begun: Vec<usize>,
    usage: Option<Usage>,
}

impl Writer {
    pub(super) fn new(with_usage: bool) -> Self {
        Self { with_usage, head: AnswerStart::default(), begun: Vec::new(), usage: None }
    }

    fn chunk(&self, choices: &[Json], usage: Option<Json>) -> Frame {
        Frame::unnamed(&object! {
            ..answer::frame(&self.head, "chat.completion.chunk"),
            ..answer::frame_end(&self.head),
            "choices": choices,
            "usage"?: self.with_usage.then_some(usage),
        })
    }

    fn of_choice(&self, index: usize, delta: &Json, logprobs: Option<&Json>, stop: Option<&str>) -> Frame {
        let choice = object! {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": stop};
        self.chunk(&[choice], None)
    }

    /// A chunk of a choice, after the one that begins the choice if it has not begun. That one has empty text, unless
    /// the answer begins with a call.
    fn next(
        &mut self,
        index: usize,
        delta: &Json,
        logprobs: Option<&Json>,
        stop: Option<&str>,
    ) -> Vec<Frame> {
        let frame = self.of_choice(index, delta, logprobs, stop);
        if self.begun.contains(&index) {
            return vec![frame];
        }
        self.begun.push(index);
        let is_call = delta.text().starts_with("{\"tool_calls\"");
        let content = (!is_call).then_some("");
        let opening = object! {"role": "assistant", "content": content, "refusal": None::<&str>};
        vec![self.of_choice(index, &opening, None, None), frame]
    }
}

impl StreamWriter for Writer {
    fn write(&mut self, delta: &Delta) -> Vec<Frame> {
        match delta {
            Delta::Start(head) => {
                self.head = head.clone();
                Vec::new()
            }
            Delta::Text { choice, text, logprobs } => {
                self.next(*choice, &object! {"content": text}, logprobs.as_ref(), None)
            }
            Delta::Reasoning { choice, text } => {
                self.next(*choice, &object! {"reasoning_content": text}, None, None)
            }
            Delta::Refusal { choice, text } => self.next(*choice, &object! {"refusal": text}, None, None),
            Delta::ToolCall { choice, call, id, name, .. } => {
                let function = object! {"name": name, "arguments": ""};
                let call = object! {"index": call, "id": id, "type": "function", "function": function};
                self.next(*choice, &object! {"tool_calls": [call]}, None, None)
            }
            Delta::Arguments { choice, call, text } => {
                let call = object! {"index": call, "function": object! {"arguments": text}};
                self.next(*choice, &object! {"tool_calls": [call]}, None, None)
            }
            Delta::Stop { choice, stop } => {
                self.next(*choice, &object! {}, None, Some(answer::write_stop(stop)))
            }
            Delta::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            Delta::Error(error) => vec![Frame::unnamed(&write_error(error))],
            Delta::Done => {
                let usage = self.usage.filter(|_| self.with_usage);
                let usage = usage.map(|usage| self.chunk(&[], Some(answer::write_usage(&usage))));
                usage.into_iter().chain([Frame { name: None, data: "[DONE]".to_owned() }]).collect()
            }
            Delta::Signature { .. } | Delta::Media { .. } => Vec::new(),
        }
    }
}

fn write_error(error: &StreamError) -> Json {
    let said = object! {
        "message": error.message,
        "type": error.kind.word(ERRORS),
        "param": None::<&str>,
        "code": error.code,
    };
    object! {"error": said}
}
