use aconite_dialects::{
    Event,
    json::{self, EditError, Op},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json_edit::{EditResult, JsonEdit, NO_MATCH, on_json};
use crate::{Dice, Instance, Level, Scope, Toxic};

/// Edits JSON: a document, or the data of each event of a stream.
///
/// Edits are applied in order, each to the result of the one before. Only the bytes of the edited values change: white
/// space, key order and number spelling elsewhere stay. If one edit fails, none is applied, and the body or event
/// passes unchanged; so does data that is not JSON, such as `[DONE]`.
///
/// The official SDKs do not validate responses against their types: a missing field, or one of the wrong type, surfaces
/// where the caller uses it, as `AttributeError`, `TypeError` or `None`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The edits.
    #[schemars(length(min = 1))]
    ops: Vec<Op>,
}

impl Toxic for Edit {
    const TYPE: &'static str = "edit";
    const LEVEL: Level = Level::Events;
    const DOCUMENTS_TOO: bool = true;

    fn example() -> Self {
        let config = serde_json::json!({"ops": [{"path": "$.choices[*].finish_reason", "set": "length"}]});
        serde_json::from_value(config).expect("the path is valid")
    }

    fn check(&self) -> Result<(), String> {
        if self.ops.is_empty() { Err("`ops` has no edit".to_owned()) } else { Ok(()) }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        on_json(scope, Editing(self.ops.clone()))
    }
}

struct Editing(Vec<Op>);

impl JsonEdit for Editing {
    fn edit(&mut self, data: &[u8], _: Option<&Event>) -> Result<EditResult, &'static str> {
        match json::apply(data, &self.0) {
            Ok(Some(edited)) => Ok(EditResult::Data(edited)),
            Err(EditError::Unreadable(error)) => Err(error.reason()),
            Err(EditError::TooComplex(_)) => Err("too_complex"),
            Err(EditError::TooLarge) => Err("too_large"),
            Ok(None) | Err(_) => Err(NO_MATCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        BodyForm,
        message::script::{CHAT, Play, check, sse},
    };

    fn document(ops: serde_json::Value, body: &str) -> Play {
        let scope = Scope { body: BodyForm::Document, ..Scope::default() };
        let mut play = Play::new::<Edit>([("ops", ops)].into_iter().collect(), &scope);
        play.push(1, body);
        play.end(2);
        play
    }

    #[test]
    fn json_01_nothing_but_the_value_changes() {
        let body = "{ \"zebra\":{}, \"model\" : \"a\",\"apple\":{} }\n";
        let play = document(json!([{"path": "$.model", "set": "b"}]), body);
        assert_eq!(play.text(), body.replace("\"a\"", "\"b\""));
        assert_eq!(play.struck(), Some(2));
    }

    #[test]
    fn json_03_numbers_keep_their_spelling() {
        let body = r#"{"vector":[-0.086097434,1.0,1e2,-0.0,1E400],"x":1}"#;
        let play = document(json!([{"op": "remove", "path": "/x"}]), body);
        assert_eq!(play.text(), r#"{"vector":[-0.086097434,1.0,1e2,-0.0,1E400]}"#);
    }

    #[test]
    fn json_04_what_is_not_json_passes_and_is_told() {
        let body = r#"{"x":NaN,"y":-Infinity}"#;
        let play = document(json!([{"path": "$.x", "set": 1}]), body);
        assert_eq!((play.text().as_str(), play.skipped(), play.struck()), (body, Some("not_json"), None));
    }

    #[test]
    fn json_05_lone_surrogates_stay() {
        let body = r#"{"content":"cut \ud83d here","model":"m"}"#;
        let play = document(json!([{"path": "$.model", "set": "n"}]), body);
        assert_eq!(play.text(), body.replace("\"m\"", "\"n\""));
    }

    #[test]
    fn an_edit_that_cannot_be_made_unmakes_the_others() {
        let ops = json!([{"path": "$.a", "set": 2}, {"op": "test", "path": "/a", "value": 3}]);
        let play = document(ops, r#"{"a":1}"#);
        assert_eq!((play.text().as_str(), play.skipped()), (r#"{"a":1}"#, Some("no_match")));
    }

    #[test]
    fn events_are_edited_one_by_one() {
        let mut play = Play::new::<Edit>(
            json!({"ops": [{"path": "$.choices[0].delta.content", "truncate": 0}]}),
            &sse(),
        );
        play.push(1, CHAT);
        play.end(2);
        let expected = CHAT.replace("\"你\"", "\"\"").replace("\"好\"", "\"\"").replace("\"!\"", "\"\"");
        assert_eq!(play.text(), expected);
        assert_eq!((play.struck(), play.skipped()), (Some(1), None));
    }

    #[test]
    fn attributes_are_checked() {
        assert!(check::<Edit>(json!({"ops": []})).is_err());
        assert!(check::<Edit>(json!({"ops": [{"path": "$[", "set": 1}]})).is_err());
        assert!(check::<Edit>(json!({"ops": [{"op": "add", "path": "/a"}]})).is_err());
    }

    proptest! {
        #[test]
        fn a_stream_in_which_nothing_matches_passes_byte_for_byte(cuts in prop::collection::vec(0_usize..1_000, 0..8)) {
            let body = format!("\u{feff}{CHAT}data:x\r\n\r\n: c\rid: 1\n\ndata\n\ndata: tail");
            let mut play = Play::new::<Edit>(json!({"ops": [{"path": "$.absent", "delete": true}]}), &sse());
            play.push_cut(body.as_bytes(), &cuts);
            play.end(99);
            prop_assert_eq!(play.text(), body);
            prop_assert_eq!(play.skipped(), Some("no_match"));
        }
    }
}
