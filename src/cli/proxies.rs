//! `aconite list`, `inspect`, `delete`, `toggle`: in the words of `toxiproxy-cli`.
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use aconite_api::model::{Protocol, ProxySpec};
use aconite_toxics::{Direction, ToxicSpec};
use serde_json::{Value, json};

use super::{CommandResult, Remote};

#[derive(clap::Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct Inspect {
    #[command(flatten)]
    remote: Remote,
    /// Print the proxy as JSON
    #[arg(long)]
    json: bool,
    /// The proxy
    name: String,
}

#[derive(clap::Args, Debug)]
pub(super) struct Delete {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The proxy
    name: String,
}

#[derive(clap::Args, Debug)]
pub(super) struct Toggle {
    #[command(flatten)]
    remote: Remote,
    /// Print the proxy as JSON
    #[arg(long)]
    json: bool,
    /// The proxy
    name: String,
}

/// Lists proxies, sorted by name.
pub(super) async fn list(args: List, outer: &Remote) -> CommandResult {
    let proxies = args.remote.client(outer)?.proxies().await?;
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let mut out = stdout.lock();
    if args.json {
        writeln!(out, "{}", json!({"proxies": proxies}))?;
    } else if terminal {
        table(&proxies, &mut out)?;
    } else {
        for proxy in &proxies {
            writeln!(out, "{}", cells(proxy).join("\t"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(proxy: &ProxySpec) -> [String; 5] {
    let enabled = if proxy.enabled { "enabled" } else { "disabled" };
    let toxics = proxy.toxics.len().to_string();
    let upstream = match proxy.protocol() {
        // Else the column would be empty, and the next one taken for it.
        Protocol::Forward => "(forward)".to_owned(),
        _ => proxy.upstream.clone(),
    };
    [proxy.name.clone(), proxy.listen.clone(), upstream, enabled.to_owned(), toxics]
}

/// For a terminal: columns, the disabled in red, those with toxics in yellow.
fn table(proxies: &[ProxySpec], out: &mut impl Write) -> std::io::Result<()> {
    if proxies.is_empty() {
        return writeln!(
            out,
            "No proxies. Add one with `aconite create NAME --listen HOST:PORT --upstream WHERE`."
        );
    }
    let head = ["Name", "Listen", "Upstream", "Enabled", "Toxics"].map(str::to_owned);
    let rows: Vec<_> = proxies.iter().map(cells).collect();
    let width =
        |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let coloured = std::env::var_os("NO_COLOR").is_none();
    let paint = |code: &'static str| if coloured { code } else { "" };
    let line = |row: &[String; 5]| {
        let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    writeln!(out, "{}{}{}", paint("\x1b[1m"), line(&head), paint("\x1b[0m"))?;
    for (row, proxy) in rows.iter().zip(proxies) {
        let colour = match proxy {
            ProxySpec { enabled: false, .. } => "\x1b[31m",
            ProxySpec { toxics, .. } if !toxics.is_empty() => "\x1b[33m",
            _ => "",
        };
        writeln!(out, "{}{}{}", paint(colour), line(row), paint("\x1b[0m"))?;
    }
    Ok(())
}

/// Shows a proxy's toxics, upstream ones first.
pub(super) async fn inspect(args: Inspect, outer: &Remote) -> CommandResult {
    let proxy = args.remote.client(outer)?.proxy(&args.name).await?;
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let mut out = stdout.lock();
    if args.json {
        writeln!(out, "{}", json!(proxy))?;
        return Ok(ExitCode::SUCCESS);
    }
    if terminal {
        writeln!(out, "Name: {}\tListen: {}\tUpstream: {}", proxy.name, proxy.listen, proxy.upstream)?;
        if proxy.toxics.is_empty() {
            writeln!(out, "The proxy has no toxics. Add one with `aconite toxic add`.")?;
        }
    }
    for toxic in &proxy.toxics {
        writeln!(out, "{}", toxic_line(toxic))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A toxic as `toxiproxy-cli inspect` shows it.
pub(super) fn toxic_line(toxic: &ToxicSpec) -> String {
    let mut attributes: Vec<_> = toxic.attributes.iter().collect();
    attributes.sort_by_key(|(name, _)| *name);
    let attributes: String =
        attributes.iter().map(|(name, value)| format!("{name}={}\t", plain(value))).collect();
    let ToxicSpec { name, kind, stream, toxicity, .. } = toxic;
    let stream = stream_name(*stream);
    let rest = conditions(toxic);
    format!("{name}\ttype={kind}\tstream={stream}\ttoxicity={toxicity:.2}\tattributes=[\t{attributes}]{rest}")
}

/// What else decides whether a toxic strikes; nothing for one that `toxiproxy-cli` could have made.
fn conditions(toxic: &ToxicSpec) -> String {
    let shown = json!(toxic);
    let fields = ["enabled", "match", "budget", "window"];
    fields.iter().filter_map(|&name| Some(format!("\t{name}={}", shown.get(name)?))).collect()
}

/// A direction as it is written.
pub(super) fn stream_name(stream: Direction) -> &'static str {
    match stream {
        Direction::Upstream => "upstream",
        Direction::Downstream => "downstream",
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Deletes a proxy.
pub(super) async fn delete(args: Delete, outer: &Remote) -> CommandResult {
    args.remote.client(outer)?.delete_proxy(&args.name).await?;
    say(args.json.then(|| json!({"deleted": args.name})), format_args!("Deleted proxy {}", args.name))
}

/// Enables a disabled proxy, disables an enabled one.
pub(super) async fn toggle(args: Toggle, outer: &Remote) -> CommandResult {
    let client = args.remote.client(outer)?;
    let enabled = client.proxy(&args.name).await?.enabled;
    let proxy = client.patch_proxy(&args.name, &json!({"enabled": !enabled})).await?;
    let state = if proxy.enabled { "enabled" } else { "disabled" };
    say(args.json.then(|| json!(proxy)), format_args!("Proxy {} is now {state}", proxy.name))
}

/// Prints the JSON if that is wanted, else the sentence.
pub(super) fn say(json: Option<Value>, sentence: std::fmt::Arguments<'_>) -> CommandResult {
    let mut out = std::io::stdout().lock();
    match json {
        Some(json) => writeln!(out, "{json}")?,
        None => writeln!(out, "{sentence}")?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toxic_line_is_toxiproxy_s_and_tells_what_toxiproxy_does_not_have() {
        let shown = |spec: Value| toxic_line(&serde_json::from_value(spec).unwrap());
        assert_eq!(
            shown(json!({"name": "slow", "type": "latency", "attributes": {"latency": 5}})),
            "slow\ttype=latency\tstream=downstream\ttoxicity=1.00\tattributes=[\tlatency=5\t]"
        );
        assert_eq!(
            shown(json!({
                "name": "h", "type": "hang", "attributes": {}, "enabled": false,
                "match": {"model": "gpt-4o"}, "budget": {"times": 2},
            })),
            "h\ttype=hang\tstream=downstream\ttoxicity=1.00\tattributes=[\t]\tenabled=false\tmatch={\"model\":\"gpt-4o\"}\t\
             budget={\"times\":2}"
        );
    }
}
