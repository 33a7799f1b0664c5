//! `toxiproxy_rust`, unmodified, against the admin API: `toxiproxy-rust-client HOST PORT UPSTREAM`.
//!
//! UPSTREAM echoes. Prints one JSON line for each check: {"check", "ok", "message"}.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use toxiproxy_rust::client::Client;
use toxiproxy_rust::proxy::{Proxy, ProxyPack};

type Outcome = Result<(), String>;

/// The time that a round trip through the proxy takes.
fn echo(proxy: &Proxy) -> std::io::Result<Duration> {
    let mut connection = TcpStream::connect(&proxy.proxy_pack.listen)?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let started = Instant::now();
    connection.write_all(b"petal")?;
    let mut read = [0; 5];
    connection.read_exact(&mut read)?;
    assert_eq!(&read, b"petal");
    Ok(started.elapsed())
}

fn takes(proxy: &Proxy, least: u64, most: u64) -> Outcome {
    let took = echo(proxy).map_err(|error| format!("echo: {error}"))?;
    if took < Duration::from_millis(least) || took > Duration::from_millis(most) {
        return Err(format!("echo took {took:?}, not {least} to {most} ms"));
    }
    Ok(())
}

fn refused(proxy: &Proxy) -> Outcome {
    match echo(proxy) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        other => Err(format!("connection not refused: {other:?}")),
    }
}

fn pack(name: &str, upstream: &str) -> ProxyPack {
    ProxyPack::new(name.into(), "127.0.0.1:0".into(), upstream.into())
}

fn version(client: &Client) -> Outcome {
    let body: serde_json::Value =
        serde_json::from_str(&client.version()?).map_err(|error| error.to_string())?;
    match body["version"].as_str() {
        Some("2.12.0") if client.is_running() => Ok(()),
        other => Err(format!("version {other:?}")),
    }
}

fn populate(client: &Client, upstream: &str) -> Outcome {
    let made = client.populate(vec![pack("rust", upstream), pack("rust-two", upstream)])?;
    let names: Vec<_> = made.iter().map(|proxy| proxy.proxy_pack.name.as_str()).collect();
    if names != ["rust", "rust-two"] {
        return Err(format!("populate made {names:?}"));
    }
    made.iter().try_for_each(|proxy| takes(proxy, 0, 10_000))?;
    match client.all()?.len() {
        2 => Ok(()),
        other => Err(format!("{other} proxies listed")),
    }
}

/// Adds one toxic, reads it back, and takes it away by the client's own means.
fn toxic(client: &Client, kind: &str, add: impl Fn(&Proxy, &str)) -> Outcome {
    let proxy = client.find_proxy("rust")?;
    for stream in ["upstream", "downstream"] {
        add(&proxy, stream);
        let listed = proxy.toxics()?;
        match listed.as_slice() {
            [one] if one.name == format!("{kind}_{stream}") && one.r#type == kind && one.stream == stream => {
            }
            other => return Err(format!("listed {other:?}")),
        }
        if client.find_proxy("rust")?.proxy_pack.toxics.len() != 1 {
            return Err("the proxy does not carry its toxic".into());
        }
        proxy.delete_all_toxics()?;
        if !proxy.toxics()?.is_empty() {
            return Err("toxics left".into());
        }
    }
    Ok(())
}

fn latency(client: &Client) -> Outcome {
    let proxy = client.find_proxy("rust")?;
    let mut inside = Ok(());
    proxy.with_latency("downstream".into(), 1000, 0, 1.0).apply(|| inside = takes(&proxy, 1000, 10_000))?;
    inside?;
    takes(&proxy, 0, 999)
}

fn down(client: &Client) -> Outcome {
    let proxy = client.find_proxy("rust")?;
    let mut inside = Ok(());
    proxy.with_down(|| inside = refused(&proxy))?;
    inside?;
    takes(&proxy, 0, 10_000)
}

fn reset(client: &Client) -> Outcome {
    let proxy = client.find_proxy("rust")?;
    proxy.with_latency("downstream".into(), 60_000, 0, 1.0).disable()?;
    client.reset()?;
    let again = client.find_proxy("rust")?;
    if !again.proxy_pack.enabled || !again.proxy_pack.toxics.is_empty() {
        return Err(format!("after the reset: {:?}", again.proxy_pack));
    }
    takes(&again, 0, 10_000)
}

fn delete(client: &Client) -> Outcome {
    for proxy in client.all()?.into_values() {
        proxy.delete()?;
        refused(&proxy)?;
    }
    match client.all()?.len() {
        0 => Ok(()),
        other => Err(format!("{other} proxies left")),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, upstream] = arguments.as_slice() else {
        panic!("usage: toxiproxy-rust-client HOST PORT UPSTREAM");
    };
    let client = Client::new(format!("{host}:{port}"));
    let check = |name: &str, run: &dyn Fn() -> Outcome| {
        // The client panics where a toxic is refused.
        let outcome =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("the client panicked".into()));
        let (ok, message) = (outcome.is_ok(), outcome.err().unwrap_or_default());
        println!("{}", serde_json::json!({"check": name, "ok": ok, "message": message}));
    };
    check("version", &|| version(&client));
    check("populate", &|| populate(&client, upstream));
    let add: [(&str, &dyn Fn(&Proxy, &str)); 6] = [
        ("latency", &|proxy, stream| {
            proxy.with_latency(stream.into(), 150, 5, 0.5);
        }),
        ("bandwidth", &|proxy, stream| {
            proxy.with_bandwidth(stream.into(), 1000, 0.5);
        }),
        ("slow_close", &|proxy, stream| {
            proxy.with_slow_close(stream.into(), 5, 0.5);
        }),
        ("timeout", &|proxy, stream| {
            proxy.with_timeout(stream.into(), 60_000, 0.5);
        }),
        ("slicer", &|proxy, stream| {
            proxy.with_slicer(stream.into(), 10, 5, 10, 0.5);
        }),
        ("limit_data", &|proxy, stream| {
            proxy.with_limit_data(stream.into(), 1_000_000, 0.5);
        }),
    ];
    for (kind, add) in add {
        check(&format!("toxic {kind}"), &|| toxic(&client, kind, add));
    }
    check("latency added and removed", &|| latency(&client));
    check("down", &|| down(&client));
    check("reset", &|| reset(&client));
    check("delete", &|| delete(&client));
}
