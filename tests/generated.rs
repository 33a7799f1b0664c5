//! Pages of the manual that are made from the source. A stale one fails; `UPDATE=1` rewrites it.
use std::{fmt::Write as _, fs, path::Path};

use aconite::{
    client::ToxicType,
    config::Config,
    toxics::{Catalogue, scenarios},
};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

#[test]
fn the_toxics_page_is_current() {
    is_current("toxics.md", &toxics_page(&Catalogue::default()));
}

#[test]
fn the_configuration_schema_is_current() {
    is_current("config.schema.json", &format!("{:#}\n", config_schema(&Catalogue::default())));
}

#[test]
fn the_coverage_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("docs/requirements.md")).unwrap();
    let mut checked = 0;
    for (file, name) in table.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(": ")) {
        if !Path::new(file).extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            continue;
        }
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let wanted = if file.ends_with(".rs") { format!("fn {name}(") } else { name.to_owned() };
        assert!(source.contains(&wanted), "docs/requirements.md: {file} has no {name}");
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
}

fn is_current(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(text.lines()).position(|(found, wanted)| found != wanted);
    let line = differs.unwrap_or_else(|| found.lines().count().min(text.lines().count())) + 1;
    assert!(
        found == text,
        "docs/{page} is stale from line {line} on: UPDATE=1 cargo test --test integration generated"
    );
}

/// The schema of a configuration file, in which a toxic's type decides what its attributes are.
fn config_schema(catalogue: &Catalogue) -> Value {
    let mut schema: Value =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().into();
    let cases = catalogue.definitions().iter().map(|definition| {
        let mut attributes = definition.schema();
        attributes.as_object_mut().unwrap().shift_remove("$schema");
        json!({
            "if": {"properties": {"type": {"const": definition.kind}}, "required": ["type"]},
            "then": {"properties": {"attributes": attributes}},
        })
    });
    let cases: Vec<_> = cases.collect();
    let kinds: Vec<_> = catalogue.definitions().iter().map(|definition| definition.kind).collect();
    let toxic = &mut schema["$defs"]["ToxicSpec"];
    toxic["allOf"] = cases.into();
    // A scenario's name is a type too.
    let kind = &mut toxic["properties"]["type"];
    kind["anyOf"] = json!([{"enum": kinds}, {"enum": scenarios().collect::<Vec<_>>()}]);
    schema
}

fn toxics_page(catalogue: &Catalogue) -> String {
    let types: Vec<_> = catalogue.definitions().iter().map(ToxicType::new).collect();
    let positions = property(&types, "cut", "at");
    let causes = property(&types, "stream_error", "cause");
    let mut page = String::from(INTRODUCTION);
    for toxic in &types {
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} | {2} |", toxic.kind, level(toxic), toxic.summary);
    }
    page.push_str("\n## Positions\n\nA position is a place in a stream, given by exactly one of these keys. 0 is before the first.\n\n");
    bullets(&mut page, &positions["oneOf"]);
    page.push_str(
        "\n## Causes\n\nThe reason for a failure. Each cause is rendered as the provider of the request does it; `GET /v1/presets` shows the result. \
         A cause that a provider is not known to have is skipped, and the journal says so.\n\n",
    );
    bullets(&mut page, &causes["oneOf"]);
    for toxic in &types {
        section(&mut page, toxic, &positions["oneOf"], &causes["oneOf"]);
    }
    page
}

const INTRODUCTION: &str = "\
<!-- Generated from the source by tests/generated.rs: edit the doc comments there. -->
# Toxics

The fields that every toxic has besides its attributes (`toxicity`, `match`, `budget`, `window`, …) are in
[configuration.md](configuration.md). Durations are whole numbers of the stated unit, or strings such as `250ms`, `5s`, `2m`.

| type | acts on | |
|---|---|---|
";

fn property<'t>(types: &'t [ToxicType], kind: &str, name: &str) -> &'t Value {
    &types.iter().find(|toxic| toxic.kind == kind).unwrap().schema["properties"][name]
}

fn level(toxic: &ToxicType) -> String {
    let documents = if toxic.documents_too { ", documents" } else { "" };
    format!("{}{documents}", toxic.level)
}

