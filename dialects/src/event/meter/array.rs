//! Bodies that are one JSON array, sent element by element.
use memchr::memchr2;

use super::Mark;

/// A place in a JSON array. Its elements are told apart, not checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Array {
    place: Place,
    /// Objects and arrays that are open inside the element.
    depth: u32,
    in_string: bool,
    after_backslash: bool,
    /// What was between the last two elements, as far as there is room for it.
    separator: [u8; SEPARATOR],
    separator_len: usize,
    /// It is still being taken down.
    separator_open: bool,
}

/// Long enough for `\n,\r\n` and some white space.
const SEPARATOR: usize = 8;

/// A place in a JSON array, by what may come next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in super::super) enum Place {
    /// Before the `[`.
    #[default]
    Before,
    /// After the `[`.
    Opened,
    /// Inside an element.
    Element,
    /// After an element.
    Between,
    /// After a comma.
    Comma,
    /// After the `]`.
    Closed,
    /// It is not an array.
    Lost,
}

impl Array {
    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn separator(&self) -> &[u8] {
        &self.separator[..self.separator_len]
    }

    /// Goes behind an opening bracket.
    pub(super) fn open(&mut self) {
        self.place = Place::Opened;
    }

    /// A whole element passes.
    pub(super) fn pass_element(&mut self) {
        self.place = Place::Between;
        self.separator_open = false;
    }

    pub(super) fn step(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.place == Place::Element {
                let Some(end) = self.end_of_element(&bytes[at..]) else { break };
                self.place = Place::Between;
                self.separator_open = false;
                return (at + end, Some(Mark::Event));
            }
            let mark = self.outside(*byte);
            if self.place == Place::Lost {
                break;
            }
            at += 1;
            if mark.is_some() {
                return (at, mark);
            }
        }
        (bytes.len(), None)
    }

    /// Takes a byte outside of the elements, or the first one of an element.
    fn outside(&mut self, byte: u8) -> Option<Mark> {
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        if matches!(self.place, Place::Between | Place::Comma) && (is_blank || byte == b',') {
            self.put_separator(byte);
        }
        match (self.place, byte) {
            (Place::Closed, _) if is_blank => return Some(Mark::Other),
            (_, _) if is_blank => {}
            (Place::Before, b'[') => {
                self.place = Place::Opened;
                return Some(Mark::Other);
            }
            (Place::Opened | Place::Between, b']') => {
                self.place = Place::Closed;
                return Some(Mark::Other);
            }
            (Place::Between, b',') => self.place = Place::Comma,
            (Place::Opened | Place::Comma, first) if !matches!(first, b',' | b']' | b'}' | b':') => {
                self.place = Place::Element;
                self.depth = u32::from(matches!(first, b'{' | b'['));
                self.in_string = first == b'"';
                self.after_backslash = false;
            }
            _ => self.place = Place::Lost,
        }
        None
    }

    fn put_separator(&mut self, byte: u8) {
        if !std::mem::replace(&mut self.separator_open, true) {
            self.separator_len = 0;
        }
        if let Some(place) = self.separator.get_mut(self.separator_len) {
            *place = byte;
            self.separator_len += 1;
        }
    }

    /// Where the element ends, if it does in these bytes.
    fn end_of_element(&mut self, bytes: &[u8]) -> Option<usize> {
        let is_scalar = self.depth == 0 && !self.in_string;
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if std::mem::take(&mut self.after_backslash) {
                at += 1;
            } else if self.in_string {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                match bytes[at] {
                    b'"' => self.in_string = false,
                    _ => self.after_backslash = true,
                }
                at += 1;
                if self.depth == 0 && !self.in_string {
                    return Some(at);
                }
            } else if is_scalar {
                if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b']') {
                    return Some(at);
                }
                at += 1;
            } else {
                at += 1;
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
                if self.depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }
}
