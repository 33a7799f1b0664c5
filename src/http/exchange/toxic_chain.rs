//! Toxics at work on a request and its response: those of a whole exchange, or those of one attempt of it.
use std::{sync::Arc, time::Duration};

use aconite_toxics::{
    BodyFilter, BodyForm, ConnectFault, Decision, Direction, ExchangeFilter, Instance, Level, Scope, StageId,
    Verdict,
};
use bytes::Bytes;
use http::{HeaderMap, header, request, response};

use super::documents::{self, EditedBody};
use crate::{
    dial::DialPlan,
    http::{
        body::{
            BodySource, Gate, ToxicBody,
            buffered::{BufferedBody, Fill},
            governor::{BodyGovernor, Ready, beyond, concerns},
        },
        message::{
            coding::{Coded, Coding, Decoding},
            facts::{body_form, content_length},
        },
        ongoing::{ExchangeState, Owner, Toxics},
    },
    plan::{Armed, Plan},
};

/// A toxic at work on the heads.
struct Filter {
    id: StageId,
    direction: Direction,
    filter: Box<dyn ExchangeFilter>,
}

/// What is to be done after the filters were asked.
pub(super) enum NextStep {
    Forward,
    Instead(Verdict),
}

/// A request's head. Until a toxic changes it, its headers are those of the exchange's facts.
pub(super) struct EditableHead {
    parts: request::Parts,
    original: Option<Arc<ExchangeState>>,
}

impl EditableHead {
    pub(super) fn of(ongoing: &Arc<ExchangeState>, parts: request::Parts) -> Self {
        Self { parts, original: Some(Arc::clone(ongoing)) }
    }

    /// Another one that is changed by itself.
    pub(super) fn copy(&self) -> Self {
        let mut parts = self.parts.clone();
        parts.headers.clone_from(self.headers());
        Self { parts, original: None }
    }

    /// Everything but the headers.
    pub(super) fn parts(&self) -> &request::Parts {
        &self.parts
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.original.as_ref().map_or(&self.parts.headers, |ongoing| &ongoing.facts.headers)
    }

    /// The head, to be changed; what matches the request goes on to see it as it came.
    pub(super) fn to_mut(&mut self) -> &mut request::Parts {
        if let Some(ongoing) = self.original.take() {
            self.parts.headers.clone_from(&ongoing.facts.headers);
        }
        &mut self.parts
    }
}

/// The toxics of one party at work.
pub(super) struct ToxicChain {
    party: Owner,
    plan: Arc<Plan>,
    filters: Vec<Filter>,
}

/// A response's body with its toxics, before it is said for whom.
pub(super) struct PreparedBody {
    pub(super) source: BodySource,
    pub(super) governor: BodyGovernor,
    pub(super) decoding: Option<Decoding>,
    /// The length that the head announces, while nothing changes it.
    pub(super) announced: Option<u64>,
    /// The toxics on documents that were asked, and those of them that changed it.
    asked: Vec<StageId>,
    struck: Vec<StageId>,
    unreadable: bool,
}

impl PreparedBody {
    /// Whether a toxic may be named to the client as one that applies to this response.
    pub(super) fn concerns(&self, toxic: &Armed) -> bool {
        match toxic.level {
            Level::Exchange => true,
            _ if self.asked.contains(&toxic.id) => self.struck.contains(&toxic.id),
            _ => !self.unreadable && concerns(toxic, self.governor.scope()),
        }
    }
}

impl ToxicChain {
    pub(super) fn new(party: Owner, plan: Arc<Plan>) -> Self {
        Self { party, plan, filters: Vec::new() }
    }

