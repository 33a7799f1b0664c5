use aconite_dialects::{
    Event, Part, Provider, Shape,
    json::{self, Document, Kind, Node, Splices},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json_edit::{EditResult, JsonEdit, NO_MATCH, on_json, parse};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Changes the token usage that a response reports.
///
/// Applies to documents and to each event that reports usage. What an application computes from it is then wrong: costs,
/// budgets, rate limits, the decision to shorten a conversation. SDKs do not check the numbers. Without usage `openai`
/// gives `None`, and so does `anthropic` for documents and plain streams; its `.stream()` raises `AttributeError` if
/// `message_start` or `message_delta` has none.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// What happens to the usage.
    how: UsageFault,
    /// With `inflate`: the number by which each count is multiplied, from 2 to 1000000. Default 10.
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    #[schemars(range(min = 2, max = 1_000_000))]
    factor: u64,
}

/// A way of changing the usage.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum UsageFault {
    /// No usage at all. An event that exists for its usage alone, such as the last chunk of OpenAI's chat, is removed.
    Missing,
    /// All counts are 0.
    Zero,
    /// All counts are multiplied by `factor`.
    Inflate,
}

fn ten() -> u64 {
    10
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_ten(factor: &u64) -> bool {
    *factor == ten()
}

impl Toxic for Usage {
    const TYPE: &'static str = "usage";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        Self { how: UsageFault::Missing, factor: ten() }
    }

    fn check(&self) -> Result<(), String> {
        match self.factor {
            2..=1_000_000 => Ok(()),
            factor => Err(format!("`factor` is {factor}; expected a whole number from 2 to 1000000")),
        }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        let (provider, shape) = (Provider::of(scope.dialect), scope.shape());
        on_json(scope, Misreporting { how: self.how, factor: self.factor, provider, shape })
    }
}

struct Misreporting {
    how: UsageFault,
    factor: u64,
    provider: &'static Provider,
    shape: Shape,
}

impl JsonEdit for Misreporting {
    fn edit(&mut self, data: &[u8], event: Option<&Event>) -> Result<EditResult, &'static str> {
        let document = parse(data)?;
        let usage = self.provider.find(Part::Usage, document.root());
        if usage.is_empty() {
            return Err(NO_MATCH);
        }
        let edited = match self.how {
            UsageFault::Missing if event.is_some_and(|event| self.is_usage_alone(event, &document)) => {
                return Ok(EditResult::Removed);
            }
            UsageFault::Missing => json::remove(&document, usage),
            UsageFault::Zero => counts(usage, |_| "0".to_owned()),
            UsageFault::Inflate => counts(usage, |count| self.inflate(count)),
        };
        edited.apply(data).map(EditResult::Data).ok_or(NO_MATCH)
    }
}

impl Misreporting {
    /// Whether a client needs nothing of the event but its usage.
    fn is_usage_alone(&self, event: &Event, document: &Document<'_>) -> bool {
        self.shape.is_usage(event) && self.provider.find(Part::Finish, document.root()).is_empty()
    }

    fn inflate(&self, count: Node<'_>) -> String {
        let spelt = String::from_utf8_lossy(count.raw());
        match spelt.parse::<u64>() {
            Ok(count) => count.saturating_mul(self.factor).to_string(),
            // Costs, which some gateways report beside the counts.
            Err(_) => spelt.parse::<f64>().map_or_else(|_| spelt.to_string(), |cost| self.times(cost)),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the factor is at most a million")]
    fn times(&self, cost: f64) -> String {
        serde_json::Value::from(cost * self.factor as f64).to_string()
    }
}

/// Replaces every number within the values.
fn counts(usage: Vec<Node<'_>>, with: impl Fn(Node<'_>) -> String) -> Splices {
    let mut splices = Splices::new();
    let mut left = usage;
    while let Some(node) = left.pop() {
        match node.kind() {
            Kind::Number => splices.replace(node.span(), with(node)),
            Kind::Array | Kind::Object => left.extend(node.children()),
            Kind::Null | Kind::Bool | Kind::String => {}
        }
    }
    splices
}

#[cfg(test)]
mod tests {
    use aconite_dialects::{Dialect, conversation::Answer};
    use serde_json::json;

