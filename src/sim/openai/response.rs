//! Rendering responses, whole and as events.
use serde_json::{Map, Value, json};

use super::CREATED;
use crate::sim::{
    answer::{Answer, Block, Ending},
    body::Event,
    digest::Digest,
};

pub(super) struct Response {
    model: String,
    digest: Digest,
    answer: Answer,
    input_tokens: u64,
    /// What is said of the request.
    echoed: Value,
}

/// One item of the output, and where it is.
#[derive(Clone, Copy)]
struct Item<'a> {
    index: usize,
    id: &'a str,
    call_id: &'a str,
    block: &'a Block,
    status: &'static str,
}

impl Response {
    pub(super) fn new(
        model: String,
        digest: Digest,
        answer: Answer,
        input_tokens: u64,
        echoed: Value,
    ) -> Self {
        Self { model, digest, answer, input_tokens, echoed }
    }

    pub(super) fn whole(&self) -> Value {
        let items: Vec<_> =
            (0..self.answer.blocks.len()).map(|index| self.with_item(index, |item| item.whole())).collect();
        let status = if self.answer.ending == Ending::Length { "incomplete" } else { "completed" };
        self.render(status, &items.into())
    }

    fn render(&self, status: &str, output: &Value) -> Value {
        let ended = status != "in_progress";
        let incomplete = status == "incomplete";
        let mut response = json!({
            "id": self.digest.hex("resp_", 48),
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "completed_at": (status == "completed").then_some(CREATED),
            "error": null,
            "incomplete_details": incomplete.then(|| json!({"reason": "max_output_tokens"})),
            "model": self.model,
            "output": output,
            // What is still under way has no tier yet.
            "service_tier": if ended { "default" } else { "auto" },
            "usage": ended.then(|| self.usage()),
        });
        if let (Value::Object(response), Value::Object(echoed)) = (&mut response, &self.echoed) {
            response.extend(echoed.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        response
    }

    fn usage(&self) -> Value {
        let output = self.answer.tokens();
        json!({
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self.input_tokens + output,
        })
    }

    fn with_item<T>(&self, index: usize, read: impl FnOnce(Item<'_>) -> T) -> T {
        let block = &self.answer.blocks[index];
        let digest = self.digest.nth(index);
        let last = index + 1 == self.answer.blocks.len();
        let status = if last && self.answer.ending == Ending::Length { "incomplete" } else { "completed" };
        let id = digest.hex(if matches!(block, Block::Text(_)) { "msg_" } else { "fc_" }, 48);
        read(Item { index, id: &id, call_id: &digest.id("call_", 24), block, status })
    }

    /// The events in their order. Numbers are given when an event is rendered, as it is due.
    pub(super) fn stream(self) -> impl Iterator<Item = Event> + Send + Sync {
        let begun = self.render("in_progress", &json!([]));
        let opening = ["response.created", "response.in_progress"]
            .map(|name| Step::new(name, json!({"response": begun})));
        let whole = self.whole();
        let last =
            if self.answer.ending == Ending::Length { "response.incomplete" } else { "response.completed" };
        let closing = Step::new(last, json!({"response": whole}));

        let items =
            (0..self.answer.blocks.len()).flat_map(move |index| self.with_item(index, |item| item.steps()));
        opening
            .into_iter()
            .chain(items)
            .chain([closing])
            .enumerate()
            .map(|(number, step)| step.render(number))
    }
}

impl Item<'_> {
    fn whole(self) -> Value {
        self.render(self.status, &self.block.tokens().concat())
    }

    fn render(self, status: &str, said: &str) -> Value {
        match self.block {
            Block::Text(_) => {
                let begun = status != "in_progress";
                let content: Vec<_> = begun.then(|| part(said)).into_iter().collect();
                json!({"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"})
            }
            Block::Call { name, .. } => json!({
                "id": self.id,
                "type": "function_call",
                "status": status,
                "arguments": said,
                "call_id": self.call_id,
                "name": name,
            }),
        }
    }

    fn steps(self) -> impl Iterator<Item = Step> + use<> {
        let said = self.block.tokens().concat();
        let mut opening = vec![Step::new(
            "response.output_item.added",
            self.place_and("item", &self.render("in_progress", "")),
        )];
        let mut closing = Vec::new();
        let (delta_name, delta) = match self.block {
            Block::Text(_) => {
                let of_part = |name, fields| Step::new(name, merge(self.place_of_part(), fields));
                opening.push(of_part("response.content_part.added", json!({"part": part("")})));
                closing.push(of_part("response.output_text.done", json!({"text": said, "logprobs": []})));
                closing.push(of_part("response.content_part.done", json!({"part": part(&said)})));
                (
                    "response.output_text.delta",
                    merge(self.place_of_part(), json!({"delta": "", "logprobs": []})),
                )
            }
            Block::Call { name, .. } => {
                let done = merge(self.place_of_item(), json!({"arguments": said, "name": name}));
                closing.push(Step::new("response.function_call_arguments.done", done));
                ("response.function_call_arguments.delta", merge(self.place_of_item(), json!({"delta": ""})))
            }
        };
        closing.push(Step::new(
            "response.output_item.done",
            self.place_and("item", &self.render(self.status, &said)),
        ));
        // Rendered one by one: a long answer is not held once more as events.
        let tokens = self.block.tokens().to_vec().into_iter().map(move |token| {
            let mut fields = delta.clone();
            fields["delta"] = token.into();
            Step { token: true, ..Step::new(delta_name, fields) }
        });
        opening.into_iter().chain(tokens).chain(closing)
    }

    fn place_and(self, name: &str, value: &Value) -> Value {
        json!({"output_index": self.index, name: value})
    }

    fn place_of_item(self) -> Value {
        json!({"item_id": self.id, "output_index": self.index})
    }

    fn place_of_part(self) -> Value {
        json!({"item_id": self.id, "output_index": self.index, "content_index": 0})
    }
}

/// An event that has no number yet.
struct Step {
    name: &'static str,
    fields: Value,
    token: bool,
}

impl Step {
    fn new(name: &'static str, fields: Value) -> Self {
        Self { name, fields, token: false }
    }

    fn render(self, number: usize) -> Event {
        let frame = json!({"type": self.name, "sequence_number": number});
        let event = Event::named(self.name, &merge(frame, self.fields));
        if self.token { event.with_token() } else { event }
    }
}

fn part(said: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": said})
}

/// The members of both objects, in their order.
fn merge(first: Value, second: Value) -> Value {
    let members = [first, second].into_iter().filter_map(|object| match object {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Value::Object(members.flatten().collect::<Map<_, _>>())
}
