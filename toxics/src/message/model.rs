use aconite_dialects::{Event, Part, Provider, json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json_edit::{EditResult, JsonEdit, NO_MATCH, on_json, parse};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Replaces the name of the model in the response, as if the provider had served another model than the one asked for.
///
/// Applies to documents and to each event that names the model. The text stays the same: combine it with `edit` for
/// an answer that differs too. Providers really do this: an alias resolves to a newer version, a router picks another
/// model. No SDK compares the name with the one in the request.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name of the model in the response.
    #[schemars(length(min = 1))]
    served: String,
}

impl Toxic for Model {
    const TYPE: &'static str = "model";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        Self { served: "gpt-3.5-turbo-0125".to_owned() }
    }

    fn check(&self) -> Result<(), String> {
        if self.served.is_empty() {
            Err("`served` is empty; expected a model's name".to_owned())
        } else {
            Ok(())
        }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        let served = json::quote(&self.served);
        on_json(scope, Renaming { provider: Provider::of(scope.dialect), served })
    }
}

struct Renaming {
    provider: &'static Provider,
    /// The name as a JSON string.
    served: String,
}

impl JsonEdit for Renaming {
    fn edit(&mut self, data: &[u8], _: Option<&Event>) -> Result<EditResult, &'static str> {
        let document = parse(data)?;
        let mut splices = json::Splices::new();
        for name in self.provider.find(Part::Model, document.root()) {
            splices.replace(name.span(), self.served.as_str());
        }
        splices.apply(data).map(EditResult::Data).ok_or(NO_MATCH)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::script::{Play, chats, check, sse};

    #[test]
    fn r_f9_every_chat_provider_names_another_model_and_nothing_else_changes() {
        for chat in chats() {
            for (scope, body) in chat.forms() {
                let mut play = Play::new::<Model>(json!({"served": "other"}), &scope);
                play.push(1, body);
                play.end(2);
                assert!(body.contains(chat.model), "{:?}", scope.dialect);
                assert_eq!(play.text(), body.replace(chat.model, "other"), "{:?}", scope.dialect);
                assert_eq!(play.skipped(), None);
            }
        }
    }

    #[test]
    fn a_stream_that_names_no_model_is_reported() {
        let mut play = Play::new::<Model>(json!({"served": "other"}), &sse());
        play.push(1, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n");
        play.end(2);
        assert_eq!((play.struck(), play.skipped()), (None, Some("no_match")));
    }

    #[test]
    fn the_name_must_not_be_empty() {
        assert!(check::<Model>(json!({"served": ""})).unwrap_err().contains("`served`"));
        assert!(check::<Model>(json!({})).is_err());
    }
}
