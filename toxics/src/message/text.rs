//! Rewriting what a response says to the user: whole, or piece by piece in a stream.
use aconite_dialects::{
    Event, Part, Provider, Shape,
    json::{self, Document, Node, Splices},
};

/// What the text becomes.
#[derive(Clone, Debug)]
pub(super) enum Rewrite {
    /// The first tokens of it: pieces of a stream, words of a document.
    First(u64),
    /// Another text. In a stream it comes whole in the first piece.
    Other(String),
    /// The first token again and again.
    Loop,
    /// The text with something before it.
    After(&'static str),
}

/// A rewrite under way.
pub(super) struct Rewriter {
    rewrite: Rewrite,
    provider: &'static Provider,
    shape: Shape,
    /// Pieces so far.
    pieces: u64,
    first: String,
    /// What was said in their place.
    said: String,
}

/// Edits of the text of a document or an event.
pub(super) struct Texts {
    pub(super) splices: Splices,
    /// Whether it is an event of which nothing is left that a client needs: it tells no more than the text, and has no
    /// number that would be missing.
    pub(super) is_needless: bool,
}

impl Rewriter {
    pub(super) fn new(rewrite: Rewrite, provider: &'static Provider, shape: Shape) -> Self {
        Self { rewrite, provider, shape, pieces: 0, first: String::new(), said: String::new() }
    }

    /// What becomes of the text in a document, or in an event if that is given.
    pub(super) fn rewrite(&mut self, document: &Document<'_>, event: Option<&Event>) -> Texts {
        let texts = self.provider.find(Part::Text, document.root());
        let (mut splices, mut is_silent) = (Splices::new(), !texts.is_empty());
        let is_piece = event.map(|event| self.shape.is_content(event));
        for node in texts {
            let Some(old) = node.text() else { continue };
            let new = match is_piece {
                None => self.whole(&old),
                Some(true) => self.piece(&old),
                // It repeats what the pieces were.
                Some(false) => self.said.clone(),
            };
            is_silent &= new.is_empty();
            if new != old {
                splices.replace(Node::span(node), json::quote(&new));
            }
        }
        let tells_the_end = || !self.provider.find(Part::Finish, document.root()).is_empty();
        let is_needless = event.is_some() && is_silent && !self.shape.is_numbered() && !tells_the_end();
        Texts { splices, is_needless }
    }

    fn piece(&mut self, old: &str) -> String {
        let is_first = self.pieces == 0;
        if is_first {
            old.clone_into(&mut self.first);
        }
        let new = match &self.rewrite {
            Rewrite::First(count) if self.pieces < *count => old.to_owned(),
            Rewrite::Other(text) if is_first => text.clone(),
            Rewrite::First(_) | Rewrite::Other(_) => String::new(),
            Rewrite::Loop => self.first.clone(),
            Rewrite::After(before) if is_first => format!("{before}{old}"),
            Rewrite::After(_) => old.to_owned(),
        };
        self.pieces += 1;
        self.said.push_str(&new);
        new
    }

    fn whole(&self, old: &str) -> String {
        match &self.rewrite {
            Rewrite::First(count) => {
                let ends = words(old).take(usize::try_from(*count).unwrap_or(usize::MAX));
                ends.last().and_then(|end| old.get(..end)).unwrap_or_default().to_owned()
            }
            Rewrite::Other(text) => text.clone(),
            Rewrite::Loop => {
                let first = words(old).next().and_then(|end| old.get(..end)).unwrap_or_default();
                vec![first; words(old).count()].join(" ")
            }
            Rewrite::After(before) => format!("{before}{old}"),
        }
    }
}

/// Where each word ends, in bytes: at white space, and behind each character of a script that has none between words.
fn words(text: &str) -> impl Iterator<Item = usize> + '_ {
    let alone = |character: char| character >= '\u{2e80}';
    text.char_indices().filter_map(move |(at, character)| {
        let end = at + character.len_utf8();
        let next = text.get(end..).and_then(|rest| rest.chars().next());
        let ends = next.is_none_or(|next| next.is_whitespace() || alone(next)) || alone(character);
        (ends && !character.is_whitespace()).then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_a_reader_would_say() {
        let words = |text: &'static str| words(text).map(move |end| &text[..end]).collect::<Vec<_>>();
        assert_eq!(words("I  ask\nagain. "), ["I", "I  ask", "I  ask\nagain."]);
        assert_eq!(words("你好 ok"), ["你", "你好", "你好 ok"]);
        assert_eq!(words("ok你"), ["ok", "ok你"]);
        assert!(words("  ").is_empty());
        assert!(words("").is_empty());
    }
}
