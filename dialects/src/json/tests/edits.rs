//! Edits by path and by JSON Patch.
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

#[test]
fn a_member_is_found_at_the_top_alone() {
    let body = b" {\"a\":{\"model\":1},\"b\":[{\"model\":2}],\"mod\\u0065l\" : {\"x\":[1, 2]} ,\"c\":3}";
    assert_eq!(&body[member(body, "model").unwrap()], b"{\"x\":[1, 2]}");
    assert_eq!(&body[member(body, "b").unwrap()], b"[{\"model\":2}]");
    assert_eq!(&body[member(body, "c").unwrap()], b"3");
    assert_eq!(member(body, "x"), None);
    assert_eq!(member(b"[{\"model\":1}]", "model"), None);
    assert_eq!(member(b"{\"model\":1", "model"), None);
    assert_eq!(member(b"\"model\"", "model"), None);
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Document::parse(nested(256).as_bytes()).is_ok());
    assert_eq!(Document::parse(nested(257).as_bytes()).unwrap_err(), NotJson { at: 256 }.into());
    assert!(Document::parse("[".repeat(1 << 20).as_bytes()).is_err());
}

#[test]
fn additions_are_spaced_as_their_neighbours() {
    assert_eq!(
        edited("{\n  \"a\": 1\n}", json!([{"op": "add", "path": "/b", "value": [2]}])),
        "{\n  \"a\": 1,\n  \"b\": [2]\n}"
    );
    assert_eq!(edited("{ }", json!([{"op": "add", "path": "/b~1~0", "value": 1}])), "{\"b/~\":1 }");
    assert_eq!(edited("[1, 2]", json!([{"op": "add", "path": "/1", "value": 9}])), "[1, 9, 2]");
    assert_eq!(edited("[1, 2]", json!([{"op": "add", "path": "/0", "value": 9}])), "[9,1, 2]");
    assert_eq!(edited("[1, 2]", json!([{"op": "add", "path": "/-", "value": 9}])), "[1, 2, 9]");
    assert_eq!(edited("[ ]", json!([{"op": "add", "path": "/0", "value": 9}])), "[9 ]");
    assert_eq!(edited("{\"a\" : 1}", json!([{"op": "add", "path": "/a", "value": 9}])), "{\"a\" : 9}");
    assert_eq!(edited(" 1 ", json!([{"op": "add", "path": "", "value": {}}])), " {} ");
}

#[test]
fn removals_take_one_comma_along() {
    let body = "[ 0, 1 , 2,3 ]";
    for (path, after) in [
        ("$[0]", "[ 1 , 2,3 ]"),
        ("$[1]", "[ 0 , 2,3 ]"),
        ("$[3]", "[ 0, 1 , 2 ]"),
        ("$[0,1]", "[ 2,3 ]"),
        ("$[0,2]", "[ 1,3 ]"),
        ("$[1,2,3]", "[ 0 ]"),
        ("$[*]", "[  ]"),
    ] {
        assert_eq!(edited(body, json!([{"path": path, "delete": true}])), after, "{path}");
    }
    assert_eq!(edited("{\"a\":1, \"b\":2}", json!([{"op": "remove", "path": "/a"}])), "{\"b\":2}");
    assert_eq!(edit("{\"a\":1}", json!([{"path": "$", "delete": true}])), Ok(None));
}

