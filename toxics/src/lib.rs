//! What a fault is, and every built-in one.
//!
//! A toxic is a pure state machine over time: it is given an item and the
//! moment at which it came, and writes into a schedule what leaves and when.
//! It never sleeps, reads no clock, sees no socket, cannot fail and cannot
//! hang. The proxy owns I/O, waiting, back-pressure and closing.
//!
//! To add a toxic: one file with a configuration type that implements
//! [`Toxic`], and one line in `catalogue.rs`. Its doc comments are the manual.
mod alias;
pub mod bytes;
mod catalogue;
mod connect;
mod dice;
mod end;
mod exchange;
pub mod host;
mod json_body;
mod lift;
mod matching;
pub mod message;
mod object;
mod pipeline;
mod position;
mod scope;
mod similar;
mod spec;
mod stream;
mod toxic;
mod wording;

pub use aconite_dialects::{
    BodyForm, SpecError,
    units::{Micros, Millis, Percent, Probability},
};
pub use alias::scenarios;
pub use catalogue::{Catalogue, Definition, Start};
pub use connect::{Address, Connect, ConnectFault};
pub use dice::Dice;
pub use end::{End, How, Side};
pub use exchange::{Decision, DeclaredLength, Ending, ExchangeFilter, Verdict};
pub use host::{HostError, HostGlob, HostPort};
pub use json_body::JsonBody;
pub use lift::{OnBytes, OnEvents};
pub use matching::{MatchResult, Matcher, RequestFacts};
pub use object::{objects, some_object};
pub use pipeline::{Pipeline, StageId};
pub use position::{At, Share, Tracker};
pub use scope::{Direction, Scope};
pub use similar::meant;
pub use spec::{BodyMatch, Budget, Match, ToxicSpec, Window};
pub use stream::{Moment, NEVER, Report, Schedule, Step, StreamFilter, Weight};
pub use toxic::{BodyFilter, DocumentFilter, Instance, Level, Toxic};
pub use wording::plain_words;
