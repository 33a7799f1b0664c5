//! Export by OTLP, to a collector that keeps what it gets.
mod collector;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    logs::v1::LogRecord,
    trace::v1::{span::SpanKind, status::StatusCode},
};
use tempfile::TempDir;

use self::collector::{Collector, head, header, hex, read};
use crate::{
    cli_support::{Server, aconite, file},
    support::refusing,
    tls_support::Identity,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A server with these variables and proxies.
fn serve(proxies: &str, variables: &[(&str, &str)]) -> Server {
    let home = TempDir::new().unwrap();
    let config = file(home.path(), "a.yaml", &format!("proxies:\n{proxies}"));
    let mut command = aconite(home.path());
    command.args(["serve", "--admin", "127.0.0.1:0", "-c"]).arg(config).envs(variables.iter().copied());
    Server::from(command, home)
}

const SIM: &str = "  - {name: sim, listen: '127.0.0.1:0', upstream: 'sim://openai'}\n";

const CHAT: &str =
    r#"{"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "sesame-body"}]}"#;

/// Asks for a chat; all that came until the answer ended, in whichever way.
fn chat(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = CHAT.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         authorization: Bearer sesame-header\r\ncontent-length: {length}\r\n{headers}\r\n{CHAT}"
    )
    .unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = Vec::new();
    // A reset is an end like any other.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_exchange_becomes_a_span_below_the_callers_own() {
    let collector = Collector::start();
    let proxies = "  - {name: broken, listen: '127.0.0.1:0', upstream: 'sim://openai', toxics: [\
                   {name: short, type: cut, attributes: {at: {events: 3}, how: rst}}, \
                   {name: never, type: delay, toxicity: 0, attributes: {delay: 5}}]}\n";
    let server = serve(
        proxies,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("RUST_LOG", "trace"),
            // Exports go past proxies.
            ("HTTP_PROXY", "http://127.0.0.1:1"),
            ("http_proxy", "http://127.0.0.1:1"),
            ("HTTPS_PROXY", "http://127.0.0.1:1"),
            ("ALL_PROXY", "http://127.0.0.1:1"),
        ],
    );
    let headers = format!(
        "traceparent: 00-{TRACE}-{PARENT}-01\r\nx-own: sesame-own\r\n\
         x-aconite-test-id: t-1\r\nx-aconite-scene: rush\r\n"
    );
    let answer =
        chat(server.proxy("broken"), "/v1/chat/completions?key=sesame-key&colour=sesame-query", &headers);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));

    let spans = collector.spans();
    let [(resource, span)] = spans.as_slice() else { panic!("{} spans", spans.len()) };
    assert_eq!(resource["service.name"], "aconite");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), PARENT);
    assert_eq!(span.kind(), SpanKind::Server);
    assert_eq!(span.name, "POST chat");
    assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano > span.start_time_unix_nano);
    assert_eq!(span.status.as_ref().unwrap().code(), StatusCode::Error);
    let attributes = read(&span.attributes);
    let expected = [
        ("aconite.ending.how", "rst"),
        ("aconite.ending.side", "toxic"),
        ("aconite.exchange", "1"),
        ("aconite.proxy", "broken"),
        ("aconite.scene", "rush"),
        ("aconite.test_id", "t-1"),
        ("error.type", "rst"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("server.address", "openai"),
        ("url.path", "/v1/chat/completions"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(attributes, BTreeMap::from(expected));
    // The other toxic did not strike.
    let [event] = span.events.as_slice() else { panic!("{:?}", span.events) };
    assert_eq!(event.name, "toxic");
    assert!(event.time_unix_nano >= span.start_time_unix_nano);
    let told = [("aconite.toxic", "short"), ("aconite.toxic.type", "cut")];
    let told = told.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(read(&event.attributes), BTreeMap::from(told));

    assert!(collector.has("chat/completions") && !collector.has("sesame"));
    let deliveries = collector.deliveries.0.lock().unwrap();
    for delivery in &*deliveries {
        assert_eq!(header(&delivery.head, "content-type"), Some("application/x-protobuf"));
        assert_eq!(header(&delivery.head, "x-tenant"), Some("blue"));
        assert_eq!(header(&delivery.head, "host"), Some(&*collector.address.to_string()));
    }
}

#[test]
fn without_a_valid_traceparent_a_span_is_a_root() {
    let collector = Collector::start();
    let endpoint = format!("{}/own/path", collector.endpoint());
    let server = serve(
        SIM,
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint),
            ("OTEL_SERVICE_NAME", "breaker"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other"),
        ],
    );
    let valid = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let unsampled = format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n");
    let roots = [
        String::new(),
        "traceparent: 00-0-0-01\r\n".to_owned(),
        format!("traceparent: ff-{TRACE}-{PARENT}-01\r\n"),
        format!("traceparent: 00-{}-{PARENT}-01\r\n", TRACE.to_uppercase()),
        format!("traceparent: 00-{TRACE}-{}-01\r\n", "0".repeat(16)),
        format!("traceparent: 00-{TRACE}-{PARENT}-01-00\r\n"),
        // Two are one too many.
        valid.repeat(2),
    ];
    for headers in roots.iter().chain([&valid, &unsampled]) {
        let answer = chat(server.proxy("sim"), "/v1/chat/completions", headers);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    let all = collector.decoded::<ExportTraceServiceRequest>("/own/path");
    let resources: Vec<_> = all.into_iter().flat_map(|request| request.resource_spans).collect();
    let name = &read(&resources[0].resource.as_ref().unwrap().attributes)["service.name"];
    assert_eq!(name, "breaker");
    let scopes = resources.into_iter().flat_map(|resource| resource.scope_spans);
    let spans: Vec<_> = scopes.flat_map(|scope| scope.spans).collect();
    // A caller who does not sample does not want this part either.
    assert_eq!(spans.len(), roots.len() + 1);
    for span in &spans[..roots.len()] {
        assert_eq!(hex(&span.parent_span_id), "");
        assert_ne!(hex(&span.trace_id), TRACE);
    }
    assert_eq!(hex(&spans[roots.len()].parent_span_id), PARENT);
    assert_eq!(spans[roots.len()].status.as_ref().map_or(0, |status| status.code), 0);
    // Only the endpoint for spans was given.
    assert!(collector.deliveries.0.lock().unwrap().iter().all(|delivery| delivery.is_for("/own/path")));
}

#[test]
fn a_request_goes_on_as_it_came() {
    let collector = Collector::start();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let origin = thread::spawn(move || {
        let (stream, _) = upstream.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let head = head(&mut stream);
        stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        head
    });
    let server = serve(
        &format!("  - {{name: own, listen: '127.0.0.1:0', upstream: 'http://{address}'}}\n"),
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())],
    );
    let sent = format!("00-{TRACE}-{PARENT}-01");
    let headers = format!("traceparent: {sent}\r\ntracestate: a=b\r\n");
    chat(server.proxy("own"), "/", &headers);
    let head = origin.join().unwrap().to_ascii_lowercase();
    assert_eq!(header(&head, "traceparent"), Some(&*sent));
    assert_eq!(header(&head, "tracestate"), Some("a=b"));
    assert_eq!(head.matches("trace").count(), 2, "{head}");
    assert!(!head.contains("baggage"), "{head}");
}

