//! An answer as a stream.

use super::{AnswerStart, Json, Media, Part, Signature, Stop, Usage};

/// One step of a streamed answer, in no provider's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// The stream begins.
    Start(AnswerStart),
    /// A piece of text.
    Text {
        /// Which of several answers it belongs to, from 0.
        choice: usize,
        /// The piece.
        text: String,
        /// The probabilities of its tokens, in OpenAI's form.
        logprobs: Option<Json>,
    },
    /// A piece of a thought.
    Reasoning {
        /// Which of several answers it belongs to.
        choice: usize,
        /// The piece.
        text: String,
    },
    /// The proof of the thought before it, or, if it is redacted, a thought that is not shown.
    Signature {
        /// Which of several answers it belongs to.
        choice: usize,
        /// The proof.
        seal: Signature,
    },
    /// A piece of the words by which the model declines.
    Refusal {
        /// Which of several answers it belongs to.
        choice: usize,
        /// The piece.
        text: String,
    },
    /// Something that is not text, whole.
    Media {
        /// Which of several answers it belongs to.
        choice: usize,
        /// What it is.
        media: Media,
    },
    /// A tool is called. The arguments follow.
    ToolCall {
        /// Which of several answers it belongs to.
        choice: usize,
        /// The number of the call within its answer, from 0 and without gaps.
        call: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// What the provider wants to see again when the call is sent back.
        seal: Option<Signature>,
    },
    /// A piece of the arguments of a call. Pieces of several calls may alternate.
    Arguments {
        /// Which of several answers it belongs to.
        choice: usize,
        /// The number of the call.
        call: usize,
        /// The piece of JSON.
        text: String,
    },
    /// One of the answers ends.
    Stop {
        /// Which one.
        choice: usize,
        /// Why.
        stop: Stop,
    },
    /// What was used up to now, in all: a later one replaces it.
    Usage(Usage),
    /// The provider failed, although the status was a success.
    Error(StreamError),
    /// The stream is complete: the provider said so, in the way of its format.
    Done,
}

impl Delta {
    /// Whether it brings about a token of the answer.
    pub fn is_token(&self) -> bool {
        matches!(
            self,
            Self::Text { .. } | Self::Reasoning { .. } | Self::Refusal { .. } | Self::Arguments { .. }
        )
    }

    /// A part of an answer as steps. `calls` is the number of calls before it.
    pub(super) fn of_part(choice: usize, part: &Part, calls: &mut usize) -> Vec<Self> {
        match part {
            Part::Text(text) => vec![Self::Text { choice, text: text.clone(), logprobs: None }],
            Part::Refusal(text) => vec![Self::Refusal { choice, text: text.clone() }],
            Part::Media(media) => vec![Self::Media { choice, media: media.clone() }],
            Part::Reasoning(said) => {
                let text = Self::Reasoning { choice, text: said.text.clone() };
                let text = (!said.text.is_empty()).then_some(text);
                text.into_iter()
                    .chain(said.seal.clone().map(|seal| Self::Signature { choice, seal }))
                    .collect()
            }
            Part::ToolCall(said) => {
                let call = *calls;
                *calls += 1;
                let (id, name) = (said.id.clone(), said.name.clone());
                let begun = Self::ToolCall { choice, call, id, name, seal: said.seal.clone() };
                let arguments = Self::Arguments { choice, call, text: said.arguments.clone() };
                [begun].into_iter().chain((!said.arguments.is_empty()).then_some(arguments)).collect()
            }
            // Only a request holds results.
            Part::ToolResult(_) => Vec::new(),
        }
    }
}

/// A failure that a provider reports in a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What the provider says.
    pub message: String,
    /// The provider's code for it, where it has one besides its type.
    pub code: Option<String>,
}

/// Kinds of failure that each format has a word for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The request is wrong.
    Invalid,
    /// The key is wrong.
    Authentication,
    /// The key may not do this.
    Permission,
    /// There is no such thing.
    NotFound,
    /// The request is too large.
    TooLarge,
    /// Too much was asked for in too little time, or the quota is used up.
    RateLimit,
    /// Something broke at the provider.
    Server,
    /// The provider has too much to do.
    Overloaded,
    /// The provider gave up waiting.
    Timeout,
}

impl ErrorKind {
    /// The kind of a word, by a format's list of both.
    pub(super) fn of_word(words: &[(Self, &str)], word: &str) -> Self {
        words.iter().find(|(_, known)| *known == word).map_or(Self::Server, |(kind, _)| *kind)
    }

    /// The first word for it in a format's list.
    pub(super) fn word<'w>(self, words: &[(Self, &'w str)]) -> &'w str {
        words.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}
