//! Reading and writing the events of a message.

use std::collections::{BTreeMap, HashMap};

use super::{ERRORS, FieldError, StreamReader, StreamWriter, Usage, answer, object, redacted, signature};
use crate::conversation::{
    AnswerStart, Delta, ErrorKind, Fields, Frame, Json, Signature, Stop, StreamError, fields::parse,
};

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct Reader {
    usage: Usage,
    /// The calls by the index of their block: the number, and the input that the block began with.
    calls: HashMap<u64, (usize, Option<String>)>,
}

impl StreamReader for Reader {
    /// The type in the data decides: it is the event's name as well.
    fn read(&mut self, _name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError> {
        let document = parse(data)?;
        let event = Fields::root(&document)?;
        Ok(match event.required_string("type")?.as_str() {
            "message_start" => {
                let head = answer::head(&event.require("message")?.object()?)?;
                self.usage = head.usage.unwrap_or_default();
                vec![Delta::Start(head)]
            }
            "content_block_start" => self.begin(&event)?,
            "content_block_delta" => self.go_on(&event)?,
            "content_block_stop" => self.complete(&event)?,
            "message_delta" => {
                let delta = event.require("delta")?.object()?;
                if let Some(usage) = event.object("usage")? {
                    self.usage = answer::read_usage(&usage, self.usage)?;
                }
                let stop = answer::stop(&delta)?.map(|stop| match stop {
                    Stop::End if !self.calls.is_empty() => Stop::ToolCalls,
                    stop => stop,
                });
                let stop = stop.map(|stop| Delta::Stop { choice: 0, stop });
                stop.into_iter().chain([Delta::Usage(self.usage)]).collect()
            }
            "message_stop" => vec![Delta::Done],
            "error" => vec![Delta::Error(read_error(&event.require("error")?.object()?)?)],
            _ => Vec::new(),
        })
    }
}

impl Reader {
    fn begin(&mut self, event: &Fields<'_>) -> Result<Vec<Delta>, FieldError> {
        let index = event.integer("index", 0, u64::MAX)?.unwrap_or(0);
        let block = event.require("content_block")?.object()?;
        let choice = 0;
        let filled = |text: &String| !text.is_empty();
        Ok(match block.required_string("type")?.as_str() {
            "text" => {
                let text = block.string("text")?.filter(filled);
                text.map(|text| Delta::Text { choice, text, logprobs: None }).into_iter().collect()
            }
            "thinking" => {
                let text = block.string("thinking")?.filter(filled);
                text.map(|text| Delta::Reasoning { choice, text }).into_iter().collect()
            }
            "redacted_thinking" => {
                vec![Delta::Signature { choice, seal: redacted(block.required_string("data")?) }]
            }
            "tool_use" => {
                let call = self.calls.len();
                let input = block.get("input").map(|input| input.json().text().to_owned());
                self.calls.insert(index, (call, input.filter(|input| input != "{}")));
                let (id, name) = (block.required_string("id")?, block.required_string("name")?);
                vec![Delta::ToolCall { choice, call, id, name, seal: None }]
            }
            _ => Vec::new(),
        })
    }

    fn go_on(&mut self, event: &Fields<'_>) -> Result<Vec<Delta>, FieldError> {
        let index = event.integer("index", 0, u64::MAX)?.unwrap_or(0);
        let delta = event.require("delta")?.object()?;
        let choice = 0;
        let read = match delta.required_string("type")?.as_str() {
            "text_delta" => {
                Some(Delta::Text { choice, text: delta.required_string("text")?, logprobs: None })
            }
            "thinking_delta" => Some(Delta::Reasoning { choice, text: delta.required_string("thinking")? }),
            "signature_delta" => {
                let data = delta.required_string("signature")?;
                (!data.is_empty()).then(|| Delta::Signature { choice, seal: signature(data) })
            }
            "input_json_delta" => {
                let text = delta.required_string("partial_json")?;
                let known = self.calls.get_mut(&index).filter(|_| !text.is_empty());
                known.map(|(call, input)| {
                    *input = None;
                    Delta::Arguments { choice, call: *call, text }
                })
            }
            _ => None,
        };
        Ok(read.into_iter().collect())
    }

    /// Some servers send the whole input with the start of its block.
    fn complete(&mut self, event: &Fields<'_>) -> Result<Vec<Delta>, FieldError> {
        let index = event.integer("index", 0, u64::MAX)?.unwrap_or(0);
        let Some((call, input)) = self.calls.get_mut(&index) else { return Ok(Vec::new()) };
        let (call, input) = (*call, input.take());
        Ok(input.map(|text| Delta::Arguments { choice: 0, call, text }).into_iter().collect())
    }
}

fn read_error(error: &Fields<'_>) -> Result<StreamError, FieldError> {
    let code = error.object("details")?.map(|details| details.string("error_code")).transpose()?.flatten();
    Ok(StreamError {
        kind: ErrorKind::of_word(ERRORS, &error.string("type")?.unwrap_or_default()),
        message: error.string("message")?.unwrap_or_default(),
        code,
    })
}

/// Writes events. Blocks open and close one after the other, without gaps in their numbers: pieces of a call that is
/// not the open block wait until that block closes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    next_index: usize,
    open: Option<Block>,
    /// What came of the open call's arguments.
    said: String,
    /// Calls that have begun while another block was open, with what came of their arguments.
    waiting: BTreeMap<usize, (String, String, String)>,
    stop: Option<Stop>,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Block {
    Text,
    Thinking,
    Call(usize),
}

impl StreamWriter for Writer {
    fn write(&mut self, delta: &Delta) -> Vec<Frame> {
        match delta {
            Delta::Start(head) => vec![self.start(head)],
            Delta::Text { choice: 0, text, .. } | Delta::Refusal { choice: 0, text } => {
                let block = object! {"type": "text", "text": ""};
                self.say(Block::Text, &block, &object! {"type": "text_delta", "text": text})
            }
            Delta::Reasoning { choice: 0, text } => {
                let delta = object! {"type": "thinking_delta", "thinking": text};
                self.say(Block::Thinking, &thinking(), &delta)
            }
            Delta::Signature { choice: 0, seal } => self.seal(seal),
            Delta::ToolCall { choice: 0, call, id, name, .. } => self.call(*call, id, name),
            Delta::Arguments { choice: 0, call, text } => self.arguments(*call, text),
            Delta::Stop { choice: 0, stop } => {
                self.stop = Some(stop.clone());
                Vec::new()
            }
            Delta::Usage(usage) => {
                self.usage = *usage;
                Vec::new()
            }
            Delta::Error(error) => vec![write_error(error)],
            Delta::Done => self.done(),
            // There is one answer, and it is text and calls.
            _ => Vec::new(),
        }
    }
}

impl Writer {
    fn start(&mut self, head: &AnswerStart) -> Frame {
        self.usage = head.usage.unwrap_or_default();
        let so_far = Usage { output: self.usage.output.max(1), ..self.usage };
        let message = answer::message(head, &[], None, &so_far);
        Frame::named("message_start", &object! {"type": "message_start", "message": message})
    }

