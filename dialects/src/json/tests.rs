//! The cases by their ids, the examples of RFC 6902, then properties over arbitrary documents.
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn ops(ops: Value) -> Vec<Op> {
    serde_json::from_value(ops).unwrap()
}

fn edit(body: &str, edits: Value) -> Result<Option<String>, EditError> {
    let edited = apply(body.as_bytes(), &ops(edits))?;
    Ok(edited.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()))
}

fn edited(body: &str, edits: Value) -> String {
    edit(body, edits).unwrap().unwrap_or_else(|| body.to_owned())
}

#[test]
fn json_01_only_the_bytes_of_the_edited_value_change() {
    let before = "{ \"model\" : \"gpt-4o\",\r\n\t\"response_format\":{\"json_schema\":{\"schema\":{\"properties\":{\"zebra\":{},\"apple\":{},\"mango\":{}}}}},\"n\":1.0,\"s\":\"\\u00e9\\/\" }\n";
    let after = before.replace("\"gpt-4o\"", "\"other\"");
    assert_eq!(edited(before, json!([{"path": "$.model", "set": "other"}])), after);
    assert_eq!(edited(before, json!([{"op": "replace", "path": "/model", "value": "other"}])), after);
}

#[test]
fn json_03_numbers_keep_their_spelling() {
    let before = "{\"vector\":[-0.086097434,0.033505224,1.0,1e2,-0.0,1E400]}";
    assert_eq!(
        edited(before, json!([{"path": "$.vector[3]", "set": 7}])),
        "{\"vector\":[-0.086097434,0.033505224,1.0,7,-0.0,1E400]}"
    );
    assert_eq!(edit(before, json!([{"path": "$.other", "set": 7}])), Ok(None));
    let document = Document::parse(before.as_bytes()).unwrap();
    assert_eq!(document.root().get("vector").unwrap().at(5).unwrap().to_value(), json!(f64::MAX));
}

#[test]
fn json_04_what_is_not_json_is_not_edited() {
    for (body, at) in [
        ("{\"x\":NaN,\"y\":-Infinity}", 5),
        ("{\"y\":-Infinity}", 6),
        ("<html>", 0),
        ("", 0),
        ("{\"a\":1} x", 8),
        ("{\"a\":1", 6),
        ("{\"a\" 1}", 5),
        ("{,}", 1),
        ("[1,]", 3),
        ("[1}", 2),
        ("01", 1),
        ("1.", 2),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
        ("\"\\u12g4\"", 1),
        ("'a'", 0),
        ("tru", 0),
        ("\u{feff}{}", 0),
    ] {
        assert_eq!(edit(body, json!([{"path": "$.x", "set": 1}])), Err(NotJson { at }.into()), "{body}");
    }
    assert!(Document::parse(b"[\"\xff\"]").is_err());
    for body in ["{\"vector\":[1.79e308,0]}", "{\"score\":null}", " [] ", "{}", "-0e-1", "\"\"", "[[],{}]"] {
        assert!(Document::parse(body.as_bytes()).is_ok(), "{body}");
    }
}

#[test]
fn json_05_lone_surrogates_stay() {
    let before = "{\"messages\":[{\"role\":\"user\",\"content\":\"cut \\ud83d here\"}],\"model\":\"m\"}";
    assert_eq!(&before.as_bytes()[member(before.as_bytes(), "model").unwrap()], b"\"m\"");
    assert_eq!(edited(before, json!([{"path": "$.model", "set": "n"}])), before.replace("\"m\"", "\"n\""));
    let document = Document::parse(before.as_bytes()).unwrap();
    let content = document.root().get("messages").unwrap().at(0).unwrap().get("content").unwrap();
    assert_eq!(content.text().as_deref(), Some("cut \u{fffd} here"));
}

#[test]
fn json_07_the_last_of_duplicate_keys_wins() {
    let body = "{\"model\":\"a\",\"stream\":false,\"model\":\"b\",\"stream\":true}";
    assert_eq!(&body.as_bytes()[member(body.as_bytes(), "model").unwrap()], b"\"b\"");
    assert_eq!(
        Document::parse(body.as_bytes()).unwrap().root().to_value(),
        json!({"model": "b", "stream": true})
    );
    assert_eq!(
        edited(body, json!([{"path": "$.model", "set": "c"}])),
        "{\"model\":\"a\",\"stream\":false,\"model\":\"c\",\"stream\":true}"
    );
    assert_eq!(
        edited(body, json!([{"path": "$.model", "delete": true}])),
        "{\"stream\":false,\"stream\":true}"
    );
}

