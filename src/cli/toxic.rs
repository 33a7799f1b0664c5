//! `aconite toxic`: takes the arguments of `toxiproxy-cli`, and shorter ones.
use std::{io::Write, process::ExitCode};

use aconite_api::Client;
use aconite_toxics::{Catalogue, ToxicSpec};
use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    CommandError, CommandResult, Remote,
    proxies::{say, stream_name, toxic_line},
    words::{self, read},
};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    wish: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a toxic: `aconite toxic add PROXY TYPE KEY=VALUE…`
    #[command(visible_alias = "a")]
    Add(Add),
    /// Change a toxic
    #[command(visible_alias = "u")]
    Update(Update),
    /// Remove a toxic
    #[command(visible_aliases = ["r", "delete", "d"])]
    Remove(Named),
    /// List a proxy's toxics, or those of all proxies
    #[command(visible_aliases = ["l", "ls"])]
    List(List),
    /// Enable a disabled toxic
    Enable(Named),
    /// Disable a toxic without removing it
    Disable(Named),
}

#[derive(clap::Args, Debug)]
struct Add {
    #[command(flatten)]
    remote: Remote,
    /// The name of the toxic [default: TYPE_STREAM]
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    /// The type of the toxic; `aconite explain` lists all
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    #[command(flatten)]
    change: Change,
    /// Apply it to what the client sends
    #[arg(short, long, conflicts_with = "downstream")]
    upstream: bool,
    /// Apply it to what the server sends (the default)
    #[arg(short, long)]
    downstream: bool,
    /// The proxy
    proxy: String,
    /// The type, unless --type gives it; then attributes and other fields: at.events=3 toxicity=0.5 match.model=gpt-4o
    #[arg(value_name = "TYPE|KEY=VALUE")]
    words: Vec<String>,
}

#[derive(clap::Args, Debug)]
struct Update {
    #[command(flatten)]
    remote: Remote,
    /// The toxic, unless its name follows the proxy
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    change: Change,
    /// The proxy
    proxy: String,
    /// The toxic, unless --name gives it; then attributes and other fields
    #[arg(value_name = "NAME|KEY=VALUE")]
    words: Vec<String>,
}

/// What adding and updating have in common.
#[derive(clap::Args, Debug)]
struct Change {
    /// The share of connections or exchanges that it applies to, 0 to 1
    #[arg(long = "toxicity", visible_alias = "tox", value_name = "SHARE", value_parser = share)]
    toxicity: Option<f32>,
    /// An attribute; `at.events=3` sets a field of a field
    #[arg(short, long = "attribute", value_name = "KEY=VALUE")]
    attribute: Vec<String>,
    /// A field that is not an attribute: match.model=gpt-4o, budget.times=3, window.for=30s, marker=false
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the toxic as JSON
    #[arg(long)]
    json: bool,
}

/// A toxic of a proxy.
#[derive(clap::Args, Debug)]
struct Named {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The toxic, unless its name follows the proxy
    #[arg(short = 'n', long = "toxicName", visible_alias = "name", value_name = "NAME")]
    name: Option<String>,
    /// The proxy
    proxy: String,
    /// The toxic
    #[arg(value_name = "NAME", required_unless_present = "name", conflicts_with = "name")]
    toxic: Option<String>,
}

#[derive(clap::Args, Debug)]
struct List {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The proxy; without it, all proxies
    proxy: Option<String>,
}

fn share(text: &str) -> Result<f32, String> {
    let share: f32 = text.parse().map_err(|_| "expected a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("expected a number from 0 to 1".to_owned()) }
}

/// Runs one of the subcommands.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    match args.wish {
        Action::Add(args) => add(args, outer).await,
        Action::Update(args) => update(args, outer).await,
        Action::List(args) => list(args, outer).await,
        Action::Enable(args) => enable(args, outer, true).await,
        Action::Disable(args) => enable(args, outer, false).await,
        Action::Remove(Named { remote, json, name, proxy, toxic }) => {
            let name = name.or(toxic).unwrap_or_default();
            remote.client(outer)?.remove_toxic(&proxy, &name).await?;
            let removed = json.then(|| json!({"removed": name, "proxy": proxy}));
            say(removed, format_args!("Removed toxic '{name}' on proxy '{proxy}'"))
        }
    }
}

