//! An OTLP collector that keeps what it gets.
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    logs::v1::LogRecord,
    trace::v1::Span,
};
use prost::Message;

/// A request that came in.
pub(crate) struct Delivery {
    pub(crate) head: String,
    body: Vec<u8>,
}

/// Takes what is exported.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    pub(crate) deliveries: Arc<(Mutex<Vec<Delivery>>, Condvar)>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::over(|stream| stream, 0)
    }

    /// With a layer over the socket, and so many deliveries that are refused first.
    pub(crate) fn over<S: Read + Write>(
        secure: impl Fn(TcpStream) -> S + Send + 'static,
        mut refusals: usize,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let deliveries = Arc::<(Mutex<Vec<Delivery>>, Condvar)>::default();
        let sink = Arc::clone(&deliveries);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let mut stream = BufReader::new(secure(stream));
                let head = head(&mut stream);
                let mut body = vec![0; header(&head, "content-length").unwrap().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let status = if refusals > 0 {
                    refusals -= 1;
                    "500 Internal Server Error"
                } else {
                    sink.0.lock().unwrap().push(Delivery { head, body });
                    sink.1.notify_all();
                    "200 OK"
                };
                write!(stream.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").unwrap();
                stream.get_mut().flush().unwrap();
            }
        });
        Self { address, deliveries }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for a delivery.
    #[track_caller]
    pub(crate) fn wait(&self, enough: impl Fn(&[Delivery]) -> bool) {
        let (deliveries, grown) = &*self.deliveries;
        let waiting = |deliveries: &mut Vec<Delivery>| !enough(deliveries);
        let patience = Duration::from_secs(20);
        let waited = grown.wait_timeout_while(deliveries.lock().unwrap(), patience, waiting).unwrap().1;
        assert!(!waited.timed_out(), "it was not exported");
    }

    /// What came for a path.
    pub(crate) fn decoded<M: Message + Default>(&self, path: &str) -> Vec<M> {
        let deliveries = self.deliveries.0.lock().unwrap();
        let for_path = deliveries.iter().filter(|delivery| delivery.is_for(path));
        for_path.map(|delivery| M::decode(delivery.body.as_slice()).unwrap()).collect()
    }

    /// All spans, each with the attributes of who made it.
    pub(crate) fn spans(&self) -> Vec<(BTreeMap<String, String>, Span)> {
        let all = self.decoded::<ExportTraceServiceRequest>("/v1/traces");
        let resources = all.into_iter().flat_map(|request| request.resource_spans);
        let spans = resources.flat_map(|resource| {
            let attributes = read(&resource.resource.unwrap().attributes);
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.map(move |span| (attributes.clone(), span)).collect::<Vec<_>>()
        });
        spans.collect()
    }

    /// All log events, each with its target.
    pub(crate) fn logs(&self) -> Vec<(String, LogRecord)> {
        let all = self.decoded::<ExportLogsServiceRequest>("/v1/logs");
        let scopes =
            all.into_iter().flat_map(|request| request.resource_logs).flat_map(|logs| logs.scope_logs);
        let events = scopes.flat_map(|scope| {
            let target = scope.scope.unwrap().name;
            scope.log_records.into_iter().map(move |event| (target.clone(), event)).collect::<Vec<_>>()
        });
        events.collect()
    }

    /// Whether anything that came has a text in it.
    pub(crate) fn has(&self, text: &str) -> bool {
        let deliveries = self.deliveries.0.lock().unwrap();
        deliveries
            .iter()
            .any(|delivery| delivery.body.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

impl Delivery {
    pub(crate) fn is_for(&self, path: &str) -> bool {
        self.head.starts_with(&format!("POST {path} HTTP/1.1\r\n"))
    }
}

/// Everything up to the empty line.
pub(crate) fn head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "it ended in its head");
    }
    head
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Attributes as text.
pub(crate) fn read(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
