//! Reading and writing the events of a response.

use std::collections::HashMap;

use super::{
    answer::{self, Item, ItemKind},
    read,
};
use crate::conversation::{
    AnswerStart, Delta, ErrorKind, FieldError, Fields, Frame, Json, Request, Stop, StreamError, StreamReader,
    StreamWriter, Usage,
    fields::parse,
    openai::{ERRORS, object, read_error},
};

/// Reads events.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The calls by the index of their item: the number, and whether a piece of the arguments has come.
    calls: HashMap<u64, (usize, bool)>,
}

impl StreamReader for Reader {
    /// The type in the data decides: it is the event's name as well.
    fn read(&mut self, _name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError> {
        // Not this format's, but servers that imitate it send it.
        if data.trim_ascii() == b"[DONE]" {
            return Ok(Vec::new());
        }
        let document = parse(data)?;
        let event = Fields::root(&document)?;
        let kind = event.required_string("type")?;
        let choice = 0;
        let delta = || event.required_string("delta");
        Ok(match kind.as_str() {
            "response.created" => vec![Delta::Start(answer::head(&event.require("response")?.object()?)?)],
            "response.output_text.delta" => vec![Delta::Text { choice, text: delta()?, logprobs: None }],
            "response.refusal.delta" => vec![Delta::Refusal { choice, text: delta()? }],
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                vec![Delta::Reasoning { choice, text: delta()? }]
            }
            "response.function_call_arguments.delta" => self.arguments(&event, delta()?, true)?,
            "response.function_call_arguments.done" => {
                self.arguments(&event, event.string("arguments")?.unwrap_or_default(), false)?
            }
            "response.output_item.added" => self.begin(&event)?,
            "response.output_item.done" => {
                let item = event.require("item")?.object()?;
                let is_thought = item.string("type")?.as_deref() == Some("reasoning");
                let seal = if is_thought { read::seal(&item)? } else { None };
                seal.map(|seal| Delta::Signature { choice, seal }).into_iter().collect()
            }
            "response.completed" | "response.incomplete" => {
                let response = event.require("response")?.object()?;
                let stop = answer::stop(&response)?.map(|stop| match stop {
                    Stop::End if !self.calls.is_empty() => Stop::ToolCalls,
                    stop => stop,
                });
                let stop = stop.map(|stop| Delta::Stop { choice, stop });
                let usage = answer::usage(&response)?.map(Delta::Usage);
                stop.into_iter().chain(usage).chain([Delta::Done]).collect()
            }
            "response.failed" => {
                let error = event.require("response")?.object()?.object("error")?;
                let error = error.map(|error| failure(&error)).transpose()?;
                let silent = || StreamError { kind: ErrorKind::Server, message: String::new(), code: None };
                vec![Delta::Error(error.unwrap_or_else(silent))]
            }
            "error" => {
                let nested = event.object("error")?;
                vec![Delta::Error(failure(nested.as_ref().unwrap_or(&event))?)]
            }
            _ => Vec::new(),
        })
    }
}

/// There is a code and no type, or the type is that of the event.
fn failure(error: &Fields<'_>) -> Result<StreamError, FieldError> {
    let read = read_error(error)?;
    let kind = ErrorKind::of_word(ERRORS, read.code.as_deref().unwrap_or_default());
    Ok(StreamError { kind, ..read })
}

impl Reader {
    fn begin(&mut self, event: &Fields<'_>) -> Result<Vec<Delta>, FieldError> {
        let index = event.integer("output_index", 0, u64::MAX)?.unwrap_or(0);
        let item = event.require("item")?.object()?;
        if item.required_string("type")? != "function_call" {
            return Ok(Vec::new());
        }
        let call = self.calls.len();
        self.calls.insert(index, (call, false));
        let (id, name) = (item.string("call_id")?.unwrap_or_default(), item.required_string("name")?);
        Ok(vec![Delta::ToolCall { choice: 0, call, id, name, seal: None }])
    }