    fn open(&mut self, block: Block, written: &Json) -> Vec<Frame> {
        let mut frames = self.close();
        self.open = Some(block);
        self.said.clear();
        let start =
            object! {"type": "content_block_start", "index": self.next_index, "content_block": written};
        frames.push(Frame::named("content_block_start", &start));
        if self.next_index == 0 {
            frames.push(Frame::named("ping", &object! {"type": "ping"}));
        }
        frames
    }

    fn close(&mut self) -> Vec<Frame> {
        let Some(_) = self.open.take() else { return Vec::new() };
        let stop = object! {"type": "content_block_stop", "index": self.next_index};
        self.next_index += 1;
        vec![Frame::named("content_block_stop", &stop)]
    }

    fn delta(&self, delta: &Json) -> Frame {
        let delta = object! {"type": "content_block_delta", "index": self.next_index, "delta": delta};
        Frame::named("content_block_delta", &delta)
    }

    fn say(&mut self, block: Block, start: &Json, delta: &Json) -> Vec<Frame> {
        let mut frames = if self.open == Some(block) { Vec::new() } else { self.flush() };
        if self.open != Some(block) {
            frames.extend(self.open(block, start));
        }
        frames.push(self.delta(delta));
        frames
    }

    fn seal(&mut self, seal: &Signature) -> Vec<Frame> {
        if seal.is_redacted {
            let block = object! {"type": "redacted_thinking", "data": seal.data};
            let mut frames = self.flush();
            frames.extend(self.open(Block::Thinking, &block));
            frames.extend(self.close());
            return frames;
        }
        let delta = object! {"type": "signature_delta", "signature": seal.data};
        let mut frames = self.say(Block::Thinking, &thinking(), &delta);
        frames.extend(self.close());
        frames
    }

    fn call(&mut self, call: usize, id: &str, name: &str) -> Vec<Frame> {
        let is_amid_call = matches!(self.open, Some(Block::Call(_))) && Json::parse(&self.said).is_none();
        if is_amid_call || !self.waiting.is_empty() {
            self.waiting.insert(call, (id.to_owned(), name.to_owned(), String::new()));
            return Vec::new();
        }
        self.open(Block::Call(call), &tool_use(id, name))
    }

    fn arguments(&mut self, call: usize, text: &str) -> Vec<Frame> {
        if self.open == Some(Block::Call(call)) {
            self.said.push_str(text);
            return vec![self.delta(&object! {"type": "input_json_delta", "partial_json": text})];
        }
        if let Some((_, _, arguments)) = self.waiting.get_mut(&call) {
            arguments.push_str(text);
        }
        Vec::new()
    }

    /// Closes the open block, and writes each call that has waited.
    fn flush(&mut self) -> Vec<Frame> {
        let mut frames = self.close();
        for (call, (id, name, arguments)) in std::mem::take(&mut self.waiting) {
            frames.extend(self.open(Block::Call(call), &tool_use(&id, &name)));
            if !arguments.is_empty() {
                frames.push(self.delta(&object! {"type": "input_json_delta", "partial_json": arguments}));
            }
            frames.extend(self.close());
        }
        frames
    }

    fn done(&mut self) -> Vec<Frame> {
        let mut frames = self.flush();
        let (reason, sequence) = self.stop.as_ref().map_or((None, None), answer::written_stop);
        let delta = object! {
            "type": "message_delta",
            "delta": object! {"stop_reason": reason, "stop_sequence": sequence},
            "usage": object! {
                "input_tokens": answer::uncached(&self.usage),
                "cache_creation_input_tokens": self.usage.cache_written,
                "cache_read_input_tokens": self.usage.cached,
                "output_tokens": self.usage.output,
            },
        };
        frames.push(Frame::named("message_delta", &delta));
        frames.push(Frame::named("message_stop", &object! {"type": "message_stop"}));
        frames
    }
}

fn thinking() -> Json {
    object! {"type": "thinking", "thinking": "", "signature": ""}
}

fn tool_use(id: &str, name: &str) -> Json {
    object! {"type": "tool_use", "id": id, "name": name, "input": object! {}}
}

fn write_error(error: &StreamError) -> Frame {
    let details = error.code.as_ref().map(|code| object! {"error_code": code});
    let said = object! {"type": error.kind.word(ERRORS), "message": error.message, "details"?: details};
    Frame::named("error", &object! {"type": "error", "error": said})
}
