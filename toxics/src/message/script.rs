//! Plays a body through a toxic under test, and writes down what leaves and when.
use aconite_dialects::{
    Decoder, Dialect, Event, EventFormat, Meter, Operation,
    conversation::{self, Accumulator, Answer, Codec},
};
use bytes::Bytes;
use http::{request, response};
use serde_json::Value;

use crate::{
    BodyFilter, BodyForm, Decision, Dice, DocumentFilter, ExchangeFilter, Instance, Moment, NEVER, OnBytes,
    OnEvents, Pipeline, Report, Schedule, Scope, StageId, Step, StreamFilter, Toxic, Verdict,
};

/// An answer that `OpenAI` chat streams.
pub(crate) fn sse() -> Scope {
    Scope {
        dialect: Some(Dialect::OpenAi),
        operation: Some(Operation::Chat),
        body: BodyForm::Events(EventFormat::Sse),
        ..Scope::default()
    }
}

/// A toxic at work. Its dice are always the same.
pub(crate) fn instance<T: Toxic>(attributes: Value, scope: &Scope) -> Instance {
    let toxic: T = serde_json::from_value(attributes).unwrap();
    toxic.check().unwrap();
    toxic.start(scope, Dice::new(42, "proxy", "toxic", 1))
}

/// Whether attributes are accepted, and why not.
pub(crate) fn check<T: Toxic>(attributes: Value) -> Result<(), String> {
    serde_json::from_value::<T>(attributes).map_err(|error| error.to_string())?.check()
}

pub(crate) struct Play {
    pipeline: Pipeline<Event>,
    /// Follows what leaves, if that is a stream of events.
    sent: Option<Meter>,
    log: Vec<(u64, Step<Bytes>)>,
    report: Report,
    /// What each stage has said, and how long it held what.
    told: Vec<Told>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    Report(u64, Report),
    Wait(u64, Moment),
}

impl Play {
    pub(crate) fn new<T: Toxic>(attributes: Value, scope: &Scope) -> Self {
        let sent = match scope.body {
            BodyForm::Events(framing) => Some(Meter::new(framing)),
            _ => None,
        };
        Self::with(vec![filter::<T>(attributes, scope, None)], 0, sent)
    }

    /// The toxic joins a stream on its way.
    pub(crate) fn joining<T: Toxic>(attributes: Value, scope: &Scope, now: u64, at: Meter) -> Self {
        Self::with(vec![filter::<T>(attributes, scope, Some(at))], now, Some(at))
    }

    /// Toxics in a row, numbered from 0.
    pub(crate) fn row(filters: Vec<Box<dyn StreamFilter<Event>>>) -> Self {
        Self::with(filters, 0, None)
    }

    fn with(filters: Vec<Box<dyn StreamFilter<Event>>>, now: u64, sent: Option<Meter>) -> Self {
        let mut pipeline = Pipeline::default();
        for (toxic, filter) in (0..).zip(filters) {
            pipeline.append(ms(now), StageId { toxic, revision: 0 }, filter);
        }
        let mut play = Self { pipeline, sent, log: Vec::new(), report: Report::default(), told: Vec::new() };
        play.until(now);
        play
    }

    pub(crate) fn push(&mut self, now: u64, bytes: impl AsRef<[u8]>) {
        self.push_step(now, Step::Item(Bytes::copy_from_slice(bytes.as_ref())));
    }

    pub(crate) fn push_step(&mut self, now: u64, step: Step<Bytes>) {
        self.until(now);
        self.pipeline.push(ms(now), step.map(Event::undecoded));
        self.until(now);
    }

