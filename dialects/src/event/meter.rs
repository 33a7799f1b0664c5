use memchr::{memchr, memchr2};

use super::Framing;

const BOM: [u8; 3] = *b"\xef\xbb\xbf";

/// Follows the framing of a streamed body without copying, and counts its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    framing: Framing,
    events: u64,
    /// Bytes since the last boundary.
    tail: u64,
    /// The first bytes of the line under way: as many as it takes to tell what line it is.
    head: [u8; HEAD],
    head_len: usize,
    /// The block under way has a line that is no comment.
    has_field: bool,
    /// The block under way has a `data` field; in NDJSON, the line under way is not blank.
    has_data: bool,
    /// The last byte so far was a CR at the end of a line, to which an LF may still belong.
    after_cr: bool,
    started: bool,
}

/// Long enough for `data:`.
const HEAD: usize = 5;

/// What has just ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mark {
    /// An event that a client is given.
    Event,
    /// Anything else after which a new event may start.
    Other,
}

impl Meter {
    /// A meter at the start of a body.
    pub fn new(framing: Framing) -> Self {
        Self { framing, ..Self::default() }
    }

    /// Takes the next bytes of the body.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (used, _) = self.step(bytes);
            bytes = &bytes[used..];
        }
    }

    /// Whole events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes since the last boundary. At the end of the body: bytes that belong to no complete event.
    pub fn unterminated_tail(&self) -> u64 {
        self.tail
    }

    /// Whether an event may start here: nothing is under way.
    pub fn at_boundary(&self) -> bool {
        self.tail == 0
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Takes bytes up to the next boundary, or all of them if there is none. `bytes` must not be empty.
    #[inline]
    pub(super) fn step(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let (used, mark) = match self.framing {
            Framing::Sse => self.step_sse(bytes),
            Framing::Ndjson => self.step_ndjson(bytes),
        };
        self.events += u64::from(mark == Some(Mark::Event));
        self.tail = if mark.is_some() { 0 } else { self.tail + used as u64 };
        (used, mark)
    }

    #[inline]
    fn step_sse(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let mut at = 0;
        if !self.started
            && let Some(skipped) = self.skip_bom(bytes)
        {
            return skipped;
        }
        if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
            at = 1;
            if self.at_boundary() {
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
            if rest[len] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
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
    fn step_ndjson(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let end = memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        self.has_data = self.has_data || !line.iter().all(u8::is_ascii_whitespace);
        match end {
            Some(_) if std::mem::take(&mut self.has_data) => (line.len() + 1, Some(Mark::Event)),
            Some(_) => (line.len() + 1, Some(Mark::Other)),
            None => (bytes.len(), None),
        }
    }
}