fn section(page: &mut String, toxic: &ToxicType, positions: &Value, causes: &Value) {
    let ToxicType { kind, description, schema, example, command, .. } = toxic;
    let _ = write!(page, "\n## {kind}\n\nActs on: {}.\n\n{}\n", level(toxic), joined(description));
    let attributes = schema["properties"].as_object().filter(|attributes| !attributes.is_empty());
    if let Some(attributes) = attributes {
        page.push_str("\n| attribute | value | default | |\n|---|---|---|---|\n");
        for (name, attribute) in attributes {
            let required = schema["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
            let default = match &attribute["default"] {
                _ if required => "required".to_owned(),
                Value::Null => String::new(),
                default => format!("`{default}`"),
            };
            let form = form(attribute, positions, causes);
            let text = text_of(&attribute["description"]).replace('\n', " ");
            let _ = writeln!(page, "| `{name}` | {form} | {default} | {text} |");
        }
        for (name, attribute) in attributes {
            let choices = [&attribute["oneOf"], &attribute["items"]["anyOf"]];
            for choices in choices
                .into_iter()
                .filter(|choices| !choices.is_null() && *choices != positions && *choices != causes)
            {
                let _ = write!(page, "\n`{name}`:\n\n");
                bullets(page, choices);
            }
        }
    }
    let _ = write!(page, "\n```json\n{example}\n```\n\n```sh\n{command}\n```\n");
}

/// What a value looks like, in a few words.
fn form(schema: &Value, positions: &Value, causes: &Value) -> String {
    let nested = |schema: &Value| form(schema, positions, causes);
    let several = |schemas: &Value| -> Vec<String> {
        let known = schemas.as_array().into_iter().flatten().filter(|schema| schema["type"] != "null");
        known.map(nested).collect()
    };
    if schema["oneOf"] == *positions {
        return "a [position](#positions)".to_owned();
    }
    if schema["oneOf"] == *causes {
        return "a [cause](#causes)".to_owned();
    }
    if let Some(constant) = schema["const"].as_str() {
        return format!("`{constant}`");
    }
    for key in ["oneOf", "anyOf"] {
        if schema[key].is_array() {
            return several(&schema[key]).join(", ");
        }
    }
    let unit = schema["x-unit"].as_str().map_or_else(String::new, |unit| format!(" ({unit})"));
    let range = match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(least), Value::Number(most)) => format!(", {least} to {most}"),
        _ => String::new(),
    };
    if let Some(fields) = schema["properties"].as_object() {
        let fields: Vec<_> =
            fields.iter().map(|(name, field)| format!("`{name}`: {}", nested(field))).collect();
        return fields.join(", ");
    }
    match &schema["type"] {
        Value::Array(kinds) if kinds.contains(&json!("string")) && !unit.is_empty() => format!("time{unit}"),
        Value::Array(kinds) => {
            let kinds: Vec<_> =
                kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            format!("{}{unit}{range}", kinds.join(" or "))
        }
        Value::String(kind) if kind == "array" && schema["items"]["anyOf"].is_array() => "list".to_owned(),
        Value::String(kind) if kind == "array" => format!("list of {}", nested(&schema["items"])),
        Value::String(kind) if kind == "object" => "object".to_owned(),
        Value::String(kind) => format!("{kind}{unit}{range}"),
        _ => "anything".to_owned(),
    }
}

/// A line for each of a value's variants.
fn bullets(page: &mut String, variants: &Value) {
    for variant in variants.as_array().into_iter().flatten() {
        let text = text_of(&variant["description"]).replace('\n', " ");
        let fields: Vec<_> = variant["properties"].as_object().into_iter().flatten().collect();
        let name = match (&variant["const"], fields.as_slice()) {
            (Value::String(name), _) => format!("`{name}`: "),
            (_, [(name, field)]) => format!("`{{{name}: …}}` ({}): ", form(field, &NOWHERE, &NOWHERE)),
            _ => String::new(),
        };
        let _ = writeln!(page, "- {name}{text}");
        for case in variant["oneOf"].as_array().into_iter().flatten() {
            let (name, text) = (&case["properties"]["op"]["const"], &case["description"]);
            let _ = writeln!(page, "  - `{}`: {}", text_of(name), text_of(text));
        }
        for (name, field) in fields.iter().filter(|_| fields.len() > 1) {
            let _ = writeln!(page, "  - `{name}`: {}", text_of(&field["description"]));
        }
    }
}

/// Equal to no schema.
const NOWHERE: Value = Value::Bool(true);

fn text_of(value: &Value) -> String {
    joined(value.as_str().unwrap_or_default())
}

/// Text whose paragraphs are one line each.
fn joined(text: &str) -> String {
    let paragraphs = text.trim().split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
