//! Exchanges whose upstreams a policy chooses: one attempt after the other, until the client gets what the last one came to.
use std::sync::Arc;

use aconite_toxics::{DeclaredLength, Ending, Verdict};
use bytes::Bytes;
use http::{Response, StatusCode, header, response};

use super::{
    Failed, Running,
    ask::{Outgoing, gate},
    leg::{Course, Leg, Reworked},
    reply::mark,
    short::Short,
};
use crate::{
    dial::Way,
    http::{
        body::{
            Body, Flow, Source, Tee,
            held::{Came, Held},
        },
        ongoing::{Attempt, Party},
        own_answer::Trouble,
        target::{
            Target,
            route::{Limits, MAX_ATTEMPTS, MAX_REPLAY, Outcome, Policy, Received},
        },
        upstream::{Answer, Link, io::Io},
    },
    journal,
};

/// What an attempt came to.
struct Tried {
    result: Result<Response<Source>, Failed>,
    /// What is held back of the response's body.
    body: Bytes,
    received: Received,
    /// Why the response did not come, or not as far as it was waited for.
    error: Option<&'static str>,
}

impl Tried {
    fn failed(error: &'static str, failed: Failed) -> Self {
        Self { result: Err(failed), body: Bytes::new(), received: Received::Nothing, error: Some(error) }
    }

    fn outcome(&self, repeatable: bool) -> Outcome<'_> {
        Outcome {
            head: self.result.as_ref().ok().map(|response| (response.status(), response.headers())),
            body: self.body.clone(),
            error: self.error,
            sent: self.result.as_ref().err().is_none_or(Failed::is_sent),
            received: self.received,
            repeatable,
        }
    }
}

impl Running {
    /// Tries the upstreams that the policy chooses. `way` is what the toxics of the exchange leave of the way to each.
    pub(super) async fn routed(&mut self, policy: &dyn Policy, way: Way) -> Result<Response<Source>, Failed> {
        let mut attempts = policy.begin(&self.ongoing.facts);
        let Some(mut candidate) = attempts.next(None) else {
            let text = "no upstream of the route can be tried now";
            let trouble = Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "no_upstream", text);
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
            self.leg.no_request_body(self.head.headers());
            return None;
        };
        let flow = self.leg.request_body(&mut self.head, source, None).await;
        Some(Tee::new(Source::Piece(Box::new(flow)), MAX_REPLAY))
    }

    /// Tries one upstream, and waits for as much of its response as is held back.
    async fn attempt(&self, attempt: &Arc<Attempt>, body: Option<&Tee>, way: Way) -> Tried {
        let asked = self.ongoing.now();
        let limits = attempt.candidate.limits;
        let mut address = None;
        let head = self.attempted_head(attempt, body, way, &mut address);
        let tried = match tokio::time::timeout(limits.head, head).await {
            Ok(Ok(response)) => held_back(response, limits).await,
            Ok(Err(failed)) => Tried::failed(failed.code(), failed),
            Err(_) => {
                let text = format!("no response from {} in time", attempt.candidate.target);
                let trouble = Trouble::new(StatusCode::GATEWAY_TIMEOUT, TIMEOUT, text);
                Tried::failed(TIMEOUT, trouble.into())
            }
        };
        self.ongoing.attempt(journal::Attempt {
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
        way: Way,
        address: &mut Option<std::net::SocketAddr>,
    ) -> Result<Response<Source>, Failed> {
        let candidate = &attempt.candidate;
        let plan = Arc::clone(&candidate.toxics.borrow());
        let mut leg = Leg::new(Party::Attempt(Arc::clone(attempt)), plan);
        let way = if way == Way::AsAsked { leg.way() } else { way };
        let target = self.reached(&candidate.target, way).await?;
        let mut head = self.head.copy();
        leg.start(head.headers());
        if let Course::Instead(verdict) = leg.before_the_request(&mut head).await {
            return instead(verdict).await;
        }
        let (go_on, gate) = gate(head.headers());
        let body = match body {
            Some(tee) => {
                let source = Source::Tee(tee.rewound());
                Body::Flow(Box::new(leg.request_body(&mut head, source, gate).await))
            }
            None => {
                leg.no_request_body(head.headers());
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
        if let Course::Instead(verdict) = leg.after_the_head(&mut head).await {
            return instead(verdict).await;
        }
        Ok(Self::attempted_body(leg, head, source).await)
    }

    /// The response of an attempt, with the attempt's toxics around its body.
    async fn attempted_body(mut leg: Leg, mut head: response::Parts, source: Source) -> Response<Source> {
        let reworked = leg.response_body(&mut head, source).await;
        mark(&mut head.headers, leg.toxics().marks(|toxic| reworked.concerns(toxic)));
        let Reworked { source, governor, decoding, announced, .. } = reworked;
        let flow = Flow::attempt(source, governor, decoding, announced);
        let mut body = Source::Piece(Box::new(flow));
        if let Some(DeclaredLength(declared)) = head.extensions.remove() {
            head.headers.insert(header::CONTENT_LENGTH, declared.into());
            head.headers.remove(header::TRANSFER_ENCODING);
            body = Source::Piece(Box::new(Short::new(body, declared)));
        }
        Response::from_parts(head, body)
    }
}

/// What the journal says of an attempt that took too long.
const TIMEOUT: &str = "timeout";

/// What a toxic makes of an attempt instead of the upstream's response.
async fn instead(verdict: Verdict) -> Result<Response<Source>, Failed> {
    match verdict {
        Verdict::Respond(answer) => {
            let length = answer.body().len();
            let mut response = answer.map(|bytes: Bytes| Source::Full(Some(bytes)));
            response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
            Ok(response)
        }
        // The limits of the attempt end it.
        Verdict::Abort(Ending::Hang) => std::future::pending().await,
        Verdict::Abort(_) | Verdict::Hang(_) | Verdict::Forward => {
            let text = "a toxic ended the attempt before its response";
            Err(Trouble::new(StatusCode::BAD_GATEWAY, "upstream_broken", text).into())
        }
    }
}

/// Waits for as much of a response's body as is held back.
async fn held_back(response: Response<Source>, limits: Limits) -> Tried {
    if limits.hold_back == 0 {
        return Tried { result: Ok(response), body: Bytes::new(), received: Received::Head, error: None };
    }
    let (head, source) = response.into_parts();
    let mut held = Held::new(source, false);
    // More than so many bytes are enough.
    let filling = held.fill(limits.hold_back - 1, |_| false);
    let (received, error) = match tokio::time::timeout(limits.body, filling).await {
        Ok(Came::All) => (Received::All, None),
        Ok(Came::Part) => (Received::Part, None),
        Ok(Came::Broken) => (Received::Part, Some("upstream_broken")),
        Err(_) => (Received::Part, Some(TIMEOUT)),
    };
    let body = held.bytes();
    Tried { result: Ok(Response::from_parts(head, Source::Held(Box::new(held)))), body, received, error }
}
