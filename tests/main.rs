//! One program for all tests over real sockets and the real executable.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests have tasks and peers of their own")]
// The command line: exit codes, messages, formats.
mod cli;
// The command line: proxies with all their fields, credentials, Toxiproxy's exit codes.
mod cli_create;
// `aconite serve`: flags, signals, port file, reload.
mod cli_serve;
// What the tests of the command line share.
mod cli_support;
// Changes of proxies by the admin API and by the configuration file.
mod admin_cases;
// What the metrics tell of toxics.
mod metrics;
// Aconite inside another program.
mod dependencies;
mod embedding;
// The fuzz targets' corpora, replayed.
mod corpora;
// The index of the cases that tests are named by.
mod cases;
// Pages of the manual that are made from the source.
mod generated;
// Which crate and which module may use which.
mod layers;
// Real bug reports about HTTP/1.1.
mod http_cases;
// Where requests end, and requests that leave that in doubt.
mod framing;
// Toxics that a request brings along, and the kill switch over them.
mod in_band;
// Logs and spans that a collector gets.
#[cfg(feature = "otlp")]
mod otlp;
// What a client can reach, and what it cannot.
mod reach;
// What is recorded of what passed and struck.
mod recording;
// What must not be recorded: secrets, and more than there is room for.
mod recording_bounds;
// Why toxics did not act.
mod recording_reasons;
// Real bug reports about JSON bodies.
mod json_cases;
// Real bug reports about text that is not ASCII.
mod cjk_cases;
// Real bug reports about streams of events.
mod sse_cases;
// Streams that are JSON arrays and AWS event streams.
mod stream_forms;
// Origins, raw clients, running proxies.
mod support;
// Upstreams that cannot be reached, or that have moved.
mod stale_address;
// Real bug reports about Toxiproxy.
mod tox_cases;
// Many changes, many connections, hostile peers.
mod load_cases;
// Relays, clocks, stops.
mod control;
// Real bug reports about forward proxies and TLS.
mod forward_cases;
// Origins and clients with TLS.
mod tls_support;
// Real bug reports about HTTP/2 and gRPC.
mod h2_cases;
// What no toxic changes.
mod untouched;
