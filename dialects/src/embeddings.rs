//! Responses that are vectors, changed in place.
//!
//! Each provider has its vectors somewhere else; its [`Provider`](crate::provider::Provider) knows where. The provider is
//! recognised by the body. A vector is an array of numbers, or the base64 of little-endian 32-bit floats, which OpenAI's
//! SDKs ask for when the caller does not choose.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;

use crate::{
    Dialect,
    json::{Document, Kind, Node, ReadError, Splices},
    named::named,
};

named! {
    /// How the vectors are changed.
    pub enum EmbeddingFault {
        /// One random number of each vector becomes NaN. If the vector is an array, the body is then invalid JSON, as
        /// from servers that print `NaN`.
        Nan = "nan",
        /// All numbers are zero.
        Zero = "zero",
        /// The last number of each vector is removed.
        WrongDimension = "wrong_dimension",
        /// Each number changes by up to the vector's root mean square: similar texts stay somewhat similar.
        Noise = "noise",
        /// Each input gets the vector of the next one. A single vector is not changed.
        Swap = "swap",
    }
}

/// Vectors of one kind of number.
#[derive(Debug)]
pub(crate) struct Vectors<'d> {
    /// Arrays of numbers, or strings of base64.
    pub(crate) each: Vec<Node<'d>>,
    /// What their numbers are.
    pub(crate) numbers: Numbers,
}

/// What the numbers of a vector are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Numbers {
    /// 32-bit floats.
    Floats,
    /// Whole numbers from -128 to 127: quantised, or eight signs each.
    Int8,
    /// Whole numbers from 0 to 255.
    Uint8,
}

impl Numbers {
    /// The nearest of them to a value, as JSON.
    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn spell(self, value: f32) -> String {
        let whole = |least: f32, greatest: f32| (value.round().clamp(least, greatest) as i16).to_string();
        match self {
            Self::Floats => format!("{value:?}"),
            Self::Int8 => whole(-128.0, 127.0),
            Self::Uint8 => whole(0.0, 255.0),
        }
    }
}

impl<'d> Vectors<'d> {
    /// Vectors of floats; what is not a vector is left out. None if nothing is left.
    pub(crate) fn floats(nodes: impl Iterator<Item = Node<'d>>) -> Option<Self> {
        Self::of(Numbers::Floats, nodes)
    }

    /// Vectors; what is not a vector is left out. None if nothing is left.
    pub(crate) fn of(numbers: Numbers, nodes: impl Iterator<Item = Node<'d>>) -> Option<Self> {
        let each: Vec<_> = nodes.filter(|node| is_vector(*node)).collect();
        (!each.is_empty()).then_some(Self { each, numbers })
    }
}

/// Spoils every vector of an answer. Only the bytes of the numbers concerned change, or those of the base64 text.
/// `random` gives numbers from 0 to below 1. None if there is no vector to spoil.
///
/// # Errors
/// If the body is not JSON, or too complex.
pub fn edit(
    body: &[u8],
    how: EmbeddingFault,
    mut random: impl FnMut() -> f64,
) -> Result<Option<Bytes>, ReadError> {
    let document = Document::parse(body)?;
    let root = document.root();
    let mut splices = Splices::new();
    let mut found = Dialect::ALL.iter().map(|dialect| (dialect.provider().vectors)(root));
    for Vectors { each, numbers } in found.find(|found| !found.is_empty()).unwrap_or_default() {
        if how == EmbeddingFault::Swap {
            for (vector, next) in each.iter().zip(each.iter().cycle().skip(1)) {
                splices.replace(vector.span(), next.raw());
            }
            continue;
        }
        for vector in each {
            if vector.kind() == Kind::String {
                spoil_base64(vector, how, &mut random, &mut splices);
            } else {
                spoil_numbers(vector, numbers, how, &mut random, &mut splices);
            }
        }
    }
    Ok(splices.apply(body))
}

/// The items of a node that is a list.
pub(crate) fn list(node: Option<Node<'_>>) -> impl Iterator<Item = Node<'_>> {
    node.filter(|node| node.kind() == Kind::Array).into_iter().flat_map(Node::children)
}

fn is_vector(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::String => true,
        Kind::Array => node.children().next().is_some_and(|first| first.kind() == Kind::Number),
        _ => false,
    }
}

fn spoil_numbers(
    vector: Node<'_>,
    kind: Numbers,
    how: EmbeddingFault,
    random: &mut impl FnMut() -> f64,
    splices: &mut Splices,
) {
    let numbers: Vec<_> = vector.children().collect();
    let Some(last) = numbers.last() else { return };
    match how {
        EmbeddingFault::Nan => splices.replace(numbers[pick(numbers.len(), random)].span(), "NaN"),
        EmbeddingFault::Zero => {
            let zero = if kind == Numbers::Floats { "0.0" } else { "0" };
            numbers.iter().for_each(|number| splices.replace(number.span(), zero));
        }
        EmbeddingFault::WrongDimension => {
            let kept =
                numbers.len().checked_sub(2).map_or_else(|| last.span().start, |at| numbers[at].span().end);
            splices.replace(kept..last.span().end, "");
        }
        EmbeddingFault::Noise => {
            let mut values: Vec<_> = numbers.iter().map(|number| as_float(*number)).collect();
            add_noise(&mut values, random);
            for (number, value) in numbers.iter().zip(values) {
                splices.replace(number.span(), kind.spell(value));
            }
        }
        EmbeddingFault::Swap => {}
    }
}

