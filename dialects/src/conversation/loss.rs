//! What does not survive the way from one format to another.

use std::fmt;

use super::Json;

/// A field of a request that the model has no place for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmapped {
    /// Where it was, such as `messages[0].cache_control`.
    pub path: String,
    /// Its value.
    pub value: Json,
}

impl fmt::Display for Unmapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.value.text())
    }
}

/// A field of the model that a format cannot express.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Loss {
    /// The field of the model, such as `sampling.seed` or `turns[2].parts[0].is_error`.
    pub field: String,
    /// What became of it.
    pub fate: Fate,
}

/// What becomes of a field that a format cannot express.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fate {
    /// It is written in another way that comes near: a temperature at the format's limit, a system turn moved to the
    /// front.
    Emulated,
    /// It is left out, and the answer may differ for it.
    Dropped,
    /// Leaving it out would ask for something else.
    Refused,
}

/// The request asks for something that a format cannot express and that must not be left out.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{format} cannot express {}", fields.join(", "))]
pub struct Untranslatable {
    /// The name of the format.
    pub format: &'static str,
    /// The fields of the model.
    pub fields: Vec<String>,
}

/// Collects losses while something is written.
#[derive(Debug, Default)]
pub(super) struct Losses(Vec<Loss>);

impl Losses {
    pub(super) fn add(&mut self, fate: Fate, field: impl Into<String>) {
        self.0.push(Loss { field: field.into(), fate });
    }

    pub(super) fn dropped_if(&mut self, is_there: bool, field: &str) {
        if is_there {
            self.add(Fate::Dropped, field);
        }
    }

    /// What was lost, unless something must not be.
    pub(super) fn checked(self, format: &'static str) -> Result<Vec<Loss>, Untranslatable> {
        let refused = self.0.iter().filter(|loss| loss.fate == Fate::Refused);
        let fields: Vec<_> = refused.map(|loss| loss.field.clone()).collect();
        if fields.is_empty() { Ok(self.0) } else { Err(Untranslatable { format, fields }) }
    }

    pub(super) fn into_inner(self) -> Vec<Loss> {
        self.0
    }
}
