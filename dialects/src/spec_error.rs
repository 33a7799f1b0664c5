//! Why a specification is refused.
use thiserror::Error;

/// Why the specification of a toxic, a proxy or a breaker is refused: what is wrong, where, and what to do.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{message}")]
pub struct SpecError {
    /// The field at fault, from the specification down: `toxics[1].attributes.latency`. Empty for all of it.
    pub path: String,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    unknown_type: bool,
}

impl SpecError {
    /// A field is invalid.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), hint: None, unknown_type: false }
    }

    /// No toxic has this type.
    pub fn of_unknown_type(kind: &str, nearest: &[&str]) -> Self {
        let error = Self::new("type", format!("no toxic has the type `{kind}`"));
        Self {
            unknown_type: true,
            ..error.hint(format!("the most similar types are `{}`", nearest.join("`, `")))
        }
    }

    /// The same error with what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same error as seen from what has the specification at `place`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        let path = match &*self.path {
            "" => place.to_owned(),
            inside if inside.starts_with('[') => format!("{place}{inside}"),
            inside => format!("{place}.{inside}"),
        };
        Self { path, ..self }
    }

    /// Whether it is the type that no toxic has.
    pub fn is_unknown_type(&self) -> bool {
        self.unknown_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_grows_outwards() {
        for (path, whole) in [("", "proxies[0]"), ("name", "proxies[0].name"), ("[1].a", "proxies[0][1].a")] {
            assert_eq!(SpecError::new(path, "").within("proxies[0]").path, whole);
        }
    }
}
