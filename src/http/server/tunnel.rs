//! CONNECT: tunnels that are opened, and tunnels that are left closed.
pub(in crate::http) mod connect;

use std::{net::IpAddr, sync::Arc};

use aconite_toxics::{ConnectFault, RequestFacts, host::normal_host};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout_at},
};

use connect::Connect;

use super::{
    SniffError, Sniffed, foreign, handshake, inbound::Inbound, look, serve_http, serve_plain, sniff, socket,
};
use crate::{
    connection::ConnectionShared,
    dial::{DialPlan, DialTarget},
    http::{
        body::Body,
        client::{RequestRoute, TunnelTarget, forward::ForwardRules, guard},
        message::headers,
        proxy_error::{self, ProxyError},
        target::{Origin, Target},
        upstream::{MAX_HEADER_SECTION, unreachable::unreachable},
    },
    journal::ExchangeStart,
    link::{ClientIo, Peek, finish},
    tcp::relay,
    tls::{self, Negotiated as _, host::Readable},
};

/// Serves a client of a forward proxy.
pub(crate) async fn serve(mut stream: TcpStream, inbound: &Inbound, rules: &ForwardRules) {
    let connection = &inbound.connection;
    let site = &connection.site;
    match sniff(&stream, site).await {
        Ok((Sniffed::Http1 | Sniffed::Other, _)) => {}
        // By absolute form alone: a tunnel is made by HTTP/1.1.
        Ok((Sniffed::Http2, began)) => {
            return serve_plain(stream, inbound, RequestRoute::Forward, true, began).await;
        }
        Ok((spoken, _)) => return foreign::refuse(stream, inbound, spoken).await,
        Err(SniffError::Half) => return write_last_answer(stream, proxy_error::too_slow()).await,
        Err(SniffError::Nothing) => return,
    }
    loop {
        let began = match look(&stream, &mut [0; CONNECT.len()], site, is_connect).await {
            Ok((true, began)) => began,
            Ok((false, began)) => {
                return serve_plain(stream, inbound, RequestRoute::Forward, false, began).await;
            }
            Err(SniffError::Half) => return write_last_answer(stream, proxy_error::too_slow()).await,
            Err(SniffError::Nothing) => return,
        };
        let head = timeout_at(began + site.header_timeout(), read_head(&mut stream)).await;
        let connect = match head {
            Ok(Ok(head)) => connect::parse(&head),
            Ok(Err(trouble)) => Err(trouble),
            Err(_) => return write_answer(&mut stream, proxy_error::too_slow()).await,
        };
        let connect = match connect {
            Ok(connect) => connect,
            Err(trouble) => {
                if let Some(trouble) = trouble {
                    refuse(&mut stream, connection, None, &trouble.closing()).await;
                }
                return;
            }
        };
        match rules.admit(&connect.headers) {
            Ok(()) => return tunnel(stream, inbound, rules, connect).await,
            Err(trouble) => refuse(&mut stream, connection, Some(&connect), &trouble).await,
        }
        if connect.http10 {
            return;
        }
    }
}

const CONNECT: &[u8] = b"CONNECT ";

/// Whether a request that begins so is CONNECT; `None` if that cannot be told yet.
fn is_connect(bytes: &[u8]) -> Option<bool> {
    let whole = bytes == CONNECT;
    (whole || !CONNECT.starts_with(bytes)).then_some(whole)
}

/// Reads a head and not a byte more: what follows belongs to the tunnel.
async fn read_head(stream: &mut TcpStream) -> Result<Vec<u8>, Option<ProxyError>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut head = Vec::new();
    let mut seen = [0; 4096];
    loop {
        let count = stream.peek(&mut seen).await.map_err(|_| None)?;
        if count == 0 {
            return Err(None);
        }
        let start = head.len().saturating_sub(END.len() - 1);
        let before = head.len();
        head.extend_from_slice(seen.get(..count).unwrap_or_default());
        let end =
            memchr::memmem::find(head.get(start..).unwrap_or_default(), END).map(|at| start + at + END.len());
        let taken = end.map_or(count, |end| end - before);
        stream.read_exact(seen.get_mut(..taken).unwrap_or_default()).await.map_err(|_| None)?;
        if let Some(end) = end {
            head.truncate(end);
            return Ok(head);
        }
        if head.len() > MAX_HEADER_SECTION {
            let text = "the request's head is larger than 256 KiB";
            return Err(Some(ProxyError::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "head_too_large",
                text,
            )));
        }
    }
}

