//! `aconite toxic`: in the words of `toxiproxy-cli`, and shorter.
use aconite_api::{Problem, read_value};
use aconite_toxics::ToxicSpec;
use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::{
    Failure, Outcome, Remote,
    proxies::{say, stream_name},
};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    wish: Wish,
}

#[derive(Debug, Subcommand)]
enum Wish {
    /// Add a toxic: `aconite toxic add PROXY TYPE KEY=VALUE…`
    #[command(visible_alias = "a")]
    Add(Add),
    /// Change a toxic
    #[command(visible_alias = "u")]
    Update(Update),
    /// Remove a toxic
    #[command(visible_aliases = ["r", "delete", "d"])]
    Remove(Remove),
}

#[derive(clap::Args, Debug)]
struct Add {
    #[command(flatten)]
    remote: Remote,
    /// Its name [default: TYPE_STREAM]
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    /// Its type; `aconite explain` lists all
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    #[command(flatten)]
    change: Change,
    /// Let it act on what the client sends
    #[arg(short, long, conflicts_with = "downstream")]
    upstream: bool,
    /// Let it act on what the server sends, as is the default
    #[arg(short, long)]
    downstream: bool,
    /// The proxy
    proxy: String,
    /// The type, unless --type has it, and attributes, KEY=VALUE
    #[arg(value_name = "TYPE|KEY=VALUE")]
    words: Vec<String>,
}

#[derive(clap::Args, Debug)]
struct Update {
    #[command(flatten)]
    remote: Remote,
    /// The toxic
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    change: Change,
    /// The proxy
    proxy: String,
    /// Attributes, KEY=VALUE
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,
}

/// What adding and updating have in common.
#[derive(clap::Args, Debug)]
struct Change {
    /// The share of connections or exchanges that it strikes, 0 to 1
    #[arg(long = "toxicity", visible_alias = "tox", value_name = "SHARE")]
    toxicity: Option<f32>,
    /// An attribute; `at.events=3` sets a field of a field
    #[arg(short, long = "attribute", value_name = "KEY=VALUE")]
    attribute: Vec<String>,
    /// Another field of the toxic: match.model=gpt-4o, budget.times=3, window.for=30s, marker=false
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the toxic as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct Remove {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The toxic, if it does not stand after the proxy
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    /// The proxy
    proxy: String,
    /// The toxic
    #[arg(value_name = "NAME", required_unless_present = "name", conflicts_with = "name")]
    toxic: Option<String>,
}

/// Adds, changes or removes.
pub(super) async fn run(args: Args, outer: &Remote) -> Outcome {
    match args.wish {
        Wish::Add(args) => add(args, outer).await,
        Wish::Update(args) => update(args, outer).await,
        Wish::Remove(Remove { remote, json, name, proxy, toxic }) => {
            let name = name.or(toxic).unwrap_or_default();
            remote.client(outer)?.remove_toxic(&proxy, &name).await?;
            let removed = json.then(|| json!({"removed": name, "proxy": proxy}));
            say(removed, format_args!("Removed toxic '{name}' on proxy '{proxy}'"))
        }
    }
}

async fn add(args: Add, outer: &Remote) -> Outcome {
    let Add { remote, name, kind, change, upstream, proxy, words, .. } = args;
    let (kind, words) = typed(kind, &words)?;
    let client = remote.client(outer)?;
    // A type that the server does not know is refused by it, with the nearest names.
    let schema = client.toxic_type(&kind).await.map(|known| known.schema).unwrap_or_default();
    let mut spec = change.fields(words, &schema)?;
    spec.insert("type".to_owned(), kind.into());
    spec.insert("name".to_owned(), name.unwrap_or_default().into());
    spec.insert("stream".to_owned(), if upstream { "upstream" } else { "downstream" }.into());
    let added = client.add_toxic(&proxy, &toxic(spec)?).await?;
    let ToxicSpec { name, kind, stream, .. } = &added;
    let stream = stream_name(*stream);
    say(
        change.json.then(|| json!(added)),
        format_args!("Added {stream} {kind} toxic '{name}' on proxy '{proxy}'"),
    )
}

async fn update(args: Update, outer: &Remote) -> Outcome {
    let Update { remote, name, change, proxy, words } = args;
    let client = remote.client(outer)?;
    let toxics = client.toxics(&proxy).await?;
    let kind =
        toxics.iter().find(|toxic| toxic.name == name).map(|toxic| toxic.kind.as_str()).unwrap_or_default();
    let schema = client.toxic_type(kind).await.map(|known| known.schema).unwrap_or_default();
    let patch = Value::Object(change.fields(&words, &schema)?);
    let updated = client.patch_toxic(&proxy, &name, &patch).await?;
    say(change.json.then(|| json!(updated)), format_args!("Updated toxic '{name}' on proxy '{proxy}'"))
}

/// The type, by itself or as the first word, and the words after it.
fn typed(kind: Option<String>, words: &[String]) -> Result<(String, &[String]), Failure> {
    match (kind, words) {
        (Some(kind), words) => Ok((kind, words)),
        (None, [kind, rest @ ..]) if !kind.contains('=') => Ok((kind.clone(), rest)),
        (None, _) => {
            Err(Failure::usage("the toxic's type is missing").hint("`aconite explain` lists all types"))
        }
    }
}

/// A toxic written as one text, `TYPE KEY=VALUE …`, read by the built-in schemas.
pub(super) fn parse(text: &str) -> Result<ToxicSpec, Failure> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let (kind, words) = typed(None, &words)?;
    let catalogue = aconite_toxics::Catalogue::default();
    let schema = catalogue.definition(&kind).map(|definition| definition.schema()).unwrap_or_default();
    let mut spec = Map::from_iter([("type".to_owned(), kind.into())]);
    spec.insert("attributes".to_owned(), Value::Object(attributes(words, &schema)?));
    let spec = toxic(spec)?;
    catalogue.parse(&spec).map_err(|error| Failure::from(Problem::from(error)).exit(2).within(text))?;
    Ok(spec)
}

