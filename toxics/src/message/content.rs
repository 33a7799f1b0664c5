use aconite_dialects::{Event, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    json_edit::{EditResult, JsonEdit, NO_MATCH, on_json, parse},
    text::{Rewrite, Rewriter},
};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Changes what the model says, while status, latency, ids and usage stay as they are.
///
/// Applies to the text of documents and streams. Tool calls, reasoning and the reason why the response ended stay. No
/// SDK can notice: only an application that checks answers does. For drift, when a share of the answers is wrong, set
/// `toxicity`: with 0.3 three in ten responses change, and the seed decides which.
///
/// A stream keeps its rhythm: each piece of text is changed in its place. A piece of which nothing is left is removed,
/// or empty where events are numbered.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// What happens to the text.
    how: ContentChange,
    /// With `replace`: the texts of which one is said, chosen by the seed. Default: a few confident falsehoods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    corpus: Vec<String>,
    /// With `truncate`: how many tokens are kept, which are pieces of a stream and words of a document. Default 5.
    #[serde(default = "five", skip_serializing_if = "is_five")]
    tokens: u64,
}

/// A way of changing a text.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ContentChange {
    /// Nothing is said.
    Empty,
    /// The text stops after `tokens`, and the response still ends as if it were complete.
    Truncate,
    /// Another text: one of `corpus`.
    Replace,
    /// The model is caught in a loop: the first token comes again and again.
    Repeat,
    /// The answer is in another language than the one that was asked for: Chinese.
    Language,
    /// Where JSON was asked for, a sentence stands before it.
    ProseForJson,
    /// The model tells that its knowledge ends years ago before it answers.
    Stale,
}

const FALSEHOODS: [&str; 3] = [
    "Water boils at 50 degrees Celsius at sea level.",
    "The order was cancelled, and the refund has already been paid.",
    "Yes. All requirements are met, and no further action is needed.",
];

const IN_CHINESE: &str = "抱歉，我只能用中文回答这个问题。";

fn five() -> u64 {
    5
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_five(tokens: &u64) -> bool {
    *tokens == five()
}

impl Toxic for Content {
    const TYPE: &'static str = "content";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        Self { how: ContentChange::Replace, corpus: vec!["I am not sure.".to_owned()], tokens: five() }
    }

    fn check(&self) -> Result<(), String> {
        if self.corpus.iter().any(String::is_empty) {
            return Err("`corpus` has an empty text; use `how: empty` to say nothing".to_owned());
        }
        if !self.corpus.is_empty() && self.how != ContentChange::Replace {
            return Err("`corpus` is for `how: replace` alone".to_owned());
        }
        Ok(())
    }

    fn start(&self, scope: &Scope, mut dice: Dice) -> Instance {
        let rewrite = match self.how {
            ContentChange::Empty => Rewrite::First(0),
            ContentChange::Truncate => Rewrite::First(self.tokens),
            ContentChange::Replace => Rewrite::Other(self.chosen(&mut dice)),
            ContentChange::Repeat => Rewrite::Loop,
            ContentChange::Language => Rewrite::Other(IN_CHINESE.to_owned()),
            ContentChange::ProseForJson => Rewrite::After("Sure! Here is the JSON that you asked for:\n\n"),
            ContentChange::Stale => Rewrite::After("As of my last update in September 2021: "),
        };
        on_json(scope, Saying(Rewriter::new(rewrite, Provider::of(scope.dialect), scope.shape())))
    }
}

impl Content {
    fn chosen(&self, dice: &mut Dice) -> String {
        let own = self.corpus.iter().map(String::as_str);
        let texts: Vec<_> = if self.corpus.is_empty() { FALSEHOODS.to_vec() } else { own.collect() };
        let place = dice.below(texts.len() as u64);
        usize::try_from(place).ok().and_then(|place| texts.get(place)).copied().unwrap_or_default().to_owned()
    }
}

struct Saying(Rewriter);

impl JsonEdit for Saying {
    fn edit(&mut self, data: &[u8], event: Option<&Event>) -> Result<EditResult, &'static str> {
        let text = self.0.rewrite(&parse(data)?, event);
        if text.is_needless {
            return Ok(EditResult::Removed);
        }
        text.splices.apply(data).map(EditResult::Data).ok_or(NO_MATCH)
    }
}

#[cfg(test)]
mod tests {
    use aconite_dialects::conversation::Answer;
    use serde_json::{Value, json};

    use super::*;
    use crate::message::script::{CHAT, Chat, Play, chats, check, sse};

    fn said(config: Value, scope: &Scope, body: &str) -> Play {
        let mut play = Play::new::<Content>(config, scope);
        play.push(1, body);
        play.end(2);
        play
    }

    /// What the provider's own reader takes for the answer, in a stream and in a document.
    fn read(config: &Value, chat: &Chat) -> [Answer; 2] {
        let [(stream, events), (document, body)] = chat.forms();
        [
            chat.read_stream(&said(config.clone(), &stream, events).text()),
            chat.read(&said(config.clone(), &document, body).text()),
        ]
    }

