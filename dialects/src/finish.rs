//! Why responses end, in each provider's words.

use crate::{
    json::{Document, Splices, quote},
    named::named,
    parts::Part,
    provider::Provider,
};

named! {
    /// Why a response ended.
    pub enum Finish {
        /// All is said.
        Stop = "stop",
        /// The limit on tokens was reached.
        Length = "length",
        /// Tools are to be called.
        ToolCalls = "tool_calls",
        /// The provider's filter removed the rest.
        ContentFilter = "content_filter",
        /// The model declined to answer.
        Refusal = "refusal",
        /// The context of the model is full.
        Context = "context",
        /// The text was too close to one that it was trained on.
        Recitation = "recitation",
        /// The model paused, and goes on if it is sent what it said.
        Paused = "paused",
        /// The model made a call that cannot be read.
        MalformedCall = "malformed_call",
    }
}

impl Provider {
    /// Whether it tells that a response ended for this reason.
    pub fn can_finish(&self, finish: Finish) -> bool {
        self.finish_word(finish).is_some()
    }

    fn finish_word(&self, finish: Finish) -> Option<&'static str> {
        self.finish_words.iter().find(|(known, _)| *known == finish).map(|(_, word)| *word)
    }

    /// Edits that make a response, or an event, tell that it ended for this reason. Empty if it does not tell why it
    /// ended, or the provider has no word for the reason.
    pub fn finished(&self, document: &Document<'_>, finish: Finish) -> Splices {
        let Some(word) = self.finish_word(finish) else { return Splices::new() };
        let told = self.find(Part::Finish, document.root());
        if told.is_empty() {
            return (self.finish_other)(document.root(), finish);
        }
        let mut splices = Splices::new();
        for node in told {
            splices.replace(node.span(), quote(word));
        }
        splices
    }
}
