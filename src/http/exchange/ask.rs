//! The request on its way to the upstream.
use std::sync::{Arc, Mutex, PoisonError};

use aconite_toxics::{Direction, Level};
use http::{HeaderValue, Request, StatusCode, header};
use http_body::Body as _;
use tokio::sync::oneshot;

use super::{
    super::{
        body::{Body, Flow, Gate, Source},
        coding::Coded,
        facts::{Said, body_form, content_length},
        framing,
        governor::{BodyGovernor, beyond, concerns},
        headers::{self, Hop},
        target::{Origin, Target},
        upstream::{Answer, Speak, UpstreamError},
    },
    Filter, RequestBody, Running, bodies,
    reply::changes_length,
};
use crate::plan::{Armed, Plan};

impl Running {
    /// Sends the request upstream.
    pub(super) async fn ask(
        &mut self,
        plan: &Plan,
        target: &Arc<Target>,
        authority: &str,
        filters: &mut [Filter],
    ) -> Result<Answer, UpstreamError> {
        let gate = self.headers().contains_key(header::EXPECT).then(oneshot::channel::<()>);
        let (go_on, asked) = gate.unzip();
        let gate = asked.map(|asked| Gate { asked, patience: Box::pin(tokio::time::sleep(Gate::PATIENCE)) });
        let tee = match &self.body {
            RequestBody::Tee(tee) | RequestBody::Read(tee) => Some(tee.rewound()),
            _ => None,
        };
        let body = self.request_body(plan, filters, gate).await;
        let (is_empty, length) = (body.is_end_stream(), body.size_hint().exact());
        let go_on = Arc::new(Mutex::new(go_on));
        let build = |http2: bool| {
            let mut request = self.next_request(target, authority, http2);
            if !http2 {
                let (over_http2, method) = (self.ongoing.http2, &self.head.method);
                framing::for_http1(request.headers_mut(), method, is_empty, length, over_http2);
            }
            if self.headers().contains_key(header::EXPECT) {
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
        let answer = match &**target {
            Target::Simulated { simulator, .. } => {
                let response = simulator.handle(build(false).map(|()| body)).await;
                let response = response.map(|body| Source::Simulated(Box::new(body)));
                Answer { response, address: None, retried: None }
            }
            Target::Server { origin, .. } => upstreams.send(origin, self.speak(origin), build, body).await?,
        };
        if let Some(tee) = &tee {
            if let Some(body) = tee.complete() {
                self.ongoing.said(&Said::by(&body).unwrap_or_default());
            }
            // The upstream has it: it is not sent again.
            tee.forget();
        }
        Ok(answer)
    }

    /// Whether the upstream is declared to speak HTTP/2 alone.
    pub(super) fn declared_http2(&self) -> bool {
        self.ongoing.proxy.http2_only
    }

    /// In which version of HTTP the request goes upstream: as declared, else in the client's where the upstream speaks it.
    fn speak(&self, origin: &Origin) -> Speak {
        if self.declared_http2() {
            Speak::Http2
        } else if !self.ongoing.http2 || self.upgrade.is_some() {
            Speak::Http1
        } else if !origin.tls && headers::is_grpc(self.headers()) {
            Speak::Http2
        } else {
            Speak::Negotiated
        }
    }

    async fn request_body(&mut self, plan: &Plan, filters: &mut [Filter], gate: Option<Gate>) -> Body {
        if matches!(self.body, RequestBody::None) {
            let scope = self.ongoing.facts.scope(Direction::Upstream, body_form(self.headers()), None);
            self.ongoing.out_of_reach(plan, |toxic| beyond(toxic, &scope, true));
        }
        let source = match std::mem::replace(&mut self.body, RequestBody::None) {
            RequestBody::None => return Body::Empty,
            RequestBody::Read(tee) => {
                // It is written down once more as it is sent.
                self.ongoing.capture_request_anew();
                Source::Tee(tee)
            }
            RequestBody::Tee(tee) => Source::Tee(tee),
            RequestBody::Stream(incoming) => Source::Incoming(incoming),
            RequestBody::Held(held) => {
                Source::Held(held.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
        };
        let form = body_form(self.headers());
        let coded = Coded::of(self.headers());
        let length = content_length(self.headers());
        let scope = self.ongoing.facts.scope(Direction::Upstream, form, length);
        let edited = self.edit(plan, &scope, coded, source).await;
        if !edited.struck.is_empty() {
            edited.describe(&mut self.head_mut().headers);
        }
        let length = content_length(self.headers());
        let scope = self.ongoing.facts.scope(Direction::Upstream, form, length);
        let mut ready = bodies(filters, Direction::Upstream, |filter| filter.filter.body(&scope));
        ready.extend(edited.stages());
        let unreadable = coded != Coded::Plain && edited.struck.is_empty();
        let applies = |toxic: &Armed| toxic.level != Level::Exchange && concerns(toxic, &scope);
        let reads = !unreadable
            && self.ongoing.toxics(plan).any(|toxic| {
                !edited.asked.contains(&toxic.id) && applies(toxic) && self.ongoing.strikes(plan, toxic)
            });
        if reads || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(changes_length)) {
            // Its length may no longer be what the head says.
            self.head_mut().headers.remove(header::CONTENT_LENGTH);
        }
        let governor = BodyGovernor::new(Arc::clone(&self.ongoing), scope, ready, unreadable);
        Body::Flow(Box::new(Flow::request(edited.source, governor, gate)))
    }

    /// The request's head for the next hop.
    fn next_request(&self, target: &Target, authority: &str, http2: bool) -> Request<()> {
        let hop = Hop { request: true, http2, upgrade: self.upgrade.is_some() };
        let mut headers =
            headers::for_next_hop(self.headers(), hop).unwrap_or_else(|| self.headers().clone());
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
}