async fn add(args: Add, outer: &Remote) -> CommandResult {
    let Add { remote, name, kind, change, upstream, downstream, proxy, words } = args;
    let (kind, words) = words::typed(kind, &words)?;
    let client = remote.client(outer)?;
    let schema = schema(&client, &kind, outer).await;
    let mut spec = change.fields(words, &schema, outer)?;
    spec.insert("type".to_owned(), kind.into());
    if let Some(name) = name {
        spec.insert("name".to_owned(), name.into());
    }
    if upstream || downstream {
        spec.insert("stream".to_owned(), if upstream { "upstream" } else { "downstream" }.into());
    }
    let added = client.add_toxic(&proxy, &read::<ToxicSpec>(Value::Object(spec))?).await?;
    let ToxicSpec { name, kind, stream, .. } = &added;
    let stream = stream_name(*stream);
    say(
        change.json.then(|| json!(added)),
        format_args!("Added {stream} {kind} toxic '{name}' on proxy '{proxy}'"),
    )?;
    warn_if_switched_off(&client, outer).await?;
    Ok(ExitCode::SUCCESS)
}

/// Says so if no toxic acts now. A server that does not tell is not asked twice.
async fn warn_if_switched_off(client: &Client, outer: &Remote) -> Result<(), CommandError> {
    if outer.toxiproxy {
        return Ok(());
    }
    if let Ok(chaos) = client.chaos().await
        && !chaos.enabled
    {
        let by = chaos.by.map_or_else(String::new, |by| format!(" by {by}"));
        let text = "the kill switch is off, so no toxic acts; turn it on with `aconite chaos on`";
        writeln!(std::io::stderr(), "warning: {text} (turned off{by})")?;
    }
    Ok(())
}

/// The schema of a type's attributes: the server's if this program does not know the type.
async fn schema(client: &Client, kind: &str, outer: &Remote) -> Value {
    match Catalogue::default().definition(kind) {
        Ok(definition) => definition.schema(),
        Err(_) if outer.toxiproxy => Value::Null,
        // The server reports an unknown type, with the nearest names.
        Err(_) => client.toxic_type(kind).await.map(|known| known.schema).unwrap_or_default(),
    }
}

async fn update(args: Update, outer: &Remote) -> CommandResult {
    let Update { remote, name, change, proxy, words } = args;
    let (name, words) = match (name, words.as_slice()) {
        (Some(name), words) => (name, words),
        (None, [name, words @ ..]) if !name.contains('=') => (name.clone(), words),
        (None, _) => {
            return Err(CommandError::usage("the name of the toxic is missing")
                .hint(format!("`aconite toxic list {proxy}` shows the names")));
        }
    };
    let client = remote.client(outer)?;
    let toxics = client.toxics(&proxy).await?;
    let kind = toxics.iter().find(|toxic| toxic.name == name).map_or("", |toxic| toxic.kind.as_str());
    let schema = schema(&client, kind, outer).await;
    let patch = Value::Object(change.fields(words, &schema, outer)?);
    let updated = client.patch_toxic(&proxy, &name, &patch).await?;
    say(change.json.then(|| json!(updated)), format_args!("Updated toxic '{name}' on proxy '{proxy}'"))
}

async fn enable(args: Named, outer: &Remote, enabled: bool) -> CommandResult {
    let Named { remote, json, name, proxy, toxic } = args;
    let name = name.or(toxic).unwrap_or_default();
    let client = remote.client(outer)?;
    let updated = client.patch_toxic(&proxy, &name, &json!({"enabled": enabled})).await?;
    let state = if enabled { "enabled" } else { "disabled" };
    say(json.then(|| json!(updated)), format_args!("Toxic '{name}' on proxy '{proxy}' is now {state}"))?;
    if enabled {
        warn_if_switched_off(&client, outer).await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(args: List, outer: &Remote) -> CommandResult {
    let client = args.remote.client(outer)?;
    let proxies = match &args.proxy {
        Some(name) => vec![client.proxy(name).await?],
        None => client.proxies().await?,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let toxics = proxies.iter().map(|proxy| json!({"proxy": proxy.name, "toxics": proxy.toxics}));
        writeln!(out, "{}", json!({"proxies": toxics.collect::<Vec<_>>()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for proxy in &proxies {
        for toxic in &proxy.toxics {
            // One proxy's toxics need no column for it.
            let column = if args.proxy.is_some() { String::new() } else { format!("{}\t", proxy.name) };
            writeln!(out, "{column}{}", toxic_line(toxic))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Change {
    /// The fields of the toxic that are given; all others stay unchanged.
    fn fields(
        &self,
        words: &[String],
        schema: &Value,
        outer: &Remote,
    ) -> Result<serde_json::Map<String, Value>, CommandError> {
        // As Toxiproxy's command line does.
        let skipped = |word: &&String| !outer.toxiproxy || word.contains('=');
        let attributes: Vec<String> = self.attribute.iter().filter(skipped).cloned().collect();
        let mut fields = words::fields(&attributes, words, schema)?;
        if let Some(toxicity) = self.toxicity {
            fields.insert("toxicity".to_owned(), json!(toxicity));
        }
        for word in &self.set {
            words::put(&mut fields, word, &Value::Null)?;
        }
        Ok(fields)
    }
}
