use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
};

use bytes::Bytes;
use serde_json::Value;

use super::{
    Change, Document, JsonType, Kind, Node, Op, PatchOp, Path, PathEdit, Pointer, ReadError, Span, Splices,
    TooComplex, text::characters,
};

/// Why a document was not edited.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EditError {
    /// The body is not JSON, or too complex.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The path takes too many steps on this document.
    #[error(transparent)]
    TooComplex(#[from] TooComplex),
    /// What the edits leave is too large.
    #[error("the edited document is larger than {MAX_EDITED} bytes")]
    TooLarge,
    /// A JSON Patch operation names a value that is not there.
    #[error("there is no value at `{0}`")]
    Missing(Pointer),
    /// A value is moved into itself.
    #[error("the value at `{0}` cannot be moved into itself")]
    IntoItself(Pointer),
    /// A `test` failed.
    #[error("the value at `{0}` is not the one that was asked for")]
    TestFailed(Pointer),
}

/// The most that edits may leave, in bytes.
pub const MAX_EDITED: usize = 64 * 1024 * 1024;

/// Makes edits one after the other, each on what the one before has left. None if nothing changed.
///
/// Only the bytes of the edited values change; a removed value takes the comma beside it along, and an added one has
/// the same white space around it as its neighbours.
///
/// # Errors
/// If the body is not JSON or an operation cannot be made. Then none is.
pub fn apply(body: &[u8], ops: &[Op]) -> Result<Option<Bytes>, EditError> {
    let mut edited: Option<Bytes> = None;
    // Also when there is nothing to do a body that is not JSON is said to be none.
    if ops.is_empty() {
        Document::parse(body)?;
    }
    for op in ops {
        let now = edited.as_deref().unwrap_or(body);
        let next = match op {
            Op::Patch(op) => patch(now, op)?,
            Op::Path(edit) => edit_selected(now, edit)?,
        };
        if next.as_ref().is_some_and(|next| next.len() > MAX_EDITED) {
            return Err(EditError::TooLarge);
        }
        edited = next.or(edited);
    }
    Ok(edited.filter(|edited| edited != body))
}

fn patch(body: &[u8], op: &PatchOp) -> Result<Option<Bytes>, EditError> {
    let document = Document::parse(body)?;
    let there = |path: &Pointer| find(&document, path).ok_or_else(|| EditError::Missing(path.clone()));
    match op {
        PatchOp::Add { path, value } => add(&document, path, value.to_string().as_bytes()),
        PatchOp::Remove { path } => Ok(remove(&document, [there(path)?]).apply(body)),
        PatchOp::Replace { path, value } => {
            let mut splices = Splices::new();
            splices.replace(there(path)?.span(), value.to_string());
            Ok(splices.apply(body))
        }
        PatchOp::Move { from, path } if from == path => there(from).map(|_| None),
        PatchOp::Move { from, path } if from.is_above(path) => Err(EditError::IntoItself(from.clone())),
        PatchOp::Move { from, path } => {
            let value = there(from)?;
            let without = remove(&document, [value]).apply(body);
            let without = without.as_deref().unwrap_or(body);
            Ok(add(&Document::parse(without)?, path, value.raw())?
                .or_else(|| Some(Bytes::copy_from_slice(without))))
        }
        PatchOp::Copy { from, path } => add(&document, path, there(from)?.raw()),
        PatchOp::Test { path, value } if same(&there(path)?.to_value(), value) => Ok(None),
        PatchOp::Test { path, .. } => Err(EditError::TestFailed(path.clone())),
    }
}

fn find<'d>(document: &'d Document<'_>, pointer: &Pointer) -> Option<Node<'d>> {
    pointer.steps().iter().try_fold(document.root(), |node, step| match node.kind() {
        Kind::Object => node.get(step),
        Kind::Array => node.at(place(step)?),
        _ => None,
    })
}

/// A place in an array; leading zeros and signs are not allowed (RFC 6901, section 4).
fn place(step: &str) -> Option<usize> {
    let plain = step == "0" || step.starts_with(|first: char| ('1'..='9').contains(&first));
    plain.then(|| step.parse().ok())?
}