fn spoil_base64(
    vector: Node<'_>,
    how: EmbeddingFault,
    random: &mut impl FnMut() -> f64,
    splices: &mut Splices,
) {
    let text = vector.text().unwrap_or_default();
    let Some(mut values) = STANDARD.decode(text.as_bytes()).ok().and_then(|bytes| floats(&bytes)) else {
        return;
    };
    match how {
        EmbeddingFault::Nan => {
            let at = pick(values.len(), random);
            values[at] = f32::NAN;
        }
        EmbeddingFault::Zero => values.fill(0.0),
        EmbeddingFault::WrongDimension => values.truncate(values.len() - 1),
        EmbeddingFault::Noise => add_noise(&mut values, random),
        EmbeddingFault::Swap => {}
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    splices.replace(vector.span(), format!("\"{}\"", STANDARD.encode(bytes)));
}

/// None for what cannot be a vector: no bytes, or not a multiple of four.
fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (words, rest) = bytes.as_chunks::<4>();
    (rest.is_empty() && !words.is_empty())
        .then(|| words.iter().map(|word| f32::from_le_bytes(*word)).collect())
}

#[expect(clippy::cast_possible_truncation, reason = "vectors are of 32-bit floats")]
fn as_float(number: Node<'_>) -> f32 {
    number.to_value().as_f64().unwrap_or_default() as f32
}

