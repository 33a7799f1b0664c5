//! OpenAI's formats.

mod chat;
mod responses;

pub use chat::OPENAI_CHAT;
pub use responses::OPENAI_RESPONSES;

use super::{
    Codec, ErrorKind, FieldError, Fields, Json, Problem, StreamError, ToolChoice, Usage, Written,
    text::object,
};

/// Types of OpenAI's errors. The first for a kind is the one that is written.
const ERRORS: &[(ErrorKind, &str)] = &[
    (ErrorKind::Server, "server_error"),
    (ErrorKind::Invalid, "invalid_request_error"),
    (ErrorKind::Authentication, "authentication_error"),
    (ErrorKind::Permission, "permission_error"),
    (ErrorKind::Permission, "request_forbidden"),
    (ErrorKind::NotFound, "not_found_error"),
    (ErrorKind::TooLarge, "request_too_large"),
    (ErrorKind::RateLimit, "rate_limit_error"),
    (ErrorKind::RateLimit, "rate_limit_exceeded"),
    (ErrorKind::RateLimit, "tokens"),
    (ErrorKind::RateLimit, "requests"),
    (ErrorKind::RateLimit, "insufficient_quota"),
    (ErrorKind::Overloaded, "service_unavailable_error"),
    (ErrorKind::Timeout, "timeout_error"),
];

/// `none`, `auto`, `required`, or an object in which `name` finds the tool.
fn read_tool_choice(
    request: &Fields<'_>,
    name: impl Fn(&Fields<'_>) -> Result<Option<String>, FieldError>,
) -> Result<(ToolChoice, Option<super::Unmapped>), FieldError> {
    const WORDS: &[&str] = &["none", "auto", "required"];
    let Some(choice) = request.get("tool_choice") else { return Ok((ToolChoice::Auto, None)) };
    if let Ok(word) = choice.string() {
        let choice = match &*word {
            "none" => ToolChoice::Never,
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Any,
            got => return Err(choice.error(Problem::NotOneOf { possible: WORDS, got: got.to_owned() })),
        };
        return Ok((choice, None));
    }
    Ok(match name(&choice.object()?)? {
        Some(name) => (ToolChoice::Named(name), None),
        // A list of tools that are allowed, or a tool of the provider's own.
        None => (ToolChoice::Auto, Some(choice.unmapped())),
    })
}

/// The choice in a word, or what `named` makes of a tool's name.
fn written_tool_choice(choice: &ToolChoice, named: impl Fn(&str) -> Json) -> Json {
    match choice {
        ToolChoice::Auto => Json::of("auto"),
        ToolChoice::Never => Json::of("none"),
        ToolChoice::Any => Json::of("required"),
        ToolChoice::Named(name) => named(name),
    }
}

/// The failure in an `error` object.
fn read_error(error: &Fields<'_>) -> Result<StreamError, FieldError> {
    let said =
        |name| Ok::<_, FieldError>(error.get(name).and_then(|field| field.string().ok().map(Into::into)));
    let kind: Option<String> = said("type")?;
    let code: Option<String> = said("code")?;
    let word = kind.as_deref().or(code.as_deref()).unwrap_or_default();
    let kind = if code.as_deref() == Some("rate_limit_exceeded") {
        ErrorKind::RateLimit
    } else {
        ErrorKind::of_word(ERRORS, word)
    };
    Ok(StreamError { kind, message: said("message")?.unwrap_or_default(), code })
}