fn add(document: &Document<'_>, path: &Pointer, value: &[u8]) -> Result<Option<Bytes>, EditError> {
    let mut splices = Splices::new();
    let missing = || EditError::Missing(path.clone());
    let steps = path.steps();
    let Some((step, above)) = steps.split_last() else {
        splices.replace(document.root().span(), value);
        return Ok(splices.apply(document.body()));
    };
    let parent = above
        .iter()
        .try_fold(document.root(), |node, step| node.get(step).or_else(|| node.at(place(step)?)))
        .ok_or_else(missing)?;
    match parent.kind() {
        Kind::Object => match parent.get(step) {
            Some(there) => splices.replace(there.span(), value),
            None => append(document, parent, Some(step), value, &mut splices),
        },
        Kind::Array => {
            let len = parent.children().count();
            match if step == "-" { Some(len) } else { place(step) } {
                Some(at) if at == len => append(document, parent, None, value, &mut splices),
                Some(at) => insert(document, parent.at(at).ok_or_else(missing)?, value, &mut splices),
                None => return Err(missing()),
            }
        }
        _ => return Err(missing()),
    }
    Ok(splices.apply(document.body()))
}

/// Adds after the last child, spaced as that one is.
fn append(
    document: &Document<'_>,
    parent: Node<'_>,
    name: Option<&str>,
    value: &[u8],
    splices: &mut Splices,
) {
    let name = name.map(super::quote).unwrap_or_default();
    let Some(last) = parent.children().last() else {
        let colon = if name.is_empty() { "" } else { ":" };
        let inside = parent.span().start + 1;
        splices.replace(inside..inside, [name.as_bytes(), colon.as_bytes(), value].concat());
        return;
    };
    let body = document.body();
    let colon = last.key_span().map(|key| key.end..last.span().start).unwrap_or_default();
    let added = [b",", space_before(body, start(last)), name.as_bytes(), &body[colon], value].concat();
    splices.replace(last.span().end..last.span().end, added);
}

fn insert(document: &Document<'_>, before: Node<'_>, value: &[u8], splices: &mut Splices) {
    let body = document.body();
    let at = before.span().start;
    splices.replace(at..at, [value, b",", space_before(body, at)].concat());
}

fn space_before(body: &[u8], at: usize) -> &[u8] {
    let len = body[..at].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    &body[at - len..at]
}

/// Where a child begins: a member at its name.
fn start(child: Node<'_>) -> usize {
    child.key_span().unwrap_or_else(|| child.span()).start
}

fn edit_selected(body: &[u8], edit: &PathEdit) -> Result<Option<Bytes>, EditError> {
    let document = Document::parse(body)?;
    let nodes = select(&document, &edit.path)?;
    if edit.change == Change::Delete {
        return Ok(remove(&document, nodes).apply(body));
    }
    let set = match &edit.change {
        Change::Set(value) => value.to_string().into_bytes(),
        _ => Vec::new(),
    };
    if set.len().saturating_mul(nodes.len()) > MAX_EDITED {
        return Err(EditError::TooLarge);
    }
    let mut splices = Splices::new();
    for node in nodes {
        let with = match &edit.change {
            Change::Set(_) => Cow::Borrowed(&set[..]),
            Change::Type(to) => turn(node, *to),
            Change::Truncate(keep) => match truncation(node, *keep) {
                Some(cut) => {
                    splices.replace(cut, "");
                    continue;
                }
                None => continue,
            },
            Change::Null | Change::Delete => Cow::Borrowed(&b"null"[..]),
        };
        splices.replace(node.span(), with);
    }
    Ok(splices.apply(body))
}

/// The outermost values that a path selects, in the order of the document.
fn select<'d>(document: &'d Document<'_>, path: &Path) -> Result<Vec<Node<'d>>, TooComplex> {
    let value = document.root().to_value();
    let selected = path.select(&value)?.into_iter().map(std::ptr::from_ref).collect();
    let mut nodes = Vec::new();
    find_selected(document.root(), &value, &selected, &mut nodes);
    nodes.sort_by_key(|node| node.order());
    Ok(nodes)
}

/// Walks over a document and what `serde_json` holds of it side by side: a look-up for each selected value from the
/// root would take a time that grows with the square of an array's length.
fn find_selected<'d>(
    node: Node<'d>,
    value: &Value,
    selected: &HashSet<*const Value>,
    nodes: &mut Vec<Node<'d>>,
) {
    if selected.contains(&std::ptr::from_ref(value)) {
        nodes.push(node);
        return;
    }
    match value {
        Value::Array(items) => {
            for (child, item) in node.children().zip(items) {
                find_selected(child, item, selected, nodes);
            }
        }
        Value::Object(members) => {
            // Of duplicate names the last one counts.
            let children: HashMap<_, _> =
                node.children().filter_map(|child| Some((child.key()?, child))).collect();
            for (name, member) in members {
                if let Some(child) = children.get(name.as_str()) {
                    find_selected(*child, member, selected, nodes);
                }
            }
        }
        _ => {}
    }
}