    fn texts(config: &Value, chat: &Chat) -> [String; 2] {
        read(config, chat).map(|answer| answer.choices[0].text())
    }

    #[test]
    fn every_chat_provider_says_something_else() {
        for (config, stream, document) in [
            (json!({"how": "empty"}), "", ""),
            (json!({"how": "truncate", "tokens": 1}), "I ask", "I"),
            (json!({"how": "truncate"}), "I ask again.", "I ask again."),
            (json!({"how": "replace", "corpus": ["No."]}), "No.", "No."),
            (json!({"how": "repeat"}), "I askI ask", "I I I"),
            (json!({"how": "language"}), IN_CHINESE, IN_CHINESE),
            (
                json!({"how": "stale"}),
                "As of my last update in September 2021: I ask again.",
                "As of my last update in September 2021: I ask again.",
            ),
        ] {
            for chat in chats() {
                assert_eq!(texts(&config, &chat), [stream, document], "{:?} {config}", chat.dialect);
            }
        }
    }

    #[test]
    fn nothing_but_the_text_changes() {
        for chat in chats() {
            let [(scope, events), (document, body)] = chat.forms();
            let config = json!({"how": "replace", "corpus": ["I ask again."]});
            let strip =
                |answer: &Answer| (answer.choices.len(), answer.choices[0].stop.clone(), answer.usage);
            let changed = read(&json!({"how": "replace", "corpus": ["No."]}), &chat);
            assert_eq!(strip(&changed[0]), strip(&chat.read_stream(events)), "{:?}", chat.dialect);
            assert_eq!(strip(&changed[1]), strip(&chat.read(body)), "{:?}", chat.dialect);
            assert_eq!(said(config, &document, body).text(), body, "{:?}", chat.dialect);
            let numbers = |text: &str| text.matches("sequence_number").count();
            let text = said(json!({"how": "empty"}), &scope, events).text();
            assert_eq!(numbers(&text), numbers(events), "{:?}: a number is missing", chat.dialect);
        }
    }

    #[test]
    fn events_that_repeat_the_text_repeat_what_was_said() {
        let [_, chat, ..] = chats();
        let [(scope, events), _] = chat.forms();
        let text = said(json!({"how": "replace", "corpus": ["No."]}), &scope, events).text();
        assert!(!text.contains("I ask again."), "{text}");
        assert_eq!(
            text.matches("\"text\":\"No.\"").count(),
            events.matches("I ask again.").count(),
            "{text}"
        );
    }

    #[test]
    fn prose_before_json_is_no_json() {
        let body = r#"{"choices":[{"message":{"content":"{\"a\":1}"},"finish_reason":"stop"}]}"#;
        let scope = Scope { body: crate::BodyForm::Document, ..sse() };
        let text = said(json!({"how": "prose_for_json"}), &scope, body).text();
        let answer: Value = serde_json::from_str(&text).unwrap();
        let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(
            content.ends_with("{\"a\":1}") && serde_json::from_str::<Value>(content).is_err(),
            "{content}"
        );
    }

    #[test]
    fn pieces_of_which_nothing_is_left_are_removed() {
        let play = said(json!({"how": "truncate", "tokens": 1}), &sse(), CHAT);
        let gone = |piece: &str| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n")
        };
        assert_eq!(play.text(), CHAT.replace(&gone("好"), "").replace(&gone("!"), ""));
    }

    #[test]
    fn the_seed_chooses_from_the_corpus() {
        let config = json!({"how": "replace", "corpus": ["a", "b", "c", "d"]});
        let chosen: Vec<_> = (0..40)
            .map(|number| {
                let toxic: Content = serde_json::from_value(config.clone()).unwrap();
                toxic.chosen(&mut Dice::new(7, "p", "t", number))
            })
            .collect();
        for text in ["a", "b", "c", "d"] {
            assert!(chosen.iter().any(|one| one == text), "{text}");
        }
        let toxic: Content = serde_json::from_value(json!({"how": "replace"})).unwrap();
        assert!(FALSEHOODS.contains(&&*toxic.chosen(&mut Dice::new(7, "p", "t", 0))));
    }

    #[test]
    fn a_response_without_text_is_left_alone() {
        let body = "data: {\"choices\":[],\"usage\":null}\n\ndata: [DONE]\n\n";
        let play = said(json!({"how": "replace"}), &sse(), body);
        assert_eq!((play.text().as_str(), play.struck(), play.skipped()), (body, None, Some("no_match")));
    }

    #[test]
    fn attributes_are_checked() {
        assert!(check::<Content>(json!({"how": "louder"})).is_err());
        assert!(check::<Content>(json!({"how": "replace", "corpus": [""]})).unwrap_err().contains("empty"));
        assert!(check::<Content>(json!({"how": "empty", "corpus": ["x"]})).unwrap_err().contains("replace"));
    }
}
