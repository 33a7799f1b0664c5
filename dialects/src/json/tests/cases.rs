//! The cases by their ids.
use serde_json::json;

use super::*;

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
        assert_eq!(
            edit(body, json!([{"path": "$.x", "set": 1}])),
            Err(ReadError::from(NotJson { at }).into()),
            "{body}"
        );
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