async fn tunnel(mut stream: TcpStream, inbound: &Inbound, rules: &ForwardRules, connect: Connect) {
    let Inbound { connection, proxy } = inbound;
    let dialer = &proxy.upstreams.dialer;
    let Connect { host, port, headers, .. } = &connect;
    let (host, port) = (host.clone(), *port);
    connection.leads_to(&Origin::new(true, &host, port));
    let asked = DialTarget::asked(host.clone(), port);
    let fault = connection.connect_fault(ConnectFault::is_of_upstream, Some(&facts(&host, headers)));
    let place = match fault.into() {
        DialPlan::AsAsked => asked,
        DialPlan::At(address) => asked.at(address),
        DialPlan::Fails(fault) => {
            let trouble = unreachable(fault, &host, dialer.connect_timeout).await.closing();
            return write_answer(&mut stream, proxy_error::refusal(&trouble)).await;
        }
    };
    if let Err(error) = dialer.may_dial(&place) {
        return refuse(&mut stream, connection, Some(&connect), &ProxyError::from(error).closing()).await;
    }
    let mapped = rules.target(&host, port);
    // An address says nothing: the TLS server name may.
    if mapped.is_some() || rules.intercepts(&host) || host.parse::<IpAddr>().is_ok() {
        if stream.write_all(ESTABLISHED).await.is_ok() {
            let end = ConnectTarget { host, port, mapped, place };
            open(stream, inbound, rules, end).await;
        }
        return;
    }
    if let Some(upstream) = reach(&mut stream, inbound, &place).await
        && stream.write_all(ESTABLISHED).await.is_ok()
    {
        relay(stream, upstream, connection).await;
    }
}

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What is known of a tunnel before it is made.
fn facts<'a>(host: &'a str, headers: &'a HeaderMap) -> RequestFacts<'a> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    RequestFacts {
        method: "CONNECT",
        host,
        path: "",
        headers,
        dialect: aconite_dialects::recognise(host, "CONNECT", "/", |_| false).dialect,
        operation: None,
        model: None,
        scene: text(&headers::SCENE),
        test_id: text(&headers::TEST_ID),
        streaming: None,
        body: None,
        unread: None,
    }
}

/// What CONNECT asked for.
struct ConnectTarget {
    host: String,
    port: u16,
    /// Where the host is sent, if that is elsewhere.
    mapped: Option<Arc<Target>>,
    /// Where a connection that is left closed goes to.
    place: DialTarget<'static>,
}

/// Looks into a tunnel, and serves what it carries if that can be read.
async fn open(stream: TcpStream, inbound: &Inbound, rules: &ForwardRules, asked: ConnectTarget) {
    let ConnectTarget { host, port, mapped, place } = asked;
    let site = &inbound.connection.site;
    let intercepted = mapped.is_some() || rules.intercepts(&host);
    let end = |name: Option<&str>, tls: bool| {
        let named = name.and_then(|name| rules.target(name, port));
        let origin = Origin::new(tls, &host, port).named(name);
        let server = || Arc::new(Target::Server { origin, prefix: String::new() });
        Arc::new(TunnelTarget {
            host: normal_host(name.unwrap_or(&host)).as_ref().into(),
            connect_host: host.clone(),
            target: named.or_else(|| mapped.clone()).unwrap_or_else(server),
        })
    };
    let Ok((sniffed, began)) = sniff(&stream, site).await else { return finish(&stream) };
    match sniffed {
        Sniffed::Tls => {
            let name = if intercepted {
                None
            } else {
                match server_name(&stream, began + site.header_timeout()).await {
                    Ok(name) => name,
                    Err(Unfinished) => return finish(&stream),
                }
            };
            if intercepted
                || name.is_some_and(|name| rules.intercepts(&name) || rules.target(&name, port).is_some())
            {
                terminate(stream, inbound, &host, end).await;
            } else {
                blind(stream, inbound, &place).await;
            }
        }
        Sniffed::Http1 | Sniffed::Http2 if intercepted => {
            let http2 = sniffed == Sniffed::Http2;
            serve_plain(stream, inbound, RequestRoute::Tunnel(end(None, false)), http2, began).await;
        }
        _ => blind(stream, inbound, &place).await,
    }
}

/// Ends the client's TLS here, with a certificate for the name that it asks for.
async fn terminate(
    stream: TcpStream,
    inbound: &Inbound,
    host: &str,
    end: impl Fn(Option<&str>, bool) -> Arc<TunnelTarget>,
) {
    let Inbound { connection, proxy } = inbound;
    let site = &connection.site;
    let (socket, control) = socket(stream, connection);
    let hello = Box::pin(proxy.terminator.hello(socket, host, site.header_timeout()));
    let hello = match hello.await {
        Ok(hello) => hello,
        Err(error) => {
            return tracing::debug!(proxy = %site.name, host = %Readable(host), %error, "no TLS handshake");
        }
    };
    let end = end(hello.server_name(), true);
    let leaf = match proxy.authority.leaf(&end.host) {
        Ok(leaf) => leaf,
        Err(error) => {
            return tracing::warn!(proxy = %site.name, host = %Readable(host), %error, "no certificate can be made");
        }
    };
    // What is offered to the client is what the upstream speaks, so that gRPC finds HTTP/2 on both sides.
    let http2 = hello.offers(tls::ALPN_H2)
        && match &*end.target {
            Target::Simulated { .. } | Target::Route { .. } => true,
            Target::Server { origin, .. } => {
                Box::pin(proxy.upstreams.speaks_http2(origin)).await.unwrap_or(false)
            }
        };
    let alpn: &[&[u8]] = if http2 { &[tls::ALPN_H2, tls::ALPN_HTTP1] } else { &[tls::ALPN_HTTP1] };
    let Some(stream) = Box::pin(handshake(hello, alpn, leaf, inbound)).await else { return };
    let http2 = stream.is_h2();
    let io = ClientIo::tls(stream, control.clone());
    serve_http(io, control, inbound, RequestRoute::Tunnel(end), http2, None).await;
}