    use super::*;
    use crate::message::script::{CHAT, Chat, Play, chats, check, sse};

    fn usage(config: serde_json::Value, scope: &Scope, body: &str) -> Play {
        let mut play = Play::new::<Usage>(config, scope);
        play.push(1, body);
        play.end(2);
        play
    }

    /// The tokens of input and output that the provider's own reader finds, in a document and in a stream.
    fn read(chat: &Chat, play: impl Fn(&Scope, &str) -> String) -> [(u64, u64); 2] {
        let [(stream, events), (document, body)] = chat.forms();
        let of = |answer: Answer| answer.usage.map_or((0, 0), |usage| (usage.input, usage.output));
        [of(chat.read(&play(&document, body))), of(chat.read_stream(&play(&stream, events)))]
    }

    #[test]
    fn every_chat_provider_reports_other_counts() {
        for chat in chats() {
            assert_eq!(read(&chat, |_, body| body.to_owned()), [(57, 17); 2], "{:?}", chat.dialect);
            let with = |config: serde_json::Value| {
                read(&chat, |scope, body| usage(config.clone(), scope, body).text())
            };
            assert_eq!(with(json!({"how": "zero"})), [(0, 0); 2], "{:?}", chat.dialect);
            assert_eq!(with(json!({"how": "inflate"})), [(570, 170); 2], "{:?}", chat.dialect);
            assert_eq!(with(json!({"how": "inflate", "factor": 3})), [(171, 51); 2], "{:?}", chat.dialect);
            assert_eq!(with(json!({"how": "missing"})), [(0, 0); 2], "{:?}", chat.dialect);
        }
    }

    #[test]
    fn a_response_without_usage_stays_complete() {
        for chat in chats() {
            for (scope, body) in chat.forms() {
                let play = usage(json!({"how": "missing"}), &scope, body);
                let text = play.text();
                assert_eq!((play.skipped(), text == body), (None, false), "{:?}", chat.dialect);
                for name in ["\"usage\":{", "\"usage\": {", "usageMetadata", "eval_count"] {
                    assert!(!text.contains(name), "{:?} {text}", chat.dialect);
                }
            }
            let [(scope, stream), (_, document)] = chat.forms();
            let answer = chat.read(&usage(json!({"how": "missing"}), &chat.forms()[1].0, document).text());
            assert_eq!(answer.choices, chat.read(document).choices, "{:?}", chat.dialect);
            let answer = chat.read_stream(&usage(json!({"how": "missing"}), &scope, stream).text());
            assert_eq!(answer.choices, chat.read_stream(stream).choices, "{:?}", chat.dialect);
        }
    }

    #[test]
    fn the_chunk_that_is_there_for_usage_alone_is_removed() {
        let play = usage(json!({"how": "missing"}), &sse(), CHAT);
        assert_eq!(
            play.text(),
            CHAT.replace("data: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\n", "")
        );
    }

    #[test]
    fn a_cost_is_inflated_too_and_words_stay() {
        let body =
            r#"{"usage":{"prompt_tokens":7,"cost":0.25,"tier":"x","details":{"cached":null,"n":[1]}}}"#;
        let scope =
            Scope { body: crate::BodyForm::Document, dialect: Some(Dialect::OpenRouter), ..Scope::default() };
        let expected =
            r#"{"usage":{"prompt_tokens":14,"cost":0.5,"tier":"x","details":{"cached":null,"n":[2]}}}"#;
        assert_eq!(usage(json!({"how": "inflate", "factor": 2}), &scope, body).text(), expected);
    }

    #[test]
    fn a_stream_without_usage_is_reported() {
        let body = "data: {\"choices\":[],\"usage\":null}\n\ndata: [DONE]\n\n";
        let play = usage(json!({"how": "zero"}), &sse(), body);
        assert_eq!((play.text().as_str(), play.struck(), play.skipped()), (body, None, Some("no_match")));
    }

    #[test]
    fn the_factor_has_bounds() {
        for factor in [0, 1, 1_000_001] {
            assert!(
                check::<Usage>(json!({"how": "inflate", "factor": factor})).unwrap_err().contains("factor")
            );
        }
        assert!(check::<Usage>(json!({"how": "more"})).is_err());
    }
}