    /// Pushes a body in pieces, one a millisecond.
    pub(crate) fn push_cut(&mut self, body: &[u8], cuts: &[usize]) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        for (number, pair) in (1..).zip(cuts.windows(2)) {
            self.push(number, &body[pair[0]..pair[1]]);
        }
    }

    pub(crate) fn end(&mut self, now: u64) {
        self.push_step(now, Step::End);
    }

    pub(crate) fn remove(&mut self, now: u64) {
        self.until(now);
        self.pipeline.change(ms(now), &[], |_| None);
        self.until(now);
    }

    /// One toxic of the row goes.
    pub(crate) fn remove_one(&mut self, now: u64, toxic: u64) {
        self.until(now);
        let left: Vec<_> = self.pipeline.stages().filter(|id| id.toxic != toxic).collect();
        self.pipeline.change(ms(now), &left, |_| None);
        self.until(now);
    }

    /// Takes all that leaves, each at its own moment.
    pub(crate) fn until(&mut self, now: u64) {
        loop {
            let at = self.pipeline.next_wakeup().unwrap_or(NEVER).min(ms(now));
            let mut took = false;
            while let Some(step) = self.pipeline.poll(at) {
                let step = step.map(|event| {
                    let Some(sent) = &mut self.sent else { return event.into_raw() };
                    let raw = event.raw_at(sent);
                    sent.feed(&raw);
                    raw
                });
                self.log.push((u64::try_from(at.as_millis()).unwrap(), step));
                took = true;
            }
            let (report, told) = (&mut self.report, &mut self.told);
            self.pipeline.reports(|id, new| {
                *report = new;
                told.push(Told::Report(id.toxic, new));
            });
            self.pipeline.waits(|id, wait| told.push(Told::Wait(id.toxic, wait)));
            if at >= ms(now) && !took {
                return;
            }
        }
    }

    pub(crate) fn log(&self) -> &[(u64, Step<Bytes>)] {
        &self.log
    }

    pub(crate) fn told(&self) -> &[Told] {
        &self.told
    }

    pub(crate) fn last(&self) -> Option<(u64, Step<Bytes>)> {
        self.log.last().cloned()
    }

    /// When each item left.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.log.iter().filter(|(_, step)| matches!(step, Step::Item(_))).map(|(at, _)| *at).collect()
    }

    pub(crate) fn items(&self) -> Vec<String> {
        let item = |(_, step): &(u64, Step<Bytes>)| match step {
            Step::Item(item) => Some(String::from_utf8_lossy(item).into_owned()),
            _ => None,
        };
        self.log.iter().filter_map(item).collect()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let item = |(_, step): &(u64, Step<Bytes>)| match step {
            Step::Item(item) => item.to_vec(),
            _ => Vec::new(),
        };
        self.log.iter().flat_map(item).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn struck(&self) -> Option<u64> {
        self.report.struck.map(|at| u64::try_from(at.as_millis()).unwrap())
    }

    pub(crate) fn skipped(&self) -> Option<&'static str> {
        self.report.skipped
    }
}

pub(crate) fn filter<T: Toxic>(
    attributes: Value,
    scope: &Scope,
    at: Option<Meter>,
) -> Box<dyn StreamFilter<Event>> {
    let body = match instance::<T>(attributes, scope) {
        Instance::Body(body) => body,
        Instance::Exchange(mut exchange) => exchange.body(scope).expect("the toxic acts on the body"),
        _ => panic!("the toxic does not act on the body"),
    };
    match (body, scope.body) {
        (BodyFilter::Bytes(filter), _) => Box::new(OnBytes::new(filter, at)),
        (BodyFilter::Events(filter), BodyForm::Events(framing)) => {
            Box::new(OnEvents::new(filter, framing, 1 << 20, at))
        }
        (BodyFilter::Events(_), _) => panic!("no events here"),
        (BodyFilter::Document(filter), _) => {
            Box::new(OnBytes::new(Box::new(Whole { filter, held: Vec::new() }), None))
        }
    }
}

/// Gathers a document for a filter, as the proxy does before the response's head leaves.
struct Whole {
    filter: Box<dyn DocumentFilter>,
    held: Vec<u8>,
}

impl StreamFilter<Bytes> for Whole {
    fn on_item(&mut self, item: Bytes, _: Moment, _: &mut Schedule<Bytes>) {
        self.held.extend_from_slice(&item);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        let body = Bytes::from(std::mem::take(&mut self.held));
        match self.filter.edit(&body) {
            Ok(edited) => {
                out.strike(now);
                out.send(now, edited);
            }
            Err(reason) => {
                out.skip(reason);
                out.send(now, body);
            }
        }
        out.end(now);
    }
}

