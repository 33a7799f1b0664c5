//! What a simulated model answers, whatever the protocol it is asked in.
use aconite_dialects::conversation::{self, Json, Part, Request, Role, Stop, ToolChoice};
use serde_json::{Value, json};

use super::{example::example, text};

/// What a model is asked, read from any provider's request.
#[derive(Debug, Default)]
pub(super) struct Ask {
    /// The last user message.
    pub(super) prompt: String,
    /// What a tool answered, if that is the last thing that was said.
    pub(super) tool_result: Option<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) choice: ToolChoice,
    /// Whether only one tool may be called.
    pub(super) one_tool: bool,
    /// Whether the model says something before it calls tools.
    pub(super) talks_first: bool,
    pub(super) format: Format,
    /// Texts before which the answer ends.
    pub(super) stop: Vec<String>,
    /// Most tokens that the answer may have.
    pub(super) limit: Option<u64>,
    /// How many tokens a text answer has, if it is not the canonical one.
    pub(super) length: Option<usize>,
    /// Which of several answers this is, from 0.
    pub(super) variant: usize,
}

#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The JSON Schema of its arguments.
    pub(super) schema: Value,
}

#[derive(Debug, Default, PartialEq)]
pub(super) enum Format {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that fits the schema.
    Schema(Value),
}

/// A model's answer, cut into tokens.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) blocks: Vec<Block>,
    pub(super) stop: Stop,
}

#[derive(Debug, PartialEq)]
pub(super) enum Block {
    Text(Vec<String>),
    /// A call of a tool; the tokens are its arguments, as JSON.
    Call {
        name: String,
        arguments: Vec<String>,
    },
}

impl Block {
    pub(super) fn tokens(&self) -> &[String] {
        match self {
            Self::Text(tokens) | Self::Call { arguments: tokens, .. } => tokens,
        }
    }
}

impl Answer {
    /// How many tokens were generated: what the usage says.
    pub(super) fn tokens(&self) -> u64 {
        self.blocks.iter().map(|block| block.tokens().len() as u64).sum()
    }

    /// All of the text, without the calls.
    #[cfg(test)]
    fn text(&self) -> String {
        self.blocks
            .iter()
            .filter(|block| matches!(block, Block::Text(_)))
            .flat_map(Block::tokens)
            .cloned()
            .collect()
    }
}

impl Ask {
    /// What a request asks, with one answer and the canonical text.
    pub(super) fn of(request: &Request) -> Self {
        let user = request.turns.iter().rfind(|turn| turn.role == Role::User);
        let last = request.turns.last().and_then(|turn| turn.parts.last());
        let tools = request.tools.iter().map(|tool| Tool {
            name: tool.name.clone(),
            schema: tool.parameters.as_ref().map_or_else(|| json!({"type": "object"}), Json::value),
        });
        Self {
            prompt: user.map(conversation::Turn::text).unwrap_or_default(),
            tool_result: match last {
                Some(Part::ToolResult(result)) => Some(result.text()),
                _ => None,
            },
            tools: tools.collect(),
            choice: request.tool_choice.clone(),
            one_tool: request.parallel_tools == Some(false),
            format: match &request.format {
                conversation::Format::Text => Format::Text,
                conversation::Format::Json => Format::Json,
                conversation::Format::Schema { schema, .. } => Format::Schema(schema.value()),
            },
            stop: request.stop.clone(),
            limit: request.max_tokens,
            ..Self::default()
        }
    }

    /// The whole answer.
    pub(super) fn answer(&self) -> Answer {
        let called = self.called();
        let (mut blocks, mut stop) =
            if called.is_empty() { self.say() } else { (self.call(&called), Stop::ToolCalls) };
        let mut left = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        blocks.retain_mut(|block| {
            let (Block::Text(tokens) | Block::Call { arguments: tokens, .. }) = block;
            // A block that the limit leaves nothing of was never begun.
            let begun = left > 0;
            if tokens.len() > left {
                tokens.truncate(left);
                stop = Stop::Length;
            }
            left -= tokens.len();
            begun
        });
        Answer { blocks, stop }
    }

    fn called(&self) -> Vec<&Tool> {
        let prompt = plain(&self.prompt);
        let mentioned =
            self.tools.iter().filter(|tool| !tool.name.is_empty() && prompt.contains(&plain(&tool.name)));
        let mut called: Vec<_> = match &self.choice {
            ToolChoice::Never => Vec::new(),
            ToolChoice::Auto if self.tool_result.is_some() => Vec::new(),
            ToolChoice::Auto | ToolChoice::Any => mentioned.collect(),
            ToolChoice::Named(name) => self.tools.iter().filter(|tool| tool.name == *name).collect(),
        };
        if called.is_empty() && self.choice == ToolChoice::Any {
            called.extend(self.tools.first());
        }
        if self.one_tool {
            called.truncate(1);
        }
        called
    }

