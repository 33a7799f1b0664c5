//! Streams that are not lines of text: Gemini's JSON array and Bedrock's AWS event stream.
use aconite_dialects::{Decoder, Event, EventFormat};
use serde_json::{Value, json};

use crate::support::{Heard, Origin, Proxied};

/// One kind of stream, as a client asks for it and a provider sends it.
struct Form {
    path: &'static str,
    content_type: &'static str,
    framing: EventFormat,
    /// Each with what comes before it.
    events: [Vec<u8>; 3],
    end: &'static [u8],
}

impl Form {
    fn gemini() -> Self {
        let element = |lead: &str, text: &str| {
            let element = json!({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]});
            format!("{lead}{element}").into_bytes()
        };
        Self {
            path: "/v1beta/models/gemini-2.0-flash:streamGenerateContent",
            content_type: "application/json; charset=UTF-8",
            framing: EventFormat::JsonArray,
            events: [element("[", "你"), element("\n,\r\n", "]},{["), element("\n,\r\n", "!")],
            end: b"\n]\n",
        }
    }

    fn bedrock() -> Self {
        let frame = |text: &str| {
            let delta = json!({"contentBlockIndex": 0, "delta": {"text": text}}).to_string();
            Event::new(EventFormat::AwsEventStream, Some("contentBlockDelta"), delta.as_bytes())
                .into_raw()
                .into()
        };
        Self {
            path: "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse-stream",
            content_type: "application/vnd.amazon.eventstream",
            framing: EventFormat::AwsEventStream,
            events: [frame("你"), frame("\n\n"), frame("!")],
            end: b"",
        }
    }

    fn both() -> [Self; 2] {
        [Self::gemini(), Self::bedrock()]
    }

    fn body(&self) -> Vec<u8> {
        [&self.events.concat(), self.end].concat()
    }

    /// The response in chunks of so many bytes, which end anywhere in an event.
    fn response(&self, body: &[u8], chunk: usize) -> Vec<u8> {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
            self.content_type
        );
        let chunks = body
            .chunks(chunk)
            .flat_map(|data| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat());
        head.into_bytes().into_iter().chain(chunks).chain(*b"0\r\n\r\n").collect()
    }

    async fn proxied(&self, body: &[u8], chunk: usize) -> (Origin, Proxied) {
        let origin = Origin::answering(self.response(body, chunk)).await;
        let proxied = Proxied::http(&origin).await;
        (origin, proxied)
    }

    async fn ask(&self, proxied: &Proxied) -> Heard {
        let head = "Host: x\r\nContent-Length: 2\r\nConnection: close";
        proxied.raw_patiently(format!("POST {} HTTP/1.1\r\n{head}\r\n\r\n{{}}", self.path)).await
    }

    /// What one toxic leaves of the body, and what the journal says.
    async fn struck(&self, body: &[u8], toxic: &Value) -> (Heard, aconite::model::Exchange) {
        let (_origin, proxied) = self.proxied(body, 11).await;
        proxied.add(toxic.clone()).await;
        let heard = self.ask(&proxied).await;
        (heard, proxied.journal().await.remove(0))
    }
}

/// The data of the events that a reader gets; none may be damaged.
fn data(framing: EventFormat, body: Vec<u8>) -> Vec<Value> {
    let mut decoder = Decoder::new(framing, 1 << 20);
    decoder.push(body.into());
    let pieces: Vec<Event> = std::iter::from_fn(|| decoder.next()).collect();
    assert_eq!((decoder.damaged(), decoder.finish()), (0, None));
    let events = pieces.iter().filter(|piece| piece.is_event());
    events.map(|event| serde_json::from_slice(&event.data()).unwrap()).collect()
}