    pub(super) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub(super) fn toxics(&self) -> Toxics<'_> {
        self.party.toxics()
    }

    fn now(&self) -> Duration {
        self.party.ongoing().now()
    }

    /// What the first toxic that spoils the making of the upstream connection leaves of the way there.
    pub(super) fn way(&self) -> DialPlan {
        let toxics = self.toxics();
        let faults = toxics.all(&self.plan).filter_map(|toxic| Some((toxic, toxic.connect?)));
        let mut dialling = faults.filter(|(_, fault)| fault.is_of_upstream());
        let fault = dialling.find(|(toxic, _)| toxics.strikes(&self.plan, toxic)).map(|(toxic, fault)| {
            toxics.struck(toxic.id.toxic, self.now());
            fault
        });
        Option::<ConnectFault>::into(fault)
    }

    /// Starts the toxics that act on heads; `headers` are the request's.
    pub(super) fn start(&mut self, headers: &HeaderMap) {
        let toxics = self.party.toxics();
        if !toxics.act_on_messages(&self.plan) {
            return;
        }
        for toxic in toxics.all(&self.plan) {
            if toxic.level != Level::Exchange || !toxics.strikes(&self.plan, toxic) {
                continue;
            }
            let Some(dice) = toxics.dice(toxic.id.toxic) else { continue };
            let direction = toxic.spec.stream;
            let form = if direction == Direction::Upstream { body_form(headers) } else { BodyForm::Opaque };
            match toxic.start(&toxics.scope(direction, form, None), dice) {
                Instance::Exchange(filter) => self.filters.push(Filter { id: toxic.id, direction, filter }),
                Instance::Idle(reason) => toxics.passed_over(toxic.id.toxic, reason),
                Instance::Bytes(_) | Instance::Connect(_) | Instance::Body(_) => {}
            }
        }
    }

    pub(super) async fn before_the_request(&mut self, head: &mut EditableHead) -> NextStep {
        for Filter { id, filter, .. } in &mut self.filters {
            let decision = filter.on_request(head.to_mut(), self.party.ongoing().now());
            if let course @ NextStep::Instead(_) = follow(&self.party, *id, decision).await {
                return course;
            }
        }
        NextStep::Forward
    }

    pub(super) async fn after_the_head(&mut self, head: &mut response::Parts) -> NextStep {
        for Filter { id, filter, .. } in &mut self.filters {
            let decision = filter.on_response(head, self.party.ongoing().now());
            if let course @ NextStep::Instead(_) = follow(&self.party, *id, decision).await {
                return course;
            }
        }
        NextStep::Forward
    }

    fn bodies(
        &mut self,
        direction: Direction,
        mut body: impl FnMut(&mut dyn ExchangeFilter) -> Option<BodyFilter>,
    ) -> Vec<Ready> {
        let concerned = self.filters.iter_mut().filter(|filter| filter.direction == direction);
        concerned.map(|filter| (filter.id, body(&mut *filter.filter))).collect()
    }

    /// The request has no body: records the toxics that are meant for one.
    pub(super) fn no_request_body(&self, headers: &HeaderMap) {
        let scope = self.toxics().scope(Direction::Upstream, body_form(headers), None);
        self.toxics().out_of_reach(&self.plan, |toxic| beyond(toxic, &scope, true));
    }

    /// Puts the toxics around the request's body, and makes the head describe it as it will be.
    pub(super) async fn request_body(
        &mut self,
        head: &mut EditableHead,
        source: BodySource,
        gate: Option<Gate>,
    ) -> ToxicBody {
        let (form, coded) = (body_form(head.headers()), Coded::of(head.headers()));
        let mut scope = self.toxics().scope(Direction::Upstream, form, content_length(head.headers()));
        let edited = documents::edit(&self.party, &self.plan, &scope, coded, source).await;
        if !edited.struck.is_empty() {
            edited.describe(&mut head.to_mut().headers);
            scope.length = content_length(head.headers());
        }
        let mut ready = self.bodies(Direction::Upstream, |filter| filter.body(&scope));
        ready.extend(edited.stages());
        let unreadable = coded != Coded::Plain && edited.struck.is_empty();
        let toxics = self.toxics();
        let mut readers = toxics.all(&self.plan).filter(|toxic| reads(toxic, &scope, &edited));
        let reads = !unreadable && readers.any(|toxic| toxics.strikes(&self.plan, toxic));
        if reads || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(changes_length)) {
            // Its length may no longer be what the head says.
            head.to_mut().headers.remove(header::CONTENT_LENGTH);
        }
        let governor = BodyGovernor::new(self.party.clone(), scope, ready, unreadable);
        ToxicBody::request(edited.source, governor, gate)
    }

    /// Puts the toxics around the response's body, and makes the head describe it as it will be.
    pub(super) async fn response_body(
        &mut self,
        head: &mut response::Parts,
        source: BodySource,
    ) -> PreparedBody {
        let form = self.toxics().response_form(head.status, &head.headers);
        let mut coded = Coded::of(&head.headers);
        let length = content_length(&head.headers).filter(|_| coded == Coded::Plain);
        let mut scope = self.toxics().scope(Direction::Downstream, form, length);
        let bodiless = source.is_end_stream();
        let edited = if bodiless {
            EditedBody { source, asked: Vec::new(), struck: Vec::new() }
        } else {
            documents::edit(&self.party, &self.plan, &scope, coded, source).await
        };
        if !edited.struck.is_empty() {
            edited.describe(&mut head.headers);
            scope.length = content_length(&head.headers);
            coded = Coded::Plain;
        }
        let mut ready = if bodiless {
            self.toxics().out_of_reach(&self.plan, |toxic| beyond(toxic, &scope, true));
            Vec::new()
        } else {
            self.bodies(Direction::Downstream, |filter| filter.body(&scope))
        };
        ready.extend(edited.stages());
        let reading = (!bodiless && self.has_readers(&scope, &edited))
            || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(reads_text));
        let EditedBody { mut source, asked, struck } = edited;
        let mut decoding = None;
        if let Coded::By(coding) = coded
            && reading
        {
            (source, decoding) = self.decodable(coding, source).await;
        }
        if decoding.is_some() {
            head.headers.remove(header::CONTENT_ENCODING);
        }
        let unreadable = coded != Coded::Plain && decoding.is_none();
        let changes = (reading && !unreadable)
            || ready.iter().any(|(_, filter)| filter.as_ref().is_some_and(changes_length));
        if changes {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let announced = if changes { None } else { source.exact_size() };
        let governor = BodyGovernor::new(self.party.clone(), scope, ready, unreadable);
        PreparedBody { source, governor, decoding, announced, asked, struck, unreadable }
    }

    /// Whether a toxic reads this body. All of them are asked: each has to be decided before the response is marked.
    fn has_readers(&self, scope: &Scope, edited: &EditedBody) -> bool {
        let toxics = self.toxics();
        let readers = toxics.all(&self.plan).filter(|toxic| reads(toxic, scope, edited));
        readers.filter(|toxic| toxics.strikes(&self.plan, toxic)).count() > 0
    }

    /// Holds a coded body back until its first block is decoded: only then is the client told that it comes plain.
    /// Without a decoder it goes on as it came.
    async fn decodable(&self, coding: Coding, source: BodySource) -> (BodySource, Option<Decoding>) {
        let ids: Vec<_> = self.toxics().all(&self.plan).map(|toxic| toxic.id).collect();
        let mut trial = Decoding::new(coding);
        let mut valid = true;
        let mut held = BufferedBody::new(source, false);
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
                valid &= came != Fill::Broken && (came == Fill::Part || trial.is_complete());
            }
            () = tokio::time::sleep(FIRST_WAIT) => {}
            () = self.toxics().gone(&ids) => valid = false,
        }
        (BodySource::Buffered(Box::new(held)), valid.then(|| Decoding::new(coding)))
    }
}