#[test]
fn changes_of_type_and_length() {
    let body = "{\"n\": 1.50, \"s\": \"12\", \"t\": \"x\", \"a\": [1, 2, 3], \"z\": null, \"b\": true}";
    for (path, change, after) in [
        ("$.n", json!({"type": "string"}), body.replace("1.50", "\"1.50\"")),
        ("$.s", json!({"type": "number"}), body.replace("\"12\"", "12")),
        ("$.t", json!({"type": "number"}), body.replace("\"x\"", "0")),
        ("$.b", json!({"type": "number"}), body.replace("true", "1")),
        ("$.t", json!({"type": "array"}), body.replace("\"x\"", "[\"x\"]")),
        ("$.t", json!({"type": "object"}), body.replace("\"x\"", "{\"value\":\"x\"}")),
        ("$.a", json!({"type": "string"}), body.replace("[1, 2, 3]", "\"[1, 2, 3]\"")),
        ("$.z", json!({"type": "boolean"}), body.replace("null", "false")),
        ("$.n", json!({"type": "boolean"}), body.replace("1.50", "true")),
        ("$.n", json!({"type": "number"}), body.to_owned()),
        ("$.t", json!({"null": true}), body.replace("\"x\"", "null")),
        ("$.t", json!({"set": null}), body.replace("\"x\"", "null")),
        ("$.a", json!({"truncate": 1}), body.replace("[1, 2, 3]", "[1]")),
        ("$.a", json!({"truncate": 0}), body.replace("[1, 2, 3]", "[]")),
        ("$.a", json!({"truncate": 3}), body.to_owned()),
        ("$.n", json!({"truncate": 0}), body.to_owned()),
    ] {
        let mut op = change.clone();
        op["path"] = path.into();
        assert_eq!(edited(body, json!([op])), after, "{path} {change}");
    }
}

#[test]
fn of_nested_selections_the_outer_one_is_changed() {
    assert_eq!(
        edited("{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}", json!([{"path": "$..a", "set": 0}])),
        "{\"a\":0,\"b\":[{\"a\":0}]}"
    );
}

