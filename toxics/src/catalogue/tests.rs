use std::{collections::BTreeSet, fs, path::Path};

use aconite_dialects::EventFormat;
use serde_json::json;

use super::*;
use crate::{BodyFilter, BodyForm, Micros, Millis};

fn spec(kind: &str, attributes: &Value) -> ToxicSpec {
    ToxicSpec::new(kind, attributes.as_object().cloned().unwrap())
}

fn rejection(kind: &str, attributes: &Value) -> (String, String) {
    let error = Catalogue::default().parse(&spec(kind, attributes)).map(|_| ()).unwrap_err();
    assert!(!error.is_unknown_type(), "{kind} {attributes}");
    (error.path, error.message)
}

/// The source files that hold a toxic, each with the `TYPE` that it bears.
#[allow(clippy::disallowed_methods, reason = "the test reads the crate's own source")]
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for folder in ["bytes", "message", "."] {
        let Ok(files) = fs::read_dir(root.join(folder)) else { continue };
        for file in files.map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            let text = fs::read_to_string(&file).unwrap();
            if text.lines().any(|line| line.starts_with("impl Toxic for")) {
                let (_, rest) = text.split_once("const TYPE: &'static str = \"").unwrap();
                let kind = rest.split('"').next().unwrap();
                found.push((file.file_stem().unwrap().to_str().unwrap().to_owned(), kind.to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_toxic_has_a_file_of_its_name_and_is_in_the_list() {
    for (file, kind) in sources() {
        assert_eq!(file, kind);
    }
    let files: BTreeSet<_> = sources().into_iter().map(|(file, _)| file).collect();
    let listed: BTreeSet<_> = BUILT_IN.iter().map(|definition| definition.kind.to_owned()).collect();
    assert_eq!(files, listed);
    assert_eq!(listed.len(), BUILT_IN.len(), "a type is listed twice");
}

#[test]
fn the_list_goes_from_the_wire_up() {
    let rank = |level| match level {
        Level::Bytes => 0,
        Level::Connect => 1,
        Level::Exchange | Level::Events | Level::Document => 2,
    };
    assert!(BUILT_IN.is_sorted_by_key(|definition| rank(definition.level)));
}

/// The level at which something acts; `None` if it rests.
fn level(instance: &Instance) -> Option<Level> {
    match instance {
        Instance::Bytes(_) | Instance::Body(BodyFilter::Bytes(_)) => Some(Level::Bytes),
        Instance::Connect(_) => Some(Level::Connect),
        Instance::Exchange(_) => Some(Level::Exchange),
        Instance::Body(BodyFilter::Events(_)) => Some(Level::Events),
        Instance::Body(BodyFilter::Document(_)) => Some(Level::Document),
        Instance::Idle(_) => None,
    }
}

#[test]
fn every_example_parses_and_starts_at_its_level() {
    let catalogue = Catalogue::default();
    for definition in BUILT_IN {
        let kind = definition.kind;
        let toxic = catalogue.parse(&spec(kind, &definition.example())).unwrap();
        assert_eq!(Value::Object(toxic.attributes()), definition.example(), "{kind}");
        let forms = [BodyForm::Events(EventFormat::Sse), BodyForm::Document, BodyForm::Opaque];
        let levels = forms.map(|body| {
            let scope = Scope { body, ..Scope::default() };
            level(&toxic.start(&scope, Dice::new(1, "proxy", kind, 0)))
        });
        let allowed =
            |level| level == definition.level || definition.documents_too && level == Level::Document;
        assert!(levels.iter().flatten().all(|level| allowed(*level)), "{kind}: {levels:?}");
        assert!(levels.contains(&Some(definition.level)), "{kind}: {levels:?}");
    }
}

/// Calls `check` with each named property of a schema, at any depth.
fn each_property(schema: &Value, path: &str, check: &mut impl FnMut(&str, &Value)) {
    let Value::Object(fields) = schema else { return };
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        check(&path, property);
        each_property(property, &path, check);
    }
    for key in ["oneOf", "anyOf", "allOf", "items", "additionalProperties"] {
        match fields.get(key) {
            Some(Value::Array(several)) => several.iter().for_each(|one| each_property(one, path, check)),
            Some(one) => each_property(one, path, check),
            None => {}
        }
    }
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn every_toxic_and_every_attribute_is_documented() {
    let units = [schemars::schema_for!(Millis), schemars::schema_for!(Micros)].map(Value::from);
    for definition in BUILT_IN {
        let kind = definition.kind;
        assert!(definition.summary().ends_with('.'), "{kind}: {}", definition.summary());
        for (name, property) in
            definition.schema().get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let text = description(property);
            assert!(!text.is_empty(), "{kind}.{name} says nothing");
            assert!(units.iter().all(|unit| description(unit) != text), "{kind}.{name} says only its unit");
        }
        each_property(&definition.schema(), kind, &mut |path, property| {
            for variant in property.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
                assert!(!description(variant).is_empty(), "{path}: {variant} says nothing");
            }
        });
    }
}

#[test]
fn every_length_of_time_has_a_unit() {
    let mut seen = 0;
    for definition in BUILT_IN {
        each_property(&definition.schema(), definition.kind, &mut |path, property| {
            let kinds = property.get("type").and_then(Value::as_array).cloned().unwrap_or_default();
            if kinds.contains(&json!("integer")) && kinds.contains(&json!("string")) {
                seen += 1;
                assert!(property.get("x-unit").is_some(), "{path}: {property}");
            }
        });
    }
    assert!(seen > 8, "{seen}");
}

#[test]
fn a_toxic_from_elsewhere_joins_the_list() {
    let catalogue = Catalogue::default().with::<bytes::Noop>();
    assert_eq!(catalogue.definitions().len(), BUILT_IN.len() + 1);
}

/// Toxiproxy's own types and attributes.
const TOXIPROXYS: [(&str, &[&str]); 8] = [
    ("latency", &["latency", "jitter"]),
    ("bandwidth", &["rate"]),
    ("slow_close", &["delay"]),
    ("timeout", &["timeout"]),
    ("reset_peer", &["timeout"]),
    ("slicer", &["average_size", "size_variation", "delay"]),
    ("limit_data", &["bytes"]),
    ("noop", &[]),
];

#[test]
fn toxiproxys_types_need_no_attributes_and_show_them_all_as_integers() {
    for (kind, names) in TOXIPROXYS {
        let toxic = Catalogue::default().parse(&spec(kind, &json!({}))).unwrap();
        let expected: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), json!(0))).collect();
        assert_eq!(toxic.attributes(), expected, "{kind}");
        let full: Map<_, _> = names.iter().map(|name| ((*name).to_owned(), json!(1_000))).collect();
        let toxic = Catalogue::default().parse(&ToxicSpec::new(kind, full.clone())).unwrap();
        assert_eq!(toxic.attributes(), full, "{kind}");
    }
}