/// Whether a toxic acts on a body of this form in its lane.
fn reads(toxic: &Armed, scope: &Scope, edited: &EditedBody) -> bool {
    toxic.level != Level::Exchange && concerns(toxic, scope) && !edited.asked.contains(&toxic.id)
}

/// Does the waiting that a filter asks for.
async fn follow(party: &Owner, id: StageId, decision: Decision) -> NextStep {
    let toxics = party.toxics();
    if decision.struck {
        toxics.struck(id.toxic, party.ongoing().now());
    }
    if let Some(reason) = decision.skipped {
        toxics.passed_over(id.toxic, reason);
    }
    if !decision.after.is_zero() && !toxics.wait(id, Some(decision.after)).await {
        return NextStep::Forward;
    }
    match decision.verdict {
        Verdict::Forward => NextStep::Forward,
        Verdict::Hang(how_long) => {
            if toxics.wait(id, how_long).await {
                NextStep::Instead(Verdict::Hang(how_long))
            } else {
                NextStep::Forward
            }
        }
        verdict => NextStep::Instead(verdict),
    }
}

/// How much of a coded body may come before its first block can be decoded, in bytes, and for how long its head waits
/// for that. After that it counts as readable: what decodes a stream wants its head before the first event.
const FIRST_BLOCK: usize = 256 * 1024;
const FIRST_WAIT: Duration = Duration::from_secs(1);

fn reads_text(filter: &BodyFilter) -> bool {
    !matches!(filter, BodyFilter::Bytes(_))
}

fn changes_length(filter: &BodyFilter) -> bool {
    match filter {
        BodyFilter::Bytes(filter) => filter.changes_length(),
        _ => true,
    }
}
