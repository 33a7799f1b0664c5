//! Rendering chat completions, whole and as chunks.
use serde_json::{Map, Value, json};

use super::CREATED;
use crate::sim::{
    answer::{Answer, Block, Ending},
    body::Event,
    digest::Digest,
};

pub(super) struct Completion {
    pub(super) model: String,
    pub(super) digest: Digest,
    /// One for each choice.
    pub(super) answers: Vec<Answer>,
    pub(super) prompt_tokens: u64,
    /// Whether tokens come with their probability.
    pub(super) logprobs: bool,
}

impl Completion {
    fn frame(&self, object: &str) -> Map<String, Value> {
        let frame = json!({
            "id": self.digest.id("chatcmpl-", 29),
            "object": object,
            "created": CREATED,
            "model": self.model,
        });
        match frame {
            Value::Object(frame) => frame,
            _ => Map::new(),
        }
    }

    fn fingerprint(&self) -> String {
        Digest::of(self.model.as_bytes()).hex("fp_", 10)
    }

    fn usage(&self) -> Value {
        let completion: u64 = self.answers.iter().map(Answer::tokens).sum();
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        })
    }

    fn call_id(&self, choice: usize, call: usize) -> String {
        self.digest.nth(choice).nth(call).id("call_", 24)
    }

    pub(super) fn whole(&self) -> Value {
        let choices: Vec<_> =
            self.answers.iter().enumerate().map(|(index, answer)| self.choice(index, answer)).collect();
        let mut whole = self.frame("chat.completion");
        whole.insert("choices".to_owned(), choices.into());
        whole.insert("usage".to_owned(), self.usage());
        whole.insert("service_tier".to_owned(), "default".into());
        whole.insert("system_fingerprint".to_owned(), self.fingerprint().into());
        Value::Object(whole)
    }

    fn choice(&self, index: usize, answer: &Answer) -> Value {
        let calls: Vec<_> = calls(answer)
            .map(|(nth, name, arguments)| {
                json!({
                    "id": self.call_id(index, nth),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments.concat()},
                })
            })
            .collect();
        let content = if calls.is_empty() { Value::String(answer.text()) } else { Value::Null };
        let mut message =
            json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let tokens = answer.blocks.iter().flat_map(Block::tokens);
        json!({
            "index": index,
            "message": message,
            "logprobs": self.logprobs(tokens),
            "finish_reason": finish_reason(&answer.ending),
        })
    }

    fn logprobs<'a>(&self, tokens: impl Iterator<Item = &'a String>) -> Value {
        if !self.logprobs {
            return Value::Null;
        }
        let content: Vec<_> = tokens
            .map(|token| json!({"token": token, "logprob": -0.125, "bytes": token.as_bytes(), "top_logprobs": []}))
            .collect();
        json!({"content": content, "refusal": null})
    }

    /// Choices take turns, a token each.
    pub(super) fn stream(self, with_usage: bool) -> impl Iterator<Item = Event> + Send + Sync {
        let deltas: Vec<_> =
            self.answers.iter().enumerate().map(|(index, answer)| self.deltas(index, answer)).collect();
        let turns = deltas.iter().map(Vec::len).max().unwrap_or(0);
        let chunks = Chunks { frame: self.chunk_frame(), with_usage, deltas, completion: self };
        let (opening, closing) = (chunks.opening(), chunks.closing());
        // Rendered turn by turn: a long answer is not held once more as chunks.
        opening.into_iter().chain((0..turns).flat_map(move |turn| chunks.turn(turn))).chain(closing)
    }

    fn chunk_frame(&self) -> Map<String, Value> {
        let mut frame = self.frame("chat.completion.chunk");
        frame.insert("service_tier".to_owned(), "default".into());
        frame.insert("system_fingerprint".to_owned(), self.fingerprint().into());
        frame
    }

    fn deltas(&self, index: usize, answer: &Answer) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut call = 0;
        for block in &answer.blocks {
            match block {
                Block::Text(tokens) => deltas.extend(tokens.iter().cloned().map(Delta::Text)),
                Block::Call { name, arguments } => {
                    deltas.push(Delta::CallStart { call, id: self.call_id(index, call), name: name.clone() });
                    deltas.extend(
                        arguments.iter().cloned().map(|arguments| Delta::Arguments { call, arguments }),
                    );
                    call += 1;
                }
            }
        }
        deltas
    }
}

/// What one chunk adds to a choice.
enum Delta {
    Text(String),
    CallStart { call: usize, id: String, name: String },
    Arguments { call: usize, arguments: String },
}

impl Delta {
    fn render(&self) -> Value {
        match self {
            Self::Text(token) => json!({"content": token}),
            Self::CallStart { call, id, name } => json!({"tool_calls": [
                {"index": call, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            ]}),
            Self::Arguments { call, arguments } => {
                json!({"tool_calls": [{"index": call, "function": {"arguments": arguments}}]})
            }
        }
    }
}

struct Chunks {
    completion: Completion,
    /// What every chunk begins with.
    frame: Map<String, Value>,
    with_usage: bool,
    /// For each choice.
    deltas: Vec<Vec<Delta>>,
}

impl Chunks {
    fn opening(&self) -> Vec<Event> {
        let of_choice = |(index, answer): (usize, &Answer)| {
            let calls = matches!(answer.blocks.first(), Some(Block::Call { .. }));
            let content = (!calls).then_some("");
            let delta = json!({"role": "assistant", "content": content, "refusal": null});
            self.choice(index, &delta, &Value::Null, None)
        };
        self.completion.answers.iter().enumerate().map(of_choice).collect()
    }

    fn turn(&self, turn: usize) -> Vec<Event> {
        let of_choice = |(index, deltas): (usize, &Vec<Delta>)| {
            let delta = deltas.get(turn)?;
            let logprobs = match delta {
                Delta::Text(token) => self.completion.logprobs(std::iter::once(token)),
                Delta::CallStart { .. } | Delta::Arguments { .. } => Value::Null,
            };
            Some(self.choice(index, &delta.render(), &logprobs, None).with_token())
        };
        self.deltas.iter().enumerate().filter_map(of_choice).collect()
    }

    fn closing(&self) -> Vec<Event> {
        let of_choice = |(index, answer): (usize, &Answer)| {
            self.choice(index, &json!({}), &Value::Null, Some(finish_reason(&answer.ending)))
        };
        let finishes = self.completion.answers.iter().enumerate().map(of_choice);
        let usage = self.with_usage.then(|| self.render(&json!([]), self.completion.usage()));
        finishes.chain(usage).chain([Event::raw("", b"[DONE]")]).collect()
    }

    fn choice(&self, index: usize, delta: &Value, logprobs: &Value, finish_reason: Option<&str>) -> Event {
        let choice =
            json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason});
        self.render(&json!([choice]), Value::Null)
    }

    fn render(&self, choices: &Value, usage: Value) -> Event {
        let mut chunk = self.frame.clone();
        chunk.insert("choices".to_owned(), choices.clone());
        if self.with_usage {
            chunk.insert("usage".to_owned(), usage);
        }
        Event::unnamed(&chunk)
    }
}

fn calls(answer: &Answer) -> impl Iterator<Item = (usize, &str, &[String])> {
    let calls = answer.blocks.iter().filter_map(|block| match block {
        Block::Call { name, arguments } => Some((name.as_str(), arguments.as_slice())),
        Block::Text(_) => None,
    });
    calls.enumerate().map(|(nth, (name, arguments))| (nth, name, arguments))
}

fn finish_reason(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done | Ending::Stop(_) => "stop",
        Ending::Calls => "tool_calls",
        Ending::Length => "length",
    }
}
