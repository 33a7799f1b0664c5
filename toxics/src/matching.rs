//! stub
use crate::*;
use aconite_dialects::*;
/// s
pub struct Matcher;
/// s
pub struct RequestFacts<'a> {
    /// s
    pub method: &'a str,
    /// s
    pub host: &'a str,
    /// s
    pub path: &'a str,
    /// s
    pub headers: &'a ::http::HeaderMap,
    /// s
    pub dialect: Option<Dialect>,
    /// s
    pub operation: Option<Operation>,
    /// s
    pub model: Option<&'a str>,
    /// s
    pub scene: Option<&'a str>,
    /// s
    pub test_id: Option<&'a str>,
    /// s
    pub streaming: Option<bool>,
    /// s
    pub body: Option<&'a [u8]>,
}
impl Matcher {
    /// s
    pub fn compile(_: &Match) -> Result<Self, SpecError> {
        Ok(Self)
    }
    /// s
    pub fn matches(&self, _: &RequestFacts<'_>) -> bool {
        true
    }
    /// s
    pub fn needs_body(&self) -> bool {
        false
    }
}
