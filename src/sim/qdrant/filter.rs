//! Conditions on points.
use std::{cmp::Ordering, collections::BTreeSet};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::Deserialize;
use serde_json::Value;

use super::{
    collection::Point,
    id::PointId,
    payload::{Payload, leaves, values},
};

/// All of `must`, none of `must_not`, and, where they are given, one of `should` and so many of `min_should`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Filter {
    must: OneOrMany,
    must_not: OneOrMany,
    should: OneOrMany,
    min_should: Option<MinShould>,
}

#[derive(Clone, Debug, Deserialize)]
struct MinShould {
    conditions: Vec<Condition>,
    min_count: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Condition>),
    One(Box<Condition>),
    #[default]
    None,
}

impl OneOrMany {
    fn as_slice(&self) -> &[Condition] {
        match self {
            Self::Many(conditions) => conditions,
            Self::One(condition) => std::slice::from_ref(condition),
            Self::None => &[],
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Condition {
    Field(FieldCondition),
    IsEmpty { is_empty: Key },
    IsNull { is_null: Key },
    HasId { has_id: BTreeSet<PointId> },
    HasVector { has_vector: String },
    Nested { nested: Nested },
    Filter(Filter),
}

#[derive(Clone, Debug, Deserialize)]
struct Key {
    key: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Nested {
    key: String,
    filter: Filter,
}

/// What is said of the values at a key; any one of them suffices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldCondition {
    key: String,
    #[serde(default)]
    r#match: Option<Match>,
    #[serde(default)]
    range: Option<Range>,
    #[serde(default)]
    values_count: Option<Bounds<f64>>,
    #[serde(default)]
    is_empty: Option<bool>,
    #[serde(default)]
    is_null: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Match {
    Value(Value),
    /// All words of it occur.
    Text(String),
    /// One word of it occurs.
    TextAny(String),
    /// It occurs as it stands.
    Phrase(String),
    Any(Vec<Value>),
    Except(Vec<Value>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Range {
    Numbers(Bounds<f64>),
    Moments(Bounds<Moment>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds<T> {
    #[serde(default = "Option::default")]
    gt: Option<T>,
    #[serde(default = "Option::default")]
    gte: Option<T>,
    #[serde(default = "Option::default")]
    lt: Option<T>,
    #[serde(default = "Option::default")]
    lte: Option<T>,
}

impl<T: PartialOrd> Bounds<T> {
    fn hold(&self, value: &T) -> bool {
        let compare = |bound: &Option<T>, allowed: &[Ordering]| {
            bound
                .as_ref()
                .is_none_or(|bound| value.partial_cmp(bound).is_some_and(|order| allowed.contains(&order)))
        };
        compare(&self.gt, &[Ordering::Greater])
            && compare(&self.gte, &[Ordering::Greater, Ordering::Equal])
            && compare(&self.lt, &[Ordering::Less])
            && compare(&self.lte, &[Ordering::Less, Ordering::Equal])
    }
}

/// A moment in time, as RFC 3339, or without an offset, then in UTC, or a day alone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
struct Moment(Timestamp);

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a date and time"))
    }
}

impl Moment {
    fn parse(text: &str) -> Option<Self> {
        let in_utc = || TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok();
        text.parse().ok().or_else(in_utc).map(Self)
    }
}

impl Filter {
    pub(super) fn matches(&self, id: PointId, point: &Point) -> bool {
        self.holds(&Subject { id, point, payload: &point.payload })
    }

    fn holds(&self, subject: &Subject<'_>) -> bool {
        let holds = |condition: &Condition| condition.holds(subject);
        let should = self.should.as_slice();
        self.must.as_slice().iter().all(holds)
            && !self.must_not.as_slice().iter().any(holds)
            && (should.is_empty() || should.iter().any(holds))
            && self.min_should.as_ref().is_none_or(|min| {
                min.conditions.iter().filter(|condition| holds(condition)).count() >= min.min_count
            })
    }
}

/// What a condition looks at: a point, and its payload or an object within it.
struct Subject<'a> {
    id: PointId,
    point: &'a Point,
    payload: &'a Payload,
}

impl Condition {
    fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Field(condition) => condition.holds(subject.payload),
            Self::IsEmpty { is_empty } => is_empty_at(subject.payload, &is_empty.key),
            Self::IsNull { is_null } => is_null_at(subject.payload, &is_null.key),
            Self::HasId { has_id } => has_id.contains(&subject.id),
            Self::HasVector { has_vector } => subject.point.vectors.contains_key(has_vector),
            Self::Nested { nested } => {
                let objects = values(subject.payload, &nested.key).into_iter().filter_map(Value::as_object);
                objects.into_iter().any(|payload| nested.filter.holds(&Subject { payload, ..*subject }))
            }
            Self::Filter(filter) => filter.holds(subject),
        }
    }
}

impl FieldCondition {
    fn holds(&self, payload: &Payload) -> bool {
        let any = |test: &dyn Fn(&Value) -> bool| values(payload, &self.key).into_iter().any(test);
        let count = |value: &Value| match value {
            Value::Array(items) => items.len() as f64,
            Value::Null => 0.0,
            _ => 1.0,
        };
        self.r#match.as_ref().is_none_or(|wanted| any(&|value| wanted.holds(value)))
            && self.range.as_ref().is_none_or(|range| any(&|value| range.holds(value)))
            && self.values_count.as_ref().is_none_or(|bounds| {
                leaves(payload, &self.key).into_iter().any(|value| bounds.hold(&count(value)))
            })
            && self.is_empty.is_none_or(|wanted| is_empty_at(payload, &self.key) == wanted)
            && self.is_null.is_none_or(|wanted| is_null_at(payload, &self.key) == wanted)
    }
}

impl Match {
    fn holds(&self, value: &Value) -> bool {
        let words =
            |text: &str| text.to_lowercase().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let text = || value.as_str().map(str::to_lowercase);
        match self {
            Self::Value(wanted) => value == wanted,
            Self::Any(wanted) => wanted.contains(value),
            Self::Except(unwanted) => !unwanted.contains(value),
            Self::Phrase(phrase) => text().is_some_and(|text| text.contains(&phrase.to_lowercase())),
            Self::Text(wanted) => {
                text().is_some_and(|text| words(wanted).iter().all(|word| text.contains(word)))
            }
            Self::TextAny(wanted) => {
                text().is_some_and(|text| words(wanted).iter().any(|word| text.contains(word)))
            }
        }
    }
}

impl Range {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Self::Numbers(bounds) => value.as_f64().is_some_and(|number| bounds.hold(&number)),
            Self::Moments(bounds) => {
                value.as_str().and_then(Moment::parse).is_some_and(|moment| bounds.hold(&moment))
            }
        }
    }
}

fn is_empty_at(payload: &Payload, key: &str) -> bool {
    values(payload, key).into_iter().all(Value::is_null)
}

fn is_null_at(payload: &Payload, key: &str) -> bool {
    leaves(payload, key).into_iter().any(Value::is_null)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn holds(filter: Value) -> bool {
        let payload = json!({
            "city": "Oslo", "year": 2024, "score": 0.5, "tags": ["new", "hot"], "gone": null, "on": true,
            "made": "2024-05-01T10:00:00+02:00", "text": "The quick brown fox", "parts": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}],
        });
        let payload = payload.as_object().unwrap().clone();
        let vectors = BTreeMap::from([("image".to_owned(), vec![1.0])]);
        let filter: Filter = serde_json::from_value(filter).unwrap();
        filter.matches(PointId::Number(7), &Point { version: 0, vectors, payload })
    }

    #[test]
    fn conditions_on_fields() {
        for (condition, expected) in [
            (json!({"key": "city", "match": {"value": "Oslo"}}), true),
            (json!({"key": "city", "match": {"value": "oslo"}}), false),
            (json!({"key": "year", "match": {"value": 2024}}), true),
            (json!({"key": "on", "match": {"value": true}}), true),
            (json!({"key": "tags", "match": {"value": "hot"}}), true),
            (json!({"key": "tags", "match": {"any": ["cold", "new"]}}), true),
            (json!({"key": "city", "match": {"except": ["Oslo"]}}), false),
            (json!({"key": "none", "match": {"except": ["Oslo"]}}), false),
            (json!({"key": "text", "match": {"text": "fox quick"}}), true),
            (json!({"key": "text", "match": {"text": "fox slow"}}), false),
            (json!({"key": "text", "match": {"text_any": "fox slow"}}), true),
            (json!({"key": "text", "match": {"phrase": "Brown fox"}}), true),
            (json!({"key": "score", "range": {"gte": 0.5, "lt": 0.6}}), true),
            (json!({"key": "score", "range": {"gt": 0.5}}), false),
            (json!({"key": "year", "range": {"lte": 2024}}), true),
            (json!({"key": "city", "range": {"gte": 0}}), false),
            (json!({"key": "made", "range": {"gte": "2024-05-01T08:00:00Z", "lt": "2024-05-02"}}), true),
            (json!({"key": "made", "range": {"gt": "2024-05-01T08:00:00Z"}}), false),
            (json!({"key": "tags", "values_count": {"gte": 2}}), true),
            (json!({"key": "tags", "values_count": {"gt": 2}}), false),
            (json!({"is_empty": {"key": "none"}}), true),
            (json!({"is_empty": {"key": "gone"}}), true),
            (json!({"is_empty": {"key": "city"}}), false),
            (json!({"is_null": {"key": "gone"}}), true),
            (json!({"is_null": {"key": "none"}}), false),
            (json!({"has_id": [1, 7]}), true),
            (json!({"has_id": [1]}), false),
            (json!({"has_vector": "image"}), true),
            (
                json!({"nested": {"key": "parts", "filter": {"must": [{"key": "n", "match": {"value": 1}}, {"key": "s", "match": {"value": "a"}}]}}}),
                true,
            ),
            (
                json!({"nested": {"key": "parts", "filter": {"must": [{"key": "n", "match": {"value": 1}}, {"key": "s", "match": {"value": "b"}}]}}}),
                false,
            ),
        ] {
            assert_eq!(holds(json!({"must": condition})), expected, "{condition}");
            assert_eq!(holds(json!({"must_not": [condition]})), !expected, "not {condition}");
        }
    }

    #[test]
    fn conditions_combine() {
        let [yes, no] = [json!({"has_id": [7]}), json!({"has_id": [8]})];
        assert!(holds(json!({})));
        assert!(holds(json!({"should": [yes, no], "must": null})));
        assert!(!holds(json!({"should": [no]})));
        assert!(!holds(json!({"should": [yes], "must": [no]})));
        assert!(holds(json!({"min_should": {"conditions": [yes, no, yes], "min_count": 2}})));
        assert!(!holds(json!({"min_should": {"conditions": [yes, no], "min_count": 2}})));
        assert!(holds(json!({"must": [{"should": [no, yes]}, {"must_not": [no]}]})));
    }

    #[test]
    fn an_unknown_condition_is_an_error_and_not_ignored() {
        for filter in [
            json!({"most": []}),
            json!({"must": [{"key": "a", "geo_radius": {}}]}),
            json!({"must": [{"unknown": 1}]}),
            json!({"must": [{"key": "made", "range": {"gte": "yesterday"}}]}),
        ] {
            assert!(serde_json::from_value::<Filter>(filter.clone()).is_err(), "{filter}");
        }
    }
}
