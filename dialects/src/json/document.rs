use std::borrow::Cow;

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
    key: Option<Span>,
    span: Span,
    /// The first entry that is not within this one.
    after: usize,
}

impl<'b> Document<'b> {
    /// Reads a body.
    ///
    /// # Errors
    /// If it is not JSON, or nested more than 256 deep.
    pub fn parse(body: &'b [u8]) -> Result<Self, NotJson> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut open, mut key) = (Vec::new(), None);
        scan(body, |token| match token {
            Token::Key(span) => key = Some(span),
            Token::Scalar(kind, span) => {
                let after = entries.len() + 1;
                entries.push(Entry { kind, key: key.take(), span, after });
            }
            Token::Open(kind, at) => {
                open.push(entries.len());
                entries.push(Entry { kind, key: key.take(), span: at..at, after: 0 });
            }
            Token::Close(end) => {
                let after = entries.len();
                if let Some(entry) = open.pop().and_then(|index| entries.get_mut(index)) {
                    entry.span.end = end;
                    entry.after = after;
                }
            }
        })?;
        Ok(Self { body, entries })
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
        self.entry().span.clone()
    }

    /// Its bytes.
    pub fn raw(self) -> &'d [u8] {
        &self.document.body[self.span()]
    }

    /// Where its name lies, quotes included, if it is a member of an object.
    pub fn key_span(self) -> Option<Span> {
        self.entry().key.clone()
    }

    /// Its name, if it is a member of an object.
    pub fn key(self) -> Option<Cow<'d, str>> {
        self.entry().key.clone().map(|span| unquote(&self.document.body[span]))
    }

    /// The text of a string; lone surrogates become U+FFFD. None for other types.
    pub fn text(self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::String).then(|| unquote(self.raw()))
    }

    /// What a container holds, in order, duplicate names included.
    pub fn children(self) -> impl Iterator<Item = Self> {
        let document = self.document;
        let after = self.entry().after;
        let mut index = self.index + 1;
        std::iter::from_fn(move || {
            let child = (index < after).then_some(Self { document, index })?;
            index = child.entry().after;
            Some(child)
        })
    }

    /// The member of that name: the last one, if there are several. None for what is no object.
    pub fn get(self, name: &str) -> Option<Self> {
        self.children().filter(|child| child.key().as_deref() == Some(name)).last()
    }

    /// The element at that place. None for what is no array.
    pub fn at(self, place: usize) -> Option<Self> {
        if self.kind() == Kind::Array { self.children().nth(place) } else { None }
    }

    /// Whether `other` is this value or lies within it.
    pub fn contains(self, other: Node<'_>) -> bool {
        (self.index..self.entry().after).contains(&other.index)
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
