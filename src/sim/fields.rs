//! Reading a JSON request field by field, so that each provider can say in its own words what is wrong with which.
use std::fmt;

use serde_json::{Map, Value};

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldError {
    /// Such as `messages[0].role`; empty for the whole body.
    pub(super) path: Path,
    pub(super) problem: Problem,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Problem {
    Missing,
    Type {
        expected: Kind,
        got: Kind,
    },
    TooSmall {
        kind: Kind,
        least: u64,
        got: f64,
    },
    TooLarge {
        kind: Kind,
        most: u64,
        got: f64,
    },
    Empty,
    /// None of the values that are possible.
    NotOneOf {
        possible: &'static [&'static str],
        got: String,
    },
    /// A tool is asked for that is not among those offered.
    NoSuchTool(String),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Array,
    Boolean,
    Integer,
    Null,
    Number,
    Object,
    String,
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

/// The way to a field.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

impl Path {
    fn name(&self, name: &str) -> Self {
        self.with(Step::Name(name.to_owned()))
    }

    fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    pub(super) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// `messages.0.role`
    pub(super) fn dotted(&self) -> String {
        let steps = self.0.iter().map(|step| match step {
            Step::Name(name) => name.clone(),
            Step::Index(index) => index.to_string(),
        });
        steps.collect::<Vec<_>>().join(".")
    }
}

/// `messages[0].role`
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                Step::Name(name) if nth == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A JSON object and where it is. A member that is `null` counts as absent.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    members: &'a Map<String, Value>,
    path: Path,
}

impl<'a> Fields<'a> {
    pub(super) fn root(value: &'a Value) -> Result<Self, FieldError> {
        Self::at(Path::default(), value)
    }

    fn at(path: Path, value: &'a Value) -> Result<Self, FieldError> {
        match value {
            Value::Object(members) => Ok(Self { members, path }),
            _ => Err(wrong_type(path, Kind::Object, value)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn require(&self, name: &str) -> Result<&'a Value, FieldError> {
        self.get(name).ok_or_else(|| self.error(name, Problem::Missing))
    }

    pub(super) fn string(&self, name: &str) -> Result<Option<&'a str>, FieldError> {
        self.read(name, Kind::String, Value::as_str)
    }

    pub(super) fn required_string(&self, name: &str) -> Result<&'a str, FieldError> {
        self.string(name)?.ok_or_else(|| self.error(name, Problem::Missing))
    }

    /// A flag, false if absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, FieldError> {
        Ok(self.read(name, Kind::Boolean, Value::as_bool)?.unwrap_or(false))
    }

    /// A whole number between `least` and `most`.
    pub(super) fn integer(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, FieldError> {
        let number = self.read(name, Kind::Integer, |value| {
            value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
        })?;
        number.map(|number| self.within(name, Kind::Integer, number as f64, least, most)).transpose()?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    /// A number between `least` and `most`, with or without a fraction.
    pub(super) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<f64>, FieldError> {
        let number = self.read(name, Kind::Number, Value::as_f64)?;
        number.map(|number| self.within(name, Kind::Number, number, least, most)).transpose()
    }

    fn within(&self, name: &str, kind: Kind, got: f64, least: u64, most: u64) -> Result<f64, FieldError> {
        if got < least as f64 {
            Err(self.error(name, Problem::TooSmall { kind, least, got }))
        } else if got > most as f64 {
            Err(self.error(name, Problem::TooLarge { kind, most, got }))
        } else {
            Ok(got)
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Self>, FieldError> {
        self.get(name).map(|value| Self::at(self.path.name(name), value)).transpose()
    }

    /// An array of objects, empty if absent.
    pub(super) fn objects(&self, name: &str) -> Result<Vec<Self>, FieldError> {
        let items = self.read(name, Kind::Array, Value::as_array)?.map_or(&[][..], Vec::as_slice);
        let path = self.path.name(name);
        items.iter().enumerate().map(|(index, item)| Self::at(path.index(index), item)).collect()
    }

    fn read<T>(
        &self,
        name: &str,
        expected: Kind,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| wrong_type(self.path.name(name), expected, value))
    }

    pub(super) fn wrong_type(&self, name: &str, expected: Kind) -> FieldError {
        wrong_type(self.path.name(name), expected, self.get(name).unwrap_or(&Value::Null))
    }

    pub(super) fn error(&self, name: &str, problem: Problem) -> FieldError {
        FieldError { path: self.path.name(name), problem }
    }
}

fn wrong_type(path: Path, expected: Kind, got: &Value) -> FieldError {
    FieldError { path, problem: Problem::Type { expected, got: Kind::of(got) } }
}
