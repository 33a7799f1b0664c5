//! One request and its answer, from head to head.
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aconite_api::model::{Attempt, ExchangeEnd, How, Side};
use aconite_toxics::{
    BodyForm, ConnectFault, Decision, DeclaredLength, Direction, Ending, ExchangeFilter, Instance, Level,
    StageId, Verdict,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request, response,
};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::{
    body::{Body, Flow, Gate, Source, Tee},
    client::Client,
    coding::{Coded, Decoding},
    facts::{Facts, body_form, content_length},
    governor::{BodyGovernor, Ready, concerns},
    headers::{self, Hop},
    ongoing::Ongoing,
    own_answer::{self, Trouble},
    target::Target,
    upgrade,
    upstream::UpstreamError,
};
use crate::{
    journal::Head,
    plan::{Armed, Plan},
};

/// A toxic at work on an exchange's heads.
struct Filter {
    id: StageId,
    direction: Direction,
    filter: Box<dyn ExchangeFilter>,
}

/// What is to be done after the filters have had their say.
enum Course {
    Forward,
    Instead(Verdict),
}

/// Answers one request.
///
/// # Errors
/// None: what goes wrong becomes an answer, or the end of the connection.
pub(crate) async fn run(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    client.control.exchange_begins();
    let (head, incoming) = request.into_parts();
    let refuse = |trouble| {
        client.control.exchange_ends();
        Ok(own_answer::refusal(&trouble))
    };
    let destination = match client.destination(&head) {
        Ok(destination) => destination,
        Err(trouble) => return refuse(trouble),
    };
    let facts = Facts::of(&head, &destination.host);
    let plan = Arc::clone(&client.proxy.plan.borrow());
    let exchange = match prepare(&client, &plan, head, incoming, facts).await {
        Ok(exchange) => exchange,
        Err(trouble) => return refuse(trouble),
    };
    Ok(exchange.answer(&plan, &destination.target, &destination.authority).await)
}

/// Where a request leads.
pub(crate) struct Destination {
    pub(crate) target: Arc<Target>,
    /// The host, for matching and for the record.
    pub(crate) host: Arc<str>,
    /// What the upstream is told as Host.
    pub(crate) authority: Arc<str>,
}

struct Running {
    ongoing: Arc<Ongoing>,
    head: request::Parts,
    body: RequestBody,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
}

enum RequestBody {
    None,
    Read(Bytes),
    Tee(Tee),
    Stream(Incoming),
}

/// Reads what has to be read of the body, and begins the record.
async fn prepare(
    client: &Client,
    plan: &Plan,
    mut head: request::Parts,
    incoming: Incoming,
    mut facts: Facts,
) -> Result<Running, Trouble> {
    use http_body::Body as _;

    let upgrade = (headers::wants_upgrade(&head.headers) && head.version <= Version::HTTP_11)
        .then(|| head.extensions.remove::<hyper::upgrade::OnUpgrade>())
        .flatten();
    let length = incoming.size_hint().exact();
    let expects = head.headers.contains_key(header::EXPECT);
    let toxics_read = plan.reads_requests || (plan.strikes_messages && facts.dialect.is_some());
    let json = body_form(&head.headers) == BodyForm::Document;
    let body = if incoming.is_end_stream() {
        RequestBody::None
    } else if toxics_read
        && json
        && !expects
        && length.is_none_or(|length| length <= client.proxy.max_edit_bytes as u64)
    {
        match Limited::new(incoming, client.proxy.max_edit_bytes).collect().await {
            Ok(collected) => {
                let bytes = collected.to_bytes();
                facts.read(bytes.clone());
                RequestBody::Read(bytes)
            }
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(Trouble::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "request_too_large",
                    "the request's body has no announced length and is larger than `max_edit_bytes`, and a toxic has to read it",
                ));
            }
            Err(_) => {
                return Err(Trouble::new(
                    StatusCode::BAD_REQUEST,
                    "request_broken",
                    "the request's body broke off",
                ));
            }
        }
    } else if length.is_some_and(|length| length <= Tee::LIMIT) || json {
        RequestBody::Tee(Tee::new(incoming))
    } else {
        RequestBody::Stream(incoming)
    };
    let own = client.own_toxic(&head.headers)?;
    let record = client.proxy.journal.begin(written(client, &facts));
    record.note(|entry| {
        entry.model.clone_from(&facts.said.model);
        entry.streaming = facts.streaming().unwrap_or(false);
    });
    let number = client.proxy.number_of(facts.test_id.as_deref());
    let ongoing = Arc::new(Ongoing::new(client, facts, own, record, number));
    if let RequestBody::Read(bytes) = &body {
        ongoing.request_passed(bytes.len() as u64);
        ongoing.capture_request(bytes);
    }
    Ok(Running { ongoing, head, body, upgrade })
}

