//! Whether a request is one that a toxic strikes.
use std::net::IpAddr;

use aconite_dialects::{Dialect, Operation, json};
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use wildmatch::{WildMatch, WildMatchPattern};

use crate::{BodyMatch, HostGlob, JsonBody, Match, SpecError};

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// Its method.
    pub method: &'a str,
    /// The host that it is for, with or without port.
    pub host: &'a str,
    /// Its path as it came, with or without query.
    pub path: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Whose protocol is spoken.
    pub dialect: Option<Dialect>,
    /// What it is for.
    pub operation: Option<Operation>,
    /// The model that it asks for.
    pub model: Option<&'a str>,
    /// The caller's scene.
    pub scene: Option<&'a str>,
    /// The caller's test.
    pub test_id: Option<&'a str>,
    /// Whether it asks for a streamed response. None if that is not known: unless `unread` says why, it then counts as
    /// one that does not.
    pub streaming: Option<bool>,
    /// Its body, if it was read.
    pub body: Option<&'a JsonBody>,
    /// Why its body was not read, if it has one and was not: then conditions on what only the body tells are undecided.
    pub unread: Option<&'static str>,
}

/// Whether a request meets all conditions of a [`Match`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MatchResult {
    /// It does.
    Matches,
    /// It does not.
    Differs,
    /// Only the body can tell, and it could not be read, for this reason.
    Unknown(&'static str),
}

/// The conditions of a [`Match`], ready to be asked about requests.
///
/// Globs know `*`, any text, and `?`, any character; `*` crosses slashes and dots. In `scene` and `test_id` a `?` is a
/// question mark. Text that is no UTF-8 is compared with replacement characters in its place.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    client: Option<IpNet>,
    method: Option<String>,
    host: Option<HostGlob>,
    path: Option<WildMatch>,
    headers: Vec<(HeaderName, WildMatch)>,
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    model: Option<WildMatch>,
    scene: Option<Name>,
    test_id: Option<Name>,
    streaming: Option<bool>,
    body: Vec<BodyCondition>,
}

/// A glob in which a question mark is one.
type Name = WildMatchPattern<'*', '\0'>;

