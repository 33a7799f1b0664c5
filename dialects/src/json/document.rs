use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Number, Value};

use super::{
    scan::{Kind, NotJson, Span, Token, scan},
    text::unquote,
};

/// A body that has been read as JSON: which value lies where.
#[derive(Clone, Debug)]
pub struct Document<'b> {
    body: &'b [u8],
    /// In the order of the body: a container comes before what it contains.
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    key: Option<PackedSpan>,
    span: PackedSpan,
    /// The first entry that is not within this one.
    after: u32,
}

/// A span, in half the space. A large body has a million of them.
#[derive(Clone, Copy, Debug)]
struct PackedSpan {
    start: u32,
    end: u32,
}

impl PackedSpan {
    /// Of a body that is short enough.
    fn of(span: &Span) -> Self {
        let short = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: short(span.start), end: short(span.end) }
    }

    fn span(self) -> Span {
        self.start as usize..self.end as usize
    }
}

/// The most values that a document may have.
pub const MAX_VALUES: usize = 1 << 20;

/// Why a document was not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// The body is not JSON, or is nested too deep.
    #[error(transparent)]
    NotJson(#[from] NotJson),
    /// It has more than [`MAX_VALUES`] values, or is larger than 4 GiB.
    #[error("the document has more than {MAX_VALUES} values")]
    TooComplex,
}

impl ReadError {
    /// The reason as the journal gives it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotJson(_) => "not_json",
            Self::TooComplex => "too_complex",
        }
    }
}

impl<'b> Document<'b> {
    /// Reads a body.
    ///
    /// # Errors
    /// If it is not JSON, is nested more than 256 deep, or has more than [`MAX_VALUES`] values.
    pub fn parse(body: &'b [u8]) -> Result<Self, ReadError> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut open, mut key) = (Vec::new(), None);
        let mut too_many = u32::try_from(body.len()).is_err();
        let scanned = scan(body, |token| {
            let next = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            match token {
                Token::Key(span) => key = Some(PackedSpan::of(&span)),
                Token::Scalar(..) | Token::Open(..) if too_many || entries.len() >= MAX_VALUES => {
                    too_many = true;
                    return false;
                }
                Token::Scalar(kind, span) => {
                    entries.push(Entry {
                        kind,
                        key: key.take(),
                        span: PackedSpan::of(&span),
                        after: next + 1,
                    });
                }
                Token::Open(kind, at) => {
                    open.push(entries.len());
                    entries.push(Entry { kind, key: key.take(), span: PackedSpan::of(&(at..at)), after: 0 });
                }
                Token::Close(end) => {
                    if let Some(entry) = open.pop().and_then(|index| entries.get_mut(index)) {
                        entry.span.end = PackedSpan::of(&(end..end)).end;
                        entry.after = next;
                    }
                }
            }
            true
        });
        if too_many {
            return Err(ReadError::TooComplex);
        }
        scanned?;
        Ok(Self { body, entries })
    }

    /// The containers of these values, each once, in one pass over the document.
    pub(super) fn parents(&self, of: &BTreeSet<usize>) -> Vec<Node<'_>> {
        let mut parents = BTreeSet::new();
        let mut open: Vec<usize> = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            while open.last().is_some_and(|last| self.entries[*last].after as usize <= index) {
                open.pop();
            }
            if of.contains(&index)
                && let Some(parent) = open.last()
            {
                parents.insert(*parent);
            }
            if matches!(entry.kind, Kind::Array | Kind::Object) {
                open.push(index);
            }
        }
        parents.into_iter().map(|index| Node { document: self, index }).collect()
    }

    /// The outermost value.
    pub fn root(&self) -> Node<'_> {
        Node { document: self, index: 0 }
    }

    /// The bytes that were read.
    pub fn body(&self) -> &'b [u8] {
        self.body
    }
}

/// A value in a document.
#[derive(Clone, Copy, Debug)]
pub struct Node<'d> {
    document: &'d Document<'d>,
    index: usize,
}

impl<'d> Node<'d> {
    /// The type of the value.
    pub fn kind(self) -> Kind {
        self.entry().kind
    }

    /// Where its bytes lie.
    pub fn span(self) -> Span {
        self.entry().span.span()
    }

    /// Its bytes.
    pub fn raw(self) -> &'d [u8] {
        &self.document.body[self.span()]
    }

    /// Where its name lies, quotes included, if it is a member of an object.
    pub fn key_span(self) -> Option<Span> {
        self.entry().key.map(PackedSpan::span)
    }

    /// Its name, if it is a member of an object.
    pub fn key(self) -> Option<Cow<'d, str>> {
        self.key_span().map(|span| unquote(&self.document.body[span]))
    }

    /// The text of a string; lone surrogates become U+FFFD. None for other types.
    pub fn text(self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::String).then(|| unquote(self.raw()))
    }

    /// What a container holds, in order, duplicate names included.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let document = self.document;
        let after = self.entry().after as usize;
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let child = (index < after).then_some(Self { document, index })?;
            index = child.entry().after as usize;
            Some(child)
        })
    }

    /// The member of that name: the last one, if there are several. None for what is not an object.
    pub fn get(self, name: &str) -> Option<Self> {
        self.children().filter(|child| child.key().as_deref() == Some(name)).last()
    }

    /// The element at that place. None for what is not an array.
    pub fn at(self, place: usize) -> Option<Self> {
        if self.kind() == Kind::Array { self.children().nth(place) } else { None }
    }

    /// Whether `other` is this value or lies within it.
    pub fn contains(self, other: Node<'_>) -> bool {
        (self.index..self.entry().after as usize).contains(&other.index)
    }

    /// Its place in the order of the document, in which a container comes before what it contains.
    pub fn order(self) -> usize {
        self.index
    }

    /// The value, as good as `serde_json` can hold it, to compare and to match: lone surrogates become U+FFFD, numbers
    /// too large for a float its largest or smallest, and of duplicate keys the last stays.
    pub fn to_value(self) -> Value {
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::Bool => Value::Bool(self.raw() == b"true"),
            Kind::Number => Value::Number(number(self.raw())),
            Kind::String => Value::String(unquote(self.raw()).into_owned()),
            Kind::Array => self.children().map(Self::to_value).collect(),
            Kind::Object => {
                let member = |child: Self| Some((child.key()?.into_owned(), child.to_value()));
                Value::Object(self.children().filter_map(member).collect::<Map<_, _>>())
            }
        }
    }

    fn entry(self) -> &'d Entry {
        &self.document.entries[self.index]
    }
}

fn number(spelt: &[u8]) -> Number {
    if let Ok(number) = serde_json::from_slice(spelt) {
        return number;
    }
    let largest = if spelt.starts_with(b"-") { f64::MIN } else { f64::MAX };
    Number::from_f64(largest).unwrap_or_else(|| Number::from(0))
}
