//! Reading a JSON body field by field, so that each provider can say in its own words what is wrong with which field.

use std::{borrow::Cow, cell::RefCell};

use super::{Json, Unmapped};
use crate::json::{self, Document, Node};

mod error;

pub use error::{FieldError, Kind, Path, Problem};

/// How names of members are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Names {
    AsWritten,
    /// Google's JSON: `systemInstruction` and `system_instruction` are the same member.
    AnyCase,
}

impl Names {
    fn same(self, written: &str, wanted: &str) -> bool {
        written == wanted || self == Self::AnyCase && written.contains('_') && camel(written) == wanted
    }
}

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let (head, tail) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name.push_str(&head.to_uppercase());
        name.push_str(tail);
        name
    })
}

/// A value and where it is.
#[derive(Clone, Debug)]
pub struct Field<'d> {
    node: Node<'d>,
    path: Path,
    names: Names,
}

impl<'d> Field<'d> {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its type.
    pub fn kind(&self) -> Kind {
        Kind::of(self.node)
    }

    /// Its text, kept as it is.
    pub fn json(&self) -> Json {
        Json::of_node(self.node)
    }

    /// As a field that the model has no place for.
    pub fn unmapped(&self) -> Unmapped {
        Unmapped { path: self.path.to_string(), value: self.json() }
    }

    /// # Errors
    /// If it is not an object.
    pub fn object(&self) -> Result<Fields<'d>, FieldError> {
        if self.kind() == Kind::Object {
            Ok(Fields {
                node: self.node,
                path: self.path.clone(),
                names: self.names,
                seen: RefCell::default(),
            })
        } else {
            Err(self.wrong_type(Kind::Object))
        }
    }

    /// # Errors
    /// If it is not a list.
    pub fn list(&self) -> Result<Vec<Self>, FieldError> {
        if self.kind() != Kind::Array {
            return Err(self.wrong_type(Kind::Array));
        }
        let item = |(index, node)| Self { node, path: self.path.index(index), names: self.names };
        Ok(self.node.children().enumerate().map(item).collect())
    }

    /// # Errors
    /// If it is not a string.
    pub fn string(&self) -> Result<Cow<'d, str>, FieldError> {
        self.node.text().ok_or_else(|| self.wrong_type(Kind::String))
    }

    /// # Errors
    /// If it is neither `true` nor `false`.
    pub fn flag(&self) -> Result<bool, FieldError> {
        match self.kind() {
            Kind::Boolean => Ok(self.node.raw() == b"true"),
            _ => Err(self.wrong_type(Kind::Boolean)),
        }
    }

    /// That the value has another type than this.
    pub fn wrong_type(&self, expected: Kind) -> FieldError {
        self.error(Problem::Type { expected, got: self.kind() })
    }

    /// That something is wrong with it.
    pub fn error(&self, problem: Problem) -> FieldError {
        FieldError { path: self.path.clone(), problem }
    }

    fn number(&self, expected: Kind) -> Result<f64, FieldError> {
        let fits = matches!((expected, self.kind()), (_, Kind::Integer) | (Kind::Number, Kind::Number));
        // `serde_json` reads some numbers one step off.
        let number = std::str::from_utf8(self.node.raw()).ok().and_then(|spelt| spelt.parse::<f64>().ok());
        let number = number.filter(|_| fits).map(|number| number.clamp(f64::MIN, f64::MAX));
        number.ok_or_else(|| self.wrong_type(expected))
    }

    fn within(&self, kind: Kind, least: u64, most: u64) -> Result<f64, FieldError> {
        let got = self.number(kind)?;
        if got < least as f64 {
            Err(self.error(Problem::TooSmall { kind, least, got }))
        } else if got > most as f64 {
            Err(self.error(Problem::TooLarge { kind, most, got }))
        } else {
            Ok(got)
        }
    }
}

