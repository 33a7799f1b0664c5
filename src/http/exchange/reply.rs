//! The answer on its way to the client: the upstream's, a toxic's, or the proxy's own.
use std::{
    future::poll_fn,
    sync::PoisonError,
    task::{Poll, ready},
    time::Duration,
};

use aconite_toxics::{BodyForm, DeclaredLength, End, Ending, How, Level, Side, Verdict};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header, response};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;

use super::{
    ExchangeHandler, RequestBody,
    toxic_chain::PreparedBody,
    upgrade::{self, UPGRADED},
};
use crate::{
    http::{
        body::{Body, BodyError, BodySource, ToxicBody, reset_for},
        message::{
            broken::Broken,
            facts::content_length,
            framing::{self, BodyEnd},
            headers::{self, Hop},
        },
        proxy_error::{self, ProxyError},
        upstream::{MAX_HEADERS, Switching},
    },
    plan::Armed,
};

impl ExchangeHandler {
    /// The upstream's response, framed in one way only, if it can be forwarded.
    pub(super) fn readable(
        &self,
        response: Response<BodySource>,
    ) -> Result<Response<BodySource>, ProxyError> {
        let bad = |why: String| {
            let text = format!("the upstream's response cannot be forwarded: {why}");
            ProxyError::new(StatusCode::BAD_GATEWAY, "bad_response", text)
        };
        let (mut head, mut source) = response.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(bad(
                "it is a 101 (Switching Protocols), but the request asked for no upgrade".to_owned()
            ));
        }
        if head.headers.len() > MAX_HEADERS {
            return Err(bad(format!("its header section has more than {MAX_HEADERS} fields")));
        }
        headers::rename_own(&mut head.headers);
        if let BodyEnd::After(length) =
            framing::of_response(&mut head.headers, self.ongoing.http2).map_err(bad)?
        {
            source.end_after(length);
        }
        Ok(Response::from_parts(head, source))
    }

    /// Sends the answer on, its body through whatever acts on it.
    pub(super) async fn pass(mut self, mut head: response::Parts, source: BodySource) -> Response<Body> {
        let reworked = self.chain.response_body(&mut head, source).await;
        self.mark_all(&mut head.headers, |toxic| reworked.concerns(toxic));
        let PreparedBody { source, governor, decoding, mut announced, .. } = reworked;
        let streaming = matches!(governor.scope().body, BodyForm::Events(_));
        if let Some(DeclaredLength(declared)) = head.extensions.get() {
            // hyper sends no more than the header says, and closes if the body comes to less.
            head.headers.insert(header::CONTENT_LENGTH, (*declared).into());
            head.headers.remove(header::TRANSFER_ENCODING);
            announced = None;
        }
        let hop = Hop { request: false, http2: self.ongoing.http2, upgrade: false };
        if let Some(kept) = headers::for_next_hop(&head.headers, hop) {
            head.headers = kept;
        }
        head.version = Version::HTTP_11;
        self.ongoing.answered(head.status.as_u16(), streaming);
        // A toxic may have said otherwise.
        let length = content_length(&head.headers);
        let announced = announced.filter(|announced| length.is_none_or(|length| length == *announced));
        let flow = ToxicBody::response(source, governor, decoding, announced);
        let body = match length {
            Some(length) if head.status == StatusCode::NOT_MODIFIED && !self.ongoing.http2 => {
                Body::NotModified(length)
            }
            _ => Body::Toxic(Box::new(flow)),
        };
        Response::from_parts(head, body)
    }

    /// Forwards a `101`. What follows it is not a message: toxics on its body do not act on it.
    pub(super) fn switch(
        self,
        upgrade: OnUpgrade,
        mut head: response::Parts,
        upstream: Switching,
    ) -> Response<Body> {
        headers::rename_own(&mut head.headers);
        let on_messages = |toxic: &Armed| !matches!(toxic.level, Level::Bytes | Level::Connect);
        self.chain.toxics().out_of_reach(self.chain.plan(), |toxic| on_messages(toxic).then_some(UPGRADED));
        let acted = self.ongoing.struck_names();
        self.mark_all(&mut head.headers, |toxic| acted.contains(&toxic.spec.name));
        upgrade::switch(&self.ongoing, upgrade, head, upstream)
    }

    /// Names the toxics of the exchange that apply, the ones on the connection's bytes too.
    fn mark_all(&self, headers: &mut HeaderMap, applies: impl Fn(&Armed) -> bool) {
        let mut names = self.ongoing.toxics().marks(applies);
        names.extend(self.ongoing.connection.marks(self.chain.plan()));
        mark(headers, names);
    }

    /// The client gets something else.
    ///
    /// # Errors
    /// If a stream of HTTP/2 is to be reset: its connection goes on.
    pub(super) async fn instead(&mut self, verdict: Verdict) -> Result<Response<Body>, BodyError> {
        let ending = match verdict {
            Verdict::Respond(answer) => {
                let whole = self.rest_of_the_request().await;
                return Ok(self.respond(*answer, whole));
            }
            Verdict::Abort(ending) => ending,
            // The hang is over: the connection closes.
            Verdict::Hang(_) | Verdict::Forward => Ending::Fin,
        };
        let how = match ending {
            Ending::Rst => How::Rst,
            Ending::Hang => How::Hang,
            Ending::Clean | Ending::Fin => How::Fin,
        };
        self.ongoing.finish(End { side: Side::Toxic, how }, 0, 0, 0);
        match how {
            How::Rst | How::Fin if self.ongoing.http2 => {
                return Err(BodyError::Reset(reset_for(how).into()));
            }
            How::Rst => self.ongoing.control.reset(),
            How::Hang => {}
            _ => self.ongoing.control.fin_after_flush(),
        }
        std::future::pending().await
    }

    /// Takes what is left of a short request, so that the connection can go on behind an answer that did not wait for
    /// it. Whether it is over.
    async fn rest_of_the_request(&mut self) -> bool {
        let expects = self.head.headers().contains_key(header::EXPECT);
        let mut source = match std::mem::replace(&mut self.body, RequestBody::None) {
            RequestBody::None | RequestBody::Read(_) => return true,
            // A stream of its own.
            _ if self.ongoing.http2 => return true,
            // Reading would ask for the body.
            _ if expects => return false,
            RequestBody::Tee(tee) => BodySource::Tee(tee),
            RequestBody::Stream(incoming) => BodySource::Incoming(incoming),
            RequestBody::Buffered(held) => {
                BodySource::Buffered(held.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
        };
        if source.exact_size().is_some_and(|size| size > SHORT) {
            return false;
        }
        let mut taken = 0;
        let taking = poll_fn(|cx| {
            while taken <= SHORT {
                match ready!(source.poll_frame(cx)) {
                    Some(Ok(frame)) => taken += frame.data_ref().map_or(0, |data| data.len() as u64),
                    Some(Err(_)) => return Poll::Ready(false),
                    None => return Poll::Ready(true),
                }
            }
            Poll::Ready(false)
        });
        tokio::time::timeout(SOON, taking).await.unwrap_or(false)
    }

    fn respond(&self, answer: Response<Bytes>, keep: bool) -> Response<Body> {
        let (mut head, bytes) = answer.into_parts();
        if !keep {
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.mark_all(&mut head.headers, |toxic| toxic.level == Level::Exchange);
        let length = bytes.len() as u64;
        if !head.headers.contains_key(header::CONTENT_LENGTH) {
            head.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        self.ongoing.answered(head.status.as_u16(), false);
        let body = if self.head.parts().method == Method::HEAD { Body::Empty } else { Body::Full(bytes) };
        if !body.is_end_stream() {
            self.ongoing.first_byte();
        }
        self.ongoing.finish(End { side: Side::Toxic, how: How::Clean }, length, 0, 0);
        Response::from_parts(head, body)
    }

    /// The proxy's own failure.
    pub(super) fn trouble(&self, trouble: &ProxyError) -> Response<Body> {
        let mut response = if self.ongoing.http2 && headers::is_grpc(self.head.headers()) {
            proxy_error::grpc_refusal(trouble)
        } else {
            proxy_error::refusal(trouble)
        };
        self.mark_all(response.headers_mut(), |toxic| toxic.level == Level::Connect);
        self.ongoing.answered(response.status().as_u16(), false);
        self.ongoing.failed(trouble.code());
        response
    }

    /// The client has broken off its request, so that the upstream could not respond: no failure of the upstream's.
    ///
    /// # Errors
    /// The code with which the client's stream is reset.
    pub(super) fn request_broke(&self) -> Result<Response<Body>, BodyError> {
        let broken = self.ongoing.client_broke();
        let (text, how) = match broken {
            Some(Broken { malformed: Some(why), .. }) => {
                let text = format!("the request's body cannot be read: {why}");
                let trouble = ProxyError::new(StatusCode::BAD_REQUEST, "request_broken", text).closing();
                return Ok(self.trouble(&trouble));
            }
            Some(broken) => ("the request's body ended too early", broken.how),
            None => ("the request ended too early", How::Fin),
        };
        let end = End { side: Side::Client, how };
        if self.ongoing.http2 {
            self.ongoing.finish(end, 0, 0, 0);
            let reason = self.ongoing.reset_reason().unwrap_or(h2::Reason::CANCEL);
            return Err(BodyError::Reset(reason.into()));
        }
        let trouble = ProxyError::new(StatusCode::BAD_REQUEST, "request_broken", text).closing();
        let response = proxy_error::refusal(&trouble);
        self.ongoing.answered(response.status().as_u16(), false);
        self.ongoing.finish(end, 0, 0, 0);
        Ok(response)
    }
}

/// What is read of a request for the sake of its connection alone, in bytes, and for how long. A new connection is cheaper
/// than more.
const SHORT: u64 = 64 * 1024;
const SOON: Duration = Duration::from_millis(200);

/// Names toxics in a head that may name others already.
pub(super) fn mark(head: &mut HeaderMap, mut names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    if let Some(known) = head.get(headers::MARKER).and_then(|known| known.to_str().ok()) {
        names.insert(0, known.to_owned());
    }
    if let Ok(value) = HeaderValue::from_str(&names.join(",")) {
        head.insert(headers::MARKER, value);
    }
}
