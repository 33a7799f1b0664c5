//! The answer on its way to the client: the upstream's, a toxic's, or the proxy's own.
use std::sync::Arc;

use aconite_api::model::{ExchangeEnd, How, Side};
use aconite_toxics::{BodyFilter, BodyForm, DeclaredLength, Direction, Ending, Level, Verdict};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header, response};

use super::{
    super::{
        body::{Body, Flow, Source},
        coding::{Coded, Decoding},
        facts::{body_form, content_length},
        governor::{BodyGovernor, concerns},
        headers::{self, Hop},
        own_answer::{self, Trouble},
    },
    Filter, Running, bodies,
};
use crate::plan::{Armed, Plan};

impl Running {
    /// Sends the answer on, its body through whatever acts on it.
    pub(super) fn pass(
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
        let readers =
            if bodiless { 0 } else { self.ongoing.toxics(plan).filter(|toxic| reads(toxic)).count() };
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
    pub(super) async fn instead(&self, verdict: Verdict, plan: &Plan) -> Response<Body> {
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
        self.ongoing.first_byte();
        self.ongoing.finish(ExchangeEnd { side: Side::Toxic, how: How::Clean }, length, 0, 0);
        let body = if self.head.method == Method::HEAD { Body::Empty } else { Body::Full(bytes) };
        Response::from_parts(head, body)
    }

    /// The proxy's own failure.
    pub(super) fn trouble(&self, plan: &Plan, trouble: &Trouble) -> Response<Body> {
        let mut response = own_answer::refusal(trouble);
        self.mark(plan, response.headers_mut(), |toxic| toxic.level == Level::Connect);
        self.ongoing.answered(response.status().as_u16(), false);
        self.ongoing.finish(ExchangeEnd { side: Side::Proxy, how: How::Error }, 0, 0, 0);
        response
    }
}

fn reads_text(filter: &BodyFilter) -> bool {
    !matches!(filter, BodyFilter::Bytes(_))
}

fn changes_length(filter: &BodyFilter) -> bool {
    match filter {
        BodyFilter::Bytes(filter) => filter.changes_length(),
        _ => true,
    }
}
