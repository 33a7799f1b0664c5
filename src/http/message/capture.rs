//! Bodies as text for the journal.

/// How much of a body the journal keeps, in bytes.
const MAX_CAPTURED: usize = 64 * 1024;

/// Turns a body into text as it comes. Where it is cut makes no difference; what is no UTF-8 is shown lossily.
#[derive(Default)]
pub(crate) struct Capture {
    /// The beginning of a character whose end is still to come.
    begun: Vec<u8>,
    full: bool,
}

impl Capture {
    /// Adds a part of the body, up to the bound.
    pub(crate) fn add(&mut self, bytes: &[u8], text: &mut Option<String>) {
        let text = text.get_or_insert_default();
        if self.full {
            return;
        }
        let joined;
        let bytes = if self.begun.is_empty() {
            bytes
        } else {
            joined = [&*std::mem::take(&mut self.begun), bytes].concat();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.push(chunk.valid(), text);
            let invalid = chunk.invalid();
            let unfinished =
                |bytes| std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none());
            if chunks.peek().is_none() && unfinished(invalid) {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.push(REPLACEMENT, text);
            }
            if self.full {
                return;
            }
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&mut self, text: &mut Option<String>) {
        if !std::mem::take(&mut self.begun).is_empty()
            && let Some(text) = text
        {
            self.push(REPLACEMENT, text);
        }
    }

    /// Adds as many whole characters as there is room for.
    fn push(&mut self, more: &str, text: &mut String) {
        let room = MAX_CAPTURED.saturating_sub(text.len());
        let mut fits = more.len().min(room);
        while !more.is_char_boundary(fits) {
            fits -= 1;
        }
        self.full |= fits < more.len();
        text.push_str(more.get(..fits).unwrap_or_default());
    }
}

/// What stands for bytes that are no text.
const REPLACEMENT: &str = "\u{fffd}";

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(parts: &[&[u8]]) -> String {
        let (mut capture, mut text) = (Capture::default(), None);
        for part in parts {
            capture.add(part, &mut text);
        }
        capture.end(&mut text);
        text.unwrap_or_default()
    }

    #[test]
    fn cjk_01_any_cut_gives_the_text_of_the_whole() {
        let body = "a好é\u{1f600}"
            .as_bytes()
            .iter()
            .chain(b"\xe5\xa5\xff\x80z\xf0\x9f")
            .copied()
            .collect::<Vec<_>>();
        let whole = String::from_utf8_lossy(&body);
        for first in 0..=body.len() {
            for second in first..=body.len() {
                let parts = [&body[..first], &body[first..second], &body[second..]];
                assert_eq!(captured(&parts), whole, "{first} {second}");
            }
        }
        assert_eq!(captured(&body.chunks(1).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn cjk_01_the_bound_falls_between_characters() {
        for (before, character) in
            [(0, "好"), (1, "好"), (2, "好"), (1, "é"), (3, "\u{1f600}"), (1, "\u{fffd}")]
        {
            let body = format!("{}{}", "a".repeat(before), character.repeat(MAX_CAPTURED));
            let text = captured(&body.as_bytes().chunks(1000).collect::<Vec<_>>());
            assert!(
                text.len() <= MAX_CAPTURED && text.len() > MAX_CAPTURED - character.len(),
                "{}",
                text.len()
            );
            assert!(body.starts_with(&text));
        }
        let text = captured(&[&[0xff; 2 * MAX_CAPTURED], b"a"]);
        assert_eq!(text, REPLACEMENT.repeat(MAX_CAPTURED / REPLACEMENT.len()));
    }
}
