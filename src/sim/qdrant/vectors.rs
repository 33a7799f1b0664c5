//! Vectors, and how near two of them are.
use std::{cmp::Ordering, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::refusal::Refusal;

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Distance {
    Cosine,
    Euclid,
    Dot,
    Manhattan,
}

impl Distance {
    /// The vector as it is stored: cosine compares directions only, so lengths are dropped once and for all.
    pub(super) fn prepare(self, mut vector: Vec<f32>) -> Vec<f32> {
        if self == Self::Cosine {
            let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32;
            if length > 0.0 {
                vector.iter_mut().for_each(|value| *value /= length);
            }
        }
        vector
    }

    /// The score of two prepared vectors of one length.
    pub(super) fn score(self, a: &[f32], b: &[f32]) -> f32 {
        let pairs = a.iter().zip(b);
        match self {
            Self::Cosine | Self::Dot => pairs.map(|(a, b)| a * b).sum(),
            Self::Euclid => pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt(),
            Self::Manhattan => pairs.map(|(a, b)| (a - b).abs()).sum(),
        }
    }

    /// The better score first: of similarities the larger, of distances the smaller.
    pub(super) fn order(self, a: f32, b: f32) -> Ordering {
        match self {
            Self::Cosine | Self::Dot => b.total_cmp(&a),
            Self::Euclid | Self::Manhattan => a.total_cmp(&b),
        }
    }

    pub(super) fn reaches(self, score: f32, threshold: f32) -> bool {
        self.order(score, threshold).is_le()
    }
}

/// What a collection says of one of its vectors.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct VectorParams {
    pub(super) size: usize,
    pub(super) distance: Distance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multivector_config: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_disk: Option<bool>,
}

impl VectorParams {
    fn check(&self, field: &str) -> Result<(), Refusal> {
        if self.multivector_config.is_some() {
            return Err(Refusal::unsupported("multivectors are"));
        }
        if !(1..=65_536).contains(&self.size) {
            let problem = format!("value {} invalid, must be from 1 to 65536", self.size);
            return Err(Refusal::invalid(&format!("{field}.size"), problem));
        }
        Ok(())
    }

    fn check_vector(&self, vector: &[f32]) -> Result<(), Refusal> {
        if vector.len() == self.size {
            return Ok(());
        }
        let (expected, got) = (self.size, vector.len());
        Err(Refusal::wrong_input(format!("Vector dimension error: expected dim: {expected}, got {got}")))
    }
}

/// A collection's vectors: one without a name, or several with one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum VectorsConfig {
    Single(VectorParams),
    Named(BTreeMap<String, VectorParams>),
}

/// The name of the vector that has none.
pub(super) const UNNAMED: &str = "";

impl VectorsConfig {
    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Single(params) => params.check("vectors"),
            Self::Named(params) => {
                params.iter().try_for_each(|(name, params)| params.check(&format!("vectors.{name}")))
            }
        }
    }

    pub(super) fn params(&self, name: &str) -> Result<&VectorParams, Refusal> {
        let params = match self {
            Self::Single(params) => (name == UNNAMED).then_some(params),
            Self::Named(params) => params.get(name),
        };
        params.ok_or_else(|| Refusal::wrong_input(format!("Not existing vector name error: {name}")))
    }

    /// A vector ready to be stored or searched with.
    pub(super) fn prepare(&self, name: &str, vector: Vec<f32>) -> Result<Vec<f32>, Refusal> {
        let params = self.params(name)?;
        params.check_vector(&vector)?;
        Ok(params.distance.prepare(vector))
    }
}

/// A point's vectors: the one without a name, or those with one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum VectorStruct {
    Single(Vec<f32>),
    Named(BTreeMap<String, Vec<f32>>),
}

impl VectorStruct {
    pub(super) fn prepare(self, config: &VectorsConfig) -> Result<BTreeMap<String, Vec<f32>>, Refusal> {
        let named = match self {
            Self::Single(vector) => BTreeMap::from([(UNNAMED.to_owned(), vector)]),
            Self::Named(vectors) => vectors,
        };
        let prepare = |(name, vector): (String, Vec<f32>)| {
            let vector = config.prepare(&name, vector)?;
            Ok((name, vector))
        };
        named.into_iter().map(prepare).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_metrics_and_better_ones_come_first() {
        let score = |distance: Distance| {
            let [a, b] = [[3.0, 4.0], [4.0, 3.0]].map(|vector| distance.prepare(vector.to_vec()));
            distance.score(&a, &b)
        };
        assert!((score(Distance::Cosine) - 0.96).abs() < 1e-6);
        assert_eq!(score(Distance::Dot), 24.0);
        assert_eq!(score(Distance::Euclid), 2.0_f32.sqrt());
        assert_eq!(score(Distance::Manhattan), 2.0);
        assert_eq!(Distance::Dot.order(2.0, 1.0), Ordering::Less);
        assert_eq!(Distance::Euclid.order(2.0, 1.0), Ordering::Greater);
        assert!(Distance::Cosine.reaches(0.5, 0.5) && !Distance::Cosine.reaches(0.4, 0.5));
        assert!(Distance::Manhattan.reaches(0.4, 0.5) && !Distance::Manhattan.reaches(0.6, 0.5));
        assert_eq!(Distance::Cosine.prepare(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