#[test]
fn log_events_are_exported_but_none_that_the_export_brings_about() {
    let collector = Collector::over(|stream| stream, 1);
    let server = serve(
        SIM,
        &[
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &format!("{}/v1/logs", collector.endpoint())),
            ("OTEL_BLRP_SCHEDULE_DELAY", "20"),
            ("RUST_LOG", "trace"),
        ],
    );
    // The first delivery is refused and lost, which the log says, and the next one is taken.
    server.logged("cannot export log events");
    // HTTP/2, of which the library would have a lot to tell.
    let mut stream = TcpStream::connect(server.proxy("sim")).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 9]).unwrap();
    drop(stream);
    server.signal("HUP");
    // While it runs, too.
    collector.wait(|deliveries| !deliveries.is_empty());
    server.logged("log events are exported again");
    server.logged("the configuration was read again");
    server.signal("TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0));
    let events = collector.logs();
    let find = |text: &str| {
        let said = |event: &LogRecord| format!("{:?}", event.body).contains(text);
        events.iter().find(|(_, event)| said(event)).unwrap_or_else(|| panic!("not exported: {text}"))
    };
    assert_eq!(find("the configuration was read again").0, "aconite::cli::serve");
    assert_eq!(find("stopped").1.severity_text, "INFO");
    assert!(log.contains("status 500") && log.contains("Settings"), "{log}");
    for (target, event) in &events {
        let own = ["opentelemetry", "hyper", "h2", "aconite::cli::otlp"];
        assert!(!own.iter().any(|own| target.starts_with(own)), "{target}: {event:?}");
    }
    assert!(collector.spans().is_empty());
}

#[test]
fn a_collector_may_want_tls() {
    let identity = Identity::of(&["localhost"]);
    let config = Arc::clone(identity.server(&[], &[]).config());
    let collector = Collector::over(
        move |stream| {
            rustls::StreamOwned::new(rustls::ServerConnection::new(Arc::clone(&config)).unwrap(), stream)
        },
        0,
    );
    let endpoint = format!("https://localhost:{}", collector.address.port());
    let roots = identity.cert_file();
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("SSL_CERT_FILE", roots.to_str().unwrap())];
    let server = serve(SIM, &variables);
    chat(server.proxy("sim"), "/v1/chat/completions", "");
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert_eq!(collector.spans().len(), 1);
    assert!(collector.has("Aconite is running"));
}

