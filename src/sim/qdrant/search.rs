//! Finding the nearest points.
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    collection::{Collection, Point, Record, Vectors, at_least_one},
    id::PointId,
    payload::{Payload, WithPayload},
    refusal::Refusal,
    requests::{Query, Search, SearchVector, Wanted, WithVector},
    vectors::UNNAMED,
};

/// The points that a query found, the nearest first.
#[derive(Serialize)]
pub(super) struct Found {
    points: Vec<Hit>,
}

#[derive(Serialize)]
pub(super) struct Hit {
    id: PointId,
    version: u64,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Vectors>,
}

/// What points are compared with.
enum Target {
    Vector(Vec<f32>),
    /// The vector of this point, which itself is not found.
    Point(PointId),
}

impl Query {
    pub(super) fn run(&self, collection: &Collection) -> Result<Found, Refusal> {
        if self.prefetch.as_ref().is_some_and(|prefetch| *prefetch != json!([])) {
            return Err(Refusal::unsupported("prefetch is"));
        }
        if self.lookup_from.is_some() {
            return Err(Refusal::unsupported("lookup in another collection is"));
        }
        let using = self.using.as_deref().unwrap_or(UNNAMED);
        let points = match &self.query {
            None => all(collection, &self.wanted)?,
            Some(query) => nearest(collection, using, target(query)?, &self.wanted)?,
        };
        Ok(Found { points })
    }
}

impl Search {
    pub(super) fn run(&self, collection: &Collection) -> Result<Vec<Hit>, Refusal> {
        let (using, vector) = match &self.vector {
            SearchVector::Unnamed(vector) => (UNNAMED, vector),
            SearchVector::Named { name, vector } => (name.as_str(), vector),
        };
        nearest(collection, using, Target::Vector(vector.clone()), &self.wanted)
    }
}

fn target(query: &Value) -> Result<Target, Refusal> {
    match query {
        Value::Object(query) => match query.get("nearest") {
            Some(nearest) if query.len() == 1 && !nearest.is_object() => target(nearest),
            _ => Err(Refusal::unsupported("queries other than nearest are")),
        },
        Value::Array(_) => serde_json::from_value(query.clone()).map(Target::Vector).map_err(|_| {
            Refusal::bad(
                "Format error in JSON body: data did not match any variant of untagged enum VectorInput",
            )
        }),
        _ => serde_json::from_value(query.clone())
            .map(Target::Point)
            .map_err(|error| Refusal::bad(format!("Format error in JSON body: {error}"))),
    }
}

/// Without anything to compare with: in the order of their ids.
fn all(collection: &Collection, wanted: &Wanted) -> Result<Vec<Hit>, Refusal> {
    let points = collection.matching(wanted.filter.as_ref()).map(|(id, point)| (id, point, 0.0));
    hits(collection, wanted, points)
}

fn nearest(
    collection: &Collection,
    using: &str,
    target: Target,
    wanted: &Wanted,
) -> Result<Vec<Hit>, Refusal> {
    let distance = collection.vectors.params(using)?.distance;
    let (vector, itself) = match target {
        Target::Vector(vector) => (collection.vectors.prepare(using, vector)?, None),
        Target::Point(id) => {
            let vector = collection.points.get(&id).and_then(|point| point.vectors.get(using)).cloned();
            let missing = || Refusal::not_found(format!("No point with id {id} found"));
            (vector.ok_or_else(missing)?, Some(id))
        }
    };
    let score =
        |(id, point): (PointId, &'_ Point)| Some((id, distance.score(&vector, point.vectors.get(using)?)));
    let mut scores: Vec<_> = collection
        .matching(wanted.filter.as_ref())
        .filter(|(id, _)| Some(*id) != itself)
        .filter_map(score)
        .filter(|(_, score)| {
            wanted.score_threshold.is_none_or(|threshold| distance.reaches(*score, threshold))
        })
        .collect();
    scores.sort_by(|(one, a), (other, b)| distance.order(*a, *b).then(one.cmp(other)));
    let points = scores.into_iter().filter_map(|(id, score)| Some((id, collection.points.get(&id)?, score)));
    hits(collection, wanted, points)
}

/// The page of `points` that is wanted; without the payload unless it is asked for.
fn hits<'a>(
    collection: &Collection,
    wanted: &Wanted,
    points: impl Iterator<Item = (PointId, &'a Point, f32)>,
) -> Result<Vec<Hit>, Refusal> {
    let limit = at_least_one("limit", wanted.limit.unwrap_or(10))?;
    let with_payload = wanted.with_payload.as_ref().unwrap_or(&WithPayload::All(false));
    let with_vector = wanted.with_vector.as_ref().unwrap_or(&WithVector::All(false));
    let hit = |(id, point, score): (PointId, &Point, f32)| {
        let Record { id, payload, vector } = collection.record(id, point, with_payload, with_vector)?;
        Ok(Hit { id, version: point.version, score, payload, vector })
    };
    points.skip(wanted.offset.unwrap_or(0)).take(limit).map(hit).collect()
}
