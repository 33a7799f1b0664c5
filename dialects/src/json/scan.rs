use std::ops::Range;

use memchr::{memchr, memchr2};

use super::text::unquote;

/// Where in a body a value lies.
pub type Span = Range<usize>;

/// Containers may be nested this deep. Deeper bodies are [`NotJson`]: walking them would need an unbounded stack.
const MAX_DEPTH: usize = 256;

/// The type of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number, in whatever spelling.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The body is not JSON, or is nested too deep.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not JSON at byte {at}")]
pub struct NotJson {
    /// The offset of the first byte that cannot be.
    pub at: usize,
}

/// The values of members of the top-level object, found in one pass and without building anything. The last of
/// duplicate keys wins. None where there is no such member, or the body is not an object.
///
/// # Errors
/// If the body is not JSON.
pub fn members<const N: usize>(body: &[u8], names: [&str; N]) -> Result<[Option<Span>; N], NotJson> {
    let mut found = [const { None }; N];
    let (mut depth, mut wanted, mut open) = (0, None::<usize>, 0);
    let scanned = scan(body, |token| {
        match token {
            Token::Key(span) if depth == 1 => {
                let spelt = &body[span];
                wanted = if memchr(b'\\', spelt).is_none() {
                    names.iter().position(|name| spelt[1..spelt.len() - 1] == *name.as_bytes())
                } else {
                    let key = unquote(spelt);
                    names.iter().position(|name| key == *name)
                };
            }
            Token::Key(_) => {}
            Token::Scalar(_, span) => {
                if depth == 1
                    && let Some(wanted) = wanted.take()
                {
                    found[wanted] = Some(span);
                }
            }
            Token::Open(kind, at) => {
                // An array at the top has no members.
                depth += if depth == 0 && kind == Kind::Array { 2 } else { 1 };
                if depth == 2 {
                    open = at;
                }
            }
            Token::Close(end) => {
                depth -= 1;
                if depth == 1
                    && let Some(wanted) = wanted.take()
                {
                    found[wanted] = Some(open..end);
                }
            }
        }
        true
    });
    scanned.map(|()| found)
}

/// What a scan comes across, in order.
pub(super) enum Token {
    /// A member's name, with its quotes.
    Key(Span),
    Scalar(Kind, Span),
    /// A container begins here.
    Open(Kind, usize),
    /// A container has ended before here.
    Close(usize),
}

/// Walks over a whole body, or until `token` says that this is enough.
pub(super) fn scan(body: &[u8], mut token: impl FnMut(Token) -> bool) -> Result<(), NotJson> {
    if let Err(error) = std::str::from_utf8(body) {
        return Err(NotJson { at: error.valid_up_to() });
    }
    let mut open: Vec<Kind> = Vec::new();
    let mut at = skip_space(body, 0);
    loop {
        let kind = kind_at(body, at)?;
        if matches!(kind, Kind::Array | Kind::Object) {
            if open.len() == MAX_DEPTH {
                return Err(NotJson { at });
            }
            if !token(Token::Open(kind, at)) {
                return Ok(());
            }
            at = skip_space(body, at + 1);
            if body.get(at) != Some(&closer(kind)) {
                open.push(kind);
                if kind == Kind::Object {
                    at = scan_key(body, at, &mut token)?;
                }
                continue;
            }
            at += 1;
            token(Token::Close(at));
        } else {
            let end = scan_scalar(body, at, kind)?;
            if !token(Token::Scalar(kind, at..end)) {
                return Ok(());
            }
            at = end;
        }
        // A value has ended. So may any number of containers.
        loop {
            at = skip_space(body, at);
            let Some(&container) = open.last() else {
                return if at == body.len() { Ok(()) } else { Err(NotJson { at }) };
            };
            match body.get(at) {
                Some(b',') => {
                    at = skip_space(body, at + 1);
                    if container == Kind::Object {
                        at = scan_key(body, at, &mut token)?;
                    }
                    break;
                }
                Some(byte) if *byte == closer(container) => {
                    at += 1;
                    open.pop();
                    token(Token::Close(at));
                }
                _ => return Err(NotJson { at }),
            }
        }
    }
}

fn closer(container: Kind) -> u8 {
    if container == Kind::Object { b'}' } else { b']' }
}

fn kind_at(body: &[u8], at: usize) -> Result<Kind, NotJson> {
    match body.get(at) {
        Some(b'{') => Ok(Kind::Object),
        Some(b'[') => Ok(Kind::Array),
        Some(b'"') => Ok(Kind::String),
        Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
        Some(b't' | b'f') => Ok(Kind::Bool),
        Some(b'n') => Ok(Kind::Null),
        _ => Err(NotJson { at }),
    }
}

/// Scans a name and its colon, up to the value.
fn scan_key(body: &[u8], at: usize, token: &mut impl FnMut(Token) -> bool) -> Result<usize, NotJson> {
    let end = scan_string(body, at)?;
    token(Token::Key(at..end));
    let colon = skip_space(body, end);
    if body.get(colon) != Some(&b':') {
        return Err(NotJson { at: colon });
    }
    Ok(skip_space(body, colon + 1))
}

fn scan_scalar(body: &[u8], at: usize, kind: Kind) -> Result<usize, NotJson> {
    let word = |word: &[u8]| {
        if body[at..].starts_with(word) { Ok(at + word.len()) } else { Err(NotJson { at }) }
    };
    match kind {
        Kind::String => scan_string(body, at),
        Kind::Number => scan_number(body, at),
        Kind::Null => word(b"null"),
        _ if body[at] == b't' => word(b"true"),
        _ => word(b"false"),
    }
}

fn scan_string(body: &[u8], start: usize) -> Result<usize, NotJson> {
    if body.get(start) != Some(&b'"') {
        return Err(NotJson { at: start });
    }
    let mut at = start + 1;
    loop {
        let rest = body.get(at..).unwrap_or_default();
        let plain = &rest[..memchr2(b'"', b'\\', rest).unwrap_or(rest.len())];
        // Without a branch a byte, which compilers turn into wide instructions.
        if plain.iter().fold(false, |control, byte| control | (*byte < 0x20)) {
            let control = plain.iter().take_while(|byte| **byte >= 0x20).count();
            return Err(NotJson { at: at + control });
        }
        at += plain.len();
        match body.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match body.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                Some(b'u')
                    if body.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
                {
                    at += 6
                }
                _ => return Err(NotJson { at }),
            },
            _ => return Err(NotJson { at }),
        }
    }
}

fn scan_number(body: &[u8], start: usize) -> Result<usize, NotJson> {
    let digits = |from: usize| {
        let len = body[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if len == 0 { Err(NotJson { at: from }) } else { Ok(from + len) }
    };
    let first = if body[start] == b'-' { start + 1 } else { start };
    let mut at = if body.get(first) == Some(&b'0') { first + 1 } else { digits(first)? };
    if body.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = body.get(at) {
        let sign = usize::from(matches!(body.get(at + 1), Some(b'+' | b'-')));
        at = digits(at + 1 + sign)?;
    }
    Ok(at)
}

fn skip_space(body: &[u8], from: usize) -> usize {
    from + body[from..].iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}