fn member(body: &[u8], name: &str) -> Option<Span> {
    let [span] = members(body, [name]);
    span
}

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
fn cjk_01_strings_are_cut_between_characters() {
    let body = format!("[\"a{}\"]", "好".repeat(200));
    for keep in [0, 1, 2, 60, 200] {
        let text: String = format!("a{}", "好".repeat(200)).chars().take(keep).collect();
        assert_eq!(edited(&body, json!([{"path": "$[0]", "truncate": keep}])), format!("[\"{text}\"]"));
    }
    assert_eq!(edit(&body, json!([{"path": "$[0]", "truncate": 201}])), Ok(None));
    let escaped = "[\"\\u597d\\ud83d\\ude00\\n\\ud83dx\"]";
    assert_eq!(edited(escaped, json!([{"path": "$[0]", "truncate": 2}])), "[\"\\u597d\\ud83d\\ude00\"]");
    assert_eq!(
        edited(escaped, json!([{"path": "$[0]", "truncate": 4}])),
        "[\"\\u597d\\ud83d\\ude00\\n\\ud83d\"]"
    );
    assert_eq!(unquote(b"\"\\u597d\\ud83d\\ude00\\n\\ud83dx\""), "好😀\n\u{fffd}x");
}

#[test]
fn nesting_has_a_bound() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Document::parse(nested(256).as_bytes()).is_ok());
    assert_eq!(Document::parse(nested(257).as_bytes()).unwrap_err(), NotJson { at: 256 });
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

/// JSON as no one would print it, and what it means.
fn document() -> impl Strategy<Value = String> {
    let space = || prop::sample::select(vec!["", "", " ", "\n\t", "\r\n  "]);
    let name =
        || prop::sample::select(vec!["\"a\"", "\"b\"", "\"\\u0061\"", "\"好\"", "\"\\ud83d\"", "\"\""]);
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "false",
        "0",
        "-0.0",
        "1E400",
        "1e2",
        "12345678901234567890",
        "\"\"",
        "\"x\\\"y\\\\\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d x\"",
        "\"a\u{2028}b\"",
        "[]",
        "{ }",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let element = (space(), inner.clone(), space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        let member = (space(), name(), space(), element.clone())
            .prop_map(|(a, name, b, value)| format!("{a}{name}{b}:{value}"));
        prop_oneof![
            prop::collection::vec(element, 1..5).prop_map(|all| format!("[{}]", all.join(","))),
            prop::collection::vec(member, 1..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_reads_is_read_the_same(body in document()) {
        let document = Document::parse(body.as_bytes()).unwrap();
        if let Ok(value) = serde_json::from_str::<Value>(&body) {
            prop_assert_eq!(document.root().to_value(), value);
        }
    }

    #[test]
    fn arbitrary_bytes_are_judged_as_serde_does(body in "[\\[\\]{},:\"\\\\0-9eE+.\\-tfn u]{0,12}") {
        let ours = Document::parse(body.as_bytes()).is_ok();
        let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(&body).is_ok();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn no_bytes_make_an_edit_panic(body in prop::collection::vec(any::<u8>(), 0..40), keep in 0_usize..4) {
        let edits = ops(json!([{"path": "$..*", "truncate": keep}, {"path": "$..a", "delete": true}]));
        let _ = apply(&body, &edits);
        let _ = (member(&body, "a"), unquote(&body));
    }

    #[test]
    fn a_replaced_value_leaves_all_other_bytes(body in document(), which in any::<prop::sample::Index>()) {
        let document = Document::parse(body.as_bytes()).unwrap();
        let mut all = vec![document.root()];
        let mut next = 0;
        while next < all.len() {
            let children: Vec<_> = all[next].children().collect();
            all.extend(children);
            next += 1;
        }
        let span = which.get(&all).span();
        let mut splices = Splices::new();
        splices.replace(span.clone(), "\u{1}");
        let after = splices.apply(body.as_bytes()).unwrap();
        let expected = [&body.as_bytes()[..span.start], b"\x01", &body.as_bytes()[span.end..]].concat();
        prop_assert_eq!(&after[..], &expected[..]);
    }

    #[test]
    fn edits_agree_with_the_same_edits_on_values(body in document(), index in 0_usize..4) {
        let before = Document::parse(body.as_bytes()).unwrap().root().to_value();
        for (path, edit) in [("$..a", json!({"set": 1})), ("$..a", json!({"delete": true})), ("$[*]", json!({"delete": true}))] {
            let mut op = edit.clone();
            op["path"] = path.into();
            let after = apply(body.as_bytes(), &ops(json!([op]))).unwrap();
            let after = after.as_deref().unwrap_or(body.as_bytes());
            let after = Document::parse(after).unwrap().root().to_value();
            let left = Path::parse(path).unwrap().select(&after).len();
            if edit.get("delete").is_some() {
                prop_assert_eq!(left, 0);
            } else {
                prop_assert!(Path::parse(path).unwrap().select(&after).iter().all(|value| **value == json!(1)));
                prop_assert!(left > 0 || Path::parse(path).unwrap().select(&before).is_empty());
            }
        }
        if let Some(array) = before.as_array().filter(|array| index < array.len()) {
            let mut expected = array.clone();
            expected.remove(index);
            let path = format!("/{index}");
            let after = apply(body.as_bytes(), &ops(json!([{"op": "remove", "path": path}]))).unwrap().unwrap();
            prop_assert_eq!(Document::parse(&after).unwrap().root().to_value(), Value::Array(expected));
            let back = apply(&after, &ops(json!([{"op": "add", "path": path, "value": array[index]}]))).unwrap().unwrap();
            prop_assert_eq!(Document::parse(&back).unwrap().root().to_value(), before);
        }
    }
}