impl Matcher {
    /// Reads conditions.
    ///
    /// # Errors
    /// If a header's name, a JSONPath or a regular expression cannot be read.
    pub fn compile(spec: &Match) -> Result<Self, SpecError> {
        check_globs(spec)?;
        let glob = |pattern: &Option<String>| pattern.as_deref().map(WildMatch::new);
        let header = |(name, pattern): (&String, &String)| {
            let parsed = name
                .parse::<HeaderName>()
                .map_err(|_| refused("header", format!("`{name}` is not a name of a header field")))?;
            Ok((parsed, WildMatch::new(pattern)))
        };
        Ok(Self {
            client: spec.client.as_deref().map(network).transpose()?,
            method: spec.method.clone(),
            host: spec.host.as_deref().map(HostGlob::new),
            path: spec.path.as_deref().map(|path| WildMatch::new(&decode_path(path))),
            headers: spec.header.iter().map(header).collect::<Result<_, _>>()?,
            dialect: spec.dialect,
            operation: spec.operation,
            model: glob(&spec.model),
            scene: spec.scene.as_deref().map(Name::new),
            test_id: spec.test_id.as_deref().map(Name::new),
            streaming: spec.streaming,
            body: spec
                .body
                .iter()
                .enumerate()
                .map(|(place, spec)| BodyCondition::compile(place, spec))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether the condition on the client's address is met. The other methods do not look at it.
    pub fn admits(&self, client: IpAddr) -> bool {
        self.client.is_none_or(|network| network.contains(&client.to_canonical()))
    }

    /// Whether only the request's body can tell if the conditions hold: all that its head decides do.
    pub fn needs_body(&self, request: &RequestFacts<'_>) -> bool {
        let undecided = (self.model.is_some() && request.model.is_none())
            || (self.streaming.is_some() && request.streaming.is_none())
            || !self.body.is_empty();
        undecided && self.matches_head(request)
    }

    /// Whether all conditions hold, those on the body too.
    pub fn matches(&self, request: &RequestFacts<'_>) -> MatchResult {
        if !self.matches_head(request) {
            return MatchResult::Differs;
        }
        let unread = request.unread.map_or(MatchResult::Differs, MatchResult::Unknown);
        let yes = |matches| if matches { MatchResult::Matches } else { MatchResult::Differs };
        let model = match (&self.model, request.model) {
            (None, _) => MatchResult::Matches,
            (Some(glob), Some(model)) => yes(glob.matches(model)),
            (Some(_), None) => unread,
        };
        let streaming = match (self.streaming, request.streaming) {
            (None, _) => MatchResult::Matches,
            (Some(_), None) if request.unread.is_some() => unread,
            (Some(wanted), streaming) => yes(streaming.unwrap_or(false) == wanted),
        };
        let both = [model, streaming];
        if both.contains(&MatchResult::Differs) {
            return MatchResult::Differs;
        }
        let first = both.into_iter().find(|outcome| *outcome != MatchResult::Matches);
        first.unwrap_or_else(|| self.matches_body(request, unread))
    }

    fn matches_head(&self, request: &RequestFacts<'_>) -> bool {
        let name = |pattern: &Option<Name>, name: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| name.is_some_and(|name| pattern.matches(name)))
        };
        self.method.as_ref().is_none_or(|method| method.eq_ignore_ascii_case(request.method))
            && self.host.as_ref().is_none_or(|glob| glob.matches(request.host))
            && self.path.as_ref().is_none_or(|glob| glob.matches(&decode_path(without_query(request.path))))
            && self.headers.iter().all(|(name, glob)| {
                let values = request.headers.get_all(name);
                values.iter().any(|value| glob.matches(&String::from_utf8_lossy(value.as_bytes())))
            })
            && self.dialect.is_none_or(|dialect| request.dialect == Some(dialect))
            && self.operation.is_none_or(|operation| request.operation == Some(operation))
            && name(&self.scene, request.scene)
            && name(&self.test_id, request.test_id)
    }

    fn matches_body(&self, request: &RequestFacts<'_>, unread: MatchResult) -> MatchResult {
        if self.body.is_empty() {
            return MatchResult::Matches;
        }
        let Some(body) = request.body else { return unread };
        let value = match body.value() {
            Ok(value) => value,
            Err(reason) => return MatchResult::Unknown(reason),
        };
        let mut result = MatchResult::Matches;
        for condition in &self.body {
            match condition.holds(value) {
                Ok(true) => {}
                Ok(false) => return MatchResult::Differs,
                Err(reason) => result = MatchResult::Unknown(reason),
            }
        }
        result
    }
}

fn network(text: &str) -> Result<IpNet, SpecError> {
    let parsed = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    parsed.map_err(|_| {
        refused("client", format!("expected an IP address or a network like `10.0.0.0/8`, found `{text}`"))
    })
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

fn decode_path(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// A condition on a JSON body.
#[derive(Clone, Debug)]
struct BodyCondition {
    path: json::Path,
    equals: Option<Value>,
    matches: Option<Regex>,
}

/// The most that a compiled regular expression may take, in bytes.
const MAX_REGEX: usize = 1024 * 1024;

impl BodyCondition {
    fn compile(place: usize, spec: &BodyMatch) -> Result<Self, SpecError> {
        let at = |field: &str| format!("body[{place}].{field}");
        let path = json::Path::parse(&spec.path).map_err(|reason| refused(&at("path"), reason))?;
        let regex = |pattern: &String| {
            RegexBuilder::new(pattern)
                .size_limit(MAX_REGEX)
                .build()
                .map_err(|error| refused(&at("matches"), error.to_string()))
        };
        Ok(Self { path, equals: spec.equals.clone(), matches: spec.matches.as_ref().map(regex).transpose()? })
    }

    /// Whether it holds for one of the values that the path selects. With neither value nor pattern it is enough that
    /// there is one.
    ///
    /// # Errors
    /// If the path takes too many steps on this body.
    fn holds(&self, body: &Value) -> Result<bool, &'static str> {
        let selected = self.path.select(body).map_err(|_| "request_too_complex")?;
        Ok(selected.into_iter().any(|value| {
            self.equals.as_ref().is_none_or(|wanted| json::same(value, wanted))
                && self.matches.as_ref().is_none_or(|regex| match value {
                    Value::String(text) => regex.is_match(text),
                    other => regex.is_match(&other.to_string()),
                })
        }))
    }
}

/// Refuses patterns that can be read and never match what their author means.
fn check_globs(spec: &Match) -> Result<(), SpecError> {
    for (field, pattern) in [("host", &spec.host), ("path", &spec.path), ("model", &spec.model)] {
        let Some(pattern) = pattern.as_deref().filter(|pattern| is_regex(pattern)) else { continue };
        let reason = format!(
            "`{pattern}` is a regular expression; write a glob, in which `*` is any text and `?` one character"
        );
        return Err(refused(field, reason));
    }
    if let Some(path) = spec.path.as_deref().filter(|path| !path.starts_with(['/', '*', '?', '%'])) {
        return Err(refused(
            "path",
            format!("`{path}` never matches: a path begins with `/`; write `/{path}`"),
        ));
    }
    if let Some(host) = spec.host.as_deref().filter(|host| host.contains('/')) {
        let bare = host.split_once("://").map_or(host, |(_, rest)| rest);
        let bare = bare.split('/').next().unwrap_or_default();
        return Err(refused(
            "host",
            format!("`{host}` never matches: a host has no scheme and no path; write `{bare}`"),
        ));
    }
    Ok(())
}

/// Whether a pattern is written as a regular expression. `.*` alone may be meant as a glob: `gpt-4.*`.
fn is_regex(pattern: &str) -> bool {
    let ends = pattern.ends_with('$') && pattern.contains(['*', '+', '\\', ')', ']']);
    pattern.starts_with('^')
        || ends
        || ["\\.", "\\d", "\\w", "\\/", "(?", "(.*", ".+"].iter().any(|sign| pattern.contains(sign))
}

fn refused(field: &str, reason: String) -> SpecError {
    SpecError::new(format!("match.{field}"), reason)
}

#[cfg(test)]
mod tests;