#[expect(clippy::cast_possible_truncation, reason = "vectors are of 32-bit floats")]
fn add_noise(values: &mut [f32], random: &mut impl FnMut() -> f64) {
    let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    let size = (squares / values.len().max(1) as f64).sqrt();
    for value in values {
        let noisy = f64::from(*value) + (random() * 2.0 - 1.0) * size;
        *value = noisy.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place below `len`")]
fn pick(len: usize, random: &mut impl FnMut() -> f64) -> usize {
    ((random() * len as f64) as usize).min(len.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: &str = "{\n  \"object\": \"list\", \"data\": [{\"index\":0,\"embedding\":[ 0.50, -1e-1,0.25 ]},{\"embedding\":[1,2,3],\"index\":1}], \"model\":\"e\"}\n";

    fn edited(body: &str, how: EmbeddingFault) -> Option<String> {
        let edited = edit(body.as_bytes(), how, || 0.5).unwrap();
        edited.map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    fn base64(values: &[f32]) -> String {
        STANDARD.encode(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn openai(values: &[f32]) -> String {
        format!("{{\"data\": [ {{\"embedding\" : \"{}\"}} ]}}", base64(values))
    }

    #[test]
    fn numbers_are_spoilt_in_place() {
        for (how, first, second) in [
            (EmbeddingFault::Nan, "[ 0.50, NaN,0.25 ]", "[1,NaN,3]"),
            (EmbeddingFault::Zero, "[ 0.0, 0.0,0.0 ]", "[0.0,0.0,0.0]"),
            (EmbeddingFault::WrongDimension, "[ 0.50, -1e-1 ]", "[1,2]"),
            (EmbeddingFault::Swap, "[1,2,3]", "[ 0.50, -1e-1,0.25 ]"),
            // At the middle of its range noise is none, but the numbers are printed anew.
            (EmbeddingFault::Noise, "[ 0.5, -0.1,0.25 ]", "[1.0,2.0,3.0]"),
        ] {
            let expected =
                FLOATS.replace("[1,2,3]", "@").replace("[ 0.50, -1e-1,0.25 ]", first).replace('@', second);
            assert_eq!(edited(FLOATS, how), Some(expected), "{how}");
        }
    }

    #[test]
    fn base64_is_spoilt_as_the_floats_that_it_holds() {
        let body = openai(&[0.5, -0.1, 0.25]);
        for (how, after) in [
            (EmbeddingFault::Zero, &[0.0, 0.0, 0.0][..]),
            (EmbeddingFault::WrongDimension, &[0.5, -0.1]),
            (EmbeddingFault::Nan, &[0.5, f32::NAN, 0.25]),
        ] {
            assert_eq!(edited(&body, how), Some(openai(after)), "{how}");
        }
        assert_eq!(edited(&body, EmbeddingFault::Noise), None);
    }

    #[test]
    fn noise_is_as_large_as_the_vector() {
        let body = openai(&[3.0, -4.0]);
        let edited = edit(body.as_bytes(), EmbeddingFault::Noise, || 0.0).unwrap().unwrap();
        let size = 12.5_f32.sqrt();
        assert_eq!(edited, openai(&[3.0 - size, -4.0 - size]));
    }

    #[test]
    fn other_providers_put_their_vectors_elsewhere() {
        for (body, after) in [
            (r#"{"embedding":[1,2]}"#, r#"{"embedding":[1]}"#),
            (r#"{"embeddings":[[1,2],[3]]}"#, r#"{"embeddings":[[1],[]]}"#),
            (r#"{"embedding":{"values":[1, 2]}}"#, r#"{"embedding":{"values":[1]}}"#),
            (r#"{"embeddings":[{"values":[1,2]}]}"#, r#"{"embeddings":[{"values":[1]}]}"#),
            (r#"{"embeddings":{"float":[[1,2]]}}"#, r#"{"embeddings":{"float":[[1]]}}"#),
        ] {
            assert_eq!(edited(body, EmbeddingFault::WrongDimension).as_deref(), Some(after));
        }
    }

    #[test]
    fn r2_15_vectors_of_other_servers() {
        for (body, after) in [
            // text-embeddings-inference, natively.
            ("[[1,2],[3,4]]", "[[1],[3]]"),
            // llama.cpp, natively.
            (r#"[{"index":0,"embedding":[[1,2]]}]"#, r#"[{"index":0,"embedding":[[1]]}]"#),
            (r#"[{"index":0,"embedding":[1,2]}]"#, r#"[{"index":0,"embedding":[1]}]"#),
            // Vertex.
            (
                r#"{"predictions":[{"embeddings":{"statistics":{"token_count":2},"values":[1,2]}}]}"#,
                r#"{"predictions":[{"embeddings":{"statistics":{"token_count":2},"values":[1]}}]}"#,
            ),
            (
                r#"{"predictions":[{"textEmbedding":[1,2],"imageEmbedding":[3,4]}]}"#,
                r#"{"predictions":[{"textEmbedding":[1],"imageEmbedding":[3]}]}"#,
            ),
            // Cohere.
            (
                r#"{"embeddings":{"float":[[1,2]],"int8":[[3,4]],"binary":[[5,6]]}}"#,
                r#"{"embeddings":{"float":[[1]],"int8":[[3]],"binary":[[5]]}}"#,
            ),
            // Bedrock's Titan.
            (
                r#"{"embedding":[1,2],"embeddingsByType":{"float":[1,2],"binary":[1,0]}}"#,
                r#"{"embedding":[1],"embeddingsByType":{"float":[1],"binary":[1]}}"#,
            ),
            // DashScope, natively.
            (
                r#"{"output":{"embeddings":[{"embedding":[1,2],"text_index":0}]}}"#,
                r#"{"output":{"embeddings":[{"embedding":[1],"text_index":0}]}}"#,
            ),
        ] {
            assert_eq!(edited(body, EmbeddingFault::WrongDimension).as_deref(), Some(after));
        }
    }

    #[test]
    fn r2_15_whole_numbers_stay_whole_and_in_range() {
        let body = r#"{"embeddings":{"int8":[[-128,127,3]],"uint8":[[0,255]]}}"#;
        let noisy = |random: f64| {
            let edited = edit(body.as_bytes(), EmbeddingFault::Noise, || random).unwrap().unwrap();
            String::from_utf8(edited.to_vec()).unwrap()
        };
        assert_eq!(noisy(0.0), r#"{"embeddings":{"int8":[[-128,23,-101]],"uint8":[[0,75]]}}"#);
        assert_eq!(noisy(0.999_999), r#"{"embeddings":{"int8":[[-24,127,107]],"uint8":[[180,255]]}}"#);
        let zero = edited(body, EmbeddingFault::Zero);
        assert_eq!(zero.as_deref(), Some(r#"{"embeddings":{"int8":[[0,0,0]],"uint8":[[0,0]]}}"#));
    }

    #[test]
    fn r2_15_cohere_has_base64_too_and_vectors_are_swapped_within_their_kind() {
        let of = |values: &[f32]| format!("{{\"embeddings\":{{\"base64\":[\"{}\"]}}}}", base64(values));
        assert_eq!(edited(&of(&[1.0, 2.0]), EmbeddingFault::WrongDimension), Some(of(&[1.0])));
        let body = r#"{"embeddings":{"float":[[1.5],[2.5]],"int8":[[3],[4]]}}"#;
        let swapped = r#"{"embeddings":{"float":[[2.5],[1.5]],"int8":[[4],[3]]}}"#;
        assert_eq!(edited(body, EmbeddingFault::Swap).as_deref(), Some(swapped));
    }

    #[test]
    fn json_04_what_has_no_vectors_stays() {
        for body in ["{}", "[]", r#"{"data":[{"embedding":"%%"},{"embedding":[]},{}]}"#, r#"{"error":{}}"#] {
            for how in EmbeddingFault::ALL {
                assert_eq!(edited(body, *how), None, "{body} {how}");
            }
        }
        assert_eq!(edited(r#"{"data":[{"embedding":[1]}]}"#, EmbeddingFault::Swap), None);
        assert!(edit(b"{\"data\":NaN}", EmbeddingFault::Zero, || 0.0).is_err());
    }
}