    /// The whole arguments count only if no piece of them came.
    fn arguments(
        &mut self,
        event: &Fields<'_>,
        text: String,
        is_piece: bool,
    ) -> Result<Vec<Delta>, FieldError> {
        let index = event.integer("output_index", 0, u64::MAX)?.unwrap_or(0);
        let Some((call, has_come)) = self.calls.get_mut(&index) else { return Ok(Vec::new()) };
        let is_news = (is_piece || !*has_come) && !text.is_empty();
        *has_come |= is_news;
        let piece = Delta::Arguments { choice: 0, call: *call, text };
        Ok(is_news.then_some(piece).into_iter().collect())
    }
}

/// Writes events, numbered.
#[derive(Debug)]
pub(super) struct Writer {
    to: Request,
    head: AnswerStart,
    number: u64,
    items: Vec<Item>,
    /// The items that are not complete yet. Of texts and thoughts only the last can be one.
    open: Vec<usize>,
    /// The items of the calls.
    calls: Vec<usize>,
    stop: Option<Stop>,
    usage: Option<Usage>,
}

impl StreamWriter for Writer {
    fn write(&mut self, delta: &Delta) -> Vec<Frame> {
        match delta {
            Delta::Start(head) => {
                self.head = head.clone();
                let begun = answer::response(head, "in_progress", None, &[], None, &self.to);
                ["response.created", "response.in_progress"]
                    .map(|name| self.frame(name, vec![("response", begun.clone())]))
                    .into()
            }
            Delta::Text { choice: 0, text, .. } => {
                self.say(&ItemKind::Text, "response.output_text.delta", text)
            }
            Delta::Refusal { choice: 0, text } => {
                self.say(&ItemKind::Refusal, "response.refusal.delta", text)
            }
            Delta::Reasoning { choice: 0, text } => {
                self.say(&ItemKind::Reasoning(None), "response.reasoning_summary_text.delta", text)
            }
            Delta::Signature { choice: 0, seal } if seal.format == super::NAME => {
                let mut frames = self.begin_unless_open(&ItemKind::Reasoning(None));
                if let Some(item) = self.items.last_mut() {
                    item.kind = ItemKind::Reasoning(Some(seal.clone()));
                }
                frames.extend(self.close_all("completed"));
                frames
            }
            Delta::ToolCall { choice: 0, id, name, .. } => {
                let is_whole = |item: &Item| Json::parse(&item.said).is_some();
                let are_whole = self.open.iter().all(|index| {
                    !matches!(self.items[*index].kind, ItemKind::Call { .. }) || is_whole(&self.items[*index])
                });
                let mut frames = if are_whole { self.close_all("completed") } else { Vec::new() };
                self.calls.push(self.items.len());
                frames.extend(self.begin(ItemKind::Call { id: id.clone(), name: name.clone() }));
                frames
            }
            Delta::Arguments { choice: 0, call, text } => {
                let Some(index) = self.calls.get(*call).copied() else { return Vec::new() };
                self.items[index].said.push_str(text);
                let fields = self.place(index).into_iter().chain([("delta", Json::of(text))]).collect();
                vec![self.frame("response.function_call_arguments.delta", fields)]
            }
            Delta::Stop { choice: 0, stop } => {
                self.stop = Some(stop.clone());
                Vec::new()
            }
            Delta::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            Delta::Error(error) => vec![self.error(error)],
            Delta::Done => self.done(),
            // There is one answer, of texts, thoughts and calls.
            _ => Vec::new(),
        }
    }
}

impl Writer {
    pub(super) fn new(to: &Request) -> Self {
        // Only what the answer repeats is needed.
        let to = Request { echo: to.echo.clone(), ..Request::default() };
        let (items, open, calls) = (Vec::new(), Vec::new(), Vec::new());
        Self { to, head: AnswerStart::default(), number: 0, items, open, calls, stop: None, usage: None }
    }

