//! What a model answers.

use super::{Delta, Json, Part, Reasoning, Unmapped};

/// A whole answer, in no provider's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// What is told before anything is said.
    pub head: AnswerStart,
    /// The answers: one, unless the request asked for several.
    pub choices: Vec<Choice>,
    /// What was used.
    pub usage: Option<Usage>,
    /// Every field that the model has no place for.
    pub unmapped: Vec<Unmapped>,
}

/// What is told of an answer before anything is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerStart {
    /// The answer's id. Empty in formats without ids.
    pub id: String,
    /// The model that answers.
    pub model: String,
    /// When, in seconds since 1970. None in formats that do not tell.
    pub created: Option<u64>,
    /// What tells one configuration of the provider's machines from another (OpenAI).
    pub fingerprint: Option<String>,
    /// The tier of service that the request was answered in.
    pub tier: Option<String>,
    /// What is known to be used so far: the input, in formats that say so at the start of a stream.
    pub usage: Option<Usage>,
}

/// One of the answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// What is said. Neighbouring texts are one.
    pub parts: Vec<Part>,
    /// Why it ends. None: it does not say.
    pub stop: Option<Stop>,
    /// The probabilities of the tokens, in OpenAI's form.
    pub logprobs: Option<Json>,
}

impl Choice {
    /// Adds a part; what follows on a part of the same kind is joined to it.
    pub fn push(&mut self, part: Part) {
        match (self.parts.last_mut(), part) {
            (_, Part::Text(text)) if text.is_empty() => {}
            (Some(Part::Text(text)), Part::Text(more)) => text.push_str(&more),
            (Some(Part::Refusal(text)), Part::Refusal(more)) => text.push_str(&more),
            (Some(Part::Reasoning(said @ Reasoning { seal: None, .. })), Part::Reasoning(more))
                if more.seal.as_ref().is_none_or(|seal| !seal.is_redacted) =>
            {
                said.text.push_str(&more.text);
                said.seal = more.seal;
            }
            (_, part) => self.parts.push(part),
        }
    }

    /// All of its text.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Whether it calls a tool.
    pub fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::ToolCall(_)))
    }

    /// Sets why it ends. An answer that calls tools ends for that, whatever else was said: several servers say `stop`.
    pub(super) fn set_stop(&mut self, stop: Stop) {
        self.stop = Some(if stop == Stop::End && self.has_calls() { Stop::ToolCalls } else { stop });
    }
}

/// Why an answer ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stop {
    /// All is said.
    End,
    /// A stop text would have come next.
    StopText(String),
    /// The limit on tokens is reached.
    Length,
    /// The model's context is full.
    Context,
    /// Tools are to answer.
    ToolCalls,
    /// The answer was filtered. The text is the provider's word for it where it has several, such as `RECITATION`.
    Filtered(Option<String>),
    /// The model declined.
    Refused,
    /// The model paused, and goes on if it is sent what it said.
    Paused,
    /// The model made a call that cannot be read.
    MalformedCall,
    /// Anything else, in the provider's word.
    Other(String),
}

/// What was used, in tokens.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// All of the input, cached or not.
    pub input: u64,
    /// Input that was read from a cache.
    pub cached: u64,
    /// Input that was written to a cache.
    pub cache_written: u64,
    /// All of the output, reasoning included.
    pub output: u64,
    /// Output that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Input and output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Answer {
    /// An answer with one choice.
    pub fn new(head: AnswerStart, parts: Vec<Part>, stop: Stop, usage: Usage) -> Self {
        let choice = Choice { parts, stop: Some(stop), logprobs: None };
        Self { head, choices: vec![choice], usage: Some(usage), unmapped: Vec::new() }
    }

    /// The answer as a stream of a few pieces: each part in one.
    pub fn deltas(&self) -> Vec<Delta> {
        let mut deltas = vec![Delta::Start(self.head.clone())];
        for (choice, said) in self.choices.iter().enumerate() {
            let mut calls = 0;
            for part in &said.parts {
                deltas.extend(Delta::of_part(choice, part, &mut calls));
            }
        }
        let stops = self.choices.iter().enumerate();
        deltas.extend(
            stops.filter_map(|(choice, said)| Some(Delta::Stop { choice, stop: said.stop.clone()? })),
        );
        deltas.extend(self.usage.map(Delta::Usage));
        deltas.push(Delta::Done);
        deltas
    }
}
