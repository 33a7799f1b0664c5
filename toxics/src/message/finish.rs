use aconite_dialects::{self as dialects, Event, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    json_edit::{EditResult, JsonEdit, NO_MATCH, on_json, parse},
    text::{Rewrite, Rewriter},
};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Makes a response tell that it ended for another reason, in the provider's own word, and cuts its text accordingly.
///
/// Applies to documents and streams. The response is still complete: a stream keeps its final events and its usage. If
/// the provider has no word for the reason, the toxic is skipped (`no_such_reason`).
///
/// OpenAI's Responses API has no reasons: with `length` and `content_filter` the response is `incomplete`, and its last
/// event `response.incomplete`; `stop` and `tool_calls` change nothing there. The official SDKs return such a response
/// like any other; only the helpers of `openai` that parse a response raise (`LengthFinishReasonError`,
/// `ContentFilterFinishReasonError`).
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// Why the response ended.
    reason: dialects::Finish,
    /// How many tokens of the text are kept: pieces of a stream, words of a document. Default: 8 with `length`, 0 with
    /// `content_filter`, `refusal` and `recitation`, else all of them. Tool calls stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep: Option<u64>,
}

impl Finish {
    fn kept(&self) -> u64 {
        self.keep.unwrap_or(match self.reason {
            dialects::Finish::Length => 8,
            dialects::Finish::ContentFilter | dialects::Finish::Refusal | dialects::Finish::Recitation => 0,
            _ => u64::MAX,
        })
    }
}

impl Toxic for Finish {
    const TYPE: &'static str = "finish";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        Self { reason: dialects::Finish::Length, keep: None }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        let (provider, shape) = (Provider::of(scope.dialect), scope.shape());
        if !provider.can_finish(self.reason) {
            return Instance::Idle("no_such_reason");
        }
        let text = Rewriter::new(Rewrite::First(self.kept()), provider, shape);
        on_json(scope, Finishing { reason: self.reason, provider, text })
    }
}

/// The type of the last event of a response of the Responses API that was cut short.
const INCOMPLETE: &[u8] = b"\"response.incomplete\"";

struct Finishing {
    reason: dialects::Finish,
    provider: &'static Provider,
    text: Rewriter,
}

impl JsonEdit for Finishing {
    fn edit(&mut self, data: &[u8], event: Option<&Event>) -> Result<EditResult, &'static str> {
        let document = parse(data)?;
        let text = self.text.rewrite(&document, event);
        let finished = self.provider.finished(&document, self.reason);
        if text.is_needless {
            return Ok(EditResult::Removed);
        }
        let edited = text.splices.and(finished).apply(data).ok_or(NO_MATCH)?;
        let incomplete = parse(&edited)?.root().get("type").is_some_and(|kind| kind.raw() == INCOMPLETE);
        if incomplete && event.is_some_and(|event| event.name().as_deref() == Some("response.completed")) {
            return Ok(EditResult::Renamed("response.incomplete", edited));
        }
        Ok(EditResult::Data(edited))
    }
}

