//! Looks for requests that frame their body twice.
use memchr::memchr;

use super::control::Framing;

/// Watches the bytes of an HTTP/1 client for a head with both `Content-Length` and `Transfer-Encoding`, which hyper
/// reads by the second alone and does not tell of.
///
/// Only heads are looked at: the body's length, or its end, says where the next one begins. Where that cannot be told,
/// because requests came without waiting for answers or an answer came before the body was over, nothing is looked for
/// any more: a body is never taken for a head. Of a head nothing is kept but the beginning of a line that goes on in the
/// next read.
#[derive(Debug, Default)]
pub(super) struct HeadWatch {
    head: HeadScan,
    /// How many bytes have come since the head was over.
    since: u64,
    /// The last four of them, if there are so many.
    tail: [u8; 4],
    lost: bool,
}

impl HeadWatch {
    /// Takes note of what the client has sent, and says whether it is (the end of) a head with both framings.
    /// `body` is how the body of the request before is framed.
    ///
    /// A head that begins is told to `begins`.
    pub(super) fn came(&mut self, bytes: &[u8], body: Framing, begins: impl FnOnce()) -> bool {
        if self.lost {
            return false;
        }
        if self.head.is_over() {
            match body {
                Framing::Length(length) if self.since == length => self.begin(begins),
                Framing::Chunked { over: true } if self.tail == *b"\r\n\r\n" => self.begin(begins),
                Framing::Length(length) if self.since < length => {}
                Framing::Unread | Framing::Chunked { over: false } => {}
                Framing::Length(_) | Framing::Chunked { over: true } | Framing::None => self.lost = true,
            }
        }
        if self.head.is_over() {
            self.body(bytes);
            return false;
        }
        let rest = self.head.feed(bytes);
        self.body(rest);
        self.head.is_over() && self.head.is_framed_twice()
    }

    fn begin(&mut self, begins: impl FnOnce()) {
        *self = Self::default();
        begins();
    }

    fn body(&mut self, bytes: &[u8]) {
        self.since += bytes.len() as u64;
        match bytes.last_chunk() {
            Some(last) => self.tail = *last,
            None => {
                self.tail.rotate_left(bytes.len());
                let kept = self.tail.len() - bytes.len();
                self.tail.get_mut(kept..).unwrap_or_default().copy_from_slice(bytes);
            }
        }
    }
}

const LENGTH: &[u8] = b"content-length:";
const CODING: &[u8] = b"transfer-encoding:";

/// A head that is coming in.
#[derive(Debug, Default)]
struct HeadScan {
    state: State,
    /// How the line that is coming in begins, as far as it matters, and how much that is.
    line: [u8; CODING.len()],
    kept: usize,
    has_length: bool,
    has_coding: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// Empty lines may come before the request line (RFC 9112, section 2.2).
    #[default]
    Before,
    Fields,
    Over,
}

impl HeadScan {
    fn is_over(&self) -> bool {
        self.state == State::Over
    }

    fn is_framed_twice(&self) -> bool {
        self.has_length && self.has_coding
    }

