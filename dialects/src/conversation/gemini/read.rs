//! Reading a request.

use serde_json::Value;

use super::seal;
use crate::conversation::{
    FieldError, Fields, Format, Json, Media, MediaKind, MediaSource, Part, Path, Problem, Reasoning,
    ReasoningRequest, Request, Role, Sampling, Tool, ToolCall, ToolChoice, ToolResult, Turn, Unmapped,
    fields::parse,
};

pub(super) fn request(path: &str, body: &[u8]) -> Result<Request, FieldError> {
    let document = parse(body)?;
    let fields = Fields::google(&document)?;
    let mut unmapped = Vec::new();
    let missing = || FieldError { path: Path::default().name("model"), problem: Problem::Missing };
    // Vertex and some gateways have it in the body.
    let model = crate::dialect::model_in_path(path).map(|model| model.into_owned());
    let model = model.or(fields.string("model")?).ok_or_else(missing)?;
    fields.require("contents")?;
    let contents = fields.objects("contents")?;
    if contents.is_empty() {
        return Err(fields.error("contents", Problem::Empty));
    }
    let mut request = Request {
        model,
        stream: path.contains(":streamGenerateContent"),
        stream_usage: true,
        ..Request::default()
    };
    if let Some(system) = fields.object("systemInstruction")? {
        system.get("role");
        let parts = parts(&system, &mut Ids::default(), &mut unmapped)?;
        request.turns.extend((!parts.is_empty()).then(|| Turn::new(Role::System, parts)));
    }
    let mut ids = Ids::default();
    for content in &contents {
        read_content(content, &mut ids, &mut request.turns, &mut unmapped)?;
    }
    for tool in fields.objects("tools")? {
        for function in tool.objects("functionDeclarations")? {
            request.tools.push(read_tool(&function)?);
            unmapped.extend(function.rest());
        }
        unmapped.extend(tool.rest());
    }
    if let Some(config) = fields.object("toolConfig")? {
        request.tool_choice = tool_choice(&config, &mut unmapped)?;
        unmapped.extend(config.rest());
    }
    if let Some(config) = fields.object("generationConfig")? {
        generation(&config, &mut request, &mut unmapped)?;
        unmapped.extend(config.rest());
    }
    request.unmapped = unmapped;
    request.unmapped.extend(fields.rest());
    Ok(request)
}

/// Ids for calls that have none: their number within the conversation. Results refer to calls by name, in order.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// What every id begins with.
    prefix: String,
    count: usize,
    /// Calls without a result so far: name and id.
    open: Vec<(String, String)>,
}

impl Ids {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..Self::default() }
    }

    fn call(&mut self, given: Option<String>, name: &str) -> String {
        let prefix = if self.prefix.is_empty() { "call" } else { &self.prefix };
        let id = given.unwrap_or_else(|| format!("{prefix}_{}", self.count));
        self.count += 1;
        self.open.push((name.to_owned(), id.clone()));
        id
    }

    fn result(&mut self, given: Option<String>, name: &str) -> String {
        let is_meant = |(of, id): &(String, String)| given.as_ref().map_or(of == name, |given| given == id);
        let open = self.open.iter().position(is_meant).map(|at| self.open.remove(at).1);
        given.or(open).unwrap_or_else(|| name.to_owned())
    }
}

