//! What is stored beside a point's vectors.
use serde::Deserialize;
use serde_json::{Map, Value};

pub(super) type Payload = Map<String, Value>;

/// Which of a payload's members an answer has.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum WithPayload {
    All(bool),
    Include(Vec<String>),
    Selector(PayloadSelector),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PayloadSelector {
    Include(Vec<String>),
    Exclude(Vec<String>),
}

impl WithPayload {
    pub(super) fn select(&self, payload: &Payload) -> Option<Payload> {
        match self {
            Self::All(false) => None,
            Self::All(true) => Some(payload.clone()),
            Self::Include(keys) | Self::Selector(PayloadSelector::Include(keys)) => {
                Some(include(payload, keys))
            }
            Self::Selector(PayloadSelector::Exclude(keys)) => {
                let mut rest = payload.clone();
                keys.iter().for_each(|key| exclude(&mut rest, key));
                Some(rest)
            }
        }
    }
}

fn include(payload: &Payload, keys: &[String]) -> Payload {
    let mut included = Payload::new();
    for key in keys {
        if let Some((first, rest)) = key.split_once('.')
            && let Some(Value::Object(inner)) = payload.get(first)
        {
            let part = Value::Object(include(inner, &[rest.to_owned()]));
            match included.get_mut(first) {
                Some(Value::Object(there)) => there.extend(part.as_object().cloned().unwrap_or_default()),
                _ => drop(included.insert(first.to_owned(), part)),
            }
        } else if let Some(value) = payload.get(key) {
            included.insert(key.clone(), value.clone());
        }
    }
    included
}

/// Takes the member at `key` (`a`, or `a.b` for a member of a member) out.
pub(super) fn exclude(payload: &mut Payload, key: &str) {
    match key.split_once('.') {
        Some((first, rest)) => {
            if let Some(Value::Object(inner)) = payload.get_mut(first) {
                exclude(inner, rest);
            }
        }
        None => drop(payload.shift_remove(key)),
    }
}

/// The values at `key`: `a`, `a.b`, `a[].b` for each of an array, `a[0]` for one of it. An array at the end stands for
/// its values.
pub(super) fn values<'a>(payload: &'a Payload, key: &str) -> Vec<&'a Value> {
    leaves(payload, key)
        .into_iter()
        .flat_map(|leaf| leaf.as_array().map_or_else(|| vec![leaf], |all| all.iter().collect()))
        .collect()
}

/// The values at `key`, an array at the end being one.
pub(super) fn leaves<'a>(payload: &'a Payload, key: &str) -> Vec<&'a Value> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let (name, index) = match first.strip_suffix(']').and_then(|first| first.split_once('[')) {
        Some((name, index)) => (name, Some(index)),
        None => (first, None),
    };
    let Some(value) = payload.get(name) else { return Vec::new() };
    let values: Vec<&Value> = match (index, value) {
        (None, value) => vec![value],
        (Some(""), Value::Array(items)) => items.iter().collect(),
        (Some(index), Value::Array(items)) => {
            index.parse().ok().and_then(|at: usize| items.get(at)).into_iter().collect()
        }
        (Some(_), _) => Vec::new(),
    };
    match rest {
        None => values,
        Some(rest) => {
            values.into_iter().filter_map(Value::as_object).flat_map(|inner| leaves(inner, rest)).collect()
        }
    }
}

/// Roughly how many bytes it takes in memory.
pub(super) fn weight(payload: &Payload) -> usize {
    payload.iter().map(|(name, value)| 64 + name.len() + value_weight(value)).sum()
}

fn value_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => 32 + text.len(),
        Value::Array(items) => 32 + items.iter().map(value_weight).sum::<usize>(),
        Value::Object(members) => 32 + weight(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 32,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload() -> Payload {
        let payload = json!({"city": "Oslo", "tags": ["a", "b"], "at": {"lat": 1, "lon": 2}, "parts": [{"n": 1}, {"n": [2, 3]}]});
        payload.as_object().unwrap().clone()
    }

    #[test]
    fn keys_reach_into_objects_and_arrays() {
        let payload = payload();
        let found = |key| json!(values(&payload, key));
        assert_eq!(found("city"), json!(["Oslo"]));
        assert_eq!(found("tags"), json!(["a", "b"]));
        assert_eq!(found("tags[1]"), json!(["b"]));
        assert_eq!(found("at.lon"), json!([2]));
        assert_eq!(found("parts[].n"), json!([1, 2, 3]));
        for nothing in ["none", "at.none", "city.x", "tags[9]", "city[]", "parts.n", "", ".", "[", "]", "[]"]
        {
            assert_eq!(found(nothing), json!([]), "{nothing}");
        }
    }

    #[test]
    fn members_are_selected() {
        let select = |with| {
            let with: WithPayload = serde_json::from_value(with).unwrap();
            json!(with.select(&payload()))
        };
        assert_eq!(select(json!(false)), json!(null));
        assert_eq!(select(json!(["city", "at.lat", "none"])), json!({"city": "Oslo", "at": {"lat": 1}}));
        assert_eq!(select(json!({"include": ["at.lat", "at.lon"]})), json!({"at": {"lat": 1, "lon": 2}}));
        assert_eq!(
            select(json!({"exclude": ["parts", "tags", "at.lat"]})),
            json!({"city": "Oslo", "at": {"lon": 2}})
        );
    }
}
