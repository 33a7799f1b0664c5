use aconite_dialects::{EmbeddingFault, embeddings};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_document;
use crate::{Dice, DocumentFilter, Instance, Level, Scope, Toxic};

/// Corrupts the vectors that an embedding model returns, as arrays of numbers or as base64.
///
/// No SDK reports it. A vector store rejects `wrong_dimension`; it stores the others, and searches then return wrong
/// results.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Embedding {
    /// How the vectors are changed.
    how: EmbeddingFault,
}

impl Toxic for Embedding {
    const TYPE: &'static str = "embedding";
    const LEVEL: Level = Level::Document;

    fn example() -> Self {
        Self { how: EmbeddingFault::WrongDimension }
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_document(scope, || Box::new(Spoiling { how: self.how, dice }))
    }
}

struct Spoiling {
    how: EmbeddingFault,
    dice: Dice,
}

impl DocumentFilter for Spoiling {
    fn edit(&mut self, body: &Bytes) -> Result<Bytes, &'static str> {
        match embeddings::edit(body, self.how, || self.dice.unit()) {
            Ok(Some(spoilt)) => Ok(spoilt),
            Ok(None) => Err("no_vectors"),
            Err(error) => Err(error.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        BodyForm,
        message::script::{Play, instance, sse},
    };

    fn embedding(how: &str, body: &str) -> Play {
        let scope = Scope { body: BodyForm::Document, ..Scope::default() };
        let mut play = Play::new::<Embedding>(json!({"how": how}), &scope);
        play.push(1, body);
        play.end(2);
        play
    }

    #[test]
    fn floats_and_base64_lose_a_dimension() {
        let floats = r#"{"data":[{"embedding":[1.0, 2e0]}]}"#;
        assert_eq!(embedding("wrong_dimension", floats).text(), r#"{"data":[{"embedding":[1.0]}]}"#);
        let base64 = r#"{"data":[{"embedding":"AACAPwAAAEA="}]}"#;
        let play = embedding("wrong_dimension", base64);
        assert_eq!(
            (play.text().as_str(), play.struck()),
            (r#"{"data":[{"embedding":"AACAPw=="}]}"#, Some(2))
        );
    }

    #[test]
    fn the_same_exchange_is_spoilt_the_same_way() {
        let body = r#"{"data":[{"embedding":[1.0,2.0,3.0]}]}"#;
        let noise = embedding("noise", body).text();
        assert_eq!(noise, embedding("noise", body).text());
        assert_ne!(noise, body);
    }

    #[test]
    fn what_has_no_vectors_passes_and_is_told() {
        assert_eq!(embedding("zero", "{}").skipped(), Some("no_vectors"));
        assert_eq!(embedding("zero", "").skipped(), Some("not_json"));
        assert!(matches!(instance::<Embedding>(json!({"how": "nan"}), &sse()), Instance::Idle("not_json")));
    }
}
