//! The answer on its way to the client: the upstream's, a toxic's, or the proxy's own.
use std::{
    future::poll_fn,
    sync::{Arc, PoisonError},
    task::{Poll, ready},
    time::Duration,
};

use aconite_toxics::{BodyFilter, BodyForm, DeclaredLength, Direction, Ending, Level, StageId, Verdict};
use aconite_toxics::{End, How, Side};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header, response};
use hyper::upgrade::OnUpgrade;

use super::{
    super::{
        body::{Body, BodyError, Flow, Source, reset_for},
        coding::{Coded, Coding, Decoding},
        facts::content_length,
        framing::{self, Ends},
        governor::{BodyGovernor, beyond, concerns},
        headers::{self, Hop},
        held::{Came, Held},
        own_answer::{self, Trouble},
        source::Broken,
        upgrade::{self, UPGRADED},
        upstream::MAX_HEADERS,
    },
    Filter, RequestBody, Running, bodies,
    documents::Edited,
};
use crate::plan::{Armed, Plan};

impl Running {
    /// The upstream's response, framed in one way only, if it can be forwarded.
    pub(super) fn readable(&self, response: Response<Source>) -> Result<(response::Parts, Source), Trouble> {
        let bad = |why: String| {
            let text = format!("the upstream's response cannot be forwarded: {why}");
            Trouble::new(StatusCode::BAD_GATEWAY, "bad_response", text)
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
        if let Ends::After(length) =
            framing::of_response(&mut head.headers, self.ongoing.http2).map_err(bad)?
        {
            source.end_after(length);
        }
        Ok((head, source))
    }

    /// Sends the answer on, its body through whatever acts on it.
    pub(super) async fn pass(
        self,
        plan: &Plan,
        mut filters: Vec<Filter>,
        mut head: response::Parts,
        source: Source,
    ) -> Response<Body> {
        let form = self.ongoing.facts.response_form(head.status, &head.headers);
        let bodiless = source.is_end_stream();
        let scope = |head: &response::Parts, coded| {
            let length = content_length(&head.headers).filter(|_| coded == Coded::Plain);
            self.ongoing.facts.scope(Direction::Downstream, form, length)
        };
        let coded = Coded::of(&head.headers);
        let edited = if bodiless {
            Edited { source, asked: Vec::new(), struck: Vec::new() }
        } else {
            self.edit(plan, &scope(&head, coded), coded, source).await
        };
        edited.describe(&mut head.headers);
        let coded = Coded::of(&head.headers);
        let scope = scope(&head, coded);
        let mut ready = if bodiless {
            self.ongoing.out_of_reach(plan, |toxic| beyond(toxic, &scope, true));
            Vec::new()
        } else {
            bodies(&mut filters, Direction::Downstream, |filter| filter.filter.body(&scope))
        };
        ready.extend(edited.stages());
        let applies = |toxic: &Armed| {
            toxic.level != Level::Exchange && concerns(toxic, &scope) && !edited.asked.contains(&toxic.id)
        };
        let reads = |toxic: &Arc<Armed>| applies(toxic) && self.ongoing.strikes(plan, toxic);
        // All of them: each has to be decided before the answer is marked.
        let readers =
            if bodiless { 0 } else { self.ongoing.toxics(plan).filter(|toxic| reads(toxic)).count() };
        let reading = readers > 0 || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(reads_text));
        let mut source = edited.source;
        let decoding = match coded {
            Coded::By(coding) if reading => {
                let ids: Vec<_> = self.ongoing.toxics(plan).map(|toxic| toxic.id).collect();
                let (held, decoding) = self.decodable(coding, source, &ids).await;
                source = held;
                decoding
            }
            _ => None,
        };
        if decoding.is_some() {
            head.headers.remove(header::CONTENT_ENCODING);
        }
        let unreadable = coded != Coded::Plain && decoding.is_none();
        let changes = (reading && !unreadable)
            || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(changes_length));
        if changes {
            head.headers.remove(header::CONTENT_LENGTH);
        }
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
            _ if edited.asked.contains(&toxic.id) => edited.struck.contains(&toxic.id),
            _ => !unreadable && concerns(toxic, &scope),
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

    /// Forwards a `101`. What follows it is no message: toxics on its body do not act on it.
    pub(super) fn switch(
        self,
        plan: &Plan,
        upgrade: OnUpgrade,
        mut head: response::Parts,
        source: Source,
    ) -> Response<Body> {
        headers::rename_own(&mut head.headers);
        let on_messages = |toxic: &Armed| !matches!(toxic.level, Level::Bytes | Level::Connect);
        self.ongoing.out_of_reach(plan, |toxic| on_messages(toxic).then_some(UPGRADED));
        let acted = self.ongoing.struck_names();
        self.mark(plan, &mut head.headers, |toxic| acted.contains(&toxic.spec.name));
        upgrade::switch(&self.ongoing, upgrade, head, source)
    }

