//! Answers of vector searches, spoilt in place.
//!
//! The hits are found by the shape of the answer: Qdrant's `result` (points, groups and batches too), Pinecone's
//! `matches`, Elasticsearch's `hits.hits`, Chroma's parallel columns, Weaviate's `data.Get`, Milvus' `data`.

use bytes::Bytes;

use crate::{
    json::{Document, Kind, Node, NotJson, Splices, remove},
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

const SCORES: &[&str] = &["score", "_score", "distance"];
const PAYLOADS: &[&str] = &["payload", "metadata", "_source", "entity"];
/// Chroma's columns: of each query a list, and the lists run in parallel.
const COLUMNS: &[&str] = &["ids", "distances", "documents", "metadatas", "embeddings", "uris", "data"];

/// Spoils the hits of an answer. `n` is how many [`HitsFault::Keep`] keeps; `random` gives numbers from 0 to below 1.
/// Only the bytes of the values concerned change. None if there is nothing to spoil.
///
/// # Errors
/// If the body is not JSON.
pub fn edit(
    body: &[u8],
    how: HitsFault,
    n: usize,
    mut random: impl FnMut() -> f64,
) -> Result<Option<Bytes>, NotJson> {
    let document = Document::parse(body)?;
    let root = document.root();
    let mut splices = Splices::new();
    for list in lists(root) {
        match how {
            HitsFault::Empty => list.iter().for_each(|column| cut(*column, 0, &mut splices)),
            HitsFault::Keep => list.iter().for_each(|column| cut(*column, n, &mut splices)),
            HitsFault::Shuffle => shuffle(&list, &mut random, &mut splices),
            HitsFault::EqualScores => equal_scores(&list, &mut splices),
            HitsFault::NanScores => {
                scores(&list).iter().for_each(|score| splices.replace(score.span(), "NaN"))
            }
            HitsFault::Stale | HitsFault::DropPayload => {}
        }
    }
    match how {
        HitsFault::Empty => empty_the_rest(root, &mut splices),
        HitsFault::Stale => splices = remove(&document, newest(root)),
        HitsFault::DropPayload => return Ok(drop_payload(&document)),
        _ => {}
    }
    Ok(splices.apply(body))
}

/// The lists of hits, each as its columns: one, but for Chroma.
fn lists(root: Node<'_>) -> Vec<Vec<Node<'_>>> {
    if let Some(result) = root.get("result") {
        return qdrant(result).into_iter().map(|list| vec![list]).collect();
    }
    if let Some(matches) = array(root.get("matches")) {
        return vec![vec![matches]];
    }
    if let Some(hits) = array(root.get("hits").and_then(|hits| hits.get("hits"))) {
        return vec![vec![hits]];
    }
    if let Some(ids) = array(root.get("ids")) {
        return (0..ids.children().count()).map(|query| columns(root, query)).collect();
    }
    let Some(data) = root.get("data") else { return Vec::new() };
    if let Some(classes) = data.get("Get") {
        return classes.children().filter_map(|class| array(Some(class))).map(|list| vec![list]).collect();
    }
    let is_hit = |item: Node<'_>| SCORES.iter().any(|name| item.get(name).is_some());
    array(Some(data)).filter(|list| list.children().all(is_hit)).map(|list| vec![list]).into_iter().collect()
}

/// `result` is a list, or has `points`, or `groups` of `hits`; of a batch it is a list of such.
fn qdrant(result: Node<'_>) -> Vec<Node<'_>> {
    if let Some(points) = array(result.get("points")) {
        return vec![points];
    }
    if let Some(groups) = array(result.get("groups")) {
        return groups.children().filter_map(|group| array(group.get("hits"))).collect();
    }
    if result.kind() != Kind::Array {
        return Vec::new();
    }
    let is_batch = result
        .children()
        .next()
        .is_some_and(|first| first.kind() == Kind::Array || array(first.get("points")).is_some());
    if is_batch { result.children().flat_map(qdrant).collect() } else { vec![result] }
}

fn columns(root: Node<'_>, query: usize) -> Vec<Node<'_>> {
    COLUMNS.iter().filter_map(|name| array(root.get(name)?.at(query))).collect()
}

fn array(node: Option<Node<'_>>) -> Option<Node<'_>> {
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

/// What else an answer without hits says: Qdrant's scroll has no next page, Elasticsearch counts none.
fn empty_the_rest(root: Node<'_>, splices: &mut Splices) {
    let hits = root.get("hits");
    let mut set = |node: Option<Node<'_>>, to: &str| {
        if let Some(node) = node.filter(|node| node.kind() != Kind::Null) {
            splices.replace(node.span(), to);
        }
    };
    set(root.get("result").and_then(|result| result.get("next_page_offset")), "null");
    set(hits.and_then(|hits| hits.get("total")?.get("value")), "0");
    set(hits.and_then(|hits| hits.get("max_score")), "null");
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

fn equal_scores(list: &[Node<'_>], splices: &mut Splices) {
    let scores = scores(list);
    let Some(first) = scores.first() else { return };
    for score in &scores {
        splices.replace(score.span(), first.raw());
    }
}

fn scores<'d>(list: &[Node<'d>]) -> Vec<Node<'d>> {
    let is_column = |column: &Node<'d>| column.children().all(|hit| hit.kind() == Kind::Number);
    if list.len() > 1 {
        return list.iter().copied().filter(is_column).flat_map(Node::children).collect();
    }
    let of_hit = |hit: Node<'d>| {
        let own = SCORES.iter().find_map(|name| hit.get(name));
        own.or_else(|| hit.get("_additional")?.get("distance"))
    };
    list.iter().flat_map(|hits| hits.children()).filter_map(of_hit).collect()
}

/// The hits that were written last, in each list.
fn newest(root: Node<'_>) -> Vec<Node<'_>> {
    let version = |hit: Node<'_>| hit.get("version").or_else(|| hit.get("_version"))?.to_value().as_u64();
    let mut newest = Vec::new();
    for list in lists(root).into_iter().filter_map(|columns| columns.first().copied()) {
        let last = list.children().filter_map(version).max();
        newest.extend(list.children().filter(|hit| last.is_some() && version(*hit) == last));
    }
    newest
}

/// A hit that has no payload has no member for it; Chroma says null for a column that was not asked for.
fn drop_payload(document: &Document<'_>) -> Option<Bytes> {
    let root = document.root();
    if root.get("ids").is_some() && root.get("result").is_none() {
        let mut splices = Splices::new();
        for column in ["documents", "metadatas"].iter().filter_map(|name| root.get(name)) {
            splices.replace(column.span(), "null");
        }
        return splices.apply(document.body());
    }
    let hits = lists(root).into_iter().flatten().flat_map(Node::children);
    let payloads = hits.flat_map(|hit| PAYLOADS.iter().filter_map(move |name| hit.get(name)));
    remove(document, payloads).apply(document.body())
}

#[cfg(test)]
mod tests;
