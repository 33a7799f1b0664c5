//! `aconite journal`.
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use aconite_api::{
    Client,
    model::{Exchange, ExchangeEnd, ExchangeFilter},
};
use serde_json::{Value, json};

use super::{Failure, Outcome, Remote};

/// How often new exchanges are asked for.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,
    /// Of this proxy
    #[arg(long)]
    proxy: Option<String>,
    /// With this status
    #[arg(long)]
    status: Option<u16>,
    /// With this toxic
    #[arg(long)]
    toxic: Option<String>,
    /// Of this test
    #[arg(long, value_name = "ID")]
    test_id: Option<String>,
    /// Whose path contains this
    #[arg(long)]
    path: Option<String>,
    /// Wait until the exchanges in flight have ended
    #[arg(long)]
    wait: bool,
    /// Print a line of JSON for each
    #[arg(long)]
    json: bool,
}

/// Prints exchanges, oldest first; with `--follow` each when it has ended.
pub(super) async fn run(args: Args, outer: &Remote) -> Outcome {
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
    if args.follow {
        return follow(&client, filter, args.json).await;
    }
    let mut since = 0;
    let mut none = true;
    loop {
        let page = client.exchanges(&ExchangeFilter { since: Some(since), ..filter.clone() }).await?;
        for exchange in &page.exchanges {
            print(exchange, args.json)?;
            none = false;
        }
        if page.exchanges.is_empty() || page.next <= since {
            // For people only: to a program no line says the same.
            if none && !args.json && std::io::stdout().is_terminal() {
                writeln!(std::io::stdout(), "No exchanges. Only `http` and `forward` proxies have any.")?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        since = page.next;
    }
}

/// Asks again from the oldest exchange that was under way, so that each is printed once, whole.
async fn follow(client: &Client, filter: ExchangeFilter, as_json: bool) -> Outcome {
    let mut since = 0;
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

fn print(exchange: &Exchange, as_json: bool) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", json!(exchange))?
    } else {
        writeln!(out, "{}", line(exchange))?
    }
    Ok(())
}

/// One exchange in a line: number, time, proxy, request, status, how long, how much, how it ended, what was planned.
fn line(exchange: &Exchange) -> String {
    let Exchange { id, started, proxy, method, host, path, status, duration_ms, bytes_out, events, .. } =
        exchange;
    let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let duration = duration_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}ms"));
    let events = if *events > 0 { format!(" {events} events") } else { String::new() };
    let ending = exchange.ending.map_or_else(
        || "under way".to_owned(),
        |ExchangeEnd { side, how }| {
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
            (None, false) => format!("{}(-)", toxic.name),
        })
        .collect();
    let toxics = if toxics.is_empty() { String::new() } else { format!("\t{}", toxics.join(" ")) };
    format!(
        "{id}\t{started}\t{proxy}\t{method} {host}{path}\t{status}\t{duration}\t{bytes_out} bytes{events}\t{ending}{toxics}"
    )
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
        assert_eq!(line(&exchange), "7\t2026-01-02T03:04:05Z\tp\tPOST h/v1\t-\t-\t0 bytes\tunder way");
        exchange.status = Some(200);
        exchange.duration_ms = Some(12.4);
        exchange.bytes_out = 99;
        exchange.events = 3;
        exchange.ending = Some(ExchangeEnd { side: Side::Toxic, how: How::Rst });
        exchange.toxics = vec![strike("cut", true, None), strike("big", false, Some("too_large"))];
        assert_eq!(
            line(&exchange),
            "7\t2026-01-02T03:04:05Z\tp\tPOST h/v1\t200\t12ms\t99 bytes 3 events\trst by toxic\tcut! big(too_large)"
        );
        exchange.ending = Some(ExchangeEnd { side: Side::Proxy, how: How::Error });
        exchange.toxics.clear();
        exchange.error = Some("upstream_dns".to_owned());
        assert!(line(&exchange).ends_with("\terror by proxy (upstream_dns)"), "{}", line(&exchange));
    }
}