/// A JSON object and where it is. A member that is `null` counts as absent. It remembers which members were asked
/// for: [`rest`](Self::rest) gives the others.
#[derive(Clone, Debug)]
pub struct Fields<'d> {
    node: Node<'d>,
    path: Path,
    names: Names,
    seen: RefCell<Vec<&'static str>>,
}

/// Reads a body as JSON.
///
/// # Errors
/// If it is not JSON, or nested more than 256 deep.
pub fn parse(body: &[u8]) -> Result<Document<'_>, FieldError> {
    Document::parse(body)
        .map_err(|error| FieldError { path: Path::default(), problem: Problem::Unreadable(error) })
}

impl<'d> Fields<'d> {
    /// The members of the outermost object.
    ///
    /// # Errors
    /// If the document is not an object.
    pub fn root(document: &'d Document<'_>) -> Result<Self, FieldError> {
        Self::of(document, Names::AsWritten)
    }

    /// The same for Google's JSON, in which `systemInstruction` and `system_instruction` are the same member.
    ///
    /// # Errors
    /// If the document is not an object.
    pub fn google(document: &'d Document<'_>) -> Result<Self, FieldError> {
        Self::of(document, Names::AnyCase)
    }

    fn of(document: &'d Document<'_>, names: Names) -> Result<Self, FieldError> {
        Field { node: document.root(), path: Path::default(), names }.object()
    }

    /// The member of that name, unless it is absent or `null`.
    pub fn get(&self, name: &'static str) -> Option<Field<'d>> {
        self.seen.borrow_mut().push(name);
        let mut members = self.members().filter(|(key, _)| self.names.same(key, name));
        let (key, node) = members.next().map(|first| members.last().unwrap_or(first))?;
        let field = Field { node, path: self.path.name(&key), names: self.names };
        (field.kind() != Kind::Null).then_some(field)
    }

    fn members(&self) -> impl Iterator<Item = (Cow<'d, str>, Node<'d>)> + use<'d> {
        self.node.children().filter_map(|child| Some((child.key()?, child)))
    }

    /// The members that nothing has asked for and that are not `null`.
    pub fn rest(&self) -> Vec<Unmapped> {
        let seen = self.seen.borrow();
        let is_known = |key: &str| seen.iter().any(|name| self.names.same(key, name));
        let unknown = self.members().filter(|(key, node)| !is_known(key) && node.kind() != json::Kind::Null);
        unknown
            .map(|(key, node)| Field { node, path: self.path.name(&key), names: self.names }.unmapped())
            .collect()
    }

    /// # Errors
    /// If it is absent.
    pub fn require(&self, name: &'static str) -> Result<Field<'d>, FieldError> {
        self.get(name).ok_or_else(|| self.error(name, Problem::Missing))
    }

    /// # Errors
    /// If it is not a string.
    pub fn string(&self, name: &'static str) -> Result<Option<String>, FieldError> {
        self.get(name).map(|field| field.string().map(Cow::into_owned)).transpose()
    }

    /// # Errors
    /// If it is absent or no string.
    pub fn required_string(&self, name: &'static str) -> Result<String, FieldError> {
        Ok(self.require(name)?.string()?.into_owned())
    }

    /// # Errors
    /// If it is neither `true` nor `false`.
    pub fn flag(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        self.get(name).map(|field| field.flag()).transpose()
    }

    /// A whole number between `least` and `most`.
    ///
    /// # Errors
    /// If it is not a whole number, or not in the range.
    pub fn integer(&self, name: &'static str, least: u64, most: u64) -> Result<Option<u64>, FieldError> {
        let Some(field) = self.get(name) else { return Ok(None) };
        field.within(Kind::Integer, least, most)?;
        // What is not below zero and does not fit is larger than anything that is counted.
        Ok(Some(field.node.to_value().as_u64().unwrap_or(u64::MAX)))
    }

    /// A whole number that may be negative.
    ///
    /// # Errors
    /// If it is not a whole number of 64 bits.
    pub fn signed(&self, name: &'static str) -> Result<Option<i64>, FieldError> {
        let Some(field) = self.get(name) else { return Ok(None) };
        field.node.to_value().as_i64().map(Some).ok_or_else(|| field.wrong_type(Kind::Integer))
    }

    /// A number between `least` and `most`, with or without a fraction.
    ///
    /// # Errors
    /// If it is not a number, or not in the range.
    pub fn number(&self, name: &'static str, least: u64, most: u64) -> Result<Option<f64>, FieldError> {
        self.get(name).map(|field| field.within(Kind::Number, least, most)).transpose()
    }

    /// Any number.
    ///
    /// # Errors
    /// If it is not a number.
    pub fn float(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        self.get(name).map(|field| field.number(Kind::Number)).transpose()
    }

    /// # Errors
    /// If it is not an object.
    pub fn object(&self, name: &'static str) -> Result<Option<Self>, FieldError> {
        self.get(name).map(|field| field.object()).transpose()
    }

    /// A list, empty if absent.
    ///
    /// # Errors
    /// If it is not a list.
    pub fn list(&self, name: &'static str) -> Result<Vec<Field<'d>>, FieldError> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |field| field.list())
    }