fn written(client: &Client, facts: &Facts) -> Head {
    Head {
        proxy: Arc::clone(&client.proxy.name),
        connection: client.connection.id,
        method: facts.method.clone(),
        host: Arc::clone(&facts.host),
        path: headers::redacted(facts.path.as_str()),
        dialect: facts.dialect,
        operation: facts.operation,
        scene: facts.scene.clone(),
        test_id: facts.test_id.clone(),
    }
}

impl Running {
    async fn answer(mut self, plan: &Arc<Plan>, target: &Target, authority: &str) -> Response<Body> {
        if let Some(fault) = self.connect_fault(plan) {
            return self.cannot_connect(plan, fault, target).await;
        }
        let mut filters = self.filters(plan);
        match self.before_the_request(&mut filters).await {
            Course::Forward => {}
            Course::Instead(verdict) => return self.instead(verdict, plan).await,
        }
        let asked = self.ongoing.started.elapsed();
        let answer = self.ask(plan, target, authority, &mut filters).await;
        let mut response = match answer {
            Ok(response) => response,
            Err(error) => {
                self.attempt(target, error.code(), None, asked);
                return self.trouble(plan, error.status(), error.code(), &error.to_string());
            }
        };
        self.attempt(target, "ok", Some(response.status().as_u16()), asked);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(upgrade) = self.upgrade.take()
        {
            return upgrade::switch(&self.ongoing, upgrade, response);
        }
        let (mut head, source) = response_parts(&mut response);
        match self.after_the_head(&mut filters, &mut head).await {
            Course::Forward => self.pass(plan, filters, head, source),
            Course::Instead(verdict) => self.instead(verdict, plan).await,
        }
    }

    fn attempt(&self, target: &Target, outcome: &str, status: Option<u16>, asked: Duration) {
        let ms = (self.ongoing.now() - asked).as_secs_f64() * 1e3;
        self.ongoing.attempt(Attempt {
            provider: target.to_string(),
            outcome: outcome.to_owned(),
            status,
            ms,
        });
    }

    /// The first toxic that spoils the making of the upstream connection.
    fn connect_fault(&self, plan: &Plan) -> Option<ConnectFault> {
        let dialling = plan.toxics.iter().filter_map(|toxic| match toxic.connect {
            Some(
                fault @ (ConnectFault::Refuse
                | ConnectFault::Blackhole
                | ConnectFault::DnsNxdomain
                | ConnectFault::DnsTimeout),
            ) => Some((toxic, fault)),
            _ => None,
        });
        let (toxic, fault) = { dialling }.find(|(toxic, _)| self.ongoing.strikes(plan, toxic))?;
        self.ongoing.struck(toxic.id.toxic, self.ongoing.now());
        Some(fault)
    }

