//! One request and its answer, from head to head.
mod ask;
mod declared_body;
mod documents;
mod prepare;
mod reply;
mod routed;
mod toxic_chain;
mod upgrade;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use aconite_toxics::{ConnectFault, End, How, Side};
use http::{Request, Response, StatusCode, request};
use hyper::{body::Incoming, upgrade::OnUpgrade};

use super::{
    body::{Body, BodyError, BodySource},
    client::{Client, Destination, asked_authority, extended_connect, guard, host_of, proxy::HttpProxy},
    message::facts::Facts,
    ongoing::{ExchangeState, Owner},
    proxy_error::{self, ProxyError},
    target::Target,
    upstream::{Answer, MAX_HEADERS, Switching, UpstreamError, unreachable::unreachable},
};
use crate::{
    dial::DialPlan,
    journal::{AttemptRecord, ExchangeStart, recorded, recorded_host, recorded_method},
    link::{Framing, OpenStream},
    plan::Plan,
    secrets,
};
use prepare::{Prepared, RequestBody};
use toxic_chain::{EditableHead, NextStep, ToxicChain};

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
    exchange.answer(&destination.target, &destination.authority).await
}

/// Where a request leads, if it can be asked on at all.
fn led(client: &Client, head: &mut request::Parts, framed_twice: bool) -> Result<Destination, ProxyError> {
    if framed_twice {
        return Err(proxy_error::framed_twice());
    }
    if head.headers.len() > MAX_HEADERS {
        return Err(proxy_error::too_large());
    }
    if client.http2 {
        extended_connect::as_upgrade(head)?;
    }
    guard::enter(client, head)?;
    client.destination(head)
}

/// The whole of an exchange that cannot begin.
fn refused(client: &Client, facts: &Facts, trouble: &ProxyError) -> Response<Body> {
    let answer = proxy_error::refusal(trouble);
    guard::record_refusal(&client.connection, written(client, facts), &facts.headers, trouble);
    client.control.exchange_ends();
    answer
}

fn framing(body: &Incoming) -> Framing {
    use http_body::Body as _;

    // hyper knows the length of every body but those in chunks.
    body.size_hint().exact().map_or(Framing::Chunked { over: false }, Framing::Length)
}

struct ExchangeHandler {
    ongoing: Arc<ExchangeState>,
    /// The toxics of the exchange.
    chain: ToxicChain,
    head: EditableHead,
    body: RequestBody,
    upgrade: Option<OnUpgrade>,
    proxy: Arc<HttpProxy>,
}

/// Why there is no response of an upstream.
enum Failed {
    Upstream(UpstreamError),
    /// There was no way to it, by a `connect` toxic or because none can be tried; what the client is told.
    Unreachable(ProxyError),
    /// What the client is told.
    ProxyError(ProxyError),
    /// The client has broken off its request, so that the upstream could not respond.
    RequestBroke,
}

impl From<ProxyError> for Failed {
    fn from(trouble: ProxyError) -> Self {
        Self::ProxyError(trouble)
    }
}

impl Failed {
    /// A word for the journal.
    fn code(&self) -> &'static str {
        match self {
            Self::Upstream(error) => error.code(),
            Self::ProxyError(trouble) | Self::Unreachable(trouble) => trouble.code(),
            Self::RequestBroke => "request_broken",
        }
    }

    /// Whether an upstream may have received anything of the request.
    fn is_sent(&self) -> bool {
        match self {
            Self::Upstream(error) => error.is_sent(),
            Self::Unreachable(_) => false,
            Self::ProxyError(_) | Self::RequestBroke => true,
        }
    }
}

fn begin(
    client: &Client,
    plan: &Arc<Plan>,
    head: request::Parts,
    facts: Facts,
    prepared: Prepared,
    stream: Option<OpenStream>,
) -> ExchangeHandler {
    let Prepared { body, own, upgrade } = prepared;
    let record = client.connection.site.journal.begin(written(client, &facts));
    record.note(|course| {
        course.model = facts.said.model.as_deref().map(recorded);
        course.streaming = facts.streaming().unwrap_or(false);
    });
    let (connection, control) = (Arc::clone(&client.connection), client.control.clone());
    let ongoing = Arc::new(ExchangeState::new(connection, control, plan, facts, own, record, stream));
    ongoing.toxics().note_idle(plan);
    if let RequestBody::Read(tee) = &body
        && let Some(bytes) = tee.complete()
    {
        ongoing.request_passed(bytes.len() as u64);
        ongoing.capture_request(&bytes);
    }
    let chain = ToxicChain::new(Owner::Exchange(Arc::clone(&ongoing)), Arc::clone(plan));
    let head = EditableHead::of(&ongoing, head);
    ExchangeHandler { ongoing, chain, head, body, upgrade, proxy: Arc::clone(&client.proxy) }
}

