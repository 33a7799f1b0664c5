//! Reading a request.

use crate::conversation::{
    FieldError, Fields, Format, Kind, Media, MediaKind, MediaSource, Part, Problem, Reasoning,
    ReasoningRequest, Request, Role, Sampling, Tool, ToolCall, ToolResult, Turn, Unmapped, fields::parse,
};

const ROLES: &[&str] = &["system", "user", "assistant", "tool"];

pub(super) fn request(body: &[u8]) -> Result<Request, FieldError> {
    let document = parse(body)?;
    let fields = Fields::root(&document)?;
    let mut unmapped = Vec::new();
    let mut request = Request {
        model: fields.required_string("model")?,
        // A stream, unless it is refused.
        stream: fields.flag("stream")?.unwrap_or(true),
        stream_usage: true,
        ..Request::default()
    };
    let mut calls = 0;
    for message in fields.objects("messages")? {
        let turn = turn(&message, &mut calls, &request.turns, &mut unmapped)?;
        match request.turns.last_mut() {
            Some(last) if last.role == Role::Tool && turn.role == Role::Tool => last.parts.extend(turn.parts),
            _ => request.turns.push(turn),
        }
        unmapped.extend(message.rest());
    }
    for tool in fields.objects("tools")? {
        tool.get("type");
        let Some(function) = tool.object("function")? else {
            unmapped.push(tool.unmapped());
            continue;
        };
        request.tools.push(Tool {
            name: function.required_string("name")?,
            description: function.string("description")?,
            parameters: function.get("parameters").map(|field| field.json()),
            strict: None,
        });
        unmapped.extend(function.rest().into_iter().chain(tool.rest()));
    }
    request.format = match fields.get("format") {
        None => Format::Text,
        Some(format) if format.kind() == Kind::String => match &*format.string()? {
            "json" => Format::Json,
            _ => Format::Text,
        },
        Some(schema) => Format::Schema { name: None, schema: schema.json(), strict: None },
    };
    request.reasoning = match fields.get("think") {
        None => None,
        Some(think) if think.kind() == Kind::String => Some(ReasoningRequest {
            effort: Some(think.string()?.into_owned()),
            ..ReasoningRequest::default()
        }),
        Some(think) => {
            let is_shown = think.flag()?;
            let budget = (!is_shown).then_some(0);
            Some(ReasoningRequest { effort: None, budget, is_shown: is_shown.then_some(true) })
        }
    };
    if let Some(options) = fields.object("options")? {
        read_options(&options, &mut request)?;
        unmapped.extend(options.rest());
    }
    request.unmapped = unmapped;
    request.unmapped.extend(fields.rest());
    Ok(request)
}

fn read_options(options: &Fields<'_>, request: &mut Request) -> Result<(), FieldError> {
    request.sampling = Sampling {
        temperature: options.float("temperature")?,
        top_p: options.float("top_p")?,
        top_k: options.integer("top_k", 0, u64::MAX)?,
        presence_penalty: options.float("presence_penalty")?,
        frequency_penalty: options.float("frequency_penalty")?,
        seed: options.signed("seed")?,
        ..Sampling::default()
    };
    // -1: as many as it likes.
    let limit = options.signed("num_predict")?.and_then(|limit| u64::try_from(limit).ok());
    request.max_tokens = limit.filter(|limit| *limit > 0);
    request.stop = match options.get("stop") {
        Some(stop) if stop.kind() == Kind::String => vec![stop.string()?.into_owned()],
        _ => options.strings("stop")?,
    };
    request.stop.retain(|text| !text.is_empty());
    Ok(())
}

fn turn(
    message: &Fields<'_>,
    calls: &mut usize,
    before: &[Turn],
    unmapped: &mut Vec<Unmapped>,
) -> Result<Turn, FieldError> {
    let said = message.required_string("role")?;
    let role = match said.as_str() {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => return Err(message.error("role", Problem::NotOneOf { possible: ROLES, got: said })),
    };
    let text = message.string("content")?.filter(|text| !text.is_empty()).map(Part::Text);
    if role == Role::Tool {
        let name = message.string("tool_name")?;
        let id = message.string("tool_call_id")?;
        let id = id.or_else(|| call_of(before, name.as_deref())).or_else(|| name.clone()).unwrap_or_default();
        let result = ToolResult { id, name, parts: text.into_iter().collect(), is_error: false };
        return Ok(Turn::new(role, vec![Part::ToolResult(result)]));
    }
    let thought = message.string("thinking")?.filter(|text| !text.is_empty());
    let thought = thought.map(|text| Part::Reasoning(Reasoning { text, seal: None }));
    let mut parts: Vec<_> = thought.into_iter().chain(text).collect();
    for data in message.strings("images")? {
        let source = MediaSource::Base64 { mime: "image/png".to_owned(), data };
        parts.push(Part::Media(Media { kind: MediaKind::Image, source, detail: None, name: None }));
    }
    parts.extend(tool_calls(message, "call", calls, unmapped)?.into_iter().map(Part::ToolCall));
    Ok(Turn::new(role, parts))
}

/// The last call of a tool of that name, or of any, that has no result yet.
fn call_of(turns: &[Turn], name: Option<&str>) -> Option<String> {
    let parts = || turns.iter().flat_map(|turn| &turn.parts);
    let answered = |id: &str| parts().any(|part| matches!(part, Part::ToolResult(result) if result.id == id));
    let calls = parts().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    });
    let mut open = calls.filter(|call| name.is_none_or(|name| name == call.name) && !answered(&call.id));
    open.next().map(|call| call.id.clone())
}

/// The calls of a message, in a request and in an answer. Those without an id get their number.
pub(super) fn tool_calls(
    message: &Fields<'_>,
    prefix: &str,
    count: &mut usize,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Vec<ToolCall>, FieldError> {
    let mut calls = Vec::new();
    for call in message.objects("tool_calls")? {
        let function = call.require("function")?.object()?;
        call.get("type");
        function.get("index");
        let id = call.string("id")?.unwrap_or_else(|| format!("{prefix}_{count}"));
        *count += 1;
        let arguments =
            function.get("arguments").map_or_else(|| "{}".to_owned(), |args| args.json().text().to_owned());
        calls.push(ToolCall { id, name: function.required_string("name")?, arguments, seal: None });
        unmapped.extend(call.rest().into_iter().chain(function.rest()));
    }
    Ok(calls)
}
