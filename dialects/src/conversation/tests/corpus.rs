//! The same conversation as each provider's clients and servers would put it, written by hand.

use bytes::Bytes;

use super::laws::accumulated;
use crate::conversation::{Answer, CODECS, Codec, Fate, Part, Request, Stop, ToolChoice, Usage};

/// For each format: a request, its answer, the answer streamed, and what of the request has no place in the model.
const CORPUS: [(&str, &str, &str, &str, &[&str]); 5] = [
    (
        "openai-chat",
        include_str!("data/openai-chat/request.json"),
        include_str!("data/openai-chat/answer.json"),
        include_str!("data/openai-chat/stream"),
        &["logit_bias", "store"],
    ),
    (
        "openai-responses",
        include_str!("data/openai-responses/request.json"),
        include_str!("data/openai-responses/answer.json"),
        include_str!("data/openai-responses/stream"),
        &["store", "previous_response_id"],
    ),
    (
        "anthropic",
        include_str!("data/anthropic/request.json"),
        include_str!("data/anthropic/answer.json"),
        include_str!("data/anthropic/stream"),
        &["system[0].cache_control"],
    ),
    (
        "gemini",
        include_str!("data/gemini/request.json"),
        include_str!("data/gemini/answer.json"),
        include_str!("data/gemini/stream"),
        &["safetySettings"],
    ),
    (
        "ollama",
        include_str!("data/ollama/request.json"),
        include_str!("data/ollama/answer.json"),
        include_str!("data/ollama/stream"),
        &["options.num_ctx", "keep_alive"],
    ),
];

fn codec(name: &str) -> &'static dyn Codec {
    *CODECS.iter().find(|codec| codec.name() == name).unwrap()
}

fn request(name: &str, body: &str) -> Request {
    codec(name).read_request("/v1beta/models/m-1:streamGenerateContent", body.as_bytes()).unwrap()
}

/// Without what formats tell and others do not: names of results, ids of calls, a choice of tools.
fn comparable(mut request: Request) -> Request {
    request.stream_usage = true;
    request.echo.clear();
    request.unmapped.clear();
    request.tool_choice = ToolChoice::Auto;
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        match part {
            Part::ToolCall(call) => call.id.clear(),
            Part::ToolResult(result) => {
                result.id.clear();
                result.name = None;
            }
            _ => {}
        }
    }
    request
}

fn said(mut answer: Answer) -> (Vec<Part>, Option<Stop>, Option<Usage>) {
    let mut choice = answer.choices.remove(0);
    for part in &mut choice.parts {
        if let Part::ToolCall(call) = part {
            call.id.clear();
            call.seal = None;
        }
    }
    (choice.parts, choice.stop, answer.usage.map(|usage| Usage { reasoning: 0, ..usage }))
}

#[test]
fn the_same_request_is_read_from_every_format() {
    let (first, body, ..) = CORPUS[0];
    let expected = comparable(request(first, body));
    assert_eq!((expected.turns.len(), expected.stream), (5, true));
    for (name, body, _, _, rest) in CORPUS {
        let read = request(name, body);
        let unmapped: Vec<_> = read.unmapped.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(unmapped, rest, "{name}");
        let choice =
            if name == "ollama" { ToolChoice::Auto } else { ToolChoice::Named("get_weather".to_owned()) };
        assert_eq!(read.tool_choice, choice, "{name}");
        assert_eq!(comparable(read), expected, "{name}");
    }
}

#[test]
fn a_request_of_every_format_is_written_in_every_other() {
    for (from, body, ..) in CORPUS {
        let read = request(from, body);
        for to in CODECS {
            let written = to.write_request(&read).unwrap();
            let back = request(to.name(), written.body.text());
            assert_eq!(comparable(back), comparable(read.clone()), "{from} to {}", to.name());
            let declared = to.name() == "ollama" && read.tool_choice != ToolChoice::Auto;
            let lost =
                written.losses.iter().any(|loss| loss.field == "tool_choice" && loss.fate == Fate::Dropped);
            assert_eq!(lost, declared, "{from} to {}: {:?}", to.name(), written.losses);
        }
    }
}

#[test]
fn the_same_answer_is_read_from_every_format_whole_and_streamed() {
    let (first, _, answer, ..) = CORPUS[0];
    let expected = said(codec(first).read_answer(answer.as_bytes()).unwrap());
    assert_eq!(expected.1, Some(Stop::ToolCalls));
    for (name, _, answer, stream, _) in CORPUS {
        let whole = codec(name).read_answer(answer.as_bytes()).unwrap();
        assert!(!whole.head.model.is_empty(), "{name}");
        assert_eq!(said(whole), expected, "{name}");
        for chunk in [1, 7, usize::MAX] {
            let streamed = accumulated(codec(name), &Bytes::from_static(stream.as_bytes()), chunk);
            assert!(streamed.is_done(), "{name}");
            assert_eq!(said(streamed.into_answer()), expected, "{name} streamed");
        }
    }
}

#[test]
fn an_answer_of_every_format_is_written_in_every_other() {
    for (from, _, answer, ..) in CORPUS {
        let read = codec(from).read_answer(answer.as_bytes()).unwrap();
        for to in CODECS {
            let written = to.write_answer(&read, &Request::default());
            let back = to.read_answer(written.body.text().as_bytes()).unwrap();
            assert_eq!(said(back), said(read.clone()), "{from} to {}", to.name());
        }
    }
}