/// Results of tools are a turn of their own.
fn read_content(
    content: &Fields<'_>,
    ids: &mut Ids,
    turns: &mut Vec<Turn>,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(), FieldError> {
    let role = match content.string("role")?.as_deref() {
        None | Some("user" | "function" | "") => Role::User,
        Some("model") => Role::Assistant,
        Some(got) => {
            let problem = Problem::NotOneOf { possible: &["user", "model"], got: got.to_owned() };
            return Err(content.error("role", problem));
        }
    };
    let begun = turns.len();
    for part in parts(content, ids, unmapped)? {
        let role = if matches!(part, Part::ToolResult(_)) { Role::Tool } else { role };
        match turns.get_mut(begun..).and_then(<[Turn]>::last_mut) {
            Some(turn) if turn.role == role => turn.parts.push(part),
            _ => turns.push(Turn::new(role, vec![part])),
        }
    }
    unmapped.extend(content.rest());
    Ok(())
}

/// The parts of a content, in a request and in an answer.
pub(super) fn parts(
    content: &Fields<'_>,
    ids: &mut Ids,
    unmapped: &mut Vec<Unmapped>,
) -> Result<Vec<Part>, FieldError> {
    let mut parts = Vec::new();
    for item in content.list("parts")? {
        let fields = item.object()?;
        match part(&fields, ids)? {
            Some(part) => {
                parts.push(part);
                unmapped.extend(fields.rest());
            }
            None => unmapped.push(item.unmapped()),
        }
    }
    Ok(parts)
}

fn part(fields: &Fields<'_>, ids: &mut Ids) -> Result<Option<Part>, FieldError> {
    if let Some(text) = fields.string("text")? {
        if fields.flag("thought")? == Some(true) {
            let seal = fields.string("thoughtSignature")?.map(seal);
            return Ok(Some(Part::Reasoning(Reasoning { text, seal })));
        }
        return Ok(Some(Part::Text(text)));
    }
    if let Some(call) = fields.object("functionCall")? {
        let name = call.required_string("name")?;
        let id = ids.call(call.string("id")?, &name);
        let arguments =
            call.get("args").map_or_else(|| "{}".to_owned(), |args| args.json().text().to_owned());
        let seal = fields.string("thoughtSignature")?.map(seal);
        return Ok(Some(Part::ToolCall(ToolCall { id, name, arguments, seal })));
    }
    if let Some(result) = fields.object("functionResponse")? {
        let name = result.required_string("name")?;
        let id = ids.result(result.string("id")?, &name);
        let (text, is_error) = output(&result)?;
        let parts = (!text.is_empty()).then_some(Part::Text(text)).into_iter().collect();
        return Ok(Some(Part::ToolResult(ToolResult { id, name: Some(name), parts, is_error })));
    }
    let medium = |mime: &str, source| {
        Some(Part::Media(Media { kind: MediaKind::of_mime(mime), source, detail: None, name: None }))
    };
    if let Some(data) = fields.object("inlineData")? {
        let mime = data.required_string("mimeType")?;
        let source = MediaSource::Base64 { mime: mime.clone(), data: data.required_string("data")? };
        return Ok(medium(&mime, source));
    }
    if let Some(file) = fields.object("fileData")? {
        let mime = file.string("mimeType")?;
        let uri = file.required_string("fileUri")?;
        let kind = mime.clone().unwrap_or_default();
        let is_own =
            uri.starts_with("https://generativelanguage.googleapis.com/") || uri.starts_with("gs://");
        let source = if is_own { MediaSource::File(uri) } else { MediaSource::Url { url: uri, mime } };
        return Ok(medium(&kind, source));
    }
    Ok(None)
}

/// What a function answered: under `output` or `error`, or else the whole object.
fn output(result: &Fields<'_>) -> Result<(String, bool), FieldError> {
    let Some(response) = result.get("response") else { return Ok((String::new(), false)) };
    let members = response.object()?;
    for (name, is_error) in [("output", false), ("result", false), ("error", true)] {
        if let Some(said) = members.get(name)
            && members.rest().is_empty()
        {
            let text = said.string().map_or_else(|_| said.json().text().to_owned(), |text| text.into_owned());
            return Ok((text, is_error));
        }
    }
    Ok((response.json().text().to_owned(), false))
}

fn read_tool(function: &Fields<'_>) -> Result<Tool, FieldError> {
    let schema = function.get("parametersJsonSchema").map(|schema| schema.json());
    let own = function.get("parameters").map(|schema| json_schema(&schema.json()));
    Ok(Tool {
        name: function.required_string("name")?,
        description: function.string("description")?,
        parameters: schema.or(own),
        strict: None,
    })
}

/// Google's own schemas write types in capitals.
fn json_schema(schema: &Json) -> Json {
    let mut value = schema.value();
    lower_types(&mut value);
    Json::of(&value)
}

fn lower_types(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(kind) if name == "type" => *kind = kind.to_lowercase(),
                    member => lower_types(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(lower_types),
        _ => {}
    }
}

fn tool_choice(config: &Fields<'_>, unmapped: &mut Vec<Unmapped>) -> Result<ToolChoice, FieldError> {
    let Some(calling) = config.object("functionCallingConfig")? else { return Ok(ToolChoice::Auto) };
    let mode = calling.string("mode")?.unwrap_or_default();
    let mut allowed = calling.strings("allowedFunctionNames")?;
    let choice = match (mode.as_str(), allowed.len()) {
        ("NONE", _) => ToolChoice::Never,
        ("ANY", 1) => ToolChoice::Named(allowed.remove(0)),
        ("ANY", _) => ToolChoice::Any,
        _ => ToolChoice::Auto,
    };
    if allowed.len() > 1 {
        unmapped.extend(calling.get("allowedFunctionNames").map(|field| field.unmapped()));
    }
    unmapped.extend(calling.rest());
    Ok(choice)
}

fn generation(
    config: &Fields<'_>,
    request: &mut Request,
    unmapped: &mut Vec<Unmapped>,
) -> Result<(), FieldError> {
    request.sampling = Sampling {
        temperature: config.float("temperature")?,
        top_p: config.float("topP")?,
        // A number with a fraction, by the protocol.
        top_k: config.float("topK")?.map(|top_k| top_k.max(0.0) as u64),
        presence_penalty: config.float("presencePenalty")?,
        frequency_penalty: config.float("frequencyPenalty")?,
        seed: config.signed("seed")?,
        choices: config.integer("candidateCount", 1, u64::MAX)?,
        logprobs: config.flag("responseLogprobs")?,
        top_logprobs: config.integer("logprobs", 0, u64::MAX)?,
    };
    request.max_tokens = config.integer("maxOutputTokens", 1, u64::MAX)?;
    request.stop = config.strings("stopSequences")?.into_iter().filter(|text| !text.is_empty()).collect();
    let schema = config.get("responseJsonSchema").map(|schema| schema.json());
    let own = config.get("responseSchema").map(|schema| json_schema(&schema.json()));
    request.format = match (schema.or(own), config.string("responseMimeType")?.as_deref()) {
        (Some(schema), _) => Format::Schema { name: None, schema, strict: None },
        (None, Some("application/json")) => Format::Json,
        (None, _) => Format::Text,
    };
    if let Some(thinking) = config.object("thinkingConfig")? {
        request.reasoning = Some(ReasoningRequest {
            effort: thinking.string("thinkingLevel")?.map(|level| level.to_lowercase()),
            // -1: as the model likes.
            budget: thinking.signed("thinkingBudget")?.and_then(|budget| u64::try_from(budget).ok()),
            is_shown: thinking.flag("includeThoughts")?,
        });
        unmapped.extend(thinking.rest());
    }
    Ok(())
}
