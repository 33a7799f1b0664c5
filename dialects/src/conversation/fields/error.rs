//! What is wrong with a field, and where it is.

use std::fmt;

use crate::json::{self, Node, ReadError};

/// What is wrong with one field of a body.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{path}`: {problem}")]
pub struct FieldError {
    /// Such as `messages[0].role`. Empty for the whole body.
    pub path: Path,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The body is not JSON, or too complex.
    #[error("{0}")]
    Unreadable(ReadError),
    /// The field is required and is not there.
    #[error("the field is required")]
    Missing,
    /// The value has another type.
    #[error("expected {expected}, got {got}")]
    Type {
        /// The type that it should have.
        expected: Kind,
        /// The type that it has.
        got: Kind,
    },
    /// The number is too small.
    #[error("expected {least} or more, got {got}")]
    TooSmall {
        /// Whether the number may have a fraction.
        kind: Kind,
        /// The least that is possible.
        least: u64,
        /// What was given.
        got: f64,
    },
    /// The number is too large.
    #[error("expected {most} or less, got {got}")]
    TooLarge {
        /// Whether the number may have a fraction.
        kind: Kind,
        /// The most that is possible.
        most: u64,
        /// What was given.
        got: f64,
    },
    /// The list is empty.
    #[error("the list is empty")]
    Empty,
    /// The value is none of those that are possible.
    #[error("expected one of {possible:?}, got `{got}`")]
    NotOneOf {
        /// The possible values.
        possible: &'static [&'static str],
        /// What was given.
        got: String,
    },
    /// A tool is asked for that is not among those offered.
    #[error("there is no tool `{0}`")]
    NoSuchTool(String),
}

/// The type of a JSON value. Numbers without a fraction are a type of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A list.
    Array,
    /// `true` or `false`.
    Boolean,
    /// A number without fraction and exponent.
    Integer,
    /// `null`.
    Null,
    /// Any other number.
    Number,
    /// An object.
    Object,
    /// A string.
    String,
}

impl Kind {
    pub(super) fn of(node: Node<'_>) -> Self {
        match node.kind() {
            json::Kind::Null => Self::Null,
            json::Kind::Bool => Self::Boolean,
            json::Kind::Number if node.raw().iter().any(|byte| b".eE".contains(byte)) => Self::Number,
            json::Kind::Number => Self::Integer,
            json::Kind::String => Self::String,
            json::Kind::Array => Self::Array,
            json::Kind::Object => Self::Object,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Array => "a list",
            Self::Boolean => "true or false",
            Self::Integer => "a whole number",
            Self::Null => "null",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::String => "a string",
        })
    }
}

/// The way to a field.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Name(String),
    Index(usize),
}

impl Path {
    pub(in crate::conversation) fn name(&self, name: &str) -> Self {
        self.with(Step::Name(name.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// Whether it is the path of the whole body.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// `messages.0.role`
    pub fn dotted(&self) -> String {
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
