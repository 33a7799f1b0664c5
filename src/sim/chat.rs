//! A simulated model behind a wire format.

use std::vec;

use aconite_dialects::conversation::{
    self, AnswerStart, Choice, Codec, Delta, FieldError, Fields, Json, Part, Problem, Request, Role,
    ToolCall, ToolChoice, Usage,
};
use bytes::Bytes;
use serde_json::json;

use super::{
    address::Pace,
    answer::{Answer, Ask, Block},
    body::Event,
    digest::Digest,
    reply::Reply,
    text,
};

/// The most answers to one request. Providers allow no more.
const MOST_CHOICES: u64 = 128;

/// How a provider's models speak.
#[derive(Debug)]
pub(super) struct Speaker {
    pub(super) codec: &'static dyn Codec,
    /// What an answer says before all else.
    pub(super) head: fn(&Request, Digest) -> AnswerStart,
    /// The id of a call.
    pub(super) call_id: fn(Digest) -> String,
    /// Whether a model says something before it calls tools.
    pub(super) talks_first: bool,
    /// The content type of streams.
    pub(super) stream_type: &'static str,
}

impl Speaker {
    /// The answer to a request: whole, or as a stream in the format's usual framing.
    pub(super) fn reply(&self, request: &Request, digest: Digest, pace: &Pace) -> Reply {
        let framing = self.codec.framing();
        self.reply_framed(request, digest, pace, self.stream_type, move |_, frame| {
            frame.event(framing).into_raw()
        })
    }

    /// The same, with streams framed by `frame`, which is given the number of each frame.
    pub(super) fn reply_framed(
        &self,
        request: &Request,
        digest: Digest,
        pace: &Pace,
        stream_type: &'static str,
        frame: impl Fn(usize, &conversation::Frame) -> Bytes + Send + Sync + 'static,
    ) -> Reply {
        let said = self.say(request, digest, pace);
        if !request.stream {
            return Reply::generated(&self.codec.write_answer(&said.whole(), request).body);
        }
        let mut writer = self.codec.stream_writer(request);
        let mut count = 0;
        // Rendered one by one: a long answer is not held once more as events.
        let events = said.deltas().flat_map(move |delta| {
            let frames = writer.write(&delta);
            let last = frames.len();
            let mut events = Vec::with_capacity(last);
            for (nth, written) in (1..).zip(&frames) {
                let token = delta.is_token() && nth == last;
                events.push(Event { bytes: frame(count, written), token });
                count += 1;
            }
            events
        });
        Reply::stream(stream_type, events)
    }

    fn say(&self, request: &Request, digest: Digest, pace: &Pace) -> ModelReply {
        let mut ask = Ask { talks_first: self.talks_first, length: pace.tokens, ..Ask::of(request) };
        let choices = request.sampling.choices.unwrap_or(1).min(MOST_CHOICES) as usize;
        let of_choice = |variant| {
            ask.variant = variant;
            ask.answer()
        };
        let answers: Vec<_> = (0..choices).map(of_choice).collect();
        let usage = Usage {
            input: count(request),
            output: answers.iter().map(Answer::tokens).sum(),
            ..Usage::default()
        };
        let head = AnswerStart { usage: Some(Usage { output: 0, ..usage }), ..(self.head)(request, digest) };
        let logprobs = request.sampling.logprobs == Some(true);
        ModelReply { head, answers, usage, digest, call_id: self.call_id, logprobs }
    }
}

/// All that a model says to one request.
struct ModelReply {
    head: AnswerStart,
    /// One for each choice.
    answers: Vec<Answer>,
    usage: Usage,
    digest: Digest,
    call_id: fn(Digest) -> String,
    /// Whether tokens come with their probability.
    logprobs: bool,
}

impl ModelReply {
    fn whole(self) -> conversation::Answer {
        let Self { head, answers, usage, digest, call_id, logprobs } = self;
        let choice = |(choice, answer): (usize, &Answer)| {
            let mut parts = Vec::with_capacity(answer.blocks.len());
            for (nth, block) in answer.blocks.iter().enumerate() {
                let said = block.tokens().concat();
                parts.push(match block {
                    Block::Text(_) => Part::Text(said),
                    Block::Call { name, .. } => {
                        let id = call_id(digest.nth(choice).nth(nth));
                        Part::ToolCall(ToolCall { id, name: name.clone(), arguments: said, seal: None })
                    }
                });
            }
            let tokens = answer.blocks.iter().flat_map(Block::tokens);
            let logprobs = logprobs.then(|| probabilities(tokens));
            Choice { parts, stop: Some(answer.stop.clone()), logprobs }
        };
        let choices = answers.iter().enumerate().map(choice).collect();
        conversation::Answer { head, choices, usage: Some(usage), unmapped: Vec::new() }
    }

