//! Conversations that every format can express, chosen at random, and what each format tells of them.

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Map, Value};

use crate::conversation::{
    Answer, AnswerStart, Choice, Format, Json, Media, MediaKind, MediaSource, Part, Reasoning, Request, Role,
    Sampling, Stop, Tool, ToolCall, ToolChoice, ToolResult, Turn, Usage,
};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{1,8}", "\\PC{1,6}", Just(" \n\"\\ 猫\u{1F600}\r\n data: ".to_owned())]
}

fn object() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-z]{1,4}", inner), 0..3).prop_map(|members| members.into_iter().collect()),
        ]
    });
    let members = vec(("[a-zé]{1,4}", value), 0..3);
    members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()).to_string())
}

fn calls(prefix: &'static str) -> impl Strategy<Value = Vec<ToolCall>> {
    let call = ("[a-z_]{1,8}", object());
    vec(call, 0..3).prop_map(move |calls| {
        let numbered = calls.into_iter().enumerate();
        numbered
            .map(|(nth, (name, arguments))| ToolCall {
                id: format!("{prefix}_{nth}"),
                name,
                arguments,
                seal: None,
            })
            .collect()
    })
}

fn image() -> impl Strategy<Value = Part> {
    let data =
        "[A-Za-z0-9+/]{4,8}".prop_map(|data| MediaSource::Base64 { mime: "image/png".to_owned(), data });
    let medium = |source| Part::Media(Media { kind: MediaKind::Image, source, detail: None, name: None });
    data.prop_map(medium)
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let system =
        option::of(text()).prop_map(|said| said.map(|said| Turn::new(Role::System, vec![Part::Text(said)])));
    let user = || {
        (text(), option::of(image())).prop_map(|(said, image)| {
            Turn::new(Role::User, [Part::Text(said)].into_iter().chain(image).collect())
        })
    };
    let round = (user(), text(), calls("call"), option::of(text()), text());
    (system, vec(round, 0..2), user()).prop_map(|(system, rounds, last)| {
        let rounds =
            rounds.into_iter().enumerate().flat_map(|(nth, (user, said, mut calls, result, then))| {
                calls.iter_mut().for_each(|call| call.id = format!("{}_{nth}", call.id));
                let results: Vec<_> = calls
                    .iter()
                    .map(|call| {
                        let parts = result.iter().cloned().map(Part::Text).collect();
                        Part::ToolResult(ToolResult {
                            id: call.id.clone(),
                            name: None,
                            parts,
                            is_error: false,
                        })
                    })
                    .collect();
                let said =
                    [Part::Text(said)].into_iter().chain(calls.into_iter().map(Part::ToolCall)).collect();
                let mut turns = vec![user, Turn::new(Role::Assistant, said)];
                if !results.is_empty() {
                    turns.push(Turn::new(Role::Tool, results));
                    turns.push(Turn::new(Role::Assistant, vec![Part::Text(then)]));
                }
                turns
            });
        system.into_iter().chain(rounds).chain([last]).collect()
    })
}

