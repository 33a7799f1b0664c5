//! Reading and writing lines.

use super::{FieldError, StreamReader, StreamWriter, answer, read, write};
use crate::conversation::{
    AnswerStart, Delta, ErrorKind, Fields, Frame, Json, Stop, StreamError, ToolCall, Usage, calls::Calls,
    fields::parse, text::object,
};

/// Reads lines.
#[derive(Debug, Default)]
pub(super) struct Reader {
    has_begun: bool,
    calls: usize,
}

impl StreamReader for Reader {
    fn read(&mut self, _name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError> {
        let document = parse(data)?;
        let line = Fields::root(&document)?;
        if let Some(message) = line.string("error")? {
            let error = StreamError { kind: ErrorKind::Server, message, code: None };
            return Ok(vec![Delta::Error(error)]);
        }
        let mut deltas = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            deltas.push(Delta::Start(answer::head(&line)?));
        }
        if let Some(message) = line.object("message")? {
            let filled = |text: &String| !text.is_empty();
            let thought = message.string("thinking")?.filter(filled);
            deltas.extend(thought.map(|text| Delta::Reasoning { choice: 0, text }));
            let text = message.string("content")?.filter(filled);
            deltas.extend(text.map(|text| Delta::Text { choice: 0, text, logprobs: None }));
            let first = self.calls;
            let calls = read::tool_calls(&message, "call", &mut self.calls, &mut Vec::new())?;
            for (call, ToolCall { id, name, arguments, .. }) in (first..).zip(calls) {
                deltas.push(Delta::ToolCall { choice: 0, call, id, name, seal: None });
                deltas.push(Delta::Arguments { choice: 0, call, text: arguments });
            }
        }
        if let Some(stop) = answer::stop(&line)? {
            let stop = if stop == Stop::End && self.calls > 0 { Stop::ToolCalls } else { stop };
            deltas.push(Delta::Stop { choice: 0, stop });
            deltas.extend(answer::usage(&line)?.map(Delta::Usage));
            deltas.push(Delta::Done);
        }
        Ok(deltas)
    }
}

/// Writes lines. The last one says why the answer ends.
#[derive(Debug, Default)]
pub(super) struct Writer {
    head: AnswerStart,
    calls: Calls,
    written: usize,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

impl StreamWriter for Writer {
    fn write(&mut self, delta: &Delta) -> Vec<Frame> {
        if self.calls.push(delta) {
            return Vec::new();
        }
        match delta {
            Delta::Start(head) => {
                self.head = head.clone();
                Vec::new()
            }
            Delta::Text { choice: 0, text, .. } | Delta::Refusal { choice: 0, text } => {
                self.say(&answer::message(text, "", &[]))
            }
            Delta::Reasoning { choice: 0, text } => self.say(&answer::message("", text, &[])),
            Delta::Stop { choice: 0, stop } => {
                self.stop = Some(stop.clone());
                self.calls()
            }
            Delta::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            Delta::Error(error) => vec![Frame::unnamed(&object! {"error": error.message})],
            Delta::Done => {
                let stop = self.stop.clone().unwrap_or(Stop::End);
                let message = answer::message("", "", &[]);
                vec![Frame::unnamed(&answer::line(&self.head, &message, Some(&stop), self.usage.as_ref()))]
            }
            // There is one answer, of text and calls.
            _ => Vec::new(),
        }
    }
}

impl Writer {
    fn say(&mut self, message: &Json) -> Vec<Frame> {
        let mut frames = self.calls();
        frames.push(Frame::unnamed(&answer::line(&self.head, message, None, None)));
        frames
    }

    /// The calls that came so far, in a line of their own.
    fn calls(&mut self) -> Vec<Frame> {
        let mut calls = Vec::new();
        for call in self.calls.take(0) {
            calls.extend(write::tool_call(self.written, &call));
            self.written += 1;
        }
        let line = || answer::line(&self.head, &answer::message("", "", &calls), None, None);
        (!calls.is_empty()).then(|| Frame::unnamed(&line())).into_iter().collect()
    }
}
