//! `aconite journal`.
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use aconite_api::{
    Client,
    model::{End, Exchange, ExchangeFilter},
};
use aconite_toxics::Millis;
use serde_json::{Value, json};

use super::{CommandError, CommandResult, Remote};

/// How often new exchanges are asked for.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Keep printing exchanges as they end
    #[arg(short, long)]
    follow: bool,
    /// Only exchanges of this proxy
    #[arg(long)]
    proxy: Option<String>,
    /// Only exchanges with this status
    #[arg(long)]
    status: Option<u16>,
    /// Only exchanges that this toxic was considered for
    #[arg(long)]
    toxic: Option<String>,
    /// Only exchanges of this test
    #[arg(long, value_name = "ID")]
    test_id: Option<String>,
    /// Only exchanges whose path contains this
    #[arg(long)]
    path: Option<String>,
    /// Only the newest N exchanges
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "follow")]
    limit: Option<usize>,
    /// Only exchanges after this one, by its number, or of this last period: 5m, 30s
    #[arg(long, value_name = "ID|TIME", value_parser = since)]
    since: Option<Since>,
    /// Wait until the exchanges in progress have ended
    #[arg(long)]
    wait: bool,
    /// Print each exchange as a line of JSON
    #[arg(long)]
    json: bool,
}

/// Where to start.
#[derive(Clone, Debug)]
enum Since {
    /// After the exchange with this number.
    Exchange(u64),
    /// With exchanges that began at most this long ago.
    Ago(Duration),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(id) = text.parse() {
        return Ok(Since::Exchange(id));
    }
    let ago: Millis = serde_json::from_value(text.into())
        .map_err(|_| "expected the number of an exchange, or a period such as 5m".to_owned())?;
    Ok(Since::Ago(ago.into()))
}

