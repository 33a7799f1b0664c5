use aconite_dialects::{HitsFault, hits};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_document;
use crate::{Dice, DocumentFilter, Instance, Level, Scope, Toxic};

/// Changes the hits that a vector search returns, in the store's own format: Qdrant, Pinecone, Weaviate, Milvus,
/// Chroma, Elasticsearch and OpenSearch over HTTP.
///
/// No client reports it: the response is a success. qdrant-client accepts `NaN` as a score.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hits {
    /// How the hits are changed.
    how: HitsFault,
    /// How many hits `keep` leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<usize>,
}

impl Toxic for Hits {
    const TYPE: &'static str = "hits";
    const LEVEL: Level = Level::Document;

    fn example() -> Self {
        Self { how: HitsFault::Keep, n: Some(1) }
    }

    fn check(&self) -> Result<(), String> {
        match (self.how, self.n) {
            (HitsFault::Keep, None) => Err("`keep` needs `n`, the number of hits that it leaves".to_owned()),
            (HitsFault::Keep, Some(_)) | (_, None) => Ok(()),
            (how, Some(_)) => Err(format!("`n` goes with `keep`, not with `{how}`")),
        }
    }

    fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        on_document(scope, || Box::new(Spoiling { how: self.how, n: self.n.unwrap_or_default(), dice }))
    }
}

struct Spoiling {
    how: HitsFault,
    n: usize,
    dice: Dice,
}

impl DocumentFilter for Spoiling {
    fn edit(&mut self, body: &Bytes) -> Result<Bytes, &'static str> {
        match hits::edit(body, self.how, self.n, || self.dice.unit()) {
            Ok(Some(spoilt)) => Ok(spoilt),
            Ok(None) => Err("no_hits"),
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
        message::script::{Play, check},
    };

    fn hits(config: serde_json::Value, body: &str) -> Play {
        let scope = Scope { body: BodyForm::Document, ..Scope::default() };
        let mut play = Play::new::<Hits>(config, &scope);
        play.push(1, body);
        play.end(2);
        play
    }

    const POINTS: &str =
        r#"{"result": {"points":[{"id":1,"score":0.9},{"id":2,"score":0.80}]},"status":"ok"}"#;

    #[test]
    fn hits_go_and_the_rest_stays() {
        let kept = hits(json!({"how": "keep", "n": 1}), POINTS);
        assert_eq!(kept.text(), POINTS.replace(r#",{"id":2,"score":0.80}"#, ""));
        assert_eq!(kept.struck(), Some(2));
        let empty = hits(json!({"how": "empty"}), POINTS);
        assert_eq!(empty.text(), r#"{"result": {"points":[]},"status":"ok"}"#);
    }

    #[test]
    fn what_has_no_hits_passes_and_is_told() {
        let body = r#"{"result":true}"#;
        let play = hits(json!({"how": "empty"}), body);
        assert_eq!((play.text().as_str(), play.skipped()), (body, Some("no_hits")));
        assert_eq!(hits(json!({"how": "empty"}), "oops").skipped(), Some("not_json"));
    }

    #[test]
    fn n_goes_with_keep() {
        assert!(check::<Hits>(json!({"how": "keep"})).is_err());
        assert!(check::<Hits>(json!({"how": "empty", "n": 1})).is_err());
        assert!(check::<Hits>(json!({"how": "none"})).is_err());
    }
}