fn ms(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// The heads of one exchange, and what a toxic decides about them.
pub(crate) struct Exchange {
    filter: Box<dyn ExchangeFilter>,
    pub(crate) request: request::Parts,
    pub(crate) response: response::Parts,
}

impl Exchange {
    pub(crate) fn new<T: Toxic>(attributes: Value, scope: &Scope) -> Self {
        let Instance::Exchange(filter) = instance::<T>(attributes, scope) else {
            panic!("the toxic does not act on exchanges")
        };
        let (request, ()) = http::Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
        let (response, ()) = http::Response::new(()).into_parts();
        Self { filter, request, response }
    }

    pub(crate) fn request(&mut self) -> Decision {
        self.filter.on_request(&mut self.request, Moment::ZERO)
    }

    pub(crate) fn response(&mut self) -> Decision {
        self.filter.on_response(&mut self.response, Moment::ZERO)
    }
}

/// The answer that a toxic gives itself.
pub(crate) fn answer(decision: Decision) -> http::Response<Bytes> {
    match decision.verdict {
        Verdict::Respond(response) => *response,
        other => panic!("expected an answer, not {other:?}"),
    }
}

/// A short answer of `OpenAI` chat, with a comment in it. No two events are the same.
pub(crate) const CHAT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    ": keep-alive\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"你\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"好\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\n",
    "data: [DONE]\n\n",
);

/// Its blocks.
pub(crate) fn chat_pieces() -> impl Iterator<Item = String> {
    CHAT.split_inclusive("\n\n").map(str::to_owned)
}

/// One answer of a chat provider: text and a call of a tool, as a document and as a stream.
pub(crate) struct Chat {
    pub(crate) dialect: Dialect,
    pub(crate) model: &'static str,
    operation: Operation,
    codec: &'static dyn Codec,
    document: &'static str,
    stream: &'static str,
}

/// The same answer from every chat provider.
pub(crate) fn chats() -> [Chat; 5] {
    macro_rules! chat {
        ($dialect:ident, $operation:ident, $codec:ident, $folder:literal, $model:literal) => {
            Chat {
                dialect: Dialect::$dialect,
                model: $model,
                operation: Operation::$operation,
                codec: conversation::$codec,
                document: include_str!(concat!(
                    "../../../dialects/src/conversation/tests/data/",
                    $folder,
                    "/answer.json"
                )),
                stream: include_str!(concat!(
                    "../../../dialects/src/conversation/tests/data/",
                    $folder,
                    "/stream"
                )),
            }
        };
    }
    [
        chat!(OpenAi, Chat, OPENAI_CHAT, "openai-chat", "m-1-2025-08-07"),
        chat!(OpenAi, Responses, OPENAI_RESPONSES, "openai-responses", "m-1-2025-08-07"),
        chat!(Anthropic, Chat, ANTHROPIC, "anthropic", "m-1-20250929"),
        chat!(Gemini, Chat, GEMINI, "gemini", "m-1-001"),
        chat!(Ollama, Chat, OLLAMA, "ollama", "m-1"),
    ]
}

impl Chat {
    /// The stream and the document, each with the scope that it is sent in.
    pub(crate) fn forms(&self) -> [(Scope, &'static str); 2] {
        let scope = |body| Scope {
            dialect: Some(self.dialect),
            operation: Some(self.operation),
            body,
            ..Scope::default()
        };
        [
            (scope(BodyForm::Events(self.codec.framing())), self.stream),
            (scope(BodyForm::Document), self.document),
        ]
    }

    /// A document as the provider's clients read it.
    pub(crate) fn read(&self, body: &str) -> Answer {
        self.codec.read_answer(body.as_bytes()).unwrap()
    }

    /// A stream as the provider's clients read it.
    pub(crate) fn read_stream(&self, body: &str) -> Answer {
        let mut decoder = Decoder::new(self.codec.framing(), 1 << 20);
        decoder.push(Bytes::copy_from_slice(body.as_bytes()));
        let (mut reader, mut answer) = (self.codec.stream_reader(), Accumulator::default());
        while let Some(event) = decoder.next() {
            let data = event.data();
            if event.is_event() && data.trim_ascii() != b"[DONE]" {
                for delta in reader.read(event.name().as_deref(), &data).unwrap() {
                    answer.push(delta);
                }
            }
        }
        reader.end().into_iter().for_each(|delta| answer.push(delta));
        answer.into_answer()
    }
}
