//! Toxics and fields written as words: `cut at.events=3 how=rst toxicity=0.5`.
use aconite_api::{Problem, read_value};
use aconite_toxics::{Catalogue, ToxicSpec};
use serde_json::{Map, Value, json};

use super::CommandError;

/// The fields that a toxic has besides its attributes.
const ENVELOPE: [&str; 8] = ["name", "stream", "toxicity", "match", "budget", "window", "marker", "enabled"];

/// The type, given separately or as the first word, and the words after it.
pub(super) fn typed(kind: Option<String>, words: &[String]) -> Result<(String, &[String]), CommandError> {
    match (kind, words) {
        (Some(kind), words) => Ok((kind, words)),
        (None, [kind, rest @ ..]) if !kind.contains('=') => Ok((kind.clone(), rest)),
        (None, _) => {
            Err(CommandError::usage("the toxic's type is missing").hint("`aconite explain` lists all types"))
        }
    }
}

/// A toxic written as one text, `TYPE KEY=VALUE …`, with quotes as in a shell. It is checked against the built-in types.
pub(super) fn parse(text: &str) -> Result<ToxicSpec, CommandError> {
    let words = shlex::split(text)
        .ok_or_else(|| CommandError::usage(format!("`{text}` has a quote that is not closed")))?;
    let (kind, words) = typed(None, &words)?;
    let catalogue = Catalogue::default();
    let schema = catalogue.definition(&kind).map(|definition| definition.schema()).unwrap_or_default();
    let mut spec = fields(&[], words, &schema).map_err(|failure| failure.within(text))?;
    spec.insert("type".to_owned(), kind.into());
    let spec: ToxicSpec = read(Value::Object(spec)).map_err(|failure| failure.within(text))?;
    catalogue.parse(&spec).map_err(|error| CommandError::from(Problem::from(error)).exit(2).within(text))?;
    Ok(spec)
}

/// A resource of the API that was put together from words.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CommandError> {
    read_value(value).map_err(|problem| {
        let path = problem.path.map_or_else(String::new, |path| format!("{path}: "));
        let failure = CommandError::usage(format!("{path}{}", problem.message));
        problem.hint.into_iter().fold(failure, CommandError::hint)
    })
}

/// A toxic's fields: `attributes` are attributes in any case, `words` are fields of the toxic where it has one of that
/// name and the type has no such attribute.
pub(super) fn fields(
    attributes: &[String],
    words: &[String],
    schema: &Value,
) -> Result<Map<String, Value>, CommandError> {
    let envelope_schema = inlined_schema::<ToxicSpec>();
    let (mut spec, mut own) = (Map::new(), Map::new());
    for word in attributes {
        put(&mut own, word, schema)?;
    }
    for word in words {
        let first = word.split(['=', '.']).next().unwrap_or_default();
        if ENVELOPE.contains(&first) && schema["properties"].get(first).is_none() {
            put(&mut spec, word, &envelope_schema)?;
        } else {
            put(&mut own, word, schema)?;
        }
    }
    if !own.is_empty() {
        spec.insert("attributes".to_owned(), own.into());
    }
    Ok(spec)
}

/// A type's schema without references, so that nested fields are found in it.
pub(super) fn inlined_schema<T: schemars::JsonSchema>() -> Value {
    let settings =
        schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The schema of a field of an object, behind an `anyOf` with null if the object is optional.
fn field<'a>(schema: &'a Value, name: &str) -> &'a Value {
    let mut candidates = [schema].into_iter().chain(schema["anyOf"].as_array().into_iter().flatten());
    let known = candidates
        .find_map(|schema| schema["properties"].get(name).or_else(|| schema.get("additionalProperties")));
    known.unwrap_or(&Value::Null)
}

/// Puts the value of `KEY=VALUE` into the field that its key names; dots separate nested fields.
pub(super) fn put(fields: &mut Map<String, Value>, word: &str, schema: &Value) -> Result<(), CommandError> {
    let (key, text) = word
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| CommandError::usage(format!("`{word}` is not KEY=VALUE")))?;
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().unwrap_or_default();
    let mut inner = fields;
    let mut known = schema;
    for step in path {
        known = field(known, step);
        let next = inner.entry(step).or_insert_with(|| json!({}));
        inner = next
            .as_object_mut()
            .ok_or_else(|| CommandError::usage(format!("`{key}`: `{step}` has a value already")))?;
    }
    inner.insert(last.to_owned(), value(text, field(known, last)));
    Ok(())
}

