use memchr::memchr2;

/// A line of an event stream.
pub(super) struct Line<'a> {
    /// The line without its end.
    pub(super) content: &'a [u8],
    /// LF, CR, CRLF, or nothing at the end of the bytes.
    pub(super) end: &'a [u8],
}

impl<'a> Line<'a> {
    /// The value, if the line is a field of that name: what follows the colon, without one leading space.
    pub(super) fn value_of(&self, name: &[u8]) -> Option<&'a [u8]> {
        match self.content.strip_prefix(name)? {
            [] => Some(b""),
            [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
            _ => None,
        }
    }
}

/// Cuts bytes into lines. Bytes that end with a line end have no empty line after it.
pub(super) fn lines(mut rest: &[u8]) -> impl Iterator<Item = Line<'_>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let end = match &rest[at..] {
            [b'\r', b'\n', ..] => 2,
            [] => 0,
            _ => 1,
        };
        let line = Line { content: &rest[..at], end: &rest[at..at + end] };
        rest = &rest[at + end..];
        Some(line)
    })
}

/// How a line ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum LineEnd {
    #[default]
    Lf,
    CrLf,
    Cr,
}

impl LineEnd {
    pub(super) const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}