/// Joins the client with the host that it asked for, and looks at nothing.
async fn blind(mut stream: TcpStream, inbound: &Inbound, place: &DialTarget<'_>) {
    if let Ok(upstream) = dialled(inbound, place).await {
        relay(stream, upstream, &inbound.connection).await;
    } else {
        // The tunnel is already said to be there: all that can be done is to close it.
        let _ = stream.shutdown().await;
    }
}

async fn dialled(inbound: &Inbound, place: &DialTarget<'_>) -> Result<TcpStream, ProxyError> {
    let Inbound { connection, proxy } = inbound;
    let dialled = proxy.upstreams.dialer.dial(place).await;
    let (stream, address) = dialled.map_err(|error| {
        tracing::warn!(proxy = %connection.site.name, %error, "no connection for a tunnel");
        ProxyError::from(error)
    })?;
    connection.reached(address);
    Ok(stream)
}

async fn reach(stream: &mut TcpStream, inbound: &Inbound, place: &DialTarget<'_>) -> Option<TcpStream> {
    match dialled(inbound, place).await {
        Ok(upstream) => Some(upstream),
        Err(trouble) => {
            write_answer(stream, proxy_error::refusal(&trouble.closing())).await;
            None
        }
    }
}

/// The client ended in the middle of its ClientHello, or took too long for it.
struct Unfinished;

/// The largest ClientHello that is looked into, in bytes, with the headers of its records.
const MAX_HELLO: usize = 64 * 1024;

/// The TLS server name in the ClientHello that waits to be read, however it is cut into records and packets; `None` if
/// it has none or cannot be understood.
async fn server_name(stream: &TcpStream, deadline: Instant) -> Result<Option<String>, Unfinished> {
    let mut bytes = vec![0; 2 * 1024];
    let mut peek = Peek::new(stream);
    let mut acceptor = rustls::server::Acceptor::default();
    let mut fed = 0;
    loop {
        let count = timeout_at(deadline, peek.more(&mut bytes)).await.map_err(|_| Unfinished)?;
        if count == 0 {
            return Err(Unfinished);
        }
        while let Some(mut rest) = bytes.get(fed..count).filter(|rest| !rest.is_empty()) {
            match acceptor.read_tls(&mut rest) {
                Ok(taken) if taken > 0 => fed += taken,
                _ => return Ok(None),
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) => {}
                Err(_) => return Ok(None),
            }
        }
        if count == bytes.len() {
            if count >= MAX_HELLO {
                return Ok(None);
            }
            bytes.resize(2 * count, 0);
        }
    }
}

/// Refuses a CONNECT, which is not an exchange yet.
async fn refuse(
    stream: &mut TcpStream,
    connection: &ConnectionShared,
    connect: Option<&Connect>,
    trouble: &ProxyError,
) {
    let none = HeaderMap::new();
    let (host, headers) = connect.map_or(("", &none), |connect| (connect.host.as_str(), &connect.headers));
    let facts = facts(host, headers);
    let head = ExchangeStart {
        proxy: Arc::clone(&connection.site.name),
        connection: connection.id,
        method: Method::CONNECT,
        host: host.into(),
        path: "".into(),
        dialect: facts.dialect,
        operation: None,
        scene: facts.scene.map(Into::into),
        test_id: facts.test_id.map(Into::into),
    };
    guard::record_refusal(connection, head, headers, trouble);
    write_answer(stream, proxy_error::refusal(trouble)).await;
}

/// Writes a small answer by hand: there is no HTTP connection yet.
async fn write_answer(stream: &mut TcpStream, answer: Response<Body>) {
    let bytes = proxy_error::wire(&answer);
    // A client that has left needs no answer.
    let _ = stream.write_all(&bytes).await;
}

/// The same, where the client is still in the middle of a request.
pub(super) async fn write_last_answer(mut stream: TcpStream, answer: Response<Body>) {
    write_answer(&mut stream, answer).await;
    // To close a socket with unread data would break the connection, and the answer with it.
    finish(&stream);
}
