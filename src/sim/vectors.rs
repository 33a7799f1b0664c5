//! Vectors for texts: texts that share words point the same way.
use super::{digest::Digest, text};

/// The tokens of a text, as they are compared.
pub(super) fn tokens(text: &str) -> Vec<String> {
    text::tokens(text).map(|token| token.trim().to_lowercase()).collect()
}

/// A unit vector: the sum of a fixed random direction for each token. The first `dimensions` of `full` are kept.
pub(super) fn embed(tokens: &[String], full: usize, dimensions: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f32; dimensions];
    for token in tokens {
        let digest = Digest::of(token.as_bytes());
        // Punctuation says little about what a text is about.
        let weight = if token.chars().any(char::is_alphanumeric) { 1.0 } else { 0.1 };
        let signs =
            digest.numbers().take(full.div_ceil(64)).flat_map(|bits| (0..64).map(move |bit| bits >> bit & 1));
        for (value, sign) in sum.iter_mut().zip(signs) {
            *value += if sign == 1 { weight } else { -weight };
        }
    }
    let length = sum.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32;
    if length == 0.0 {
        sum[0] = 1.0;
        return sum;
    }
    sum.iter_mut().for_each(|value| *value /= length);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(text: &str, dimensions: usize) -> Vec<f32> {
        embed(&tokens(text), 1_536, dimensions)
    }

    fn cosine(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn shared_words_bring_texts_near() {
        let [cat, kitten, stock] = ["the cat sat on the mat", "a cat on a mat", "shares fell in Tokyo"]
            .map(|text| vector(text, 1_536));
        assert!(cosine(&cat, &kitten) > 0.35, "{}", cosine(&cat, &kitten));
        assert!(cosine(&cat, &stock).abs() < 0.2, "{}", cosine(&cat, &stock));
        let [question, about, other] = ["猫喜欢什么", "猫喜欢鱼", "股市下跌"].map(|text| vector(text, 1_536));
        assert!(cosine(&question, &about) > 0.5);
        assert!(cosine(&question, &other).abs() < 0.2);
    }

    #[test]
    fn every_vector_has_length_one() {
        for dimensions in [1, 2, 3, 256, 1_536] {
            for text in ["a", "a b", "...", " ", "the cat sat on the mat"] {
                let vector = vector(text, dimensions);
                assert_eq!(vector.len(), dimensions);
                assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-5, "{text} in {dimensions}");
            }
        }
    }
}
