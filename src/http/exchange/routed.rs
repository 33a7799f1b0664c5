//! Exchanges whose upstreams a policy chooses: one attempt after the other, until the client gets what the last one came to.
use std::sync::Arc;

use aconite_toxics::{DeclaredLength, Ending, Verdict};
use bytes::Bytes;
use http::{Response, StatusCode, header, response};

use super::{
    ExchangeHandler, Failed,
    ask::{Outgoing, gate},
    declared_body::DeclaredBody,
    reply::mark,
    toxic_chain::{NextStep, PreparedBody, ToxicChain},
};
use crate::{
    dial::DialPlan,
    http::{
        body::{
            Body, BodySource, Tee, ToxicBody,
            buffered::{BufferedBody, Fill},
        },
        ongoing::{Attempt, Owner},
        proxy_error::ProxyError,
        target::{
            Target,
            route::{AttemptResult, Limits, MAX_ATTEMPTS, MAX_REPLAY, Policy, ResponseProgress},
        },
        upstream::{Answer, Link, io::Io},
    },
    journal,
};

/// What an attempt came to.
struct AttemptEnd {
    result: Result<Response<BodySource>, Failed>,
    /// What is held back of the response's body.
    body: Bytes,
    received: ResponseProgress,
    /// Why the response did not come, or not as far as it was waited for.
    error: Option<&'static str>,
}

impl AttemptEnd {
    fn failed(error: &'static str, failed: Failed) -> Self {
        Self {
            result: Err(failed),
            body: Bytes::new(),
            received: ResponseProgress::Nothing,
            error: Some(error),
        }
    }

    fn outcome(&self, repeatable: bool) -> AttemptResult<'_> {
        AttemptResult {
            head: self.result.as_ref().ok().map(|response| (response.status(), response.headers())),
            body: self.body.clone(),
            error: self.error,
            sent: self.result.as_ref().err().is_none_or(Failed::is_sent),
            received: self.received,
            repeatable,
        }
    }
}

impl ExchangeHandler {
    /// Tries the upstreams that the policy chooses. `way` is what the toxics of the exchange leave of the way to each.
    pub(super) async fn routed(
        &mut self,
        policy: &dyn Policy,
        way: DialPlan,
    ) -> Result<Response<BodySource>, Failed> {
        let mut attempts = policy.begin(&self.ongoing.facts);
        let Some(mut candidate) = attempts.next(None) else {
            let text = "no upstream of the route can be tried now";
            let trouble = ProxyError::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream", text);
            return Err(Failed::Unreachable(trouble));
        };
        let body = self.replayable().await;
        let mut number = 0;
        loop {
            number += 1;
            let attempt = Arc::new(Attempt::new(&self.ongoing, number, candidate));
            let tried = self.attempt(&attempt, body.as_ref(), way).await;
            let repeatable = number < MAX_ATTEMPTS
                && self.ongoing.client_broke().is_none()
                && body.as_ref().is_none_or(Tee::is_whole);
            match attempts.next(Some(&tried.outcome(repeatable))).filter(|_| repeatable) {
                Some(next) => candidate = next,
                None => {
                    if let Some(body) = &body {
                        body.forget();
                    }
                    return tried.result;
                }
            }
        }
    }

    /// The request's body behind the toxics of the exchange, remembered for every attempt.
    async fn replayable(&mut self) -> Option<Tee> {
        let Some(source) = self.request_source() else {
            self.chain.no_request_body(self.head.headers());
            return None;
        };
        let flow = self.chain.request_body(&mut self.head, source, None).await;
        Some(Tee::new(BodySource::Layer(Box::new(flow)), MAX_REPLAY))
    }

    /// Tries one upstream, and waits for as much of its response as is held back.
    async fn attempt(&self, attempt: &Arc<Attempt>, body: Option<&Tee>, way: DialPlan) -> AttemptEnd {
        let asked = self.ongoing.now();
        let limits = attempt.candidate.limits;
        let mut address = None;
        let head = self.attempted_head(attempt, body, way, &mut address);
        let tried = match tokio::time::timeout(limits.head, head).await {
            Ok(Ok(response)) => held_back(response, limits).await,
            Ok(Err(failed)) => AttemptEnd::failed(failed.code(), failed),
            Err(_) => {
                let text = format!("no response from {} in time", attempt.candidate.target);
                let trouble = ProxyError::new(StatusCode::GATEWAY_TIMEOUT, TIMEOUT, text);
                AttemptEnd::failed(TIMEOUT, trouble.into())
            }
        };
        self.ongoing.attempt(journal::AttemptRecord {
            target: Arc::<Target>::clone(&attempt.candidate.target),
            address,
            outcome: tried.error.unwrap_or("ok"),
            status: tried.result.as_ref().ok().map(|response| response.status().as_u16()),
            ms: (self.ongoing.now() - asked).as_secs_f64() * 1e3,
        });
        tried
    }

