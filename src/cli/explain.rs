//! `aconite explain`: the manual of toxics, positions and causes, from their own definitions.
use std::{io::Write, process::ExitCode};

use aconite_api::client::ToxicType;
use aconite_dialects::{Cause, Dialect, FailureContext, failure::render};
use aconite_toxics::Catalogue;
use serde_json::Value;

use super::{CommandError, CommandResult};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A toxic, `positions`, `causes`, or a cause; without it, the list of toxics
    topic: Option<String>,
}

/// Prints the list of toxics, or one page of the manual.
pub(super) fn run(args: Args) -> CommandResult {
    let catalogue = Catalogue::default();
    let mut out = std::io::stdout().lock();
    let Some(topic) = args.topic else {
        let types: Vec<_> = catalogue.definitions().iter().map(ToxicType::new).collect();
        if args.json {
            writeln!(out, "{}", serde_json::json!({"toxics": types}))?;
        } else {
            for each in types {
                writeln!(out, "{:<14} {:<9} {}", each.kind, each.level, each.summary)?;
            }
            let others = "`aconite explain TOXIC` has the details. Other topics: positions, causes, and each cause by name.";
            writeln!(out, "\n{others}")?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(page) = page(&topic, args.json) {
        write!(out, "{page}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let definition = catalogue.definition(&topic).map_err(|error| {
        let failure = CommandError::usage(error.to_string());
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    let toxic = ToxicType::new(definition);
    if args.json {
        writeln!(out, "{}", serde_json::json!(toxic))?;
    } else {
        write!(out, "{}", manual(&toxic, &Values::new()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Kinds of values that many attributes have, and that have pages of their own.
struct Values {
    positions: Value,
    causes: Value,
}

impl Values {
    fn new() -> Self {
        let catalogue = Catalogue::default();
        let of = |toxic: &str, attribute: &str| {
            let schema =
                catalogue.definition(toxic).map(|definition| definition.schema()).unwrap_or_default();
            schema["properties"][attribute]["oneOf"].clone()
        };
        Self { positions: of("cut", "at"), causes: of("stream_error", "cause") }
    }
}

/// The page of a topic that is not a toxic.
fn page(topic: &str, json: bool) -> Option<String> {
    let values = Values::new();
    let shown = |list: &Value| {
        if json { format!("{list}\n") } else { variants(list, 2) }
    };
    match topic {
        "positions" if json => Some(shown(&values.positions)),
        "positions" => Some(format!(
            "A position is a place in a stream. It is given by one of these keys; 0 is before the first.\n\n{}\n\
             As a command:  aconite toxic add PROXY cut at.events=3\n",
            shown(&values.positions)
        )),
        "causes" if json => Some(shown(&values.causes)),
        "causes" => Some(format!(
            "The causes of `fail` and `stream_error`. `aconite explain CAUSE` shows what each provider sends.\n\n{}",
            shown(&values.causes)
        )),
        name => Cause::of_name(name).map(|cause| cause_page(cause, &values.causes, json)),
    }
}

fn cause_page(cause: Cause, causes: &Value, json: bool) -> String {
    let all = causes.as_array().into_iter().flatten();
    let description =
        all.filter(|each| each["const"] == cause.name()).find_map(|each| each["description"].as_str());
    let description = description.unwrap_or_default();
    let rendered = Dialect::ALL.iter().filter_map(|dialect| {
        Some((dialect.name(), render(Some(*dialect), None, cause, &FailureContext::default())?))
    });
    if json {
        let rendered = rendered.map(|(dialect, failure)| {
            let body = String::from_utf8_lossy(&failure.body).into_owned();
            (dialect.to_owned(), serde_json::json!({"status": failure.status, "body": body}))
        });
        let renders = Value::Object(rendered.collect());
        return format!(
            "{}\n",
            serde_json::json!({"cause": cause.name(), "description": description, "renders": renders})
        );
    }
    let mut text = format!("{}: {description}\n", cause.name());
    for (dialect, failure) in rendered {
        let body = String::from_utf8_lossy(&failure.body);
        let first = body.lines().next().unwrap_or_default();
        text.push_str(&format!("\n{dialect}: {}\n", failure.status));
        for (name, value) in &failure.headers {
            text.push_str(&format!("  {name}: {value}\n"));
        }
        let rest = if body.lines().count() > 1 { " …" } else { "" };
        text.push_str(&format!("  {first}{rest}\n"));
    }
    text + &format!("\nAs a command:  aconite toxic add PROXY fail cause={}\n", cause.name())
}

/// The variants of a schema, of an optional one too.
fn choices(schema: &Value) -> &Value {
    let optional = schema["anyOf"].as_array().into_iter().flatten().map(|each| &each["oneOf"]);
    let found = [&schema["oneOf"]].into_iter().chain(optional).find(|choices| choices.is_array());
    found.unwrap_or(&Value::Null)
}

/// A line for each value of an enumeration, or key of a union, with its description.
fn variants(list: &Value, indent: usize) -> String {
    let mut text = String::new();
    for variant in list.as_array().into_iter().flatten() {
        let keys = variant["properties"].as_object();
        let entries: Vec<(String, &Value)> = match (variant["const"].as_str(), keys) {
            (Some(name), _) => vec![(name.to_owned(), variant)],
            (None, Some(keys)) => {
                keys.iter().map(|(key, schema)| (format!("{key}: {}", form(schema)), schema)).collect()
            }
            (None, None) => Vec::new(),
        };
        for (name, schema) in entries {
            let described = schema["description"]
                .as_str()
                .or_else(|| variant["description"].as_str())
                .unwrap_or_default();
            text.push_str(&format!(
                "{:indent$}{name}: {}\n",
                "",
                described.split_whitespace().collect::<Vec<_>>().join(" ")
            ));
        }
    }
    text
}

/// The manual of one toxic.
fn manual(toxic: &ToxicType, values: &Values) -> String {
    let too = if toxic.documents_too { " and documents" } else { "" };
    let mut text =
        format!("{} acts on {}{too}\n\n{}\n", toxic.kind, acts_on(&toxic.level), toxic.description.trim());
    let none = serde_json::Map::new();
    let properties = toxic.schema["properties"].as_object().unwrap_or(&none);
    if !properties.is_empty() {
        text.push_str("\nAttributes:\n");
    }
    for (name, schema) in properties {
        let choices = choices(schema);
        let shared = if *choices == values.positions {
            Some("a position (`aconite explain positions`)")
        } else if *choices == values.causes {
            Some("a cause (`aconite explain causes`)")
        } else {
            None
        };
        text.push_str(&format!("  {name}: {}\n", shared.map_or_else(|| form(schema), str::to_owned)));
        let description = schema["description"].as_str().unwrap_or_default();
        for line in description.lines().filter(|line| !line.is_empty()) {
            text.push_str(&format!("      {line}\n"));
        }
        if shared.is_none() {
            text.push_str(&variants(choices, 8));
        }
    }
    let example = serde_json::to_string(&toxic.example).unwrap_or_default();
    text + &format!("\nIn a configuration:\n  {example}\n\nAs a command:\n  {}\n", toxic.command)
}

fn acts_on(level: &str) -> &str {
    match level {
        "bytes" => "the bytes of a connection",
        "connect" => "the making of a connection",
        "exchange" => "HTTP exchanges",
        "events" => "the events of a streamed answer",
        "document" => "JSON documents",
        other => other,
    }
}

/// What a value looks like, in a few words.
fn form(schema: &Value) -> String {
    let names = |values: &Value| -> Vec<String> {
        values
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect()
    };
    let variants =
        |key: &str| -> Vec<String> { schema[key].as_array().into_iter().flatten().map(form).collect() };
    let choices = [names(&schema["enum"]), variants("oneOf"), variants("anyOf")].concat();
    let mut words = if let Some(constant) = schema["const"].as_str() {
        constant.to_owned()
    } else if !choices.is_empty() {
        choices.join(" | ")
    } else if let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) {
        let fields: Vec<_> =
            fields.iter().map(|(name, schema)| format!("{name}: {}", form(schema))).collect();
        format!("{{{}}}", fields.join(", "))
    } else if let Some(kind) = schema["type"].as_str() {
        kind.to_owned()
    } else {
        names(&schema["type"]).join(" or ")
    };
    if let Some(unit) = schema["x-unit"].as_str() {
        words.push_str(&format!(" ({unit})"));
    }
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        words.push_str(&format!(", default {default}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_toxic_has_a_manual_that_names_its_attributes() {
        for definition in Catalogue::default().definitions() {
            let text = manual(&ToxicType::new(definition), &Values::new());
            for name in
                definition.schema()["properties"].as_object().into_iter().flatten().map(|(name, _)| name)
            {
                assert!(text.contains(&format!("  {name}: ")), "{text}");
            }
            assert!(text.contains("aconite toxic add PROXY"), "{text}");
        }
    }

    #[test]
    fn every_value_of_an_enumeration_is_explained() {
        let catalogue = Catalogue::default();
        let text = manual(&ToxicType::new(catalogue.definition("corrupt").unwrap()), &Values::new());
        assert!(text.contains("        flip: "), "{text}");
        let text = manual(&ToxicType::new(catalogue.definition("cut").unwrap()), &Values::new());
        assert!(text.contains("  at: a position (`aconite explain positions`)"), "{text}");
        assert!(text.contains("        hang: "), "{text}");
        let text = manual(&ToxicType::new(catalogue.definition("fail").unwrap()), &Values::new());
        assert!(text.contains("  cause: a cause (`aconite explain causes`)"), "{text}");
    }

    #[test]
    fn positions_and_causes_have_pages() {
        let positions = page("positions", false).unwrap();
        assert!(
            positions.contains("  events: integer: ") && positions.contains("  fraction: "),
            "{positions}"
        );
        let causes = page("causes", false).unwrap();
        for cause in Cause::ALL {
            assert!(causes.contains(&format!("  {}: ", cause.name())), "{causes}");
            assert!(page(cause.name(), false).unwrap().starts_with(cause.name()));
        }
        // An alias shows the page of its cause.
        assert!(page("rate_limit", false).unwrap().starts_with("rate_limit_tokens: "));
        assert!(page("overloaded", true).unwrap().contains("\"status\":529"));
        assert!(page("cut", false).is_none());
    }
}