    fn frame(&mut self, name: &'static str, fields: Vec<(&'static str, Json)>) -> Frame {
        let frame = Frame::named(name, &object! {"type": name, "sequence_number": self.number, ..fields});
        self.number += 1;
        frame
    }

    fn place(&self, index: usize) -> Vec<(&'static str, Json)> {
        let item = &self.items[index];
        let mut place = vec![("item_id", Json::of(&item.id)), ("output_index", Json::of(&index))];
        match item.kind {
            ItemKind::Text | ItemKind::Refusal => place.push(("content_index", Json::of(&0))),
            ItemKind::Reasoning(_) => place.push(("summary_index", Json::of(&0))),
            ItemKind::Call { .. } => {}
        }
        place
    }

    fn at(&mut self, name: &'static str, index: usize, fields: Vec<(&'static str, Json)>) -> Frame {
        let fields = self.place(index).into_iter().chain(fields).collect();
        self.frame(name, fields)
    }

    fn begin(&mut self, kind: ItemKind) -> Vec<Frame> {
        let index = self.items.len();
        self.items.push(Item::new(&self.head.id, index, kind));
        self.open.push(index);
        let fields = vec![("output_index", Json::of(&index)), ("item", self.items[index].begun())];
        let mut frames = vec![self.frame("response.output_item.added", fields)];
        let part = vec![("part", self.items[index].part(""))];
        match self.items[index].kind {
            ItemKind::Text | ItemKind::Refusal => {
                frames.push(self.at("response.content_part.added", index, part));
            }
            ItemKind::Reasoning(_) => {
                frames.push(self.at("response.reasoning_summary_part.added", index, part));
            }
            ItemKind::Call { .. } => {}
        }
        frames
    }

    fn begin_unless_open(&mut self, kind: &ItemKind) -> Vec<Frame> {
        let last = self.open.last().filter(|index| **index + 1 == self.items.len());
        if last.is_some_and(|index| self.items[*index].kind == *kind) {
            return Vec::new();
        }
        let mut frames = self.close_all("completed");
        frames.extend(self.begin(kind.clone()));
        frames
    }

    fn say(&mut self, kind: &ItemKind, name: &'static str, text: &str) -> Vec<Frame> {
        let mut frames = self.begin_unless_open(kind);
        let index = self.items.len() - 1;
        self.items[index].said.push_str(text);
        let mut fields = vec![("delta", Json::of(text))];
        fields.extend((*kind == ItemKind::Text).then(|| ("logprobs", Json::of(&[(); 0]))));
        frames.push(self.at(name, index, fields));
        frames
    }

    /// Completes every open item. The last item of all gets the status.
    fn close_all(&mut self, status: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        for index in std::mem::take(&mut self.open) {
            let item = self.items[index].clone();
            let said = Json::of(&item.said);
            let part = vec![("part", item.part(&item.said))];
            match &item.kind {
                ItemKind::Text => {
                    let done = vec![("text", said), ("logprobs", Json::of(&[(); 0]))];
                    frames.push(self.at("response.output_text.done", index, done));
                    frames.push(self.at("response.content_part.done", index, part));
                }
                ItemKind::Refusal => {
                    frames.push(self.at("response.refusal.done", index, vec![("refusal", said)]));
                    frames.push(self.at("response.content_part.done", index, part));
                }
                ItemKind::Reasoning(_) => {
                    frames.push(self.at("response.reasoning_summary_text.done", index, vec![("text", said)]));
                    frames.push(self.at("response.reasoning_summary_part.done", index, part));
                }
                ItemKind::Call { name, .. } => {
                    let done = vec![("arguments", said), ("name", Json::of(name))];
                    frames.push(self.at("response.function_call_arguments.done", index, done));
                }
            }
            let status = if index + 1 == self.items.len() { status } else { "completed" };
            let fields = vec![("output_index", Json::of(&index)), ("item", item.render(status))];
            frames.push(self.frame("response.output_item.done", fields));
        }
        frames
    }

    fn done(&mut self) -> Vec<Frame> {
        let stop = self.stop.clone().unwrap_or(Stop::End);
        let status = answer::status(Some(&stop));
        let mut frames = self.close_all(status);
        let last = self.items.len().saturating_sub(1);
        let output: Vec<_> = self
            .items
            .iter()
            .enumerate()
            .map(|(index, item)| item.render(if index == last { status } else { "completed" }))
            .collect();
        let whole = answer::response(&self.head, status, Some(&stop), &output, self.usage, &self.to);
        let name = if status == "incomplete" { "response.incomplete" } else { "response.completed" };
        frames.push(self.frame(name, vec![("response", whole)]));
        frames
    }

    fn error(&mut self, error: &StreamError) -> Frame {
        let code = error.code.clone().unwrap_or_else(|| error.kind.word(ERRORS).to_owned());
        let fields =
            vec![("code", Json::of(&code)), ("message", Json::of(&error.message)), ("param", Json::of(&()))];
        self.frame("error", fields)
    }
}
