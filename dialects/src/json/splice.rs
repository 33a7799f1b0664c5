use bytes::Bytes;

use super::scan::Span;

/// Replacements of parts of a body, to be made all at once.
#[derive(Clone, Debug, Default)]
pub struct Splices {
    parts: Vec<(Span, Vec<u8>)>,
}

impl Splices {
    /// No replacements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the bytes at `span`. An empty span inserts. Spans are those of the body before any replacement, and
    /// must not overlap: of two that do, the one that starts first is made.
    pub fn replace(&mut self, span: Span, with: impl Into<Vec<u8>>) {
        self.parts.push((span, with.into()));
    }

    /// These replacements and others of the same body.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.parts.extend(others.parts);
        self
    }

    /// Whether there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The body with all replacements made. None if that is the same body.
    pub fn apply(mut self, body: &[u8]) -> Option<Bytes> {
        self.parts.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = Vec::with_capacity(body.len());
        let mut at = 0;
        for (span, with) in &self.parts {
            if span.start < at || span.end > body.len() {
                continue;
            }
            out.extend_from_slice(&body[at..span.start]);
            out.extend_from_slice(with);
            at = span.end;
        }
        out.extend_from_slice(&body[at..]);
        (out != body).then(|| out.into())
    }
}
