//! Bodies whose events are made of lines.
use memchr::{memchr, memchr2};

use super::{super::line::LineEnd, Mark};

const BOM: [u8; 3] = *b"\xef\xbb\xbf";

/// A place in a body that is made of lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// The first bytes of the line under way: as many as it takes to tell what line it is.
    head: [u8; HEAD],
    head_len: usize,
    /// The block under way has a line that is not a comment.
    has_field: bool,
    /// The block under way has a `data` field; in NDJSON, the line under way is not blank.
    has_data: bool,
    /// The last byte so far was a CR at the end of a line, to which an LF may still belong.
    after_cr: bool,
    /// The line before that CR was not blank.
    after_text: bool,
    started: bool,
    end: LineEnd,
}

/// Long enough for `data:`.
const HEAD: usize = 5;

impl Lines {
    /// How the last line ended that was not blank.
    pub(super) fn end(&self) -> LineEnd {
        self.end
    }

    /// A whole event passes.
    pub(super) fn pass_event(&mut self) {
        *self = Self { started: true, end: self.end, ..Self::default() };
    }

    #[inline]
    pub(super) fn step_sse(&mut self, bytes: &[u8], at_boundary: bool) -> (usize, Option<Mark>) {
        let mut at = 0;
        if !self.started
            && let Some(skipped) = self.skip_bom(bytes)
        {
            return skipped;
        }
        if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
            at = 1;
            if self.after_text {
                self.end = LineEnd::CrLf;
            }
            if at_boundary {
                return (at, Some(Mark::Other));
            }
        }
        loop {
            let rest = &bytes[at..];
            let Some(len) = memchr2(b'\n', b'\r', rest) else {
                self.extend_head(rest);
                return (bytes.len(), None);
            };
            at += len + 1;
            let mut end = LineEnd::Lf;
            if rest[len] == b'\r' {
                end = LineEnd::Cr;
                match bytes.get(at) {
                    Some(b'\n') => {
                        at += 1;
                        end = LineEnd::CrLf;
                    }
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.after_text = len > 0 || self.head_len > 0;
            if self.after_text {
                self.end = end;
            }
            let mark = if self.head_len == 0 {
                self.end_line(&rest[..len])
            } else {
                self.extend_head(&rest[..len]);
                let (head, len) = (self.head, std::mem::take(&mut self.head_len));
                self.end_line(&head[..len])
            };
            if mark.is_some() {
                return (at, mark);
            }
            if at == bytes.len() {
                return (at, None);
            }
        }
    }

    /// Ends a line, of which at least the first bytes are given.
    #[inline]
    fn end_line(&mut self, line: &[u8]) -> Option<Mark> {
        match line {
            [] => {
                self.has_field = false;
                Some(if std::mem::take(&mut self.has_data) { Mark::Event } else { Mark::Other })
            }
            [b':', ..] => (!self.has_field).then_some(Mark::Other),
            _ => {
                self.has_field = true;
                self.has_data |=
                    matches!(line, [b'd', b'a', b't', b'a'] | [b'd', b'a', b't', b'a', b':', ..]);
                None
            }
        }
    }

    fn extend_head(&mut self, bytes: &[u8]) {
        let more = bytes.len().min(HEAD - self.head_len);
        self.head[self.head_len..self.head_len + more].copy_from_slice(&bytes[..more]);
        self.head_len += more;
    }

    /// Consumes the byte order mark at the start of a body, whole or in part.
    #[cold]
    fn skip_bom(&mut self, bytes: &[u8]) -> Option<(usize, Option<Mark>)> {
        // Until the mark is complete or refuted its bytes are the head of the first line.
        let more = bytes.len().min(BOM.len() - self.head_len);
        if bytes[..more] == BOM[self.head_len..self.head_len + more] {
            self.extend_head(&bytes[..more]);
            if self.head_len < BOM.len() {
                return Some((more, None));
            }
            self.started = true;
            self.head_len = 0;
            return Some((more, Some(Mark::Other)));
        }
        self.started = true;
        None
    }

    #[inline]
    pub(super) fn step_ndjson(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let end = memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        self.has_data = self.has_data || !line.iter().all(u8::is_ascii_whitespace);
        let after_cr = line.last().map_or(self.after_cr, |last| *last == b'\r');
        self.after_cr = end.is_none() && after_cr;
        match end {
            Some(_) if std::mem::take(&mut self.has_data) => {
                self.end = if after_cr { LineEnd::CrLf } else { LineEnd::Lf };
                (line.len() + 1, Some(Mark::Event))
            }
            Some(_) => (line.len() + 1, Some(Mark::Other)),
            None => (bytes.len(), None),
        }
    }
}
