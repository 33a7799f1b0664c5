use aconite_dialects::{
    Event, Part, Provider, Shape,
    json::{self, Kind, Node, Splices},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json_edit::{EditResult, JsonEdit, NO_MATCH, on_json, parse};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Corrupts the tool calls in a response, as models do that call tools badly.
///
/// Applies to every call, in documents and in streams. The reason why the response ended stays. The official SDKs pass
/// the arguments on as they came, so that the error surfaces in the application: at `json.loads`, at the lookup of the
/// tool, or at the next request, which the provider refuses if a result names no call.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// What happens to the calls.
    how: ToolCallFault,
}

/// A way of corrupting tool calls.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum ToolCallFault {
    /// The arguments are not JSON: a closing brace is missing. Arguments that are an object (Gemini, Ollama, documents of
    /// Anthropic) become a string.
    BadJson,
    /// The model calls `nonexistent_tool`.
    UnknownTool,
    /// The calls have no id. Responses whose calls never have one are not changed.
    MissingId,
    /// In a stream the second fragment of the arguments is empty. Documents, and streams that send arguments whole, are
    /// not changed.
    LostFragment,
    /// The arguments are empty: `""`, or `{}` where they are an object.
    EmptyArgs,
}

impl Toxic for ToolCall {
    const TYPE: &'static str = "tool_call";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        Self { how: ToolCallFault::BadJson }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        let (provider, shape) = (Provider::of(scope.dialect), scope.shape());
        on_json(scope, Miscalling { how: self.how, provider, shape, fragments: 0 })
    }
}

struct Miscalling {
    how: ToolCallFault,
    provider: &'static Provider,
    shape: Shape,
    /// Fragments of arguments so far.
    fragments: u64,
}

impl JsonEdit for Miscalling {
    fn edit(&mut self, data: &[u8], event: Option<&Event>) -> Result<EditResult, &'static str> {
        let document = parse(data)?;
        let find = |part| self.provider.find(part, document.root());
        let edited = match self.how {
            ToolCallFault::BadJson => replaced(find(Part::ToolArguments), without_brace),
            ToolCallFault::UnknownTool => {
                replaced(find(Part::ToolName), |_| Some(json::quote("nonexistent_tool")))
            }
            ToolCallFault::MissingId => json::remove(&document, find(Part::ToolId)),
            ToolCallFault::LostFragment => {
                let event = event.ok_or("not_a_stream")?;
                let mut fragments = find(Part::ToolArguments);
                fragments.retain(|node| node.kind() == Kind::String && self.shape.is_tool_call(event));
                replaced(fragments, |_| {
                    self.fragments += 1;
                    (self.fragments == 2).then(|| "\"\"".to_owned())
                })
            }
            ToolCallFault::EmptyArgs => replaced(find(Part::ToolArguments), |node| {
                Some(if node.kind() == Kind::String { "\"\"" } else { "{}" }.to_owned())
            }),
        };
        edited.apply(data).map(EditResult::Data).ok_or(NO_MATCH)
    }
}

/// Replaces the values for which there is another one.
fn replaced<'d>(nodes: Vec<Node<'d>>, mut with: impl FnMut(Node<'d>) -> Option<String>) -> Splices {
    let mut splices = Splices::new();
    for node in nodes {
        if let Some(with) = with(node) {
            splices.replace(node.span(), with);
        }
    }
    splices
}

/// The arguments, or a fragment of them, without the brace at the end. The last fragment ends with one, so that the whole
/// is not balanced, whatever fragments there are.
fn without_brace(arguments: Node<'_>) -> Option<String> {
    let text = arguments.text().unwrap_or_else(|| String::from_utf8_lossy(arguments.raw()));
    text.trim_end().strip_suffix('}').map(json::quote)
}

#[cfg(test)]
mod tests {
    use aconite_dialects::conversation::{self, Answer};
    use serde_json::{Value, json};

    use super::*;
    use crate::message::script::{CHAT, Chat, Play, chats, check, sse};

    fn call(how: &str, scope: &Scope, body: &str) -> Play {
        let mut play = Play::new::<ToolCall>(json!({"how": how}), scope);
        play.push(1, body);
        play.end(2);
        play
    }

