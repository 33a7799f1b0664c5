//! Single cases that translators have been caught at.

use bytes::Bytes;

use super::laws::{accumulated, body};
use crate::conversation::{
    ANTHROPIC, AnswerStart, CODECS, Delta, ErrorKind, Fate, GEMINI, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES,
    Part, Request, Role, Stop, StreamError, Turn,
};

fn chat(body: &str) -> Request {
    OPENAI_CHAT.read_request("/", body.as_bytes()).unwrap()
}

fn arguments(choice: usize, call: usize, text: &str) -> Delta {
    Delta::Arguments { choice, call, text: text.to_owned() }
}

fn call(call: usize) -> Delta {
    Delta::ToolCall { choice: 0, call, id: format!("call_{call}"), name: format!("tool_{call}"), seal: None }
}

#[test]
fn pieces_of_parallel_calls_never_mix() {
    let deltas = [
        Delta::Start(AnswerStart::default()),
        call(0),
        call(1),
        arguments(0, 0, "{\"a\""),
        arguments(0, 1, "{\"b\""),
        arguments(0, 0, ":0}"),
        arguments(0, 1, ":1}"),
        Delta::Stop { choice: 0, stop: Stop::ToolCalls },
        Delta::Done,
    ];
    for codec in CODECS {
        let to = Request { stream: true, ..Request::default() };
        let answer = accumulated(*codec, &body(*codec, &to, &deltas), usize::MAX).into_answer();
        let calls: Vec<_> = answer.choices[0]
            .parts
            .iter()
            .map(|part| match part {
                Part::ToolCall(call) => (call.name.as_str(), call.arguments.as_str()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(calls, [("tool_0", "{\"a\":0}"), ("tool_1", "{\"b\":1}")], "{}", codec.name());
    }
}

#[test]
fn a_failure_in_a_stream_keeps_its_kind_and_is_no_end() {
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::Authentication,
        ErrorKind::RateLimit,
        ErrorKind::Server,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
    ] {
        let error = StreamError { kind, message: "no".to_owned(), code: None };
        let deltas = [Delta::Start(AnswerStart::default()), Delta::Error(error)];
        for codec in CODECS.iter().filter(|codec| codec.name() != OLLAMA.name()) {
            let read = accumulated(*codec, &body(*codec, &Request::default(), &deltas), usize::MAX);
            let error = read.error().unwrap();
            assert_eq!((error.kind, error.message.as_str()), (kind, "no"), "{}", codec.name());
            assert!(!read.is_done(), "{}", codec.name());
        }
    }
}

#[test]
fn calls_end_an_answer_whatever_the_server_says() {
    let said = r#"{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"stop"}]}"#;
    let answer = OPENAI_CHAT.read_answer(said.as_bytes()).unwrap();
    assert_eq!(answer.choices[0].stop, Some(Stop::ToolCalls));
}

#[test]
fn calls_that_all_have_the_index_0_are_told_apart_by_their_ids() {
    let chunk = |id: &str| {
        let call = format!(r#"{{"index":0,"id":"{id}","function":{{"name":"t","arguments":"{{}}"}}}}"#);
        format!(
            "data: {{\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n"
        )
    };
    let stream = Bytes::from(chunk("a") + &chunk("b"));
    let answer = accumulated(OPENAI_CHAT, &stream, usize::MAX).into_answer();
    assert_eq!(answer.choices[0].parts.len(), 2);
}

#[test]
fn azures_first_chunk_without_choices_does_not_begin_the_stream() {
    let stream = "data: {\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"prompt_filter_results\":[]}\n\n\
                  data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],\"id\":\"x\",\"model\":\"m\"}\n\n";
    let answer = accumulated(OPENAI_CHAT, &Bytes::from_static(stream.as_bytes()), usize::MAX).into_answer();
    assert_eq!((answer.head.id.as_str(), answer.choices[0].text()), ("x", "a".to_owned()));
}

#[test]
fn system_turns_go_to_the_front_and_are_declared_if_they_move() {
    let request = chat(
        r#"{"model":"m","messages":[{"role":"system","content":"a"},{"role":"user","content":"b"},{"role":"system","content":"c"}],"max_tokens":1}"#,
    );
    for codec in [ANTHROPIC, GEMINI] {
        let written = codec.write_request(&request).unwrap();
        let moved = written.losses.iter().filter(|loss| loss.fate == Fate::Emulated).count();
        assert_eq!((moved, written.losses[0].field.as_str()), (1, "turns[2]"), "{}", codec.name());
        let read = codec.read_request("/models/m:generateContent", written.body.text().as_bytes()).unwrap();
        let system = Turn::new(Role::System, vec![Part::Text("a".to_owned()), Part::Text("c".to_owned())]);
        assert_eq!(read.turns[0], system, "{}", codec.name());
    }
    assert_eq!(OPENAI_RESPONSES.write_request(&request).unwrap().losses, []);
}

#[test]
fn what_must_not_be_left_out_is_refused() {
    let several = chat(r#"{"model":"m","messages":[{"role":"user","content":"a"}],"n":2}"#);
    let sound = chat(
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"aa","format":"wav"}}]}]}"#,
    );
    let broken = chat(
        r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"t","arguments":"{\"a\":"}}]}]}"#,
    );
    for (request, field) in [
        (several, "sampling.choices"),
        (sound, "turns[0].parts[0].audio"),
        (broken, "turns[0].parts[0].arguments"),
    ] {
        let refused = ANTHROPIC.write_request(&request).unwrap_err();
        assert_eq!((refused.format, &refused.fields[..]), ("anthropic", &[field.to_owned()][..]));
        assert_eq!(OPENAI_CHAT.write_request(&request).unwrap().losses, []);
    }
}

