use super::*;
use crate::{Dialect, json::Document};

fn found(dialect: Dialect, part: Part, body: &str) -> Vec<String> {
    let document = Document::parse(body.as_bytes()).unwrap();
    let nodes = dialect.provider().find(part, document.root());
    nodes.iter().map(|node| String::from_utf8_lossy(node.raw()).into_owned()).collect()
}

#[test]
fn parts_are_found_in_events_and_in_documents() {
    let both = r#"{"model":"m","message":{"model":"n","usage":{"x":1}},"usage":null}"#;
    assert_eq!(found(Dialect::Anthropic, Part::Model, both), ["\"m\"", "\"n\""]);
    assert_eq!(found(Dialect::Anthropic, Part::Usage, both), ["{\"x\":1}"]);
    assert_eq!(found(Dialect::Gemini, Part::Model, both), [""; 0]);
    let choices =
        r#"{"choices":[{"finish_reason":"stop"},{"finish_reason":null},{"finish_reason":"length"}]}"#;
    assert_eq!(found(Dialect::OpenAi, Part::Finish, choices), ["\"stop\"", "\"length\""]);
}

#[test]
fn a_path_of_a_type_is_taken_in_events_of_this_type_alone() {
    for (kind, expected) in
        [("response.function_call_arguments.delta", vec!["\"{}\""]), ("response.output_text.delta", vec![])]
    {
        let body = format!(r#"{{"type":"{kind}","delta":"{{}}"}}"#);
        assert_eq!(found(Dialect::OpenAi, Part::ToolArguments, &body), expected);
    }
}