fn schema() -> Json {
    Json::parse(r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#).unwrap()
}

/// A request that every format can express.
pub(super) fn request() -> impl Strategy<Value = Request> {
    let tools = vec(("[a-z_]{1,8}", option::of(text())), 1..3).prop_map(|tools| {
        let tool = |(nth, (name, description))| Tool {
            name: format!("{name}{nth}"),
            description,
            parameters: Some(schema()),
            strict: None,
        };
        tools.into_iter().enumerate().map(tool).collect::<Vec<_>>()
    });
    let sampling = (option::of(0.0..1.0_f64), option::of(0.0..1.0_f64), option::of(1..100_u64));
    let rest = (vec("[a-z]{1,4}", 0..3), any::<bool>(), option::of(0..3_u8), any::<bool>(), 1..9_999_u64);
    (turns(), tools, sampling, rest).prop_map(
        |(turns, tools, sampling, (stop, stream, choice, shaped, limit))| {
            let (temperature, top_p, top_k) = sampling;
            let named = tools[0].name.clone();
            Request {
                model: "m-1".to_owned(),
                turns,
                tools,
                tool_choice: match choice {
                    None => ToolChoice::Auto,
                    Some(0) => ToolChoice::Never,
                    Some(1) => ToolChoice::Any,
                    Some(_) => ToolChoice::Named(named),
                },
                format: if shaped {
                    Format::Schema { name: Some("answer".to_owned()), schema: schema(), strict: None }
                } else {
                    Format::Text
                },
                sampling: Sampling { temperature, top_p, top_k, ..Sampling::default() },
                max_tokens: Some(limit),
                stop,
                stream,
                ..Request::default()
            }
        },
    )
}

/// What a format tells of a request.
pub(super) fn told_request(format: &str, mut request: Request) -> Request {
    if let Format::Schema { name, .. } = &mut request.format {
        *name = format.starts_with("openai").then(|| "answer".to_owned());
    }
    request.stream_usage = format != "openai-chat";
    request.echo.clear();
    let has_names = matches!(format, "gemini" | "ollama");
    let parts = || request.turns.iter().flat_map(|turn| turn.parts.clone());
    let names: Vec<_> = parts()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some((call.id, call.name)),
            _ => None,
        })
        .collect();
    for part in request.turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if let Part::ToolResult(result) = part {
            let name = names.iter().find(|(id, _)| *id == result.id).map(|(_, name)| name.clone());
            result.name = name.filter(|_| has_names);
        }
    }
    match format {
        "openai-responses" => {
            request.stop.clear();
            request.sampling.top_k = None;
        }
        "ollama" => {
            if request.tool_choice == ToolChoice::Never {
                request.tools.clear();
            }
            request.tool_choice = ToolChoice::Auto;
        }
        _ => {}
    }
    request
}

/// An answer that every format can express.
pub(super) fn answer() -> impl Strategy<Value = Answer> {
    let usage = (0..9_999_u64, 0..500_u64, 0..9_999_u64).prop_map(|(more, cached, output)| Usage {
        input: more + cached,
        cached,
        output,
        ..Usage::default()
    });
    let stop = prop_oneof![Just(Stop::End), Just(Stop::Length), Just(Stop::Filtered(None))];
    (option::of(text()), option::of(text()), calls("call"), stop, usage).prop_map(
        |(thought, said, calls, stop, usage)| {
            let thought = thought.map(|text| Part::Reasoning(Reasoning { text, seal: None }));
            let stop = if calls.is_empty() { stop } else { Stop::ToolCalls };
            let calls = calls.into_iter().map(Part::ToolCall);
            let parts = thought.into_iter().chain(said.map(Part::Text)).chain(calls).collect();
            let head = AnswerStart {
                id: "an-answer-1".to_owned(),
                model: "m-1".to_owned(),
                created: Some(1_767_225_600),
                ..AnswerStart::default()
            };
            Answer::new(head, parts, stop, usage)
        },
    )
}

/// What a format tells of an answer.
pub(super) fn told_answer(format: &str, mut answer: Answer) -> Answer {
    let stop = match (format, answer.choices[0].stop.take()) {
        ("ollama", Some(Stop::Filtered(_) | Stop::Refused)) => Some(Stop::End),
        ("anthropic", Some(Stop::Filtered(_))) => Some(Stop::Refused),
        ("openai-chat" | "openai-responses" | "gemini", Some(Stop::Refused)) => Some(Stop::Filtered(None)),
        (_, stop) => stop,
    };
    answer.choices[0].stop = stop;
    match format {
        "anthropic" => {
            answer.head.created = None;
            answer.head.tier = Some("standard".to_owned());
        }
        "gemini" => answer.head.created = None,
        "ollama" => {
            answer.head.id.clear();
            answer.usage = answer.usage.map(|usage| Usage { cached: 0, ..usage });
        }
        _ => {}
    }
    answer
}

/// What survives: what is said, the calls but for their ids, why it ends, and what was used.
pub(super) fn essence(answer: &Answer) -> (Vec<Part>, Option<Stop>, Option<Usage>) {
    let Some(Choice { parts, stop, .. }) = answer.choices.first() else { return (Vec::new(), None, None) };
    (parts.clone(), stop.clone(), answer.usage)
}