#[test]
fn a_collector_that_hangs_holds_neither_requests_nor_the_end() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", hole.local_addr().unwrap());
    let server = serve(
        SIM,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "120000"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
        ],
    );
    let began = Instant::now();
    for _ in 0..12 {
        let answer = chat(server.proxy("sim"), "/v1/chat/completions", "");
        assert!(answer.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{answer}");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    server.logged("due to queue full");
    let stopping = Instant::now();
    server.signal("TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0));
    assert!(stopping.elapsed() < Duration::from_secs(20), "{:?}", stopping.elapsed());
    assert_eq!(log.matches("due to queue full").count(), 1, "{log}");
    assert!(log.contains("the last spans may not have reached the OTLP collector"), "{log}");
}

#[test]
fn a_12_what_a_stop_cuts_is_exported() {
    let collector = Collector::start();
    let proxies = "  - {name: slow, listen: '127.0.0.1:0', upstream: 'sim://openai', toxics: [\
                   {type: slow_stream, attributes: {between: 60s}}]}\ndrain: 1s\n";
    let server = serve(proxies, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())]);
    let clients = [(); 5].map(|()| {
        let mut client = TcpStream::connect(server.proxy("slow")).unwrap();
        let length = CHAT.len();
        write!(
            client,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
             authorization: Bearer x\r\ncontent-length: {length}\r\n\r\n{CHAT}"
        )
        .unwrap();
        let answer = head(&mut BufReader::new(&client));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        client
    });
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    drop(clients);
    let sides =
        collector.spans().into_iter().map(|(_, span)| read(&span.attributes)["aconite.ending.side"].clone());
    assert_eq!(sides.collect::<Vec<_>>(), ["proxy"; 5]);
}

#[test]
fn a_collector_that_is_dead_is_told_of_once() {
    let (_socket, gone) = refusing();
    let endpoint = format!("http://{gone}/sesame");
    let server = serve(
        SIM,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=sesame"),
        ],
    );
    for _ in 0..3 {
        let answer = chat(server.proxy("sim"), "/v1/chat/completions", "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let line = server.line("cannot export spans");
    assert!(line.contains(&gone.to_string()) && line.contains("onnection refused"), "{line}");
    server.signal("TERM");
    let (code, log) = server.ended();
    assert_eq!(code, Some(0));
    assert_eq!(log.matches("cannot export spans").count(), 1, "{log}");
    assert!(!log.contains("sesame"), "{log}");
}

#[test]
fn what_cannot_be_followed_is_told_and_all_else_goes_on() {
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let nonsense = "http://user:sesame@[nonsense";
    for (variables, warning) in [
        (
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", nonsense), ("OTEL_EXPORTER_OTLP_HEADERS", "key=sesame")],
            "OTEL_EXPORTER_OTLP_ENDPOINT is no URL such as `http://127.0.0.1:4318/`",
        ),
        (
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            "OTEL_EXPORTER_OTLP_PROTOCOL=`grpc`: only `http/protobuf` is supported",
        ),
    ] {
        let server = serve(SIM, &variables);
        let line = server.line(warning);
        assert!(line.contains("\"WARN\""), "{line}");
        let answer = chat(server.proxy("sim"), "/v1/chat/completions", "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        server.signal("TERM");
        let (code, log) = server.ended();
        assert_eq!(code, Some(0));
        assert_eq!(log.matches("OTEL_").count(), 1 + usize::from(warning.contains("no URL")), "{log}");
        assert!(!log.contains("sesame"), "{log}");
    }
    let server = serve(SIM, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), ("OTEL_SDK_DISABLED", "true")]);
    chat(server.proxy("sim"), "/v1/chat/completions", "");
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
    assert!(collector.deliveries.0.lock().unwrap().is_empty());
}

#[test]
fn what_a_command_did_is_exported_before_run_ends() {
    let collector = Collector::start();
    let home = TempDir::new().unwrap();
    let config = "proxies:\n  - {name: env, protocol: forward, listen: '127.0.0.1:0', map: {api.openai.com: 'sim://openai'}}\n";
    let config = file(home.path(), "a.yaml", config);
    let mut command = aconite(home.path());
    command.args(["run", "-c"]).arg(config).args(["--", "sh", "-c", "echo $http_proxy; read line"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut proxy = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut proxy).unwrap();
    let proxy = proxy.trim().trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(proxy).unwrap();
    let request = "GET http://api.openai.com/v1/models HTTP/1.1\r\nhost: api.openai.com\r\nauthorization: Bearer any\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let spans = collector.spans();
    let [(_, span)] = spans.as_slice() else { panic!("{} spans", spans.len()) };
    assert_eq!(span.name, "GET models");
    assert_eq!(read(&span.attributes)["server.address"], "api.openai.com");
}
