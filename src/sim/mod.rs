//! Simulated providers: small deterministic servers inside the process that speak a provider's real wire format.
//!
//! They are providers to test against, not models: an answer is a canonical text that quotes the last user message,
//! so the same request always gets the same bytes, ids included. No key and no network is needed; any key is accepted.
//!
//! - `sim://openai`: chat completions, responses, embeddings, models; streamed or whole; tools, JSON formats.
//! - `sim://anthropic`: messages, token counts, models; streamed or whole; tools.
//! - `sim://gemini`: generateContent and streamGenerateContent, token counts, embeddings, models; tools, JSON formats.
//! - `sim://ollama`: Ollama's own chat, embeddings, models; streamed or whole; tools, JSON formats.
//! - `sim://qdrant`: collections and points over REST, really stored (in memory) and really searched.
//!
//! The language models take options: `sim://openai?tps=20&ttft=300ms&tokens=500`, see [`Simulator::new`].
//!
//! ```
//! # async fn ask() -> Result<(), aconite::sim::SimError> {
//! let openai = aconite::sim::Simulator::new("sim://openai?tps=1000")?;
//! let request = http::Request::post("/v1/chat/completions")
//!     .header("authorization", "Bearer any")
//!     .body(http_body_util::Full::new(bytes::Bytes::from(
//!         r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}"#,
//!     )))
//!     .expect("a valid request");
//! assert_eq!(openai.handle(request).await.status(), 200);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(ask()).unwrap();
//! ```
mod address;
mod answer;
mod anthropic;
mod body;
mod call;
mod chat;
mod digest;
mod example;
mod gemini;
mod ollama;
mod openai;
mod provider;
mod qdrant;
mod reply;
#[cfg(test)]
mod tests;
mod text;
mod vectors;

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::Instant;

use self::{
    address::{Address, Pace},
    body::Schedule,
    call::{Call, Unreadable},
    provider::Server,
};

pub use self::{address::SimError, body::SimBody};

/// Largest request body that is read, in bytes: what Qdrant and Anthropic accept (32 MiB). More is answered with 413.
pub const MAX_REQUEST_BYTES: usize = 32 << 20;

/// A simulated provider. A clone is the same provider: it shares what has been stored.
#[derive(Clone, Debug)]
pub struct Simulator {
    server: Arc<dyn Server>,
    pace: Pace,
}

impl Simulator {
    /// Starts the provider that `url` names, such as `sim://openai`.
    ///
    /// Options of the language models, as a query string:
    ///
    /// | option | meaning | range | default |
    /// |---|---|---|---|
    /// | `ttft` | time to first token: from the whole request to the first event, or to the head of an answer that is not streamed | 0 to 1h, as `200ms` or `2s` | `20ms` |
    /// | `tps` | tokens per second after the first one; streamed answers only | 0.01 to 1000000 | 50 |
    /// | `tokens` | length of a text answer in tokens | 1 to 100000 | the canonical text, about 30 |
    ///
    /// # Errors
    /// [`SimError`] if the URL names no simulated provider, or an option that is unknown, out of range or given twice.
    pub fn new(url: &str) -> Result<Self, SimError> {
        let Address { provider, pace } = Address::parse(url)?;
        Ok(Self { server: (provider.start)(), pace })
    }

    /// Answers one request as the provider would. Whatever is wrong with the request is said in the provider's own
    /// error format, so this never fails.
    ///
    /// The future and the body may be dropped at any time: that is the client hanging up. Must run in a tokio runtime
    /// with time enabled. The request's authority is not looked at.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<SimBody>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let reply = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(collected) => self.server.answer(&Call::new(head, collected.to_bytes()), &self.pace),
            Err(error) if error.is::<LengthLimitError>() => self.server.refuse(Unreadable::TooLarge),
            Err(_) => self.server.refuse(Unreadable::Broken),
        };
        let schedule = Schedule { first: Instant::now() + self.pace.ttft, gap: self.pace.gap };
        if reply.waits_before_head() {
            tokio::time::sleep_until(schedule.first).await;
        }
        reply.into_response(schedule)
    }
}