    /// Choices take turns, a step each.
    fn deltas(self) -> impl Iterator<Item = Delta> + Send + Sync {
        let Self { head, answers, usage, digest, call_id, logprobs } = self;
        let stops = answers.iter().map(|answer| answer.stop.clone()).enumerate();
        let stops: Vec<_> = stops.map(|(choice, stop)| Delta::Stop { choice, stop }).collect();
        let answers = answers.into_iter().enumerate();
        let mut steps: Vec<_> = answers
            .map(|(choice, answer)| steps(choice, answer, digest.nth(choice), call_id, logprobs))
            .collect();
        let mut turn = 0;
        let taking_turns = std::iter::from_fn(move || {
            while !steps.is_empty() {
                turn %= steps.len();
                if let Some(step) = steps[turn].next() {
                    turn += 1;
                    return Some(step);
                }
                drop(steps.remove(turn));
            }
            None
        });
        [Delta::Start(head)]
            .into_iter()
            .chain(taking_turns)
            .chain(stops)
            .chain([Delta::Usage(usage), Delta::Done])
    }
}

type Steps = Box<dyn Iterator<Item = Delta> + Send + Sync>;

/// What one answer says, token by token.
fn steps(
    choice: usize,
    answer: Answer,
    digest: Digest,
    call_id: fn(Digest) -> String,
    logprobs: bool,
) -> Steps {
    let mut calls = 0;
    Box::new(answer.blocks.into_iter().enumerate().flat_map(move |(nth, block)| -> Steps {
        match block {
            Block::Text(tokens) => Box::new(tokens.into_iter().map(move |text| {
                let logprobs = logprobs.then(|| probabilities([&text]));
                Delta::Text { choice, text, logprobs }
            })),
            Block::Call { name, arguments } => {
                let call = calls;
                calls += 1;
                let id = call_id(digest.nth(nth));
                let begun = Delta::ToolCall { choice, call, id, name, seal: None };
                let arguments: vec::IntoIter<String> = arguments.into_iter();
                let pieces = arguments.map(move |text| Delta::Arguments { choice, call, text });
                Box::new([begun].into_iter().chain(pieces))
            }
        }
    }))
}

fn probabilities<'t>(tokens: impl IntoIterator<Item = &'t String>) -> Json {
    let content: Vec<_> = tokens
        .into_iter()
        .map(
            |token| json!({"token": token, "logprob": -0.125, "bytes": token.as_bytes(), "top_logprobs": []}),
        )
        .collect();
    Json::of(&json!({"content": content, "refusal": null}))
}

/// The input's tokens. Plausible, and the same for the same request: a few tokens of frame around each turn, and the
/// tools.
pub(super) fn count(request: &Request) -> u64 {
    let turns: u64 = request
        .turns
        .iter()
        .map(|turn| match turn.role {
            Role::System | Role::Developer => text::count(&turn.text()),
            Role::User | Role::Assistant | Role::Tool => 4 + text::count(&turn.text()),
        })
        .sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            let schema = tool.parameters.as_ref().map_or("", Json::text);
            [&tool.name, tool.description.as_deref().unwrap_or_default(), schema]
                .map(text::count)
                .iter()
                .sum::<u64>()
        })
        .sum();
    3 + turns + tools
}

/// That a tool is asked for which is not among those offered. `name` is the field that asks.
pub(super) fn check_choice(
    request: &Request,
    fields: &Fields<'_>,
    name: &'static str,
) -> Result<(), FieldError> {
    match &request.tool_choice {
        ToolChoice::Named(tool) if request.tools.iter().all(|offered| offered.name != *tool) => {
            Err(fields.error(name, Problem::NoSuchTool(tool.clone())))
        }
        _ => Ok(()),
    }
}
