//! When things come.
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http_body::Frame;
use tokio::time::advance;

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn hello(streams: bool) -> String {
    json!({"model": "m", "messages": user("hello"), "stream": streams}).to_string()
}

/// When each frame came, in milliseconds after the request.
async fn moments(url: &str, path: &str, body: String) -> Vec<u128> {
    let begun = Instant::now();
    let mut body = send(url, "POST", path, body).await.into_body();
    assert_eq!(begun.elapsed(), Duration::ZERO, "the head of a stream comes at once");
    let mut moments = Vec::new();
    while body.frame().await.is_some() {
        moments.push(begun.elapsed().as_millis());
    }
    moments
}

#[tokio::test(start_paused = true)]
async fn chat_tokens_come_at_ttft_and_then_evenly() {
    let moments = moments("sim://openai?ttft=300ms&tps=10&tokens=4", CHAT, hello(true)).await;
    // Role, four tokens, finish, [DONE].
    assert_eq!(moments, [300, 300, 400, 500, 600, 600, 600]);
}

#[tokio::test(start_paused = true)]
async fn message_tokens_come_at_ttft_and_then_evenly() {
    let body = json!({"model": "m", "max_tokens": 3, "messages": user("hello"), "stream": true});
    let moments = moments("sim://anthropic?ttft=1s&tps=2", "/v1/messages", body.to_string()).await;
    // message_start, content_block_start, ping, three tokens, content_block_stop, message_delta, message_stop.
    assert_eq!(moments, [1000, 1000, 1000, 1000, 1500, 2000, 2000, 2000, 2000]);
}

#[tokio::test(start_paused = true)]
async fn a_whole_answers_head_comes_at_ttft() {
    let begun = Instant::now();
    let response = send("sim://openai?ttft=300ms", "POST", CHAT, hello(false)).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(300));
    bytes_of(response).await;
    assert_eq!(begun.elapsed(), Duration::from_millis(300));
}

#[tokio::test(start_paused = true)]
async fn errors_and_lists_do_not_wait() {
    let begun = Instant::now();
    assert_eq!(send("sim://openai?ttft=1h", "POST", CHAT, "{").await.status(), 400);
    assert_eq!(send("sim://openai?ttft=1h", "GET", "/v1/models", "").await.status(), 200);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_does_not_slow_the_provider() {
    let begun = Instant::now();
    let response = send("sim://openai?ttft=0ms&tps=10&tokens=9", "POST", CHAT, hello(true)).await;
    let mut body = response.into_body();
    body.frame().await;
    advance(Duration::from_millis(500)).await;
    // Six tokens lie ready; the seventh comes when it would have come anyway.
    for _ in 0..6 {
        body.frame().await;
    }
    assert_eq!(begun.elapsed(), Duration::from_millis(500));
    body.frame().await;
    assert_eq!(begun.elapsed(), Duration::from_millis(600));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_tokens_do_not_drift() {
    let url = "sim://openai?ttft=0ms&tps=1000&tokens=10000";
    let moments = moments(url, CHAT, hello(true)).await;
    assert_eq!(moments.len(), 10_003);
    assert_eq!(moments.last(), Some(&9_999));
}

#[tokio::test(start_paused = true)]
async fn the_request_is_read_to_its_end_first() {
    struct Late(Pin<Box<tokio::time::Sleep>>, Option<Bytes>);
    impl Body for Late {
        type Data = Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            std::task::ready!(self.0.as_mut().poll(cx));
            Poll::Ready(self.1.take().map(|bytes| Ok(Frame::data(bytes))))
        }
    }
    let sleep = Box::pin(tokio::time::sleep(Duration::from_secs(5)));
    let body = Late(sleep, Some(hello(false).into()));
    let request = Request::post(CHAT).header("authorization", "Bearer any").body(body).unwrap();
    let begun = Instant::now();
    let openai = Simulator::new("sim://openai?ttft=1s").unwrap();
    assert_eq!(openai.handle(request).await.status(), 200);
    assert_eq!(begun.elapsed(), Duration::from_secs(6));
}

#[tokio::test]
async fn a_body_too_large_is_refused_in_the_providers_words() {
    for (url, pointer, kind) in [
        ("sim://openai", "/error/type", "invalid_request_error"),
        ("sim://anthropic", "/error/type", "request_too_large"),
        ("sim://gemini", "/error/status", "INVALID_ARGUMENT"),
        ("sim://ollama", "/error", "http: request body too large"),
    ] {
        let response = send(url, "POST", CHAT, vec![b' '; MAX_REQUEST_BYTES + 1]).await;
        assert_eq!(response.status(), 413);
        assert_eq!(json_of(response).await.pointer(pointer).unwrap(), kind);
    }
}

#[test]
fn answers_may_cross_threads() {
    fn crosses<T: Send>(_: &T) {}
    fn shared<T: Send + Sync + Unpin>() {}
    shared::<SimBody>();
    let openai = Simulator::new("sim://openai").unwrap();
    crosses(&openai.handle(Request::new(Full::new(Bytes::new()))));
}