#[test]
fn json_patch_as_in_the_examples_of_rfc_6902() {
    for (body, patch, after) in [
        (
            r#"{"foo":"bar"}"#,
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            r#"{"foo":"bar","baz":"qux"}"#,
        ),
        (
            r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#,
            json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
            r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#,
        ),
        (
            r#"{"foo":["all","grass","cows","eat"]}"#,
            json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
            r#"{"foo":["all","cows","eat","grass"]}"#,
        ),
        (
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
            json!([{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2.0}]),
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
        ),
        (r#"{"a":1.0}"#, json!([{"op": "copy", "from": "/a", "path": "/b"}]), r#"{"a":1.0,"b":1.0}"#),
        (
            r#"{"":1,"/":2}"#,
            json!([{"op": "test", "path": "/", "value": 1}, {"op": "remove", "path": "/~1"}]),
            r#"{"":1}"#,
        ),
        (r#"{"a":[1]}"#, json!([{"op": "move", "from": "/a", "path": "/a"}]), r#"{"a":[1]}"#),
    ] {
        assert_eq!(edited(body, patch.clone()), after, "{patch}");
    }
}

#[test]
fn a_failed_operation_undoes_those_before_it() {
    let pointer = |path: &str| Pointer::try_from(path.to_owned()).unwrap();
    for (body, last, error) in [
        (
            r#"{"baz":"qux"}"#,
            json!({"op": "test", "path": "/baz", "value": "bar"}),
            EditError::TestFailed(pointer("/baz")),
        ),
        (
            r#"{"a":{"b":1}}"#,
            json!({"op": "move", "from": "/a", "path": "/a/b"}),
            EditError::IntoItself(pointer("/a")),
        ),
        ("{}", json!({"op": "remove", "path": "/x"}), EditError::Missing(pointer("/x"))),
        ("{}", json!({"op": "add", "path": "/a/b", "value": 1}), EditError::Missing(pointer("/a/b"))),
        ("[1]", json!({"op": "add", "path": "/2", "value": 1}), EditError::Missing(pointer("/2"))),
        ("[1]", json!({"op": "replace", "path": "/00", "value": 1}), EditError::Missing(pointer("/00"))),
        ("[1]", json!({"op": "replace", "path": "/-", "value": 1}), EditError::Missing(pointer("/-"))),
    ] {
        assert_eq!(edit(body, json!([{"path": "$.none", "set": 1}, last])), Err(error));
    }
    let made_then_failed = json!([{"path": "$.a", "set": 2}, {"op": "remove", "path": "/x"}]);
    assert!(edit("{\"a\":1}", made_then_failed).is_err());
}

#[test]
fn edits_that_make_no_sense_are_refused() {
    for (op, said) in [
        (json!({"path": "$.a"}), "exactly one of"),
        (json!({"path": "$.a", "set": 1, "null": true}), "exactly one of"),
        (json!({"path": "$.a", "sett": 1}), "unknown field `sett`"),
        (json!({"path": "a", "set": 1}), ""),
        (json!({"op": "add", "path": "/a"}), "missing field `value`"),
        (json!({"op": "ad", "path": "/a"}), "unknown variant `ad`"),
        (json!({"op": "remove", "path": "a"}), "begins with `/`"),
        (json!({"op": "remove", "path": "/~2"}), "`~0`"),
    ] {
        let error = serde_json::from_value::<Op>(op.clone()).unwrap_err().to_string();
        assert!(error.contains(said), "{op}: {error}");
    }
}

#[test]
fn edits_are_written_as_they_are_read() {
    for op in [
        json!({"op": "add", "path": "/a", "value": null}),
        json!({"op": "move", "from": "/a", "path": "/b"}),
        json!({"path": "$['a']", "set": null}),
        json!({"path": "$['a']", "delete": true}),
        json!({"path": "$['a']", "type": "string"}),
        json!({"path": "$['a']", "null": true}),
        json!({"path": "$['a']", "truncate": 3}),
    ] {
        let read: Op = serde_json::from_value(op.clone()).unwrap();
        let again: Op = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        assert_eq!(again, read, "{op}");
    }
    let schema = serde_json::to_value(schemars::schema_for!(Op)).unwrap().to_string();
    assert!(
        schema.contains("JSONPath") && schema.contains("truncate") && schema.contains("\"add\""),
        "{schema}"
    );
}

/// Long enough for what grows with the square of the size to be seen, in a debug build too.
const PROMPT: Duration = Duration::from_secs(10);

#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn a_07_an_edit_of_every_number_of_many_vectors_takes_time_in_proportion() {
    let vector = vec!["0.012345"; 20_000].join(",");
    let body = format!(r#"{{"data":[{{"embedding":[{vector}]}},{{"embedding":[{vector}]}}]}}"#);
    let began = Instant::now();
    for change in [json!({"set": 1}), json!({"delete": true}), json!({"type": "string"})] {
        let mut op = change;
        op["path"] = json!("$.data[*].embedding[*]");
        assert!(edit(&body, json!([op])).unwrap().is_some());
    }
    let removed = edit(&body, json!([{"op": "remove", "path": "/data/0/embedding/19999"}])).unwrap().unwrap();
    assert_eq!(removed.len(), body.len() - ",0.012345".len());
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
}

#[test]
fn a_07_a_document_of_too_many_values_is_left_alone() {
    for unit in ["1,", "[],", "{\"a\":1},", "\"\","] {
        let body = format!("[{}1]", unit.repeat(MAX_VALUES));
        assert_eq!(Document::parse(body.as_bytes()).unwrap_err(), ReadError::TooComplex, "{unit}");
    }
    let body = format!("[{}1]", "1,".repeat(MAX_VALUES / 2));
    assert!(Document::parse(body.as_bytes()).is_ok());
}

#[test]
fn a_07_edits_that_multiply_a_document_stop_at_a_bound() {
    let double = json!({"op": "copy", "from": "/a/0", "path": "/a/-"});
    let nest = json!({"op": "copy", "from": "", "path": "/a/-"});
    let body = format!(r#"{{"a":["{}"]}}"#, "x".repeat(1 << 20));
    let mut ops = vec![double; 3];
    ops.extend(vec![nest; 40]);
    assert_eq!(edit(&body, json!(ops)), Err(EditError::TooLarge));
    let numbers = format!("[{}1]", "1,".repeat(200_000));
    let large = "x".repeat(1_000);
    assert_eq!(edit(&numbers, json!([{"path": "$[*]", "set": large}])), Err(EditError::TooLarge));
}

#[test]
fn a_07_a_path_that_takes_too_many_steps_is_told() {
    let body = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(
        edit(&body, json!([{"path": "$..*..*..*", "set": 1}])),
        Err(EditError::TooComplex(TooComplex))
    );
    assert!(edit(&body, json!([{"path": "$..*..*", "set": 1}])).unwrap().is_some());
}