    /// Holds a coded body back until its first block is decoded: only then is the client told that it comes plain.
    /// Without a decoder it goes on as it came.
    async fn decodable(&self, coding: Coding, source: Source, ids: &[StageId]) -> (Source, Option<Decoding>) {
        let mut trial = Decoding::new(coding);
        let mut valid = true;
        let mut held = Held::new(source, false);
        let first = |new: &[u8]| {
            trial.push(Bytes::copy_from_slice(new));
            match trial.step() {
                Ok(None) => false,
                Ok(Some(_)) => true,
                Err(_) => {
                    valid = false;
                    true
                }
            }
        };
        tokio::select! {
            came = held.fill(FIRST_BLOCK, first) => {
                valid &= came != Came::Broken && (came == Came::Part || trial.is_complete());
            }
            () = tokio::time::sleep(FIRST_WAIT) => {}
            () = self.ongoing.gone(ids) => valid = false,
        }
        (Source::Held(Box::new(held)), valid.then(|| Decoding::new(coding)))
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
    ///
    /// # Errors
    /// If a stream of HTTP/2 is to be reset: its connection goes on.
    pub(super) async fn instead(
        &mut self,
        verdict: Verdict,
        plan: &Plan,
    ) -> Result<Response<Body>, BodyError> {
        let ending = match verdict {
            Verdict::Respond(answer) => {
                let whole = self.rest_of_the_request().await;
                return Ok(self.respond(*answer, plan, whole));
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
        let expects = self.headers().contains_key(header::EXPECT);
        let mut source = match std::mem::replace(&mut self.body, RequestBody::None) {
            RequestBody::None | RequestBody::Read(_) => return true,
            // A stream of its own.
            _ if self.ongoing.http2 => return true,
            // Reading would ask for the body.
            _ if expects => return false,
            RequestBody::Tee(tee) => Source::Tee(tee),
            RequestBody::Stream(incoming) => Source::Incoming(incoming),
            RequestBody::Held(held) => {
                Source::Held(held.into_inner().unwrap_or_else(PoisonError::into_inner))
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

    fn respond(&self, answer: Response<Bytes>, plan: &Plan, keep: bool) -> Response<Body> {
        let (mut head, bytes) = answer.into_parts();
        if !keep {
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.mark(plan, &mut head.headers, |toxic| toxic.level == Level::Exchange);
        let length = bytes.len() as u64;
        if !head.headers.contains_key(header::CONTENT_LENGTH) {
            head.headers.insert(header::CONTENT_LENGTH, length.into());
        }
        self.ongoing.answered(head.status.as_u16(), false);
        self.ongoing.first_byte();
        self.ongoing.finish(End { side: Side::Toxic, how: How::Clean }, length, 0, 0);
        let body = if self.head.method == Method::HEAD { Body::Empty } else { Body::Full(bytes) };
        Response::from_parts(head, body)
    }

    /// The proxy's own failure.
    pub(super) fn trouble(&self, plan: &Plan, trouble: &Trouble) -> Response<Body> {
        let mut response = if self.ongoing.http2 && headers::is_grpc(self.headers()) {
            own_answer::grpc_refusal(trouble)
        } else {
            own_answer::refusal(trouble)
        };
        self.mark(plan, response.headers_mut(), |toxic| toxic.level == Level::Connect);
        self.ongoing.answered(response.status().as_u16(), false);
        self.ongoing.failed(trouble.code());
        response
    }

    /// The client has broken off its request, so that the upstream could not respond: no failure of the upstream's.
    ///
    /// # Errors
    /// The code with which the client's stream is reset.
    pub(super) fn request_broke(&self, plan: &Plan) -> Result<Response<Body>, BodyError> {
        let broken = self.ongoing.client_broke();
        let (text, how) = match broken {
            Some(Broken { malformed: Some(why), .. }) => {
                let text = format!("the request's body cannot be read: {why}");
                let trouble = Trouble::new(StatusCode::BAD_REQUEST, "request_broken", text).closing();
                return Ok(self.trouble(plan, &trouble));
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
        let trouble = Trouble::new(StatusCode::BAD_REQUEST, "request_broken", text).closing();
        let response = own_answer::refusal(&trouble);
        self.ongoing.answered(response.status().as_u16(), false);
        self.ongoing.finish(end, 0, 0, 0);
        Ok(response)
    }
}

/// What is read of a request for the sake of its connection alone, in bytes, and for how long. A new connection is cheaper
/// than more.
const SHORT: u64 = 64 * 1024;
const SOON: Duration = Duration::from_millis(200);

/// How much of a coded body may come before its first block can be decoded, in bytes, and for how long its head waits
/// for that. After that it counts as readable: what decodes a stream wants its head before the first event.
const FIRST_BLOCK: usize = 256 * 1024;
const FIRST_WAIT: Duration = Duration::from_secs(1);

fn reads_text(filter: &BodyFilter) -> bool {
    !matches!(filter, BodyFilter::Bytes(_))
}

pub(super) fn changes_length(filter: &BodyFilter) -> bool {
    match filter {
        BodyFilter::Bytes(filter) => filter.changes_length(),
        _ => true,
    }
}
