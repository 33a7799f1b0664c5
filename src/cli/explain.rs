//! `aconite explain`: the manual of the toxics, from their own definitions.
use std::{io::Write, process::ExitCode};

use aconite_api::client::ToxicType;
use aconite_toxics::{Catalogue, SpecError};
use serde_json::Value;

use super::{Failure, Outcome};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The toxic; without it, the list of all
    toxic: Option<String>,
}

/// Prints the list, or one toxic's manual.
pub(super) fn run(args: Args) -> Outcome {
    let catalogue = Catalogue::default();
    let mut out = std::io::stdout().lock();
    let Some(kind) = args.toxic else {
        let types: Vec<_> = catalogue.definitions().iter().map(ToxicType::new).collect();
        if args.json {
            writeln!(out, "{}", serde_json::json!({"toxics": types}))?;
        } else {
            for each in types {
                writeln!(out, "{:<14} {:<9} {}", each.kind, each.level, each.summary)?;
            }
            writeln!(out, "\n`aconite explain TOXIC` tells the rest of one.")?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let definition = catalogue.definition(&kind).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match error {
            SpecError::UnknownType { nearest, .. } => {
                failure.hint(format!("the most similar are {}", nearest.join(", ")))
            }
            SpecError::Attributes { .. } => failure,
        }
    })?;
    let toxic = ToxicType::new(definition);
    if args.json {
        writeln!(out, "{}", serde_json::json!(toxic))?;
    } else {
        write!(out, "{}", manual(&toxic))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The manual of one toxic.
fn manual(toxic: &ToxicType) -> String {
    let too = if toxic.documents_too { " and documents" } else { "" };
    let mut text =
        format!("{} acts on {}{too}\n\n{}\n", toxic.kind, acts_on(&toxic.level), toxic.description.trim());
    let none = serde_json::Map::new();
    let properties = toxic.schema["properties"].as_object().unwrap_or(&none);
    if !properties.is_empty() {
        text.push_str("\nAttributes:\n");
    }
    for (name, schema) in properties {
        text.push_str(&format!("  {name}: {}\n", form(schema)));
        let description = schema["description"].as_str().unwrap_or_default();
        for line in description.lines().filter(|line| !line.is_empty()) {
            text.push_str(&format!("      {line}\n"));
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
            let text = manual(&ToxicType::new(definition));
            for name in
                definition.schema()["properties"].as_object().into_iter().flatten().map(|(name, _)| name)
            {
                assert!(text.contains(&format!("  {name}: ")), "{text}");
            }
            assert!(text.contains("aconite toxic add PROXY"), "{text}");
        }
    }
}