#[test]
fn an_unknown_attribute_is_named_with_those_there_are() {
    let (path, reason) = rejection("latency", &json!({"latency": 5, "jiter": 5}));
    assert_eq!(path, "attributes.jiter");
    assert!(reason.contains("`jiter`") && reason.contains("`jitter`"), "{reason}");
    let (path, reason) = rejection("stall", &json!({"at": {"byte": 5}}));
    assert!(path.starts_with("attributes.at"), "{path}");
    assert!(reason.contains("`byte`") && reason.contains("`bytes`"), "{reason}");
}

#[test]
fn a_bad_value_is_answered_with_what_was_expected() {
    let (path, reason) = rejection("latency", &json!({"latency": "100"}));
    assert_eq!(path, "attributes.latency");
    assert!(reason.contains("250ms"), "{reason}");
    let (path, reason) = rejection("corrupt", &json!({"rate": 1.5}));
    assert_eq!(path, "attributes.rate");
    assert!(reason.contains("between 0 and 1"), "{reason}");
}

#[test]
fn an_unknown_type_is_answered_with_the_nearest() {
    let error = Catalogue::default().parse(&spec("Latncy", &json!({}))).map(|_| ()).unwrap_err();
    assert!(error.is_unknown_type());
    assert_eq!((&*error.path, &*error.message), ("type", "no toxic has the type `Latncy`"));
    assert!(error.hint.unwrap().starts_with("the most similar types are `latency`"));
}

#[test]
fn tox_19_the_compatible_reading_is_as_loose_as_toxiproxys() {
    let read = |kind: &str, attributes: Value| {
        Catalogue::default()
            .parse_lenient(&spec(kind, &attributes))
            .map(|toxic| Value::from(toxic.attributes()))
    };
    assert_eq!(
        read("latency", json!({"Latency": 7, "zzz": 1, "JITTER": 3, "jitter": null})),
        Ok(json!({"latency": 7, "jitter": 3}))
    );
    assert_eq!(read("latency", json!({"latency": 1, "LATENCY": 2})).unwrap().get("latency"), Some(&json!(2)));
    assert_eq!(read("noop", json!({"rate": 1})), Ok(json!({})));
    for (kind, names) in TOXIPROXYS {
        for name in names {
            for bad in [json!("100"), json!(1.5), json!(true), json!([]), json!(-5)] {
                let error = read(kind, json!({*name: bad})).unwrap_err();
                assert_eq!(error.path, format!("attributes.{name}"));
            }
        }
    }
    assert!(read("down", json!({})).unwrap_err().is_unknown_type());
}

#[test]
fn scenarios_whose_toxic_is_known_can_be_read() {
    let catalogue = Catalogue::default();
    for name in alias::names() {
        let resolved = catalogue.resolve(&spec(name, &json!({})));
        if catalogue.definition(&resolved.kind).is_ok() {
            assert_eq!(catalogue.definition(name).unwrap().kind, resolved.kind);
            catalogue.parse(&spec(name, &json!({}))).map(|_| ()).unwrap();
        }
    }
}
