//! One request and its answer, from head to head.
mod ask;
mod documents;
mod prepare;
mod reply;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use aconite_toxics::{
    BodyForm, ConnectFault, Decision, Direction, ExchangeFilter, Instance, Level, StageId, Verdict,
};
use aconite_toxics::{End, How, Side};
use http::{HeaderMap, Request, Response, StatusCode, request, response};
use hyper::{body::Incoming, upgrade::OnUpgrade};

use super::{
    body::{Body, BodyError},
    client::{Client, asked_authority, host_of},
    extended_connect,
    facts::{Facts, body_form},
    governor::Ready,
    guard,
    ongoing::Ongoing,
    own_answer::{self, Trouble},
    target::Target,
    unreachable::unreachable,
    upstream::{Answer, MAX_HEADERS},
};
use prepare::{Prepared, RequestBody};

use crate::{
    dial::Way,
    journal::{Attempt, Head, recorded, recorded_host, recorded_method},
    link::{Framing, OpenStream},
    plan::Plan,
    secrets,
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
/// If the client's stream is to be reset because the upstream's was. All else that goes wrong becomes an answer, or the
/// end of the connection.
pub(crate) async fn run(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Result<Response<Body>, BodyError> {
    let framed_twice = client.control.exchange_begins(framing(request.body()));
    let stream = client.http2.then(|| client.control.open_stream());
    let (mut head, incoming) = request.into_parts();
    let destination = match led(&client, &mut head, framed_twice) {
        Ok(destination) => destination,
        Err(trouble) => {
            let host = asked_authority(&head).unwrap_or_default();
            let facts = Facts::of(&mut head, &(&*host_of(&host)).into());
            return Ok(refused(&client, &facts, &trouble));
        }
    };
    let mut facts = Facts::of(&mut head, &destination.host);
    let plan = Arc::clone(&client.connection.site.plan.borrow());
    let ready = match prepare::prepare(&client, &plan, &mut head, incoming, &mut facts).await {
        Ok(ready) => ready,
        Err(trouble) => return Ok(refused(&client, &facts, &trouble)),
    };
    let exchange = begin(&client, &plan, head, facts, ready, stream);
    exchange.answer(&plan, &destination.target, &destination.authority).await
}

/// Where a request leads, if it can be asked on at all.
fn led(client: &Client, head: &mut request::Parts, framed_twice: bool) -> Result<Destination, Trouble> {
    if framed_twice {
        return Err(own_answer::framed_twice());
    }
    if head.headers.len() > MAX_HEADERS {
        return Err(own_answer::too_large());
    }
    if client.http2 {
        extended_connect::as_upgrade(head)?;
    }
    guard::enter(client, head)?;
    client.destination(head)
}

/// The whole of an exchange that cannot begin.
fn refused(client: &Client, facts: &Facts, trouble: &Trouble) -> Response<Body> {
    let answer = own_answer::refusal(trouble);
    guard::record_refusal(&client.connection, written(client, facts), &facts.headers, trouble);
    client.control.exchange_ends();
    answer
}

fn framing(body: &Incoming) -> Framing {
    use http_body::Body as _;

    // hyper knows the length of every body but those in chunks.
    body.size_hint().exact().map_or(Framing::Chunked { over: false }, Framing::Length)
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
    /// Its headers are elsewhere until somebody changes them.
    head: request::Parts,
    changed: bool,
    body: RequestBody,
    upgrade: Option<OnUpgrade>,
}

fn begin(
    client: &Client,
    plan: &Arc<Plan>,
    head: request::Parts,
    facts: Facts,
    prepared: Prepared,
    stream: Option<OpenStream>,
) -> Running {
    let Prepared { body, own, upgrade } = prepared;
    let record = client.connection.site.journal.begin(written(client, &facts));
    record.note(|course| {
        course.model = facts.said.model.as_deref().map(recorded);
        course.streaming = facts.streaming().unwrap_or(false);
    });
    let number = client.connection.site.number_of(facts.test_id.as_deref());
    let ongoing = Arc::new(Ongoing::new(client, plan, facts, own, record, number, stream));
    ongoing.note_idle(plan);
    if let RequestBody::Read(tee) = &body
        && let Some(bytes) = tee.complete()
    {
        ongoing.request_passed(bytes.len() as u64);
        ongoing.capture_request(&bytes);
    }
    Running { ongoing, head, changed: false, body, upgrade }
}

fn written(client: &Client, facts: &Facts) -> Head {
    Head {
        proxy: Arc::clone(&client.connection.site.name),
        connection: client.connection.id,
        method: recorded_method(&facts.method),
        host: recorded_host(&facts.host),
        path: recorded(&secrets::redacted(facts.path.as_str())),
        dialect: facts.dialect,
        operation: facts.operation,
        scene: facts.scene.as_deref().map(recorded),
        test_id: facts.test_id.as_deref().map(recorded),
    }
}

impl Running {
    async fn answer(
        mut self,
        plan: &Arc<Plan>,
        target: &Arc<Target>,
        authority: &str,
    ) -> Result<Response<Body>, BodyError> {
        let elsewhere = match (self.connect_fault(plan).into(), &**target) {
            (Way::AsAsked, _) => None,
            (Way::At(address), Target::Server { origin, prefix }) => {
                Some(Arc::new(Target::Server { origin: origin.at(address), prefix: prefix.clone() }))
            }
            (way, _) => {
                // A simulated upstream has no address: nobody answers at another one.
                let fault =
                    if let Way::Fails(fault) = way { fault } else { ConnectFault::StaleAddress(None) };
                let limit = self.ongoing.proxy.upstreams.dialer.connect_timeout;
                let trouble = unreachable(fault, &target.to_string(), limit).await;
                return Ok(self.trouble(plan, &trouble));
            }
        };
        let target = elsewhere.as_ref().unwrap_or(target);
        let mut filters = self.filters(plan);
        match self.before_the_request(&mut filters).await {
            Course::Forward => {}
            Course::Instead(verdict) => return self.instead(verdict, plan).await,
        }
        if self.upgrade.is_some() && self.declared_http2() {
            let text = "the proxy's `upstream_protocol` is `http2`, in which an Upgrade cannot be forwarded";
            let trouble = Trouble::new(StatusCode::BAD_GATEWAY, "upgrade_failed", text);
            return Ok(self.trouble(plan, &trouble));
        }
        let asked = self.ongoing.started.elapsed();
        let answer = self.ask(plan, target, authority, &mut filters).await;
        let Answer { response, address, retried } = match answer {
            Ok(answer) => answer,
            Err(_) if self.ongoing.client_broke().is_some() => {
                self.attempt(target, None, "request_broken", None, asked);
                return self.request_broke(plan);
            }
            Err(error) => {
                self.attempt(target, None, error.code(), None, asked);
                if let Some(reason) = error.reset().filter(|_| self.ongoing.http2) {
                    // The upstream has spoken, if only by a code that may mean "ask again".
                    self.ongoing.finish(End { side: Side::Upstream, how: How::Rst }, 0, 0, 0);
                    return Err(BodyError::Reset(reason.into()));
                }
                let trouble = Trouble::new(error.status(), error.code(), error.to_string());
                return Ok(self.trouble(plan, &trouble));
            }
        };
        if let Some(outcome) = retried {
            self.attempt(target, None, outcome, None, self.ongoing.now());
        }
        self.attempt(target, address, "ok", Some(response.status().as_u16()), asked);
        let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if let Some(upgrade) = self.upgrade.take().filter(|_| switching) {
            let (mut head, source) = response.into_parts();
            return match self.after_the_head(&mut filters, &mut head).await {
                Course::Forward => Ok(self.switch(plan, upgrade, head, source)),
                Course::Instead(verdict) => self.instead(verdict, plan).await,
            };
        }
        let (mut head, source) = match self.readable(response) {
            Ok(parts) => parts,
            Err(trouble) => return Ok(self.trouble(plan, &trouble)),
        };
        match self.after_the_head(&mut filters, &mut head).await {
            Course::Forward => Ok(self.pass(plan, filters, head, source).await),
            Course::Instead(verdict) => self.instead(verdict, plan).await,
        }
    }

    /// The request's headers.
    fn headers(&self) -> &HeaderMap {
        if self.changed { &self.head.headers } else { &self.ongoing.facts.headers }
    }

    /// The request's head, to be changed; what matches the request goes on to see it as it came.
    fn head_mut(&mut self) -> &mut request::Parts {
        if !std::mem::replace(&mut self.changed, true) {
            self.head.headers.clone_from(&self.ongoing.facts.headers);
        }
        &mut self.head
    }

    fn attempt(
        &self,
        target: &Arc<Target>,
        address: Option<SocketAddr>,
        outcome: &'static str,
        status: Option<u16>,
        asked: Duration,
    ) {
        let ms = (self.ongoing.now() - asked).as_secs_f64() * 1e3;
        let target = Arc::<Target>::clone(target);
        self.ongoing.attempt(Attempt { target, address, outcome, status, ms });
    }

    /// The first toxic that spoils the making of the upstream connection.
    fn connect_fault(&self, plan: &Plan) -> Option<ConnectFault> {
        let faults = self.ongoing.toxics(plan).filter_map(|toxic| Some((toxic, toxic.connect?)));
        let mut dialling = faults.filter(|(_, fault)| fault.is_of_upstream());
        let (toxic, fault) = dialling.find(|(toxic, _)| self.ongoing.strikes(plan, toxic))?;
        self.ongoing.struck(toxic.id.toxic, self.ongoing.now());
        Some(fault)
    }

    /// Starts the toxics that act on heads.
    fn filters(&self, plan: &Plan) -> Vec<Filter> {
        if !self.ongoing.has_toxics(plan) {
            return Vec::new();
        }
        let mut filters = Vec::new();
        for toxic in self.ongoing.toxics(plan) {
            if toxic.level != Level::Exchange || !self.ongoing.strikes(plan, toxic) {
                continue;
            }
            let Some(dice) = self.ongoing.dice(toxic.id.toxic) else { continue };
            let direction = toxic.spec.stream;
            let form =
                if direction == Direction::Upstream { body_form(self.headers()) } else { BodyForm::Opaque };
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
            let now = self.ongoing.now();
            let decision = filter.on_request(self.head_mut(), now);
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