    async fn cannot_connect(&self, plan: &Plan, fault: ConnectFault, target: &Target) -> Response<Body> {
        let limit = self.ongoing.proxy.upstreams.connect_timeout;
        let (status, code, message) = match fault {
            ConnectFault::DnsNxdomain => {
                (502, "upstream_dns", format!("no address for `{target}`: no such host"))
            }
            ConnectFault::Refuse => {
                (502, "upstream_connect", format!("cannot connect to {target}: connection refused"))
            }
            _ => {
                tokio::time::sleep(limit).await;
                let ms = limit.as_millis();
                (504, "upstream_connect_timeout", format!("no connection to `{target}` within {ms} ms"))
            }
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        self.trouble(plan, status, code, &message)
    }

    /// Starts the toxics that act on heads.
    fn filters(&self, plan: &Plan) -> Vec<Filter> {
        if !plan.strikes_messages && self.ongoing.own.is_none() {
            return Vec::new();
        }
        let mut filters = Vec::new();
        for toxic in self.ongoing.own.iter().chain(&plan.toxics) {
            if toxic.level != Level::Exchange || !self.ongoing.strikes(plan, toxic) {
                continue;
            }
            let Some(dice) = self.ongoing.dice(toxic.id.toxic) else { continue };
            let direction = toxic.spec.stream;
            let form = if direction == Direction::Upstream {
                body_form(&self.head.headers)
            } else {
                BodyForm::Opaque
            };
            match toxic.start(&self.ongoing.facts.scope(direction, form, None), dice) {
                Instance::Exchange(filter) => filters.push(Filter { id: toxic.id, direction, filter }),
                Instance::Idle(reason) => self.ongoing.passed_over(toxic.id.toxic, reason),
                Instance::Bytes(_) | Instance::Connect(_) | Instance::Body(_) => {}
            }
        }
        filters
    }

    async fn before_the_request(&mut self, filters: &mut [Filter]) -> Course {
        for Filter { id, filter, .. } in filters {
            let decision = filter.on_request(&mut self.head, self.ongoing.now());
            if let course @ Course::Instead(_) = follow(&self.ongoing, *id, decision).await {
                return course;
            }
        }
        Course::Forward
    }

    async fn after_the_head(&self, filters: &mut [Filter], head: &mut response::Parts) -> Course {
        for Filter { id, filter, .. } in filters {
            let decision = filter.on_response(head, self.ongoing.now());
            if let course @ Course::Instead(_) = follow(&self.ongoing, *id, decision).await {
                return course;
            }
        }
        Course::Forward
    }

    /// Sends the request upstream.
    async fn ask(
        &mut self,
        plan: &Plan,
        target: &Target,
        authority: &str,
        filters: &mut [Filter],
    ) -> Result<Response<Source>, UpstreamError> {
        let gate = self.head.headers.contains_key(header::EXPECT).then(oneshot::channel::<()>);
        let (go_on, asked) = gate.unzip();
        let gate = asked.map(|asked| Gate { asked, patience: Box::pin(tokio::time::sleep(Gate::PATIENCE)) });
        let tee = match &self.body {
            RequestBody::Tee(tee) => Some(tee.rewound()),
            _ => None,
        };
        let body = self.request_body(plan, filters, gate);
        let go_on = Arc::new(Mutex::new(go_on));
        let build = |http2: bool| {
            let mut request = self.next_request(target, authority, http2);
            if self.head.headers.contains_key(header::EXPECT) {
                let go_on = Arc::clone(&go_on);
                hyper::ext::on_informational(&mut request, move |interim| {
                    if interim.status() == StatusCode::CONTINUE
                        && let Some(go_on) = go_on.lock().unwrap_or_else(PoisonError::into_inner).take()
                    {
                        // The body may be gone already: then nobody waits.
                        let _ = go_on.send(());
                    }
                });
            }
            request
        };
        let upstreams = &self.ongoing.proxy.upstreams;
        let response = match target {
            Target::Simulated { simulator, .. } => {
                let response = simulator.handle(build(false).map(|()| body)).await;
                response.map(|body| Source::Simulated(Box::new(body)))
            }
            Target::Server { origin, .. } => {
                let grpc = is_grpc(&self.head.headers);
                let answer = if self.ongoing.http2 && grpc && !origin.tls {
                    upstreams.send_h2c(origin, build, body).await?
                } else {
                    upstreams.send(origin, self.ongoing.http2, build, body).await?
                };
                if answer.stale > 0 {
                    self.attempt(target, "stale_connection", None, self.ongoing.now());
                }
                answer.response
            }
        };
        if let Some(body) = tee.as_ref().and_then(Tee::complete) {
            self.ongoing.said(&super::facts::Said::by(&body));
            self.ongoing.capture_request(&body);
        }
        Ok(response)
    }

    fn request_body(&mut self, plan: &Plan, filters: &mut [Filter], gate: Option<Gate>) -> Body {
        let form = body_form(&self.head.headers);
        let length = content_length(&self.head.headers);
        let scope = self.ongoing.facts.scope(Direction::Upstream, form, length);
        let coded = Coded::of(&self.head.headers) != Coded::Plain;
        let ready = bodies(filters, Direction::Upstream, |filter| filter.filter.body(&scope));
        let struck = ready.iter().any(|(_, filter)| filter.is_some())
            || plan.toxics.iter().any(|toxic| {
                toxic.level != Level::Exchange && concerns(toxic, &scope) && self.ongoing.strikes(plan, toxic)
            });
        let source = match std::mem::replace(&mut self.body, RequestBody::None) {
            RequestBody::None => return Body::Empty,
            RequestBody::Read(bytes) if !struck => return Body::Full(bytes),
            RequestBody::Read(bytes) => Source::Full(Some(bytes)),
            RequestBody::Tee(tee) => Source::Tee(tee),
            RequestBody::Stream(incoming) => Source::Incoming(incoming),
        };
        if struck {
            // Its length is no longer what the head says.
            self.head.headers.remove(header::CONTENT_LENGTH);
        }
        let governor = BodyGovernor::new(Arc::clone(&self.ongoing), scope, ready, coded);
        Body::Flow(Box::new(Flow::request(source, governor, gate)))
    }

    /// The request's head for the next hop.
    fn next_request(&self, target: &Target, authority: &str, http2: bool) -> Request<()> {
        let hop = Hop { request: true, http2, upgrade: self.upgrade.is_some() };
        let mut headers =
            headers::for_next_hop(&self.head.headers, hop).unwrap_or_else(|| self.head.headers.clone());
        if http2 {
            headers.remove(header::HOST);
        } else {
            if let Ok(host) = HeaderValue::from_str(authority) {
                headers.insert(header::HOST, host);
            }
            headers::join_cookies(&mut headers);
        }
        let mut request = Request::new(());
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = target.uri(&self.ongoing.facts.path, authority, http2);
        *request.headers_mut() = headers;
        // Among the extensions is the spelling of the header names.
        *request.extensions_mut() = self.head.extensions.clone();
        request
    }

    /// Sends the answer on, its body through whatever acts on it.
    fn pass(
        self,
        plan: &Plan,
        mut filters: Vec<Filter>,
        mut head: response::Parts,
        source: Source,
    ) -> Response<Body> {
        let form = body_form(&head.headers);
        let coded = Coded::of(&head.headers);
        let length = content_length(&head.headers).filter(|_| coded == Coded::Plain);
        let scope = self.ongoing.facts.scope(Direction::Downstream, form, length);
        let bodiless = source.is_end_stream();
        let ready = if bodiless {
            Vec::new()
        } else {
            bodies(&mut filters, Direction::Downstream, |filter| filter.filter.body(&scope))
        };
        let applies = |toxic: &Armed| toxic.level != Level::Exchange && concerns(toxic, &scope);
        let reads = |toxic: &Arc<Armed>| applies(toxic) && self.ongoing.strikes(plan, toxic);
        // All of them: each has to be decided before the answer is marked.
        let readers = if bodiless { 0 } else { plan.toxics.iter().filter(|toxic| reads(toxic)).count() };
        let reading = readers > 0 || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(reads_text));
        let decoding = match coded {
            Coded::By(coding) if reading => Decoding::new(coding).ok(),
            _ => None,
        };
        if decoding.is_some() {
            head.headers.remove(header::CONTENT_ENCODING);
        }
        let changes = reading || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(changes_length));
        if changes {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let unreadable = coded != Coded::Plain && decoding.is_none();
        let governor = BodyGovernor::new(Arc::clone(&self.ongoing), scope.clone(), ready, unreadable);
        let mut announced = if changes { None } else { source.exact_size() };
        if let Some(DeclaredLength(declared)) = head.extensions.get() {
            // hyper sends no more than the header says, and closes if the body comes to less.
            head.headers.insert(header::CONTENT_LENGTH, (*declared).into());
            head.headers.remove(header::TRANSFER_ENCODING);
            announced = None;
        }
        self.mark(plan, &mut head.headers, |toxic| match toxic.level {
            Level::Exchange => true,
            _ => concerns(toxic, &scope),
        });
        let hop = Hop { request: false, http2: self.ongoing.http2, upgrade: false };
        if let Some(kept) = headers::for_next_hop(&head.headers, hop) {
            head.headers = kept;
        }
        head.version = Version::HTTP_11;
        self.ongoing.answered(head.status.as_u16(), matches!(form, BodyForm::Events(_)));
        // A toxic may have said otherwise.
        let length = content_length(&head.headers);
        let announced = announced.filter(|announced| length.is_none_or(|length| length == *announced));
        let flow = Flow::response(source, governor, decoding, announced);
        let body = match length {
            Some(length) if head.status == StatusCode::NOT_MODIFIED && !self.ongoing.http2 => {
                Body::NotModified(length)
            }
            _ => Body::Flow(Box::new(flow)),
        };
        Response::from_parts(head, body)
    }