#[test]
fn a_temperature_above_the_limit_is_lowered_and_said() {
    let request = chat(
        r#"{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":1.5,"max_tokens":1,"seed":7}"#,
    );
    let written = ANTHROPIC.write_request(&request).unwrap();
    assert!(written.body.text().contains("\"temperature\":1.0"), "{:?}", written.body);
    let losses: Vec<_> = written.losses.iter().map(|loss| (loss.field.as_str(), loss.fate)).collect();
    assert_eq!(losses, [("sampling.seed", Fate::Dropped), ("sampling.temperature", Fate::Emulated)]);
}

#[test]
fn a_thought_is_sent_back_to_nobody_but_who_sealed_it() {
    let asked = r#"{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"a"}]}]}"#;
    let request = ANTHROPIC.read_request("/", asked.as_bytes()).unwrap();
    assert_eq!(request.turns[0].parts.len(), 3);
    let own = ANTHROPIC.write_request(&request).unwrap();
    assert_eq!(ANTHROPIC.read_request("/", own.body.text().as_bytes()).unwrap(), request);
    for codec in [OPENAI_CHAT, OPENAI_RESPONSES, GEMINI, OLLAMA] {
        let written = codec.write_request(&request).unwrap();
        assert!(!written.body.text().contains("hm"), "{}", codec.name());
        let dropped = written.losses.iter().filter(|loss| loss.field.ends_with(".reasoning"));
        assert_eq!(dropped.count(), 2, "{}", codec.name());
    }
}

#[test]
fn cached_input_is_part_of_the_input() {
    let message = r#"{"content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":1}}"#;
    let usage = ANTHROPIC.read_answer(message.as_bytes()).unwrap().usage.unwrap();
    assert_eq!((usage.input, usage.cached, usage.cache_written), (28, 20, 3));
}

#[test]
fn a_blocked_prompt_is_a_filtered_answer() {
    let said = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"modelVersion":"m"}"#;
    let answer = GEMINI.read_answer(said.as_bytes()).unwrap();
    assert_eq!(answer.choices[0].stop, Some(Stop::Filtered(Some("PROHIBITED_CONTENT".to_owned()))));
    let chat = OPENAI_CHAT.write_answer(&answer, &Request::default());
    assert!(chat.body.text().contains("\"finish_reason\":\"content_filter\""));
}
