//! What a toxic is told of the place where it acts.
use aconite_dialects::{BodyForm, Dialect, Operation, Shape};
use serde::{Deserialize, Serialize};

/// Which way data flows.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Direction {
    /// From server to client: the answer.
    #[default]
    Downstream,
    /// From client to server: the request.
    Upstream,
}

/// The place where a toxic acts: a connection, or one message of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Which way the data flows.
    pub direction: Direction,
    /// Whose protocol is spoken.
    pub dialect: Option<Dialect>,
    /// What the request is for.
    pub operation: Option<Operation>,
    /// The model that the request asks for.
    pub model: Option<String>,
    /// The body's form.
    pub body: BodyForm,
    /// The body's length in bytes, where the head declares it and no encoding hides it.
    pub length: Option<u64>,
    /// How many bytes of the body had passed when the toxic joined. Not 0 if it was added to a live stream.
    pub passed: u64,
    /// When the exchange began, in seconds since 1970: some failures say until when they last.
    pub date: u64,
}

impl Scope {
    /// The shape of the answer's stream.
    pub fn shape(&self) -> Shape {
        Shape::of(self.dialect, self.operation)
    }
}