    /// Names the toxics that apply, the ones on the connection's bytes too.
    fn mark(&self, plan: &Plan, headers: &mut HeaderMap, applies: impl Fn(&Armed) -> bool) {
        let mut names = self.ongoing.marks(applies);
        names.extend(self.ongoing.connection.marks(plan));
        if names.is_empty() {
            return;
        }
        if let Ok(value) = HeaderValue::from_str(&names.join(",")) {
            headers.insert(headers::MARKER, value);
        }
    }

    /// The client gets something else.
    async fn instead(&self, verdict: Verdict, plan: &Plan) -> Response<Body> {
        let ending = match verdict {
            Verdict::Respond(answer) => return self.respond(*answer, plan),
            Verdict::Abort(ending) => ending,
            // The hang is over: the connection closes.
            Verdict::Hang(_) | Verdict::Forward => Ending::Fin,
        };
        let how = match ending {
            Ending::Rst => How::Rst,
            Ending::Hang => How::Hang,
            Ending::Clean | Ending::Fin => How::Fin,
        };
        self.ongoing.finish(ExchangeEnd { side: Side::Toxic, how }, 0, 0, 0);
        match how {
            How::Rst => self.ongoing.control.reset(),
            How::Hang => {}
            _ => self.ongoing.control.fin_after_flush(),
        }
        std::future::pending().await
    }