fn written(client: &Client, facts: &Facts) -> ExchangeStart {
    ExchangeStart {
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

impl ExchangeHandler {
    async fn answer(mut self, target: &Arc<Target>, authority: &str) -> Result<Response<Body>, BodyError> {
        let way = self.chain.way();
        let target = match self.reached(target, way).await {
            Ok(target) => target,
            Err(failed) => return self.failed(failed),
        };
        self.chain.start(self.head.headers());
        match self.chain.before_the_request(&mut self.head).await {
            NextStep::Forward => {}
            NextStep::Instead(verdict) => return self.instead(verdict).await,
        }
        let response = match &*target {
            Target::Route { policy, .. } => {
                self.upgrade = None;
                // Boxed: most exchanges have one upstream.
                Box::pin(self.routed(&**policy, way)).await.map(|response| (response, None))
            }
            Target::Server { .. } | Target::Simulated { .. } => self.direct(&target, authority).await,
        };
        let (response, switching) = match response {
            Ok(response) => response,
            Err(failed) => return self.failed(failed),
        };
        let (mut head, source) = response.into_parts();
        match self.chain.after_the_head(&mut head).await {
            NextStep::Forward => {}
            NextStep::Instead(verdict) => return self.instead(verdict).await,
        }
        Ok(match (self.upgrade.take(), switching) {
            (Some(upgrade), Some(upstream)) => self.switch(upgrade, head, upstream),
            _ => self.pass(head, source).await,
        })
    }

    /// Where the upstream is, by what the `connect` toxics leave of the way there.
    async fn reached(&self, target: &Arc<Target>, way: DialPlan) -> Result<Arc<Target>, Failed> {
        let fault = match (way, &**target) {
            (DialPlan::AsAsked, _) | (DialPlan::At(_), Target::Route { .. }) => {
                return Ok(Arc::clone(target));
            }
            (DialPlan::At(address), Target::Server { origin, prefix }) => {
                let (origin, prefix) = (origin.at(address), prefix.clone());
                return Ok(Arc::new(Target::Server { origin, prefix }));
            }
            // A simulated upstream has no address: nobody answers at another one.
            (DialPlan::At(_), Target::Simulated { .. }) => ConnectFault::StaleAddress(None),
            (DialPlan::Fails(fault), _) => fault,
        };
        let limit = self.proxy.upstreams.dialer.connect_timeout;
        Err(Failed::Unreachable(unreachable(fault, &target.to_string(), limit).await))
    }

    /// Asks the one upstream of the exchange, once. With a `101` comes the connection that takes part in the upgrade.
    async fn direct(
        &mut self,
        target: &Arc<Target>,
        authority: &str,
    ) -> Result<(Response<BodySource>, Option<Switching>), Failed> {
        if self.upgrade.is_some() && self.declared_http2() {
            let text = "the proxy's `upstream_protocol` is `http2`, in which an Upgrade cannot be forwarded";
            return Err(ProxyError::new(StatusCode::BAD_GATEWAY, "upgrade_failed", text).into());
        }
        let asked = self.ongoing.now();
        let answer = self.ask(target, authority).await.map_err(|error| self.failed_by(error));
        let Answer { response, address, retried, switching } = match answer {
            Ok(answer) => answer,
            Err(failed) => {
                self.attempt_ended(target, None, failed.code(), None, asked);
                return Err(failed);
            }
        };
        if let Some(outcome) = retried {
            self.attempt_ended(target, None, outcome, None, self.ongoing.now());
        }
        self.attempt_ended(target, address, "ok", Some(response.status().as_u16()), asked);
        match switching.filter(|_| self.upgrade.is_some()) {
            Some(switching) => Ok((response, Some(switching))),
            None => Ok((self.readable(response)?, None)),
        }
    }

    /// Why an upstream gave no response: it may be for the client.
    fn failed_by(&self, error: UpstreamError) -> Failed {
        if self.ongoing.client_broke().is_some() { Failed::RequestBroke } else { Failed::Upstream(error) }
    }

    fn attempt_ended(
        &self,
        target: &Arc<Target>,
        address: Option<SocketAddr>,
        outcome: &'static str,
        status: Option<u16>,
        asked: Duration,
    ) {
        let ms = (self.ongoing.now() - asked).as_secs_f64() * 1e3;
        let target = Arc::<Target>::clone(target);
        self.ongoing.attempt(AttemptRecord { target, address, outcome, status, ms });
    }

    /// No upstream has given a response.
    ///
    /// # Errors
    /// The code with which the client's stream is reset.
    fn failed(&self, failed: Failed) -> Result<Response<Body>, BodyError> {
        match failed {
            Failed::RequestBroke => self.request_broke(),
            Failed::ProxyError(trouble) | Failed::Unreachable(trouble) => Ok(self.trouble(&trouble)),
            Failed::Upstream(error) => {
                if let Some(reason) = error.reset().filter(|_| self.ongoing.http2) {
                    // The upstream has spoken, if only by a code that may mean "ask again".
                    self.ongoing.finish(End { side: Side::Upstream, how: How::Rst }, 0, 0, 0);
                    return Err(BodyError::Reset(reason.into()));
                }
                Ok(self.trouble(&ProxyError::new(error.status(), error.code(), error.to_string())))
            }
        }
    }
}