    /// A list of objects, empty if absent.
    ///
    /// # Errors
    /// If it is not a list, or holds something else than objects.
    pub fn objects(&self, name: &'static str) -> Result<Vec<Self>, FieldError> {
        self.list(name)?.iter().map(Field::object).collect()
    }

    /// A list of strings, empty if absent.
    ///
    /// # Errors
    /// If it is not a list, or holds something else than strings.
    pub fn strings(&self, name: &'static str) -> Result<Vec<String>, FieldError> {
        self.list(name)?.iter().map(|item| item.string().map(Cow::into_owned)).collect()
    }

    /// That something is wrong with a member.
    pub fn error(&self, name: &str, problem: Problem) -> FieldError {
        FieldError { path: self.path.name(name), problem }
    }

    /// As a field that the model has no place for.
    pub(super) fn unmapped(&self) -> Unmapped {
        Unmapped { path: self.path.to_string(), value: Json::of_node(self.node) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place() {
        let document = parse(br#"{"a": [{"b": 1}, {"b": "x"}], "n": -1, "f": 1.5}"#).unwrap();
        let fields = Fields::root(&document).unwrap();
        let second = &fields.objects("a").unwrap()[1];
        let error = second.integer("b", 0, 9).unwrap_err();
        assert_eq!((error.path.to_string(), error.path.dotted()), ("a[1].b".to_owned(), "a.1.b".to_owned()));
        assert_eq!(error.to_string(), "`a[1].b`: expected a whole number, got a string");
        let small = Problem::TooSmall { kind: Kind::Integer, least: 0, got: -1.0 };
        assert_eq!(fields.integer("n", 0, 9).unwrap_err().problem, small);
        assert_eq!(
            fields.integer("f", 0, 9).unwrap_err().to_string(),
            "`f`: expected a whole number, got a number"
        );
        assert_eq!(fields.float("f").unwrap(), Some(1.5));
        assert!(Fields::root(&parse(b"[]").unwrap()).unwrap_err().path.is_root());
        assert!(matches!(parse(b"{").unwrap_err().problem, Problem::Unreadable(_)));
    }

    #[test]
    fn what_nobody_asked_for_is_kept_with_its_path() {
        let document = parse(br#"{"a": {"x": 1, "y": [1, 2], "z": null}, "b": 2, "a_b": 3}"#).unwrap();
        let fields = Fields::root(&document).unwrap();
        let inner = fields.object("a").unwrap().unwrap();
        assert_eq!(inner.integer("x", 0, 9).unwrap(), Some(1));
        let rest: Vec<_> =
            inner.rest().into_iter().chain(fields.rest()).map(|rest| rest.to_string()).collect();
        assert_eq!(rest, ["a.y: [1,2]", "b: 2", "a_b: 3"]);
        let google = Fields::google(&document).unwrap();
        assert_eq!(google.integer("aB", 0, 9).unwrap(), Some(3));
        assert_eq!(google.rest().len(), 2);
    }
}
