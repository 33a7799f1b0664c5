//! `aconite demo`: real streams through real sockets, healthy and broken, with no key and no network.
mod client;

use std::{io::Write, process::ExitCode, time::Duration};

use aconite_api::{client::Client as Admin, model::ProxySpec};
use aconite_toxics::ToxicSpec;
use serde_json::{Value, json};

use super::CommandError;
use crate::Aconite;
use client::{AnswerEnd, ClientPath, Seen};

/// One fault to show: on which proxy, what it is, and what the client must see of it.
struct Scene {
    title: &'static str,
    proxy: &'static str,
    toxic: Value,
    /// Add the toxic only once the stream runs.
    live: bool,
    expected: fn(&Seen) -> bool,
}

/// Streams from two simulated providers, healthy, then through each toxic, then healthy again. The exit code says
/// whether everything that was seen was what it should be.
pub(crate) async fn run(keep: bool) -> ExitCode {
    let outcome = match prepare().await {
        Ok(stage) => {
            let passed = stage.play().await;
            match passed {
                Ok(passed) => stage.close(keep, passed).await,
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| {
        error.report(&mut std::io::stderr().lock(), super::coloured(&std::io::stderr()))
    })
}

struct Stage {
    instance: Aconite,
    admin: Admin,
    openai: ClientPath,
    anthropic: ClientPath,
    colour: bool,
}

async fn prepare() -> Result<Stage, CommandError> {
    let proxy = |spec: Value| serde_json::from_value::<ProxySpec>(spec).map_err(failed);
    let instance = Aconite::builder()
        .seed(42)
        .proxy(proxy(json!({"name": "openai", "listen": "127.0.0.1:0", "upstream": "sim://openai?tps=200"}))?)
        .proxy(proxy(json!({
            "name": "env", "protocol": "forward", "listen": "127.0.0.1:0",
            "map": {"api.anthropic.com": "sim://anthropic?tps=200"},
        }))?)
        .start()
        .await
        .map_err(CommandError::from)?;
    let address = |name: &str| {
        instance
            .proxy_address(name)
            .ok_or_else(|| CommandError::new(format!("the proxy `{name}` does not listen")))
    };
    let openai = ClientPath::base_url(address("openai")?);
    let anthropic =
        ClientPath::https_proxy(address("env")?, "api.anthropic.com", instance.ca_pem()).map_err(failed)?;
    let admin = instance.client();
    Ok(Stage { instance, admin, openai, anthropic, colour: super::coloured(&std::io::stdout()) })
}

impl Stage {
    /// Shows everything; how many scenes went as they should, of how many.
    async fn play(&self) -> Result<(usize, usize), CommandError> {
        self.say("Aconite demo: two simulated providers behind two proxies, all on 127.0.0.1. No key, no network.\n");
        self.say(&format!("  admin API    {}", self.instance.admin_url()));
        self.say(&format!("  openai       {}   a reverse proxy, for an SDK's base_url", self.openai));
        self.say(&format!(
            "  env          {}   a forward proxy, for HTTPS_PROXY; it opens TLS to api.anthropic.com\n",
            self.anthropic
        ));
        let (mut good, mut all) = (0, 0);
        let mut count = |as_expected: bool| {
            all += 1;
            good += usize::from(as_expected);
        };
        self.say(&self.bold("Healthy"));
        count(self.healthy().await?);
        for scene in SCENES.iter().map(|make| make()) {
            count(self.show(&scene).await?);
        }
        self.say(&self.bold("\nHealthy again"));
        count(self.healthy().await?);
        Ok((good, all))
    }

    async fn healthy(&self) -> Result<bool, CommandError> {
        let mut good = true;
        for (name, way) in [("openai", &self.openai), ("env", &self.anthropic)] {
            let seen = self.ask(name, way).await?;
            good &= self.report(
                name,
                &seen,
                seen.status == 200 && seen.ending == AnswerEnd::Complete && seen.finished,
            );
        }
        Ok(good)
    }

    async fn show(&self, scene: &Scene) -> Result<bool, CommandError> {
        let toxic: ToxicSpec = serde_json::from_value(scene.toxic.clone()).map_err(failed)?;
        self.say(&format!("\n{}", self.bold(scene.title)));
        self.say(&format!("  POST /v1/proxies/{}/toxics {}", scene.proxy, scene.toxic));
        let way = if scene.proxy == "openai" { &self.openai } else { &self.anthropic };
        let (seen, added) = if scene.live {
            let add = async {
                tokio::time::sleep(Duration::from_millis(60)).await;
                self.admin.add_toxic(scene.proxy, &toxic).await
            };
            tokio::join!(self.ask(scene.proxy, way), add)
        } else {
            let added = self.admin.add_toxic(scene.proxy, &toxic).await;
            (self.ask(scene.proxy, way).await, added)
        };
        let toxic = added.map_err(CommandError::from)?;
        let seen = seen?;
        let as_expected = self.report(scene.proxy, &seen, (scene.expected)(&seen));
        self.admin.remove_toxic(scene.proxy, &toxic.name).await.map_err(CommandError::from)?;
        Ok(as_expected)
    }

    async fn ask(&self, proxy: &str, way: &ClientPath) -> Result<Seen, CommandError> {
        let (path, headers, body) = match proxy {
            "openai" => (
                "/v1/chat/completions",
                &[("authorization", "Bearer demo")][..],
                json!({"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "Tell me about aconite."}]}),
            ),
            _ => (
                "/v1/messages",
                &[("x-api-key", "demo"), ("anthropic-version", "2023-06-01")][..],
                json!({"model": "claude-sonnet-4", "max_tokens": 200, "stream": true,
                       "messages": [{"role": "user", "content": "Tell me about aconite."}]}),
            ),
        };
        way.ask(path, headers, &body).await.map_err(failed)
    }

    fn report(&self, name: &str, seen: &Seen, as_expected: bool) -> bool {
        let mark = match (as_expected, self.colour) {
            (true, true) => "\x1b[32m✓\x1b[0m",
            (false, true) => "\x1b[31m✗\x1b[0m",
            (true, false) => "ok",
            (false, false) => "NOT AS EXPECTED",
        };
        self.say(&format!("  {mark} {name}: the client saw {seen}"));
        as_expected
    }

    fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn say(&self, line: &str) {
        // A reader who has left does not end the demonstration.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    async fn close(self, keep: bool, (good, all): (usize, usize)) -> Result<ExitCode, CommandError> {
        self.say(&format!("\n{good} of {all} as expected. Every answer whose head a toxic could still reach says so in x-aconite-toxics; the journal has them all."));
        if keep {
            self.say(&self.next_steps());
            tokio::signal::ctrl_c().await.map_err(failed)?;
        }
        self.instance.stop().await;
        Ok(if good == all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn next_steps(&self) -> String {
        let admin = self.instance.admin_url();
        let openai = &self.openai;
        format!(
            "\nEverything is still running; Ctrl-C ends it. Try:\n\
             \n  curl -N {openai}/v1/chat/completions -H 'authorization: Bearer k' -H 'content-type: application/json' \\\n    \
             -d '{{\"model\":\"gpt-4o\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"hi\"}}]}}'\
             \n  curl {admin}/v1/proxies/openai/toxics -d '{{\"type\":\"cut\",\"attributes\":{{\"at\":{{\"events\":3}},\"how\":\"rst\"}}}}'\
             \n  curl {admin}/v1/exchanges\
             \n  curl -X DELETE {admin}/v1/proxies/openai/toxics/cut_downstream\
             \n  open {admin}/ in a browser"
        )
    }
}

/// In the order in which they are shown.
const SCENES: &[fn() -> Scene] = &[
    || Scene {
        title: "The provider closes the connection in mid-stream",
        proxy: "openai",
        toxic: json!({"type": "cut", "attributes": {"at": {"events": 3}, "how": "fin"}}),
        live: false,
        expected: |seen| seen.events == 3 && seen.ending == AnswerEnd::Closed,
    },
    || Scene {
        title: "The stream ends too early, with a valid end: no SDK notices",
        proxy: "env",
        toxic: json!({"type": "cut", "attributes": {"at": {"events": 5}, "how": "clean"}}),
        live: false,
        expected: |seen| seen.events == 5 && seen.ending == AnswerEnd::Complete && !seen.finished,
    },
    || Scene {
        title: "A reset, added while the stream runs",
        proxy: "openai",
        toxic: json!({"type": "cut", "attributes": {"at": {"events": 1}, "how": "rst"}}),
        live: true,
        expected: |seen| seen.events > 1 && seen.ending == AnswerEnd::Reset,
    },
    || Scene {
        title: "Rate limited, in the provider's own words",
        proxy: "openai",
        toxic: json!({"type": "fail", "attributes": {"cause": "rate_limit"}}),
        live: false,
        expected: |seen| seen.status == 429 && seen.body.contains("rate_limit_exceeded"),
    },
    || Scene {
        title: "Overloaded",
        proxy: "env",
        toxic: json!({"type": "fail", "attributes": {"cause": "overloaded"}}),
        live: false,
        expected: |seen| seen.status == 529 && seen.body.contains("overloaded_error"),
    },
    || Scene {
        title: "An error in mid-stream, after a 200",
        proxy: "env",
        toxic: json!({"type": "stream_error", "attributes": {"at": {"events": 6}, "cause": "overloaded"}}),
        live: false,
        expected: |seen| seen.status == 200 && seen.body.contains("overloaded_error"),
    },
    || Scene {
        title: "Tokens come slowly",
        proxy: "openai",
        toxic: json!({"type": "slow_stream", "attributes": {"first": "300ms", "between": "20ms"}}),
        live: false,
        expected: |seen| seen.finished && seen.first_event >= Duration::from_millis(300),
    },
    || Scene {
        title: "One event is half an event",
        proxy: "openai",
        toxic: json!({"type": "garble", "attributes": {"at": {"events": 3}, "how": "half_json"}}),
        live: false,
        expected: |seen| seen.broken_json == 1,
    },
    || Scene {
        title: "The network is slow: every byte is 150 ms late",
        proxy: "env",
        toxic: json!({"type": "latency", "attributes": {"latency": 150}}),
        live: false,
        expected: |seen| seen.finished && seen.first_event >= Duration::from_millis(150),
    },
];

#[expect(clippy::needless_pass_by_value, reason = "it stands where a conversion of errors is expected")]
fn failed(error: impl ToString) -> CommandError {
    CommandError::new(error.to_string())
}
