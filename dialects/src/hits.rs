//! Answers of vector searches, spoilt in place.
//!
//! Each vector store has its hits somewhere else; its [`Provider`](crate::provider::Provider) knows where. The store is
//! recognised by the body.

use bytes::Bytes;

use crate::{
    Dialect,
    json::{Document, Kind, Node, ReadError, Splices, remove},
    named::named,
};

named! {
    /// How the hits are changed.
    pub enum HitsFault {
        /// No hits.
        Empty = "empty",
        /// Only the first `n` hits.
        Keep = "keep",
        /// In random order, each with its own score.
        Shuffle = "shuffle",
        /// All have the score of the first hit.
        EqualScores = "equal_scores",
        /// All scores are NaN. The body is then invalid JSON, as from servers that print `NaN`.
        NanScores = "nan_scores",
        /// The latest writes are not visible: the hits with the highest `version` are removed. Responses without
        /// versions are not changed.
        Stale = "stale",
        /// Without payload, metadata or source.
        DropPayload = "drop_payload",
    }
}

/// Where a store has its hits.
#[derive(Debug)]
pub(crate) struct Hits {
    /// The lists of hits, each as its columns: a list of objects has one, parallel lists have several. Empty: the body is
    /// no answer of this store.
    pub(crate) lists: for<'d> fn(Node<'d>) -> Vec<Vec<Node<'d>>>,
    /// The paths at which a hit can have its score.
    pub(crate) scores: &'static [&'static [&'static str]],
    /// The members of a hit that are its payload.
    pub(crate) payloads: &'static [&'static str],
    /// The members of the body that are columns of payloads.
    pub(crate) payload_columns: &'static [&'static str],
    /// What else says that there are hits, and what it says if there are none.
    pub(crate) totals: for<'d> fn(Node<'d>) -> Vec<(Node<'d>, &'static str)>,
}

impl Hits {
    /// No hits, and the usual names.
    pub(crate) const NONE: Self = Self {
        lists: |_| Vec::new(),
        scores: &[&["score"]],
        payloads: &["payload"],
        payload_columns: &[],
        totals: |_| Vec::new(),
    };
}

/// Spoils the hits of an answer. `n` is how many [`HitsFault::Keep`] keeps; `random` gives numbers from 0 to below 1.
/// Only the bytes of the values concerned change. None if there is nothing to spoil.
///
/// # Errors
/// If the body is not JSON, or too complex.
pub fn edit(
    body: &[u8],
    how: HitsFault,
    n: usize,
    mut random: impl FnMut() -> f64,
) -> Result<Option<Bytes>, ReadError> {
    let document = Document::parse(body)?;
    let root = document.root();
    let mut splices = Splices::new();
    let stores = Dialect::ALL.iter().filter_map(|dialect| dialect.provider().hits);
    let found = stores.map(|hits| (hits, (hits.lists)(root))).find(|(_, lists)| !lists.is_empty());
    let Some((hits, lists)) = found else { return Ok(None) };
    for list in &lists {
        match how {
            HitsFault::Empty => list.iter().for_each(|column| cut(*column, 0, &mut splices)),
            HitsFault::Keep => list.iter().for_each(|column| cut(*column, n, &mut splices)),
            HitsFault::Shuffle => shuffle(list, &mut random, &mut splices),
            HitsFault::EqualScores => equal_scores(hits, list, &mut splices),
            HitsFault::NanScores => {
                scores(hits, list).iter().for_each(|score| splices.replace(score.span(), "NaN"))
            }
            HitsFault::Stale | HitsFault::DropPayload => {}
        }
    }
    match how {
        HitsFault::Empty => {
            let totals = (hits.totals)(root).into_iter().filter(|(node, _)| node.kind() != Kind::Null);
            totals.for_each(|(node, to)| splices.replace(node.span(), to));
        }
        HitsFault::Stale => splices = remove(&document, newest(&lists)),
        HitsFault::DropPayload => return Ok(drop_payload(&document, hits, &lists)),
        _ => {}
    }
    Ok(splices.apply(body))
}

/// A node that is a list.
pub(crate) fn array(node: Option<Node<'_>>) -> Option<Node<'_>> {
    node.filter(|node| node.kind() == Kind::Array)
}

fn cut(list: Node<'_>, keep: usize, splices: &mut Splices) {
    let (Some(first), Some(last)) = (list.at(0), list.children().last()) else { return };
    let from = match keep {
        0 => first.span().start,
        _ => list.at(keep - 1).unwrap_or(last).span().end,
    };
    splices.replace(from..last.span().end, "");
}

fn shuffle(list: &[Node<'_>], random: &mut impl FnMut() -> f64, splices: &mut Splices) {
    let len = list.iter().map(|column| column.children().count()).max().unwrap_or(0);
    let order = order(len, random);
    for column in list {
        let hits: Vec<_> = column.children().collect();
        for (hit, from) in hits.iter().zip(&order) {
            if let Some(other) = hits.get(*from) {
                splices.replace(hit.span(), other.raw());
            }
        }
    }
}

/// A random order (Fisher–Yates), never the one that there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place below `len`")]
fn order(len: usize, random: &mut impl FnMut() -> f64) -> Vec<usize> {
    let mut order: Vec<_> = (0..len).collect();
    for last in (1..len).rev() {
        order.swap(last, ((random() * (last + 1) as f64) as usize).min(last));
    }
    if order.is_sorted() && len > 1 {
        order.rotate_left(1);
    }
    order
}

fn equal_scores(hits: &Hits, list: &[Node<'_>], splices: &mut Splices) {
    let scores = scores(hits, list);
    let Some(first) = scores.first() else { return };
    for score in &scores {
        splices.replace(score.span(), first.raw());
    }
}

fn scores<'d>(hits: &Hits, list: &[Node<'d>]) -> Vec<Node<'d>> {
    let is_column = |column: &Node<'d>| column.children().all(|hit| hit.kind() == Kind::Number);
    if list.len() > 1 {
        return list.iter().copied().filter(is_column).flat_map(Node::children).collect();
    }
    let at = |hit: Node<'d>, path: &[&str]| path.iter().try_fold(hit, |node, name| node.get(name));
    let of_hit = |hit: Node<'d>| hits.scores.iter().find_map(|path| at(hit, path));
    list.iter().flat_map(|hits| hits.children()).filter_map(of_hit).collect()
}

/// The hits that were written last, in each list.
fn newest<'d>(lists: &[Vec<Node<'d>>]) -> Vec<Node<'d>> {
    let version = |hit: Node<'_>| hit.get("version").or_else(|| hit.get("_version"))?.to_value().as_u64();
    let mut newest = Vec::new();
    for list in lists.iter().filter_map(|columns| columns.first().copied()) {
        let last = list.children().filter_map(version).max();
        newest.extend(list.children().filter(|hit| last.is_some() && version(*hit) == last));
    }
    newest
}

/// A hit without payload does not have the member; a column that was not asked for is null.
fn drop_payload(document: &Document<'_>, hits: &Hits, lists: &[Vec<Node<'_>>]) -> Option<Bytes> {
    if !hits.payload_columns.is_empty() {
        let mut splices = Splices::new();
        for column in hits.payload_columns.iter().filter_map(|name| document.root().get(name)) {
            splices.replace(column.span(), "null");
        }
        return splices.apply(document.body());
    }
    let each = lists.iter().flatten().flat_map(|list| list.children());
    let payloads = each.flat_map(|hit| hits.payloads.iter().filter_map(move |name| hit.get(name)));
    remove(document, payloads).apply(document.body())
}

#[cfg(test)]
mod tests;
