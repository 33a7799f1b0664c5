//! What the requests' bodies hold.
use serde::Deserialize;
use serde_json::Value;

use super::{
    filter::Filter,
    id::PointId,
    payload::{Payload, WithPayload},
    refusal::Refusal,
    vectors::{VectorStruct, VectorsConfig},
};

#[derive(Deserialize)]
pub(super) struct CreateCollection {
    pub(super) vectors: Option<VectorsConfig>,
    pub(super) sparse_vectors: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct CreateIndex {
    pub(super) field_name: String,
    pub(super) field_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Upsert {
    Points { points: Vec<NewPoint> },
    Batch { batch: NewPoints },
}

#[derive(Deserialize)]
pub(super) struct NewPoint {
    pub(super) id: PointId,
    pub(super) vector: VectorStruct,
    pub(super) payload: Option<Payload>,
}

/// Points as columns.
#[derive(Deserialize)]
pub(super) struct NewPoints {
    ids: Vec<PointId>,
    vectors: NewVectors,
    payloads: Option<Vec<Option<Payload>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NewVectors {
    Single(Vec<Vec<f32>>),
    Named(std::collections::BTreeMap<String, Vec<Vec<f32>>>),
}

impl NewVectors {
    /// How many there are under each name.
    fn counts(&self) -> Vec<usize> {
        match self {
            Self::Single(vectors) => vec![vectors.len()],
            Self::Named(named) => named.values().map(Vec::len).collect(),
        }
    }

    /// Those of the point at `index`, which exists.
    fn take(&mut self, index: usize) -> VectorStruct {
        match self {
            Self::Single(vectors) => VectorStruct::Single(std::mem::take(&mut vectors[index])),
            Self::Named(named) => {
                let take = |(name, vectors): (&String, &mut Vec<Vec<f32>>)| {
                    (name.clone(), std::mem::take(&mut vectors[index]))
                };
                VectorStruct::Named(named.iter_mut().map(take).collect())
            }
        }
    }
}

impl Upsert {
    pub(super) fn into_points(self) -> Result<Vec<NewPoint>, Refusal> {
        match self {
            Self::Points { points } => Ok(points),
            Self::Batch { batch } => batch.into_points(),
        }
    }
}

impl NewPoints {
    fn into_points(mut self) -> Result<Vec<NewPoint>, Refusal> {
        let count = self.ids.len();
        let payloads = self.payloads.as_ref().map(Vec::len);
        if let Some(other) = self.vectors.counts().into_iter().chain(payloads).find(|other| *other != count) {
            return Err(Refusal::invalid(
                "batch",
                format!("number of ids ({count}) and of vectors or payloads ({other}) must be the same"),
            ));
        }
        let payloads = self.payloads.unwrap_or_else(|| vec![None; count]);
        let point = |(index, (id, payload))| NewPoint { id, vector: self.vectors.take(index), payload };
        Ok(self.ids.into_iter().zip(payloads).enumerate().map(point).collect())
    }
}

/// Points named one by one, or all that a filter matches.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Selector {
    Points { points: Vec<PointId> },
    Filter { filter: Filter },
}

#[derive(Deserialize)]
pub(super) struct SetPayload {
    pub(super) payload: Payload,
    pub(super) key: Option<String>,
    #[serde(flatten)]
    pub(super) selector: Selector,
}

#[derive(Deserialize)]
pub(super) struct DeletePayload {
    pub(super) keys: Vec<String>,
    #[serde(flatten)]
    pub(super) selector: Selector,
}

#[derive(Deserialize)]
pub(super) struct Retrieve {
    pub(super) ids: Vec<PointId>,
    pub(super) with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    pub(super) with_vector: Option<WithVector>,
}

#[derive(Deserialize)]
pub(super) struct Count {
    pub(super) filter: Option<Filter>,
}

#[derive(Deserialize)]
pub(super) struct Scroll {
    pub(super) offset: Option<PointId>,
    pub(super) limit: Option<usize>,
    pub(super) filter: Option<Filter>,
    pub(super) with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    pub(super) with_vector: Option<WithVector>,
    pub(super) order_by: Option<Value>,
}

/// Which of a point's vectors an answer has.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WithVector {
    All(bool),
    Named(Vec<String>),
}

/// A search by the newer route.
#[derive(Deserialize)]
pub(super) struct Query {
    pub(super) query: Option<Value>,
    pub(super) using: Option<String>,
    pub(super) prefetch: Option<Value>,
    pub(super) lookup_from: Option<Value>,
    #[serde(flatten)]
    pub(super) wanted: Wanted,
}

/// A search by the older route.
#[derive(Deserialize)]
pub(super) struct Search {
    pub(super) vector: SearchVector,
    #[serde(flatten)]
    pub(super) wanted: Wanted,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum SearchVector {
    Unnamed(Vec<f32>),
    Named { name: String, vector: Vec<f32> },
}

/// Which points a search is to find, and what it says of them.
#[derive(Deserialize)]
pub(super) struct Wanted {
    pub(super) filter: Option<Filter>,
    pub(super) limit: Option<usize>,
    pub(super) offset: Option<usize>,
    pub(super) score_threshold: Option<f32>,
    pub(super) with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    pub(super) with_vector: Option<WithVector>,
}

#[derive(Deserialize)]
pub(super) struct Batch<T> {
    pub(super) searches: Vec<T>,
}