#[cfg(test)]
mod tests {
    use aconite_dialects::{
        Dialect, Operation,
        conversation::{Answer, Stop},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::message::script::{CHAT, Chat, Play, chats, check, sse};

    fn finished(config: Value, scope: &Scope, body: &str) -> Play {
        let mut play = Play::new::<Finish>(config, scope);
        play.push(1, body);
        play.end(2);
        play
    }

    /// What the provider's own reader takes for the answer, in a stream and in a document.
    fn read(config: &Value, chat: &Chat) -> [Answer; 2] {
        let [(stream, events), (document, body)] = chat.forms();
        [
            chat.read_stream(&finished(config.clone(), &stream, events).text()),
            chat.read(&finished(config.clone(), &document, body).text()),
        ]
    }

    #[test]
    fn every_chat_provider_ends_for_want_of_tokens() {
        for chat in chats() {
            let [stream, document] = read(&json!({"reason": "length", "keep": 1}), &chat);
            assert_eq!(
                (&stream.choices[0].stop, &document.choices[0].stop),
                (&Some(Stop::Length), &Some(Stop::Length)),
                "{:?}",
                chat.dialect
            );
            assert_eq!(
                (&*stream.choices[0].text(), &*document.choices[0].text()),
                ("I ask", "I"),
                "{:?}",
                chat.dialect
            );
            let [(_, events), (_, body)] = chat.forms();
            assert_eq!(stream.usage, chat.read_stream(events).usage, "{:?}", chat.dialect);
            assert_eq!(document.usage, chat.read(body).usage, "{:?}", chat.dialect);
            let [stream, document] = read(&json!({"reason": "length"}), &chat);
            assert_eq!(
                [stream.choices[0].text(), document.choices[0].text()],
                ["I ask again."; 2],
                "{:?}",
                chat.dialect
            );
        }
    }

    #[test]
    fn a_filtered_response_has_no_text() {
        // The others have no word for it.
        let filters = |chat: &Chat| matches!(chat.dialect, Dialect::OpenAi | Dialect::Gemini);
        let chats: Vec<_> = chats().into_iter().filter(filters).collect();
        assert_eq!(chats.len(), 3);
        for chat in chats {
            for answer in read(&json!({"reason": "content_filter"}), &chat) {
                let [choice] = &*answer.choices else { panic!("{:?}", chat.dialect) };
                assert_eq!(choice.text(), "", "{:?}", chat.dialect);
                assert!(
                    matches!(choice.stop, Some(Stop::Filtered(_))),
                    "{:?} {:?}",
                    chat.dialect,
                    choice.stop
                );
            }
        }
    }

    #[test]
    fn anthropic_refuses() {
        let [_, _, chat, ..] = chats();
        for answer in read(&json!({"reason": "refusal"}), &chat) {
            assert_eq!(
                (answer.choices[0].stop.clone(), &*answer.choices[0].text()),
                (Some(Stop::Refused), "")
            );
        }
    }

    #[test]
    fn a_response_api_stream_ends_incomplete_and_keeps_its_numbers() {
        let [_, chat, ..] = chats();
        let [(scope, events), _] = chat.forms();
        let text = finished(json!({"reason": "length", "keep": 1}), &scope, events).text();
        assert!(
            text.contains("event: response.incomplete\ndata: {\"type\":\"response.incomplete\","),
            "{text}"
        );
        assert!(
            text.contains(r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#),
            "{text}"
        );
        assert!(!text.contains("response.completed") && !text.contains("again"), "{text}");
        assert_eq!(text.matches("sequence_number").count(), events.matches("sequence_number").count());
        let play = finished(json!({"reason": "stop"}), &scope, events);
        assert_eq!((play.text().as_str(), play.skipped()), (events, Some("no_match")));
    }

    #[test]
    fn an_event_that_tells_the_end_stays_without_its_text() {
        let [.., chat, _] = chats();
        let [(scope, _), _] = chat.forms();
        let last = |text: &str, reason: &str| {
            format!(
                "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}},\"finishReason\":\"{reason}\"}}]}}\n\n"
            )
        };
        let play = finished(json!({"reason": "content_filter"}), &scope, &last("hi", "STOP"));
        assert_eq!(play.text(), last("", "SAFETY"));
    }

    #[test]
    fn only_the_reason_changes_in_an_event() {
        let play = finished(json!({"reason": "length"}), &sse(), CHAT);
        assert_eq!(play.text(), CHAT.replace("\"stop\"", "\"length\""));
        let tool_calls = finished(json!({"reason": "tool_calls"}), &sse(), CHAT);
        assert_eq!(tool_calls.text(), CHAT.replace("\"stop\"", "\"tool_calls\""));
    }

    #[test]
    fn a_reason_without_a_word_is_skipped() {
        use crate::message::script::instance;
        for (dialect, reason) in [
            (Dialect::OpenAi, "refusal"),
            (Dialect::Ollama, "content_filter"),
            (Dialect::Gemini, "tool_calls"),
            (Dialect::Anthropic, "recitation"),
        ] {
            let scope = Scope { dialect: Some(dialect), operation: Some(Operation::Chat), ..sse() };
            let instance = instance::<Finish>(json!({"reason": reason}), &scope);
            assert!(matches!(instance, Instance::Idle("no_such_reason")), "{dialect} {reason}");
        }
    }

    #[test]
    fn attributes_are_checked() {
        assert!(check::<Finish>(json!({"reason": "boredom"})).is_err());
        assert!(check::<Finish>(json!({"reason": "length", "keep": -1})).is_err());
        assert!(check::<Finish>(json!({})).is_err());
    }
}