/// Prints exchanges, oldest first; with `--follow` each when it has ended.
pub(super) async fn run(args: Args, outer: &Remote) -> CommandResult {
    let client = args.remote.client(outer)?;
    let filter = ExchangeFilter {
        proxy: args.proxy,
        path: args.path,
        status: args.status,
        toxic: args.toxic,
        test_id: args.test_id,
        wait: args.wait.then_some(1),
        ..ExchangeFilter::default()
    };
    let (mut since, earliest) = match args.since {
        None => (0, None),
        Some(Since::Exchange(id)) => (id, None),
        Some(Since::Ago(ago)) => (0, Some(jiff::Timestamp::now() - ago)),
    };
    if args.follow {
        return follow(&client, filter, since, args.json).await;
    }
    let mut found = Vec::new();
    loop {
        let page = client.exchanges(&ExchangeFilter { since: Some(since), ..filter.clone() }).await?;
        let over = page.exchanges.is_empty() || page.next <= since;
        since = page.next;
        let late_enough = |exchange: &Exchange| {
            earliest.is_none_or(|earliest| {
                exchange.started.parse().is_ok_and(|started: jiff::Timestamp| started >= earliest)
            })
        };
        found.extend(page.exchanges.into_iter().filter(late_enough));
        if over {
            break;
        }
    }
    let newest = found.len() - args.limit.map_or(found.len(), |limit| limit.min(found.len()));
    show(&found[newest..], args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// A table on a terminal; elsewhere lines for programs.
fn show(exchanges: &[Exchange], as_json: bool) -> Result<(), CommandError> {
    if as_json || !std::io::stdout().is_terminal() {
        return exchanges.iter().try_for_each(|exchange| print(exchange, as_json));
    }
    let mut out = std::io::stdout().lock();
    if exchanges.is_empty() {
        writeln!(out, "No exchanges. Only `http` and `forward` proxies have exchanges.")?;
        return Ok(());
    }
    write!(out, "{}", table(exchanges))?;
    Ok(())
}

/// The exchanges in columns, with a legend.
fn table(exchanges: &[Exchange]) -> String {
    const HEAD: [&str; 8] = ["ID", "TIME", "PROXY", "REQUEST", "STATUS", "TOOK", "ENDED", "TOXICS"];
    const WIDEST: usize = 60;
    let cut = |cell: String| match cell.char_indices().nth(WIDEST) {
        Some((at, _)) => format!("{}…", &cell[..at]),
        None => cell,
    };
    let row = |exchange: &Exchange| {
        let [id, started, proxy, request, status, took, _, ended, toxics] = cells(exchange);
        // The time of day is enough for a person: 2026-01-02T03:04:05.678901Z.
        let time = started.get(11..19).unwrap_or(&started).to_owned();
        [id, time, proxy, request, status, took, ended, toxics].map(cut)
    };
    let rows: Vec<_> = exchanges.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max(HEAD[column].len())
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: [&str; 8]| {
        let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(HEAD);
    for row in &rows {
        text.push_str(&line(row.each_ref().map(String::as_str)));
    }
    text + "\nTOXICS: `name!` was applied, `name(reason)` was not, `name(armed)` still may be.  ENDED: how, and by whom.  --json has every field.\n"
}

/// Asks again from the oldest exchange that was in progress, so that each one is printed once, complete.
async fn follow(client: &Client, filter: ExchangeFilter, mut since: u64, as_json: bool) -> CommandResult {
    let mut printed = std::collections::BTreeSet::new();
    loop {
        let page = client.exchanges(&ExchangeFilter { since: Some(since), ..filter.clone() }).await?;
        let mut settled = page.next;
        for exchange in &page.exchanges {
            if exchange.ending.is_none() {
                settled = settled.min(exchange.id.saturating_sub(1));
            } else if printed.insert(exchange.id) {
                print(exchange, as_json)?;
            }
        }
        let behind = settled > since;
        since = settled;
        printed = printed.split_off(&(since + 1));
        if !behind {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn print(exchange: &Exchange, as_json: bool) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", json!(exchange))?
    } else {
        writeln!(out, "{}", line(exchange))?
    }
    Ok(())
}

/// One exchange as a line for programs, with tabs between the fields.
fn line(exchange: &Exchange) -> String {
    cells(exchange).join("\t").trim_end().to_owned()
}

/// Number, time, proxy, request, status, duration, size, ending, toxics.
fn cells(exchange: &Exchange) -> [String; 9] {
    let Exchange { id, started, proxy, method, host, path, status, duration_ms, bytes_out, events, .. } =
        exchange;
    let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let duration = duration_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}ms"));
    let events = if *events > 0 { format!(" {events} events") } else { String::new() };
    let ending = exchange.ending.map_or_else(
        || "in progress".to_owned(),
        |End { side, how }| {
            let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
            let why = exchange.error.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
            format!("{} by {}{why}", word(json!(how)), word(json!(side)))
        },
    );
    let toxics: Vec<_> = exchange
        .toxics
        .iter()
        .map(|toxic| match (&toxic.reason, toxic.struck) {
            (_, true) => format!("{}!", toxic.name),
            (Some(reason), false) => format!("{}({reason})", toxic.name),
            (None, false) if exchange.ending.is_none() => format!("{}(armed)", toxic.name),
            (None, false) => format!("{}(-)", toxic.name),
        })
        .collect();
    [
        id.to_string(),
        started.clone(),
        proxy.clone(),
        format!("{method} {host}{path}"),
        status,
        duration,
        format!("{bytes_out} bytes{events}"),
        ending,
        toxics.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use aconite_api::model::{How, Side, Strike};

    use super::*;

    #[test]
    fn a_line_says_what_was_asked_and_what_struck() {
        let strike = |name: &str, struck, reason: Option<&str>| Strike {
            name: name.to_owned(),
            struck,
            reason: reason.map(str::to_owned),
            ..Strike::default()
        };
        let mut exchange = Exchange {
            id: 7,
            started: "2026-01-02T03:04:05Z".to_owned(),
            proxy: "p".to_owned(),
            method: "POST".to_owned(),
            host: "h".to_owned(),
            path: "/v1".to_owned(),
            ..Exchange::default()
        };
        assert_eq!(line(&exchange), "7\t2026-01-02T03:04:05Z\tp\tPOST h/v1\t-\t-\t0 bytes\tin progress");
        exchange.status = Some(200);
        exchange.duration_ms = Some(12.4);
        exchange.bytes_out = 99;
        exchange.events = 3;
        exchange.ending = Some(End { side: Side::Toxic, how: How::Rst });
        exchange.toxics = vec![strike("cut", true, None), strike("big", false, Some("too_large"))];
        assert_eq!(
            line(&exchange),
            "7\t2026-01-02T03:04:05Z\tp\tPOST h/v1\t200\t12ms\t99 bytes 3 events\trst by toxic\tcut! big(too_large)"
        );
        exchange.ending = Some(End { side: Side::Proxy, how: How::Error });
        exchange.toxics.clear();
        exchange.error = Some("upstream_dns".to_owned());
        assert!(line(&exchange).ends_with("\terror by proxy (upstream_dns)"), "{}", line(&exchange));
    }

    #[test]
    fn a_table_has_columns_and_a_legend() {
        let exchange = |id, path: &str| Exchange {
            id,
            started: "2026-01-02T03:04:05.678Z".to_owned(),
            proxy: "p".to_owned(),
            method: "GET".to_owned(),
            host: "h".to_owned(),
            path: path.to_owned(),
            status: Some(200),
            ..Exchange::default()
        };
        let text = table(&[exchange(9, "/a"), exchange(10, &"/世".repeat(99))]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("ID  TIME      PROXY  REQUEST"), "{text}");
        assert!(lines[1].starts_with("9   03:04:05  p      GET h/a"), "{text}");
        assert!(lines[2].contains("…  200"), "{text}");
        assert!(lines.last().unwrap().starts_with("TOXICS: "), "{text}");
        assert_eq!(lines[1].find("200"), lines[0].find("STATUS"), "{text}");
    }

    #[test]
    fn since_is_a_number_or_a_period() {
        assert!(matches!(since("7"), Ok(Since::Exchange(7))));
        assert!(matches!(since("5m"), Ok(Since::Ago(ago)) if ago == Duration::from_secs(300)));
        assert!(since("yesterday").is_err());
    }
}