fn toxic(spec: Map<String, Value>) -> Result<ToxicSpec, Failure> {
    read(Value::Object(spec))
}

/// A resource of the API that was put together from words.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Failure> {
    read_value(value).map_err(|problem| {
        let path = problem.path.map_or_else(String::new, |path| format!("{path}: "));
        let failure = Failure::usage(format!("{path}{}", problem.message));
        problem.hint.into_iter().fold(failure, Failure::hint)
    })
}

impl Change {
    /// The fields of the toxic that are given; those that are not stay as they are.
    fn fields(&self, words: &[String], schema: &Value) -> Result<Map<String, Value>, Failure> {
        let mut fields = Map::new();
        if let Some(toxicity) = self.toxicity {
            fields.insert("toxicity".to_owned(), json!(toxicity));
        }
        let words: Vec<String> = self.attribute.iter().chain(words).cloned().collect();
        if !words.is_empty() {
            fields.insert("attributes".to_owned(), Value::Object(attributes(&words, schema)?));
        }
        for word in &self.set {
            put(&mut fields, word, &Value::Null)?;
        }
        Ok(fields)
    }
}

/// Attributes from `KEY=VALUE` words.
fn attributes(words: &[String], schema: &Value) -> Result<Map<String, Value>, Failure> {
    let mut fields = Map::new();
    for word in words {
        put(&mut fields, word, schema)?;
    }
    Ok(fields)
}

/// Puts the value of `KEY=VALUE` where its key says; dots lead into fields.
pub(super) fn put(fields: &mut Map<String, Value>, word: &str, schema: &Value) -> Result<(), Failure> {
    let (key, text) = word
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| Failure::usage(format!("`{word}` is not KEY=VALUE")))?;
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().unwrap_or_default();
    let mut inner = fields;
    let mut known = schema;
    for step in path {
        known = &known["properties"][step];
        let next = inner.entry(step).or_insert_with(|| json!({}));
        inner = next
            .as_object_mut()
            .ok_or_else(|| Failure::usage(format!("`{key}`: `{step}` has a value already")))?;
    }
    inner.insert(last.to_owned(), value(text, &known["properties"][last]));
    Ok(())
}

/// A value, as the schema of its place has it: text where only text will do, else what it looks like.
fn value(text: &str, schema: &Value) -> Value {
    if schema["type"] == "string" {
        return text.into();
    }
    if text.starts_with(['{', '[']) {
        return serde_saphyr::from_str(text).unwrap_or_else(|_| text.into());
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], schema: &Value) -> Value {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        Value::Object(attributes(&words, schema).unwrap())
    }

    #[test]
    fn values_are_what_the_schema_wants() {
        let schema = json!({"properties": {
            "body": {"type": "string"}, "delay": {"type": ["integer", "string"]}, "on": {"type": "boolean"}
        }});
        let read = |words: &[&str]| read(words, &schema);
        assert_eq!(read(&["body=404", "delay=5", "on=true"]), json!({"body": "404", "delay": 5, "on": true}));
        assert_eq!(read(&["delay=5s"]), json!({"delay": "5s"}));
        assert_eq!(read(&["at={events: 3}", "how=rst"]), json!({"at": {"events": 3}, "how": "rst"}));
        assert_eq!(read(&["at.events=3"]), json!({"at": {"events": 3}}));
        assert_eq!(read(&["body=a=b"]), json!({"body": "a=b"}));
        assert_eq!(read(&["set={\"x-a\": \"1\"}"]), json!({"set": {"x-a": "1"}}));
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        for word in ["latency", "=5", ""] {
            assert!(attributes(&[word.to_owned()], &Value::Null).is_err(), "{word}");
        }
        assert!(attributes(&["at=5".to_owned(), "at.events=1".to_owned()], &Value::Null).is_err());
    }

    #[test]
    fn a_toxic_fits_in_one_text() {
        let toxic = parse("latency latency=5s jitter=10").unwrap();
        assert_eq!(toxic.kind, "latency");
        assert_eq!(Value::Object(toxic.attributes), json!({"latency": "5s", "jitter": 10}));
        assert!(parse("latency=5").is_err());
    }

    #[test]
    fn a_text_that_does_not_hold_is_shown_with_what_is_wrong() {
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
