//! The request on its way to an upstream.
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body::Body as _;
use tokio::sync::oneshot;

use super::{ExchangeHandler, RequestBody, toxic_chain::EditableHead};
use crate::http::{
    body::{Body, BodySource, Gate},
    message::{
        facts::RequestParams,
        framing,
        headers::{self, Hop},
    },
    target::{Origin, Target},
    upstream::{Answer, Link, UpstreamError, VersionPolicy},
};

/// Opens the gate of a request's body when the upstream asks for it.
pub(super) type GoOn = Option<oneshot::Sender<()>>;

/// What holds a body back whose client expects to be asked for it.
pub(super) fn gate(headers: &HeaderMap) -> (GoOn, Option<Gate>) {
    let gate = headers.contains_key(header::EXPECT).then(oneshot::channel::<()>);
    let (go_on, asked) = gate.unzip();
    let gate = asked.map(|asked| Gate { asked, patience: Box::pin(tokio::time::sleep(Gate::PATIENCE)) });
    (go_on, gate)
}

/// A request that is ready to be sent.
pub(super) struct Outgoing<'a> {
    pub(super) head: &'a EditableHead,
    pub(super) body: Body,
    pub(super) go_on: GoOn,
}

impl ExchangeHandler {
    /// Sends the request to the one upstream of its exchange.
    pub(super) async fn ask(&mut self, target: &Target, authority: &str) -> Result<Answer, UpstreamError> {
        let tee = match &self.body {
            RequestBody::Tee(tee) | RequestBody::Read(tee) => Some(tee.rewound()),
            _ => None,
        };
        let (go_on, gate) = gate(self.head.headers());
        let body = match self.request_source() {
            None => {
                self.chain.no_request_body(self.head.headers());
                Body::Empty
            }
            Some(source) => {
                Body::Toxic(Box::new(self.chain.request_body(&mut self.head, source, gate).await))
            }
        };
        let outgoing = Outgoing { head: &self.head, body, go_on };
        let answer = self.send(outgoing, target, authority, Link::Shared).await?;
        if let Some(tee) = &tee {
            if let Some(body) = tee.complete() {
                self.ongoing.said(&RequestParams::by(&body).unwrap_or_default());
            }
            // The upstream has it: it is not sent again.
            tee.forget();
        }
        Ok(answer)
    }

    /// Sends a request to an upstream.
    pub(super) async fn send(
        &self,
        outgoing: Outgoing<'_>,
        target: &Target,
        authority: &str,
        link: Link<'_>,
    ) -> Result<Answer, UpstreamError> {
        let Outgoing { head, body, go_on } = outgoing;
        let (is_empty, length) = (body.is_end_stream(), body.size_hint().exact());
        let go_on = Arc::new(Mutex::new(go_on));
        let build = |http2: bool| {
            let mut request = self.next_request(head, target, authority, http2);
            if !http2 {
                let (over_http2, method) = (self.ongoing.http2, &head.parts().method);
                framing::for_http1(request.headers_mut(), method, is_empty, length, over_http2);
            }
            if head.headers().contains_key(header::EXPECT) {
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
        match target {
            Target::Simulated { simulator, .. } => {
                let response = simulator.handle(build(false).map(|()| body)).await;
                let response = response.map(|body| BodySource::Layer(Box::new(body)));
                Ok(Answer { response, address: None, retried: None, switching: None })
            }
            Target::Server { origin, .. } => {
                let speak = self.speak(origin, head.headers());
                self.proxy.upstreams.send(origin, speak, link, build, body).await
            }
            Target::Route { name, .. } => Err(UpstreamError::Nested(Arc::clone(name))),
        }
    }

    /// Whether the upstream is declared to speak HTTP/2 alone.
    pub(super) fn declared_http2(&self) -> bool {
        self.proxy.http2_only
    }

    /// In which version of HTTP the request goes upstream: as declared, else in the client's where the upstream speaks it.
    fn speak(&self, origin: &Origin, headers: &HeaderMap) -> VersionPolicy {
        if self.declared_http2() {
            VersionPolicy::Http2
        } else if !self.ongoing.http2 || self.upgrade.is_some() {
            VersionPolicy::Http1
        } else if !origin.tls && headers::is_grpc(headers) {
            VersionPolicy::Http2
        } else {
            VersionPolicy::Negotiated
        }
    }

    /// Where the request's body comes from, if it has one.
    pub(super) fn request_source(&mut self) -> Option<BodySource> {
        Some(match std::mem::replace(&mut self.body, RequestBody::None) {
            RequestBody::None => return None,
            RequestBody::Read(tee) => {
                // It is written down once more as it is sent.
                self.ongoing.capture_request_anew();
                BodySource::Tee(tee)
            }
            RequestBody::Tee(tee) => BodySource::Tee(tee),
            RequestBody::Stream(incoming) => BodySource::Incoming(incoming),
            RequestBody::Buffered(held) => {
                BodySource::Buffered(held.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
        })
    }

    /// The request's head for the next hop.
    fn next_request(
        &self,
        head: &EditableHead,
        target: &Target,
        authority: &str,
        http2: bool,
    ) -> Request<()> {
        let hop = Hop { request: true, http2, upgrade: self.upgrade.is_some() };
        let mut headers =
            headers::for_next_hop(head.headers(), hop).unwrap_or_else(|| head.headers().clone());
        if http2 {
            headers.remove(header::HOST);
        } else {
            if let Ok(host) = HeaderValue::from_str(authority) {
                headers.insert(header::HOST, host);
            }
            headers::join_cookies(&mut headers);
        }
        let mut request = Request::new(());
        *request.method_mut() = head.parts().method.clone();
        *request.uri_mut() = target.uri(&self.ongoing.facts.path, authority, http2);
        *request.headers_mut() = headers;
        // Among the extensions is the spelling of the header names.
        *request.extensions_mut() = head.parts().extensions.clone();
        request
    }
}
