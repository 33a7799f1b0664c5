//! A streamed answer, put together.

use super::{Answer, Choice, Delta, Json, Part, Reasoning, StreamError, ToolCall};

/// The most answers that one stream may bring: more are not kept.
const MOST_CHOICES: usize = 128;

/// Puts a streamed answer together. However a stream is cut into pieces, the answer is the same.
#[derive(Clone, Debug, Default)]
pub struct Accumulator {
    answer: Answer,
    /// For each answer, where in its parts each call is.
    calls: Vec<Vec<usize>>,
    error: Option<StreamError>,
    is_done: bool,
}

impl Accumulator {
    /// Takes the next step.
    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Start(head) => self.answer.head = head,
            Delta::Text { choice, text, logprobs } => {
                if let Some(choice) = self.choice(choice) {
                    choice.push(Part::Text(text));
                    choice.logprobs = joined(choice.logprobs.take(), logprobs);
                }
            }
            Delta::Reasoning { choice, text } => {
                self.add(choice, Part::Reasoning(Reasoning { text, seal: None }))
            }
            Delta::Signature { choice, seal } => {
                self.add(choice, Part::Reasoning(Reasoning { text: String::new(), seal: Some(seal) }));
            }
            Delta::Refusal { choice, text } => self.add(choice, Part::Refusal(text)),
            Delta::Media { choice, media } => self.add(choice, Part::Media(media)),
            Delta::ToolCall { choice, id, name, seal, .. } => self.begin_call(choice, id, name, seal),
            Delta::Arguments { choice, call, text } => {
                if let Some(arguments) = self.arguments(choice, call) {
                    arguments.push_str(&text);
                }
            }
            Delta::Stop { choice, stop } => {
                if let Some(choice) = self.choice(choice) {
                    choice.set_stop(stop);
                }
            }
            Delta::Usage(usage) => self.answer.usage = Some(usage),
            Delta::Error(error) => self.error = Some(error),
            Delta::Done => self.is_done = true,
        }
    }

    /// Whether the provider said that the answer is complete.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The failure that the provider reported, if it did.
    pub fn error(&self) -> Option<&StreamError> {
        self.error.as_ref()
    }

    /// What came so far.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// What came so far.
    pub fn into_answer(self) -> Answer {
        self.answer
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        if index >= MOST_CHOICES {
            return None;
        }
        let choices = self.answer.choices.len().max(index + 1);
        self.answer.choices.resize_with(choices, Choice::default);
        self.calls.resize_with(choices, Vec::new);
        self.answer.choices.get_mut(index)
    }

    fn add(&mut self, choice: usize, part: Part) {
        if let Some(choice) = self.choice(choice) {
            choice.push(part);
        }
    }

    fn begin_call(&mut self, index: usize, id: String, name: String, seal: Option<super::Signature>) {
        let Some(choice) = self.choice(index) else { return };
        let at = choice.parts.len();
        choice.push(Part::ToolCall(ToolCall { id, name, arguments: String::new(), seal }));
        if let Some(calls) = self.calls.get_mut(index) {
            calls.push(at);
        }
    }

    fn arguments(&mut self, choice: usize, call: usize) -> Option<&mut String> {
        let at = *self.calls.get(choice)?.get(call)?;
        match self.answer.choices.get_mut(choice)?.parts.get_mut(at)? {
            Part::ToolCall(call) => Some(&mut call.arguments),
            _ => None,
        }
    }
}

/// The probabilities of what came before and of what comes now.
fn joined(before: Option<Json>, now: Option<Json>) -> Option<Json> {
    let (Some(before), Some(now)) = (&before, &now) else { return before.or(now) };
    let (mut all, now) = (before.value(), now.value());
    for name in ["content", "refusal"] {
        if let (Some(all), Some(now)) = (all[name].as_array_mut(), now[name].as_array()) {
            all.extend(now.iter().cloned());
        }
    }
    Some(Json::of(&all))
}
