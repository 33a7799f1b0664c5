//! What event toxics that have nothing to do cost an event, alone and in a row. `cargo bench -p aconite-toxics`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark measures time and prints its figures"
)]
use std::{hint::black_box, time::Instant};

use aconite_dialects::{Dialect, Event, EventFormat, Operation};
use aconite_toxics::{
    BodyFilter, BodyForm, Dice, Instance, Moment, OnEvents, Pipeline, Scope, StageId, Step, Toxic,
    message::Pause,
};
use bytes::Bytes;
use serde_json::{Value, json};

const EVENTS: usize = 20_000;
const REPEATS: usize = 9;

fn pipeline(at: &Value, toxics: u64) -> Pipeline<Event> {
    let scope = Scope {
        dialect: Some(Dialect::OpenAi),
        operation: Some(Operation::Chat),
        body: BodyForm::Events(EventFormat::Sse),
        ..Scope::default()
    };
    let mut pipeline = Pipeline::default();
    for toxic in 0..toxics {
        let pause: Pause = serde_json::from_value(json!({"at": at, "for": 1})).unwrap();
        let Instance::Body(BodyFilter::Events(filter)) =
            pause.start(&scope, Dice::new(1, "proxy", "toxic", toxic))
        else {
            panic!("it acts on events")
        };
        let filter = Box::new(OnEvents::new(filter, EventFormat::Sse, 1 << 20, None));
        pipeline.append(Moment::ZERO, StageId { toxic, revision: 0 }, filter);
    }
    pipeline
}

/// Nanoseconds an event, the median of some runs.
fn measure(at: &Value, toxics: u64) -> f64 {
    let chunk = json!({
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWxYz012",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "delta": {"content": " hello"}, "logprobs": null, "finish_reason": null}],
    });
    let event = Bytes::from(format!("data: {chunk}\n\n"));
    let mut runs: Vec<_> = (0..REPEATS)
        .map(|_| {
            let mut pipeline = pipeline(at, toxics);
            let began = Instant::now();
            for _ in 0..EVENTS {
                pipeline.push(Moment::ZERO, Step::Item(Event::undecoded(event.clone())));
                while let Some(step) = pipeline.poll(Moment::ZERO) {
                    black_box(step);
                }
            }
            began.elapsed().as_nanos() as f64 / EVENTS as f64
        })
        .collect();
    runs.sort_unstable_by(f64::total_cmp);
    runs[REPEATS / 2]
}

fn main() {
    for at in [json!({"events": 1_000_000_000}), json!({"tokens": 1_000_000_000})] {
        let (one, ten) = (measure(&at, 1), measure(&at, 10));
        println!("{at}: one toxic {one:.0} ns an event, ten {ten:.0} ns, {:.2} times as much", ten / one);
    }
}