    fn call(&self, called: &[&Tool]) -> Vec<Block> {
        let preface = called
            .first()
            .filter(|_| self.talks_first)
            .map(|tool| Block::Text(owned(&text::before_calling(&self.prompt, &tool.name))));
        let calls = called.iter().map(|tool| Block::Call {
            name: tool.name.clone(),
            arguments: owned(&example(&tool.schema, &self.prompt).to_string()),
        });
        preface.into_iter().chain(calls).collect()
    }

    fn say(&self) -> (Vec<Block>, Stop) {
        let said = match &self.format {
            Format::Text => self.prose(),
            Format::Json => json!({"answer": self.prose(), "simulated": true}).to_string(),
            Format::Schema(schema) => example(schema, &self.prompt).to_string(),
        };
        let first_stop = self.stop.iter().filter_map(|stop| Some((said.find(stop.as_str())?, stop))).min();
        let (said, ending) = match first_stop {
            Some((at, stop)) => (&said[..at], Stop::StopText(stop.clone())),
            None => (said.as_str(), Stop::End),
        };
        (vec![Block::Text(owned(said))], ending)
    }

    fn prose(&self) -> String {
        let mut prose = match &self.tool_result {
            Some(result) => text::reply_to_tool(&self.prompt, result),
            None => text::reply_to(&self.prompt),
        };
        if self.variant > 0 {
            prose.push_str(&format!(" ({})", self.variant + 1));
        }
        match self.length {
            None => prose,
            Some(length) => {
                let again = format!(" {prose}");
                let again = std::iter::repeat_n(text::tokens(&again), length).flatten();
                text::tokens(&prose).chain(again).take(length).collect()
            }
        }
    }
}

/// How names of tools are compared: `get_weather`, `get weather` and `Get-Weather` are one.
fn plain(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], " ")
}

fn owned(text: &str) -> Vec<String> {
    text::tokens(text).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(prompt: &str) -> Ask {
        Ask { prompt: prompt.to_owned(), ..Ask::default() }
    }

    fn weather() -> Tool {
        let schema =
            json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        Tool { name: "get_weather".to_owned(), schema }
    }

    fn names(answer: &Answer) -> Vec<&str> {
        let calls = answer.blocks.iter().filter_map(|block| match block {
            Block::Call { name, .. } => Some(name.as_str()),
            Block::Text(_) => None,
        });
        calls.collect()
    }

    #[test]
    fn a_limit_cuts_and_says_so() {
        let whole = ask("hello").answer();
        assert_eq!(whole.stop, Stop::End);
        let cut = Ask { limit: Some(3), ..ask("hello") }.answer();
        assert_eq!((cut.tokens(), cut.stop), (3, Stop::Length));
        let exact = Ask { limit: Some(whole.tokens()), ..ask("hello") }.answer();
        assert_eq!(exact, whole);
    }

    #[test]
    fn the_first_stop_text_ends_the_answer() {
        let stop = vec!["answer".to_owned(), "simulated".to_owned(), "absent".to_owned()];
        let answer = Ask { stop, ..ask("hello") }.answer();
        assert_eq!(answer.text(), "You wrote: \"hello\". This is a ");
        assert_eq!(answer.stop, Stop::StopText("simulated".to_owned()));
    }

    #[test]
    fn a_tool_is_called_when_named_and_not_after_it_answered() {
        let asked = |prompt| Ask { tools: vec![weather()], ..ask(prompt) };
        assert_eq!(names(&asked("Get weather in Oslo").answer()), ["get_weather"]);
        assert_eq!(asked("get_weather").answer().stop, Stop::ToolCalls);
        assert!(names(&asked("hello").answer()).is_empty());
        let forced = Ask { choice: ToolChoice::Any, ..asked("hello") };
        assert_eq!(names(&forced.answer()), ["get_weather"]);
        let forbidden = Ask { choice: ToolChoice::Never, ..asked("get_weather") };
        assert!(names(&forbidden.answer()).is_empty());
        let answered = Ask { tool_result: Some("sunny".to_owned()), ..asked("get_weather") }.answer();
        assert!(answered.text().starts_with("The tool answered: \"sunny\"."));
    }

    #[test]
    fn a_cut_call_is_cut_json() {
        let answer = Ask { tools: vec![weather()], limit: Some(4), ..ask("get_weather") }.answer();
        assert_eq!(answer.stop, Stop::Length);
        assert_eq!(answer.blocks[0].tokens().concat(), "{\"city\"");
    }

    #[test]
    fn length_repeats_or_cuts_the_text() {
        for length in [1, 7, 500] {
            let answer = Ask { length: Some(length), ..ask("hello") }.answer();
            assert_eq!((answer.tokens(), answer.stop), (length as u64, Stop::End));
        }
    }
}
