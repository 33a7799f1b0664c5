//! Reading and writing chunks.

use std::collections::BTreeMap;

use super::{ERRORS, FieldError, StreamReader, StreamWriter, answer, read::Ids, write};
use crate::conversation::{
    AnswerStart, Delta, ErrorKind, Fields, Frame, Json, Stop, StreamError, Usage,
    calls::{Calls, stop_of},
    fields::parse,
    loss::Losses,
    text::object,
};

/// Reads chunks. There is no terminator: a stream is complete once a chunk has said why the answer ends.
#[derive(Debug, Default)]
pub(super) struct Reader {
    has_begun: bool,
    has_ended: bool,
    /// By choice: the ids of its calls, and how many it has.
    calls: BTreeMap<usize, (Ids, usize)>,
}

impl StreamReader for Reader {
    fn read(&mut self, _name: Option<&str>, data: &[u8]) -> Result<Vec<Delta>, FieldError> {
        let document = parse(data)?;
        let chunk = Fields::google(&document)?;
        if let Some(error) = chunk.object("error")? {
            return Ok(vec![Delta::Error(read_error(&error)?)]);
        }
        let head = answer::head(&chunk)?;
        let prefix = head.id.clone();
        let mut deltas = Vec::new();
        if !self.has_begun {
            self.has_begun = true;
            deltas.push(Delta::Start(head));
        }
        for (nth, candidate) in chunk.objects("candidates")?.iter().enumerate() {
            self.read_candidate(nth, &prefix, candidate, &mut deltas)?;
        }
        if let Some(stop) = answer::blocked(&chunk)? {
            self.has_ended = true;
            deltas.push(Delta::Stop { choice: 0, stop });
        }
        deltas.extend(answer::usage(&chunk)?.map(Delta::Usage));
        Ok(deltas)
    }

    fn end(&mut self) -> Vec<Delta> {
        self.has_ended.then_some(Delta::Done).into_iter().collect()
    }
}

impl Reader {
    fn read_candidate(
        &mut self,
        nth: usize,
        prefix: &str,
        candidate: &Fields<'_>,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), FieldError> {
        let index = candidate.integer("index", 0, 1 << 20)?;
        let choice = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(nth);
        let new = || (Ids::new(prefix), 0);
        let (ids, calls) = self.calls.entry(choice).or_insert_with(new);
        let (parts, stop) = answer::read_candidate(candidate, ids, &mut Vec::new())?;
        for part in &parts {
            let read = Delta::of_part(choice, part, calls);
            deltas.extend(
                read.into_iter()
                    .filter(|delta| !matches!(delta, Delta::Text { text, .. } if text.is_empty())),
            );
        }
        if let Some(stop) = stop {
            self.has_ended = true;
            let stop = if stop == Stop::End && *calls > 0 { Stop::ToolCalls } else { stop };
            deltas.push(Delta::Stop { choice, stop });
        }
        Ok(())
    }
}

fn read_error(error: &Fields<'_>) -> Result<StreamError, FieldError> {
    Ok(StreamError {
        kind: ErrorKind::of_word(ERRORS, &error.string("status")?.unwrap_or_default()),
        message: error.string("message")?.unwrap_or_default(),
        code: None,
    })
}

/// Writes chunks. The last one says why the answer ends.
#[derive(Debug, Default)]
pub(super) struct Writer {
    head: AnswerStart,
    calls: Calls,
    stops: BTreeMap<usize, Stop>,
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
                // Every chunk tells what was used so far.
                self.usage = head.usage;
                Vec::new()
            }
            Delta::Text { choice, text, .. } | Delta::Refusal { choice, text } => {
                self.say(*choice, object! {"text": text})
            }
            Delta::Reasoning { choice, text } => self.say(*choice, object! {"text": text, "thought": true}),
            Delta::Signature { choice, seal } if seal.format == super::NAME => {
                self.say(*choice, object! {"text": "", "thought": true, "thoughtSignature": seal.data})
            }
            Delta::Media { choice, media } => {
                let medium = write::medium("", media, &mut Losses::default());
                medium.map_or_else(Vec::new, |medium| self.say(*choice, medium))
            }
            Delta::Stop { choice, stop } => {
                let calls = self.calls.take(*choice);
                self.stops.insert(*choice, stop_of(stop, calls.iter()));
                let parts: Vec<_> = calls.iter().filter_map(write::tool_call).collect();
                if parts.is_empty() { Vec::new() } else { vec![self.chunk(*choice, &parts)] }
            }
            Delta::Usage(usage) => {
                self.usage = Some(*usage);
                Vec::new()
            }
            Delta::Error(error) => vec![Frame::unnamed(&write_error(error))],
            Delta::Done => {
                let ended = self.stops.iter();
                let last = ended
                    .map(|(choice, stop)| answer::candidate(*choice, &[object! {"text": ""}], Some(stop)));
                let last: Vec<_> = last.collect();
                vec![Frame::unnamed(&answer::chunk(&self.head, &last, self.usage.as_ref()))]
            }
            Delta::Signature { .. } | Delta::ToolCall { .. } | Delta::Arguments { .. } => Vec::new(),
        }
    }
}

impl Writer {
    /// A part in a chunk of its own, after the calls that came before it.
    fn say(&mut self, choice: usize, part: Json) -> Vec<Frame> {
        let calls = self.calls.take(choice);
        let before: Vec<_> = calls.iter().filter_map(write::tool_call).collect();
        let before = (!before.is_empty()).then(|| self.chunk(choice, &before));
        before.into_iter().chain([self.chunk(choice, &[part])]).collect()
    }

    fn chunk(&self, choice: usize, parts: &[Json]) -> Frame {
        Frame::unnamed(&answer::chunk(
            &self.head,
            &[answer::candidate(choice, parts, None)],
            self.usage.as_ref(),
        ))
    }
}

fn write_error(error: &StreamError) -> Json {
    let code = match error.kind {
        ErrorKind::Invalid | ErrorKind::TooLarge => 400,
        ErrorKind::Authentication => 401,
        ErrorKind::Permission => 403,
        ErrorKind::NotFound => 404,
        ErrorKind::RateLimit => 429,
        ErrorKind::Server => 500,
        ErrorKind::Overloaded => 503,
        ErrorKind::Timeout => 504,
    };
    object! {"error": object! {"code": code, "message": error.message, "status": error.kind.word(ERRORS)}}
}