/// Removes values and the commas beside them. Of a member all duplicates go too, lest an older one show.
pub fn remove<'d>(document: &'d Document<'_>, nodes: impl IntoIterator<Item = Node<'d>>) -> Splices {
    let mut splices = Splices::new();
    let doomed: BTreeSet<_> = nodes.into_iter().map(Node::order).collect();
    for parent in document.parents(&doomed) {
        remove_children(parent, &doomed, &mut splices);
    }
    splices
}

fn remove_children(parent: Node<'_>, doomed: &BTreeSet<usize>, splices: &mut Splices) {
    let names: BTreeSet<_> =
        parent.children().filter(|child| doomed.contains(&child.order())).filter_map(Node::key).collect();
    let goes = |child: Node<'_>| {
        doomed.contains(&child.order()) || child.key().is_some_and(|key| names.contains(&key))
    };
    let children: Vec<_> = parent.children().collect();
    let Some(first_kept) = children.iter().position(|child| !goes(*child)) else {
        if let (Some(first), Some(last)) = (children.first(), children.last()) {
            splices.replace(start(*first)..last.span().end, "");
        }
        return;
    };
    if first_kept > 0 {
        splices.replace(start(children[0])..start(children[first_kept]), "");
    }
    for pair in children[first_kept..].windows(2).filter(|pair| goes(pair[1])) {
        splices.replace(pair[0].span().end..pair[1].span().end, "");
    }
}

fn turn(node: Node<'_>, to: JsonType) -> Cow<'_, [u8]> {
    let raw = Cow::Borrowed(node.raw());
    let text = |text: String| Cow::Owned(text.into_bytes());
    match (to, node.kind()) {
        (JsonType::Null, _) => Cow::Borrowed(b"null"),
        (JsonType::Boolean, Kind::Bool)
        | (JsonType::Number, Kind::Number)
        | (JsonType::String, Kind::String) => raw,
        (JsonType::Boolean, _) => text((!is_blank(node)).to_string()),
        (JsonType::Number, Kind::String) => {
            let spelt = node.text().unwrap_or_default();
            let is_number =
                Document::parse(spelt.as_bytes()).is_ok_and(|inner| inner.root().kind() == Kind::Number);
            text(if is_number { spelt.trim().to_owned() } else { "0".to_owned() })
        }
        (JsonType::Number, _) => Cow::Borrowed(if node.raw() == b"true" { b"1" } else { b"0" }),
        (JsonType::String, _) => text(super::quote(&String::from_utf8_lossy(node.raw()))),
        (JsonType::Array, _) => Cow::Owned([b"[", node.raw(), b"]"].concat()),
        (JsonType::Object, _) => Cow::Owned([br#"{"value":"#, node.raw(), b"}"].concat()),
    }
}

fn is_blank(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Null => true,
        Kind::Bool => node.raw() == b"false",
        Kind::Number => node.to_value().as_f64() == Some(0.0),
        Kind::String => node.raw() == b"\"\"",
        Kind::Array | Kind::Object => node.children().next().is_none(),
    }
}

/// What has to go for so many characters or elements to stay.
fn truncation(node: Node<'_>, keep: usize) -> Option<Span> {
    let Span { start, end } = node.span();
    match node.kind() {
        Kind::String => {
            let inner = &node.raw()[1..node.raw().len() - 1];
            characters(inner).nth(keep).map(|first_cut| start + 1 + first_cut.start..end - 1)
        }
        Kind::Array => {
            let mut rest = node.children().skip(keep.saturating_sub(1));
            let from = if keep == 0 { rest.next()?.span().start } else { rest.next()?.span().end };
            let last = node.children().last()?.span().end;
            (from < last).then_some(from..last)
        }
        _ => None,
    }
}

/// Equality as RFC 6902 has it: numbers by their value, objects in any order.
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let there = |(name, value)| right.get(name).is_some_and(|other| same(value, other));
            left.len() == right.len() && left.iter().all(there)
        }
        _ => left == right,
    }
}