fn lossy(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[tokio::test]
async fn arrays_and_frames_pass_as_they_came_and_are_counted() {
    let idle = json!({"type": "edit", "attributes": {"ops": [{"path": "$.not_there", "set": 1}]}});
    for form in Form::both() {
        let body = form.body();
        for chunk in [1, 11, body.len()] {
            let (_origin, proxied) = form.proxied(&body, chunk).await;
            for toxic in [false, true] {
                if toxic {
                    proxied.add(idle.clone()).await;
                }
                let heard = form.ask(&proxied).await;
                assert_eq!(lossy(&heard.body()), lossy(&body), "{}, {chunk}, {toxic}", form.path);
                assert!(heard.bytes.ends_with(b"0\r\n\r\n"), "{}, {chunk}, {toxic}", form.path);
                let journal = proxied.journal().await;
                let exchange = journal.last().unwrap();
                let counted = (exchange.events, exchange.unterminated_tail, exchange.streaming);
                assert_eq!(counted, (3, 0, true), "{}, {chunk}, {toxic}", form.path);
            }
        }
    }
}

#[tokio::test]
async fn a_cut_leaves_whole_events_before_it() {
    let cut = json!({"type": "cut", "attributes": {"at": {"events": 2}, "how": "clean"}});
    for form in Form::both() {
        let (heard, exchange) = form.struck(&form.body(), &cut).await;
        assert_eq!(lossy(&heard.body()), lossy(&form.events[..2].concat()), "{}", form.path);
        assert!(heard.bytes.ends_with(b"0\r\n\r\n"), "{}", form.path);
        assert_eq!((exchange.events, exchange.toxics[0].struck), (2, true), "{}", form.path);
    }
}

#[tokio::test]
async fn a_dropped_event_leaves_the_form_valid() {
    for form in Form::both() {
        let all = data(form.framing, form.body());
        for dropped in 0..3 {
            let drop = json!({"type": "drop", "attributes": {"at": {"events": dropped}, "which": "any"}});
            let (heard, exchange) = form.struck(&form.body(), &drop).await;
            let mut left = all.clone();
            left.remove(dropped);
            assert_eq!(data(form.framing, heard.body()), left, "{}, {dropped}", form.path);
            if form.framing == EventFormat::JsonArray {
                assert_eq!(serde_json::from_slice::<Value>(&heard.body()).unwrap(), json!(left));
            }
            assert_eq!((exchange.events, exchange.toxics[0].struck), (2, true), "{}, {dropped}", form.path);
        }
    }
}

#[tokio::test]
async fn a_stream_error_is_the_providers_own_and_readable() {
    let error = json!({"type": "stream_error", "attributes": {"at": {"events": 1}, "cause": "overloaded"}});
    let gemini = Form::gemini();
    let (heard, exchange) = gemini.struck(&gemini.body(), &error).await;
    let elements: Vec<Value> = serde_json::from_slice(&heard.body()).unwrap();
    assert_eq!(elements[..1], data(gemini.framing, gemini.body())[..1]);
    assert_eq!((elements.len(), &elements[1]["error"]["status"]), (2, &json!("UNAVAILABLE")));
    assert!(exchange.toxics[0].struck);

    let bedrock = Form::bedrock();
    let (heard, exchange) = bedrock.struck(&bedrock.body(), &error).await;
    let body = heard.body();
    let (first, last) = body.split_at(bedrock.events[0].len());
    assert_eq!(lossy(first), lossy(&bedrock.events[0]));
    assert_eq!(data(bedrock.framing, last.to_vec()).len(), 1);
    let has = |part: &[u8]| last.windows(part.len()).any(|window| window == part);
    assert!(has(b"\x0d:message-type\x07\0\x09exception"), "{}", lossy(last));
    assert!(has(b"\x0f:exception-type\x07\0\x1bserviceUnavailableException"), "{}", lossy(last));
    assert!(exchange.toxics[0].struck);
}

#[tokio::test]
async fn a_damaged_frame_passes_and_is_recorded() {
    let form = Form::bedrock();
    let edit = json!({"type": "edit", "attributes": {"ops": [{"path": "$.delta.text", "set": "?"}]}});
    let drop_last = json!({"type": "drop", "attributes": {"at": {"events": 2}, "which": "any"}});
    let mut damaged = form.body();
    let at = form.events[0].len() + form.events[1].len() + 40;
    damaged[at] ^= 1;
    let (heard, exchange) = form.struck(&damaged, &drop_last).await;
    assert_eq!(lossy(&heard.body()), lossy(&damaged));
    assert_eq!(exchange.toxics[0].reason.as_deref(), Some("event_damaged"));
    assert!(!exchange.toxics[0].struck);
    // The frames before it are changed all the same.
    let (heard, exchange) = form.struck(&damaged, &edit).await;
    let body = heard.body();
    let intact = body.len() - form.events[2].len();
    let texts: Vec<Value> = data(form.framing, body[..intact].to_vec())
        .iter()
        .map(|data| data["delta"]["text"].clone())
        .collect();
    assert_eq!(texts, ["?", "?"]);
    assert!(damaged.ends_with(&body[intact..]));
    assert_eq!((exchange.events, exchange.toxics[0].struck), (2, true));
}
