//! Properties over arbitrary documents.
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

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
            let left = Path::parse(path).unwrap().select(&after).unwrap().len();
            if edit.get("delete").is_some() {
                prop_assert_eq!(left, 0);
            } else {
                prop_assert!(Path::parse(path).unwrap().select(&after).unwrap().iter().all(|value| **value == json!(1)));
                prop_assert!(left > 0 || Path::parse(path).unwrap().select(&before).unwrap().is_empty());
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