    /// The call that the provider's own reader finds in what is left of the stream and of the document.
    fn read(how: &str, chat: &Chat) -> [conversation::ToolCall; 2] {
        let the_call = |answer: Answer| {
            let mut parts = answer.choices.into_iter().flat_map(|choice| choice.parts);
            parts.find_map(|part| match part {
                conversation::Part::ToolCall(call) => Some(call),
                _ => None,
            })
        };
        let [(stream, events), (document, body)] = chat.forms();
        [
            the_call(chat.read_stream(&call(how, &stream, events).text())).unwrap(),
            the_call(chat.read(&call(how, &document, body).text())).unwrap(),
        ]
    }

    #[test]
    fn every_chat_provider_calls_a_tool_that_does_not_exist() {
        for chat in chats() {
            for (scope, body) in chat.forms() {
                let play = call("unknown_tool", &scope, body);
                assert_eq!(
                    play.text(),
                    body.replace("get_weather", "nonexistent_tool"),
                    "{:?}",
                    scope.dialect
                );
            }
            for call in read("unknown_tool", &chat) {
                assert_eq!((call.name.as_str(), call.arguments.contains("Oslo")), ("nonexistent_tool", true));
            }
        }
    }

    #[test]
    fn every_chat_provider_sends_arguments_that_are_not_json() {
        for chat in chats() {
            for (scope, body) in chat.forms() {
                let play = call("bad_json", &scope, body);
                let text = play.text();
                assert_ne!(text, body, "{:?}", scope.dialect);
                if body.contains("Oslo\\\"}") {
                    // Arguments in a string, or in fragments of one.
                    assert_eq!(text, body.replace("Oslo\\\"}", "Oslo\\\"").replace("lo\\\"}", "lo\\\""));
                } else {
                    assert!(text.contains("Oslo\\\"\""), "{:?} {text}", scope.dialect);
                    assert!(!text.contains("Oslo\"}"), "{:?} {text}", scope.dialect);
                }
            }
        }
    }

    #[test]
    fn every_chat_provider_sends_empty_arguments() {
        for chat in chats() {
            for call in read("empty_args", &chat) {
                assert!(["", "{}"].contains(&call.arguments.as_str()), "{:?} {call:?}", chat.dialect);
                assert_eq!(call.name, "get_weather");
            }
        }
    }

    #[test]
    fn an_id_is_removed_where_there_is_one() {
        for chat in chats() {
            for (scope, body) in chat.forms() {
                let play = call("missing_id", &scope, body);
                assert!(!play.text().contains("call_2"), "{:?} {}", scope.dialect, play.text());
                assert!(play.text().contains("get_weather"));
                let expected = if body.contains("call_2") { None } else { Some("no_match") };
                assert_eq!(play.skipped(), expected, "{:?}", scope.dialect);
            }
        }
    }

    #[test]
    fn the_second_fragment_is_lost_and_nothing_else() {
        let mut met = 0;
        for chat in chats() {
            let [(scope, body), (document, whole)] = chat.forms();
            let play = call("lost_fragment", &scope, body);
            let lost = [
                (r#""arguments":":\"Oslo\"}""#, r#""arguments":"""#),
                (r#""partial_json":"\"Oslo\"}""#, r#""partial_json":"""#),
                (r#""delta":"lo\"}""#, r#""delta":"""#),
            ];
            let found = lost.iter().find(|(fragment, _)| body.contains(fragment));
            met += usize::from(found.is_some());
            let expected =
                found.map_or_else(|| body.to_owned(), |(fragment, empty)| body.replace(fragment, empty));
            assert_eq!(play.text(), expected, "{:?}", scope.dialect);
            assert_eq!(play.skipped(), if found.is_some() { None } else { Some("no_match") });
            assert_eq!(call("lost_fragment", &document, whole).skipped(), Some("not_a_stream"));
        }
        assert_eq!(met, 3);
    }

    #[test]
    fn a_response_without_calls_is_left_alone() {
        for how in ["bad_json", "unknown_tool", "missing_id", "lost_fragment", "empty_args"] {
            let play = call(how, &sse(), CHAT);
            assert_eq!((play.text().as_str(), play.skipped()), (CHAT, Some("no_match")), "{how}");
        }
        assert!(check::<ToolCall>(json!({"how": "late"})).is_err());
        assert!(check::<ToolCall>(Value::Null).is_err());
    }
}