    fn respond(&self, answer: Response<Bytes>, plan: &Plan) -> Response<Body> {
        let (mut head, bytes) = answer.into_parts();
        self.mark(plan, &mut head.headers, |toxic| toxic.level == Level::Exchange);
        let length = bytes.len() as u64;
        if !head.headers.contains_key(header::CONTENT_LENGTH) {
            head.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        self.ongoing.answered(head.status.as_u16(), false);
        self.ongoing.finish(ExchangeEnd { side: Side::Toxic, how: How::Clean }, length, 0, 0);
        let body = if self.head.method == Method::HEAD { Body::Empty } else { Body::Full(bytes) };
        Response::from_parts(head, body)
    }

    /// The proxy's own failure.
    fn trouble(&self, plan: &Plan, status: StatusCode, code: &'static str, message: &str) -> Response<Body> {
        let mut response = own_answer::refusal(&Trouble::new(status, code, message));
        self.mark(plan, response.headers_mut(), |toxic| toxic.level == Level::Connect);
        self.ongoing.answered(status.as_u16(), false);
        self.ongoing.finish(ExchangeEnd { side: Side::Proxy, how: How::Error }, 0, 0, 0);
        response
    }
}

/// Does the waiting that a filter asks for.
async fn follow(ongoing: &Ongoing, id: StageId, decision: Decision) -> Course {
    if decision.struck {
        ongoing.struck(id.toxic, ongoing.now());
    }
    if let Some(reason) = decision.skipped {
        ongoing.passed_over(id.toxic, reason);
    }
    if !decision.after.is_zero() && !ongoing.wait(id, Some(decision.after)).await {
        return Course::Forward;
    }
    match decision.verdict {
        Verdict::Forward => Course::Forward,
        Verdict::Hang(how_long) => {
            if ongoing.wait(id, how_long).await {
                Course::Instead(Verdict::Hang(how_long))
            } else {
                Course::Forward
            }
        }
        verdict => Course::Instead(verdict),
    }
}

fn bodies(
    filters: &mut [Filter],
    direction: Direction,
    mut body: impl FnMut(&mut Filter) -> Option<aconite_toxics::BodyFilter>,
) -> Vec<Ready> {
    let concerned = filters.iter_mut().filter(|filter| filter.direction == direction);
    concerned.map(|filter| (filter.id, body(filter))).collect()
}

fn reads_text(filter: &aconite_toxics::BodyFilter) -> bool {
    !matches!(filter, aconite_toxics::BodyFilter::Bytes(_))
}

fn changes_length(filter: &aconite_toxics::BodyFilter) -> bool {
    match filter {
        aconite_toxics::BodyFilter::Bytes(filter) => filter.changes_length(),
        _ => true,
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    value.is_some_and(|value| value.starts_with(b"application/grpc"))
}

fn response_parts(response: &mut Response<Source>) -> (response::Parts, Source) {
    std::mem::replace(response, Response::new(Source::Full(None))).into_parts()
}