    /// Sends the request to one upstream, through the toxics of this attempt, until the head of the response is there.
    async fn attempted_head(
        &self,
        attempt: &Arc<Attempt>,
        body: Option<&Tee>,
        way: DialPlan,
        address: &mut Option<std::net::SocketAddr>,
    ) -> Result<Response<BodySource>, Failed> {
        let candidate = &attempt.candidate;
        let plan = Arc::clone(&candidate.toxics.borrow());
        let mut chain = ToxicChain::new(Owner::Attempt(Arc::clone(attempt)), plan);
        let way = if way == DialPlan::AsAsked { chain.way() } else { way };
        let target = self.reached(&candidate.target, way).await?;
        let mut head = self.head.copy();
        chain.start(head.headers());
        if let NextStep::Instead(verdict) = chain.before_the_request(&mut head).await {
            return instead(verdict).await;
        }
        let (go_on, gate) = gate(head.headers());
        let body = match body {
            Some(tee) => {
                let source = BodySource::Tee(tee.rewound());
                Body::Toxic(Box::new(chain.request_body(&mut head, source, gate).await))
            }
            None => {
                chain.no_request_body(head.headers());
                Body::Empty
            }
        };
        let link = |stream| -> Box<dyn Io> { Box::new(attempt.link(stream)) };
        let link = if attempt.needs_link() { Link::Own(&link) } else { Link::Shared };
        let outgoing = Outgoing { head: &head, body, go_on };
        let answer = self.send(outgoing, &target, &candidate.authority, link).await;
        let answer = answer.map_err(|error| self.failed_by(error))?;
        let Answer { response, address: reached, .. } = answer;
        *address = reached;
        let (mut head, source) = self.readable(response)?.into_parts();
        if let NextStep::Instead(verdict) = chain.after_the_head(&mut head).await {
            return instead(verdict).await;
        }
        Ok(Self::attempted_body(chain, head, source).await)
    }

    /// The response of an attempt, with the attempt's toxics around its body.
    async fn attempted_body(
        mut chain: ToxicChain,
        mut head: response::Parts,
        source: BodySource,
    ) -> Response<BodySource> {
        let reworked = chain.response_body(&mut head, source).await;
        mark(&mut head.headers, chain.toxics().marks(|toxic| reworked.concerns(toxic)));
        let PreparedBody { source, governor, decoding, announced, .. } = reworked;
        let flow = ToxicBody::attempt(source, governor, decoding, announced);
        let mut body = BodySource::Layer(Box::new(flow));
        if let Some(DeclaredLength(declared)) = head.extensions.remove() {
            head.headers.insert(header::CONTENT_LENGTH, declared.into());
            head.headers.remove(header::TRANSFER_ENCODING);
            body = BodySource::Layer(Box::new(DeclaredBody::new(body, declared)));
        }
        Response::from_parts(head, body)
    }
}

/// What the journal says of an attempt that took too long.
const TIMEOUT: &str = "timeout";

/// What a toxic makes of an attempt instead of the upstream's response.
async fn instead(verdict: Verdict) -> Result<Response<BodySource>, Failed> {
    match verdict {
        Verdict::Respond(answer) => {
            let length = answer.body().len();
            let mut response = answer.map(|bytes: Bytes| BodySource::Full(Some(bytes)));
            response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
            Ok(response)
        }
        // The limits of the attempt end it.
        Verdict::Abort(Ending::Hang) => std::future::pending().await,
        Verdict::Abort(_) | Verdict::Hang(_) | Verdict::Forward => {
            let text = "a toxic ended the attempt before its response";
            Err(ProxyError::new(StatusCode::BAD_GATEWAY, "upstream_broken", text).into())
        }
    }
}

/// Waits for as much of a response's body as is held back.
async fn held_back(response: Response<BodySource>, limits: Limits) -> AttemptEnd {
    if limits.hold_back == 0 {
        return AttemptEnd {
            result: Ok(response),
            body: Bytes::new(),
            received: ResponseProgress::Head,
            error: None,
        };
    }
    let (head, source) = response.into_parts();
    let mut held = BufferedBody::new(source, false);
    // More than so many bytes are enough.
    let filling = held.fill(limits.hold_back - 1, |_| false);
    let (received, error) = match tokio::time::timeout(limits.body, filling).await {
        Ok(Fill::All) => (ResponseProgress::All, None),
        Ok(Fill::Part) => (ResponseProgress::Part, None),
        Ok(Fill::Broken) => (ResponseProgress::Part, Some("upstream_broken")),
        Err(_) => (ResponseProgress::Part, Some(TIMEOUT)),
    };
    let body = held.bytes();
    AttemptEnd {
        result: Ok(Response::from_parts(head, BodySource::Buffered(Box::new(held)))),
        body,
        received,
        error,
    }
}