    /// Takes the head's part of the bytes, and gives back what follows it.
    fn feed<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.kept == 0 {
                self.line(line);
            } else {
                self.keep(line);
                let (whole, kept) = (self.line, std::mem::take(&mut self.kept));
                self.line(whole.get(..kept).unwrap_or_default());
            }
            if self.is_over() {
                return bytes;
            }
        }
        self.keep(bytes);
        &[]
    }

    fn keep(&mut self, more: &[u8]) {
        let room = self.line.get_mut(self.kept..).unwrap_or_default();
        let count = room.len().min(more.len());
        if let (Some(room), Some(more)) = (room.get_mut(..count), more.get(..count)) {
            room.copy_from_slice(more);
            self.kept += count;
        }
    }

    /// A line, without its line feed, or its beginning.
    fn line(&mut self, line: &[u8]) {
        let is = |name: &[u8]| {
            line.get(..name.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(name))
        };
        match (self.state, line) {
            (State::Before, [] | [b'\r']) => {}
            (State::Before, _) => self.state = State::Fields,
            (_, [] | [b'\r']) => self.state = State::Over,
            (_, [b'c' | b'C', ..]) => self.has_length |= is(LENGTH),
            (_, [b't' | b'T', ..]) => self.has_coding |= is(CODING),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &[u8] =
        b"\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\ntransfer-encoding: chunked\r\n\r\n";

    /// Whether a head with both framings was seen in pieces that come one after another.
    fn seen(pieces: &[(&[u8], Framing)]) -> Vec<bool> {
        let mut watch = HeadWatch::default();
        pieces.iter().map(|(bytes, body)| watch.came(bytes, *body, || ())).collect()
    }

    #[test]
    fn both_framings_are_seen_in_either_order_and_however_they_are_cut() {
        let other: &[u8] = b"POST / HTTP/1.1\nTRANSFER-ENCODING:chunked\nX: y\nCONTENT-LENGTH:4\n\n0\r\n\r\n";
        for head in [PAIR, other] {
            assert_eq!(seen(&[(head, Framing::Unread)]), [true], "{}", head.escape_ascii());
            for at in 1..head.len() {
                let (one, two) = head.split_at(at);
                let seen = seen(&[(one, Framing::Unread), (two, Framing::Unread)]);
                assert_eq!(seen.iter().filter(|seen| **seen).count(), 1, "{} at {at}", head.escape_ascii());
            }
            let mut watch = HeadWatch::default();
            let count = head.iter().filter(|byte| watch.came(&[**byte], Framing::Unread, || ())).count();
            assert_eq!(count, 1, "byte by byte");
        }
    }

    #[test]
    fn one_framing_and_names_that_only_look_like_it_are_left_alone() {
        for fields in [
            "Content-Length: 4\r\nContent-Length: 4",
            "Transfer-Encoding: chunked\r\nX-Content-Length: 4",
            "Transfer-Encoding: chunked\r\nContent-Length-Hint: 4\r\nContent-Type: x",
            "Content-Length: 4\r\nTE: trailers\r\nTrailer: x\r\nX: transfer-encoding: chunked",
        ] {
            let head = format!("POST /content-length: HTTP/1.1\r\n{fields}\r\n\r\n");
            assert_eq!(seen(&[(head.as_bytes(), Framing::Unread)]), [false], "{fields}");
        }
    }

    #[test]
    fn a_body_is_never_taken_for_a_head() {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", PAIR.len());
        let (head, length) = (head.as_bytes(), Framing::Length(PAIR.len() as u64));
        // In the same read, in one of its own before and after the request is known, and in two.
        assert_eq!(seen(&[(&[head, PAIR].concat(), Framing::Unread)]), [false]);
        assert_eq!(seen(&[(head, Framing::Unread), (PAIR, Framing::Unread)]), [false; 2]);
        assert_eq!(seen(&[(head, Framing::Unread), (PAIR, length)]), [false; 2]);
        let (one, two) = PAIR.split_at(2);
        assert_eq!(seen(&[(head, Framing::Unread), (one, length), (two, length)]), [false; 3]);
        let chunked: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4d\r\n";
        let open = Framing::Chunked { over: false };
        assert_eq!(seen(&[(chunked, Framing::Unread), (PAIR, open)]), [false; 2]);
        // What was begun may be anything.
        let over = Framing::Chunked { over: true };
        assert_eq!(seen(&[(chunked, Framing::Unread), (b"\r\n0\r\n\r\nP", open), (PAIR, over)]), [false; 3]);
        assert_eq!(seen(&[(head, Framing::Unread), (PAIR, length), (b"P", length)]), [false; 3]);
        assert_eq!(seen(&[(head, Framing::Unread), (PAIR, Framing::None), (PAIR, length)]), [false; 3]);
    }

    #[test]
    fn the_next_head_is_looked_at_again() {
        let get: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(seen(&[(get, Framing::Unread), (PAIR, Framing::Length(0))]), [false, true]);
        let post: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab";
        let length = Framing::Length(3);
        assert_eq!(seen(&[(post, Framing::Unread), (b"c", length), (PAIR, length)]), [false, false, true]);
        let chunked: &[u8] = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (open, over) = (Framing::Chunked { over: false }, Framing::Chunked { over: true });
        let pieces = [(chunked, Framing::Unread), (b"0\r\n\r", open), (b"\n", open), (PAIR, over)];
        assert_eq!(seen(&pieces), [false, false, false, true]);
    }

    #[test]
    fn a_head_that_begins_is_told() {
        let mut watch = HeadWatch::default();
        let mut begun = 0;
        for _ in 0..3 {
            watch.came(b"GET / HTTP/1.1\r\n\r\n", Framing::Length(0), || begun += 1);
        }
        assert_eq!(begun, 2, "the first has no other before it");
    }
}