/// A value by the schema of its field: text where only text is allowed, else JSON or YAML if it is that, else text.
fn value(text: &str, schema: &Value) -> Value {
    let is_text = |kind: &Value| kind == "string" || kind == "null";
    let text_only = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().all(is_text),
        kind => is_text(kind),
    };
    if text_only {
        return text.into();
    }
    if text.starts_with(['{', '[']) {
        return serde_saphyr::from_str(text).unwrap_or_else(|_| text.into());
    }
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) => whole(&number).map_or(Value::Number(number), Value::from),
        Ok(value) => value,
        Err(_) => text.into(),
    }
}

/// A number written as `1000.0` or `1e3` as the integer that it is.
fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "it is integral and small enough")]
    (float.fract() == 0.0 && float.abs() <= EXACT).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_words(words: &[&str], schema: &Value) -> Value {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        fields(&[], &words, schema).unwrap().remove("attributes").unwrap()
    }

    #[test]
    fn values_have_the_type_that_the_schema_asks_for() {
        let schema = json!({"properties": {
            "body": {"type": "string"}, "delay": {"type": ["integer", "string"]}, "on": {"type": "boolean"}
        }});
        let read = |words: &[&str]| read_words(words, &schema);
        assert_eq!(read(&["body=404", "delay=5", "on=true"]), json!({"body": "404", "delay": 5, "on": true}));
        assert_eq!(read(&["delay=5s"]), json!({"delay": "5s"}));
        assert_eq!(read(&["at={events: 3}", "how=rst"]), json!({"at": {"events": 3}, "how": "rst"}));
        assert_eq!(read(&["at.events=3"]), json!({"at": {"events": 3}}));
        assert_eq!(read(&["body=a=b"]), json!({"body": "a=b"}));
        assert_eq!(read(&["set={\"x-a\": \"1\"}"]), json!({"set": {"x-a": "1"}}));
    }

    #[test]
    fn r2_29_integral_numbers_are_integers_however_they_are_written() {
        let read = |word: &str| read_words(&[word], &Value::Null);
        assert_eq!(read("latency=1000.0"), json!({"latency": 1000}));
        assert_eq!(read("latency=1e3"), json!({"latency": 1000}));
        assert_eq!(read("latency=-2.0"), json!({"latency": -2}));
        assert_eq!(read("rate=0.5"), json!({"rate": 0.5}));
        assert_eq!(read("rate=1e300"), json!({"rate": 1e300}));
    }

    #[test]
    fn words_that_are_not_pairs_are_refused() {
        for word in ["latency", "=5", ""] {
            assert!(fields(&[], &[word.to_owned()], &Value::Null).is_err(), "{word}");
        }
        assert!(fields(&[], &["at=5".to_owned(), "at.events=1".to_owned()], &Value::Null).is_err());
    }

    #[test]
    fn a_toxic_fits_in_one_text() {
        let toxic = parse("latency latency=5s jitter=10").unwrap();
        assert_eq!(toxic.kind, "latency");
        assert_eq!(Value::Object(toxic.attributes), json!({"latency": "5s", "jitter": 10}));
        assert!(parse("latency=5").is_err());
    }

    #[test]
    fn a_text_has_fields_besides_attributes() {
        let toxic = parse(
            "fail cause=overloaded name=busy toxicity=0.5 stream=upstream match.model=4 match.header.x-try=1 budget.times=2 window.for=5s \
             marker=false enabled=false",
        )
        .unwrap();
        assert_eq!(
            json!(toxic),
            json!({
                "name": "busy", "type": "fail", "stream": "upstream", "toxicity": 0.5,
                "attributes": {"cause": "overloaded"}, "match": {"header": {"x-try": "1"}, "model": "4"}, "budget": {"times": 2},
                "window": {"for": 5000}, "marker": false, "enabled": false,
            })
        );
        assert_eq!(json!(parse("hang match.model='gpt 4'").unwrap().matching), json!({"model": "gpt 4"}));
        // The attributes of a type come first.
        assert_eq!(json!(parse("timeout timeout=5").unwrap().attributes), json!({"timeout": 5}));
        assert!(parse("fail cause='x").is_err());
    }

    #[test]
    fn an_invalid_text_is_shown_with_what_is_wrong() {
        let told = |text: &str| {
            let mut out = Vec::new();
            parse(text).unwrap_err().report(&mut out, false);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            told("cut at.event=3"),
            "error: `cut at.event=3`: attributes.at: unknown variant `event`, expected one of `events`, `tokens`, `bytes`, \
             `time`, `fraction`\n  hint: did you mean `events`?\n"
        );
        assert_eq!(
            told("cut"),
            "error: `cut`: attributes: missing field `at`; an example is {\"at\":{\"events\":3},\"how\":\"fin\"}\n"
        );
        assert!(told("ct at.events=3").contains("the most similar types are `cut`"), "{}", told("ct"));
    }
}
