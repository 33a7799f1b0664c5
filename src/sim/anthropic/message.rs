//! Rendering messages, whole and as events.
use serde_json::{Value, json};

use crate::sim::{
    answer::{Answer, Block, Ending},
    body::Event,
    digest::Digest,
};

pub(super) struct Message {
    pub(super) model: String,
    pub(super) digest: Digest,
    pub(super) answer: Answer,
    pub(super) input_tokens: u64,
}

impl Message {
    pub(super) fn whole(&self) -> Value {
        let blocks = self.answer.blocks.iter().enumerate();
        let content: Vec<_> =
            blocks.map(|(index, block)| self.block(index, block, &block.tokens().concat())).collect();
        let (reason, sequence) = self.stop();
        self.render(&content.into(), &reason, &sequence, self.output_tokens())
    }

    fn render(
        &self,
        content: &Value,
        stop_reason: &Value,
        stop_sequence: &Value,
        output_tokens: u64,
    ) -> Value {
        json!({
            "id": self.digest.id("msg_01", 22),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": {
                "input_tokens": self.input_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "output_tokens": output_tokens,
                "service_tier": "standard",
            },
        })
    }

    /// A content block with what is said so far; the input of a call that has not said all is empty.
    fn block(&self, index: usize, block: &Block, said: &str) -> Value {
        match block {
            Block::Text(_) => json!({"type": "text", "text": said}),
            Block::Call { name, .. } => json!({
                "type": "tool_use",
                "id": self.digest.nth(index).id("toolu_01", 22),
                "name": name,
                "input": serde_json::from_str::<Value>(said).unwrap_or_else(|_| json!({})),
            }),
        }
    }

    fn output_tokens(&self) -> u64 {
        self.answer.tokens()
    }

    fn stop(&self) -> (Value, Value) {
        match &self.answer.ending {
            Ending::Done => ("end_turn".into(), Value::Null),
            Ending::Calls => ("tool_use".into(), Value::Null),
            Ending::Length => ("max_tokens".into(), Value::Null),
            Ending::Stop(text) => ("stop_sequence".into(), text.as_str().into()),
        }
    }

    pub(super) fn stream(self) -> impl Iterator<Item = Event> + Send + Sync {
        let start = self.render(&json!([]), &Value::Null, &Value::Null, 1);
        let start = event("message_start", &json!({"type": "message_start", "message": start}));
        let (reason, sequence) = self.stop();
        let delta = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": {
                "input_tokens": self.input_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": self.output_tokens(),
            },
        });
        let closing =
            [event("message_delta", &delta), event("message_stop", &json!({"type": "message_stop"}))];
        let blocks = (0..self.answer.blocks.len()).flat_map(move |index| self.block_events(index));
        [start].into_iter().chain(blocks).chain(closing)
    }

    fn block_events(&self, index: usize) -> Vec<Event> {
        let block = &self.answer.blocks[index];
        let start = json!({"type": "content_block_start", "index": index, "content_block": self.block(index, block, "")});
        let mut events = vec![event("content_block_start", &start)];
        if index == 0 {
            events.push(event("ping", &json!({"type": "ping"})));
        }
        events.extend(block.tokens().iter().map(|token| {
            let delta = match block {
                Block::Text(_) => json!({"type": "text_delta", "text": token}),
                Block::Call { .. } => json!({"type": "input_json_delta", "partial_json": token}),
            };
            let delta = json!({"type": "content_block_delta", "index": index, "delta": delta});
            event("content_block_delta", &delta).with_token()
        }));
        events.push(event("content_block_stop", &json!({"type": "content_block_stop", "index": index})));
        events
    }
}

/// An event's name is its data's type.
fn event(name: &str, data: &Value) -> Event {
    Event::named(name, data)
}
