use super::*;

fn edited(body: &str, how: HitsFault, n: usize) -> Option<String> {
    let edited = edit(body.as_bytes(), how, n, || 0.999).unwrap();
    edited.map(|body| String::from_utf8(body.to_vec()).unwrap())
}

const A: &str = r#"{"id": 1, "version": 3, "score": 0.90, "payload": {"t": "好"}, "vector": null}"#;
const B: &str = r#"{"id":"b","version":7,"score":8.5e-1,"payload":{}}"#;
const C: &str = r#"{"id":3,"version":7,"score":0.1}"#;

/// Where the hits are, as `@`.
const SHAPES: [&str; 5] = [
    "{ \"result\" : {\"points\":[ @ ]}, \"status\":\"ok\", \"time\":1e-3 }\n",
    "{\"result\":[@],\"status\":\"ok\"}",
    "{\"result\":{\"groups\":[{\"id\":1,\"hits\":[@]},{\"id\":2,\"hits\":[@]}]}}",
    "{\"result\":[{\"points\":[@]},{\"points\":[@]}]}",
    "{\"result\":[[@],[@]]}",
];

fn all_shapes(how: HitsFault, n: usize, before: &str, after: &str) {
    for shape in SHAPES {
        let expected = shape.replace('@', after);
        assert_eq!(edited(&shape.replace('@', before), how, n), Some(expected), "{how} {shape}");
    }
}

#[test]
fn r_f7_no_hits_at_all() {
    let all = format!("{A}, {B},{C}");
    all_shapes(HitsFault::Empty, 0, &all, "");
    all_shapes(HitsFault::Keep, 0, &all, "");
}

#[test]
fn hits_are_kept_and_put_in_order_as_they_are_spelt() {
    let all = format!("{A}, {B},{C}");
    all_shapes(HitsFault::Keep, 1, &all, A);
    all_shapes(HitsFault::Keep, 2, &all, &format!("{A}, {B}"));
    // With this randomness the order would stay, which a shuffle must not do.
    all_shapes(HitsFault::Shuffle, 0, &all, &format!("{B}, {C},{A}"));
    assert_eq!(edited(&format!("{{\"result\":[{all}]}}"), HitsFault::Keep, 3), None);
}

#[test]
fn scores_alone_change() {
    let all = format!("{A}, {B},{C}");
    let with = |b: &str, c: &str, a: &str| {
        format!("{}, {},{}", A.replace("0.90", a), B.replace("8.5e-1", b), C.replace("0.1", c))
    };
    all_shapes(HitsFault::EqualScores, 0, &all, &with("0.90", "0.90", "0.90"));
    all_shapes(HitsFault::NanScores, 0, &all, &with("NaN", "NaN", "NaN"));
}

#[test]
fn what_was_written_last_is_missing() {
    all_shapes(HitsFault::Stale, 0, &format!("{A}, {B},{C}"), A);
    assert_eq!(edited(r#"{"result":{"points":[{"id":1,"payload":{}}]}}"#, HitsFault::Stale, 0), None);
}

#[test]
fn payloads_are_missing_with_their_names() {
    let after = format!(
        "{}, {},{C}",
        A.replace(", \"payload\": {\"t\": \"好\"}", ""),
        B.replace(",\"payload\":{}", "")
    );
    all_shapes(HitsFault::DropPayload, 0, &format!("{A}, {B},{C}"), &after);
}

#[test]
fn an_empty_page_is_the_last_one() {
    let scroll = r#"{"result":{"points":[{"id":1}],"next_page_offset":2},"status":"ok"}"#;
    assert_eq!(
        edited(scroll, HitsFault::Empty, 0).as_deref(),
        Some(r#"{"result":{"points":[],"next_page_offset":null},"status":"ok"}"#)
    );
}

#[test]
fn other_stores_have_their_hits_elsewhere() {
    for (body, how, after) in [
        (
            r#"{"matches":[{"id":"a","score":0.9,"metadata":{}}],"namespace":""}"#,
            HitsFault::DropPayload,
            r#"{"matches":[{"id":"a","score":0.9}],"namespace":""}"#,
        ),
        (
            r#"{"hits":{"total":{"value":2,"relation":"eq"},"max_score":1.0,"hits":[{"_score":1.0},{"_score":0.5}]}}"#,
            HitsFault::Empty,
            r#"{"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]}}"#,
        ),
        (
            r#"{"ids":[["a","b"]],"distances":[[0.1,0.2]],"documents":[["x","y"]],"metadatas":null}"#,
            HitsFault::Shuffle,
            r#"{"ids":[["b","a"]],"distances":[[0.2,0.1]],"documents":[["y","x"]],"metadatas":null}"#,
        ),
        (
            r#"{"ids":[["a","b"]],"distances":[[0.1,0.2]],"documents":[["x","y"]]}"#,
            HitsFault::EqualScores,
            r#"{"ids":[["a","b"]],"distances":[[0.1,0.1]],"documents":[["x","y"]]}"#,
        ),
        (
            r#"{"ids":[["a"]],"documents":[["x"]]}"#,
            HitsFault::DropPayload,
            r#"{"ids":[["a"]],"documents":null}"#,
        ),
        (r#"{"code":0,"data":[{"id":1,"distance":0.5}]}"#, HitsFault::Empty, r#"{"code":0,"data":[]}"#),
        (r#"{"data":{"Get":{"C":[{"t":1}]}}}"#, HitsFault::Empty, r#"{"data":{"Get":{"C":[]}}}"#),
    ] {
        assert_eq!(edited(body, how, 0).as_deref(), Some(after), "{how}");
    }
}

#[test]
fn r2_15_searches_in_one_request_and_records() {
    let msearch = r#"{"took":1,"responses":[{"hits":{"total":{"value":2},"max_score":1.0,"hits":[{"_score":1.0,"_source":{"a":1}},{"_score":0.5,"_source":{}}]},"status":200},{"hits":{"total":{"value":1},"max_score":0.7,"hits":[{"_score":0.7}]}}]}"#;
    let records = r#"{"result":{"hits":[{"_id":"a","_score":0.9,"fields":{"t":"x"}},{"_id":"b","_score":0.1,"fields":{}}]},"usage":{"read_units":1}}"#;
    for (body, how, after) in [
        (
            msearch,
            HitsFault::Empty,
            r#"{"took":1,"responses":[{"hits":{"total":{"value":0},"max_score":null,"hits":[]},"status":200},{"hits":{"total":{"value":0},"max_score":null,"hits":[]}}]}"#,
        ),
        (
            msearch,
            HitsFault::DropPayload,
            r#"{"took":1,"responses":[{"hits":{"total":{"value":2},"max_score":1.0,"hits":[{"_score":1.0},{"_score":0.5}]},"status":200},{"hits":{"total":{"value":1},"max_score":0.7,"hits":[{"_score":0.7}]}}]}"#,
        ),
        (records, HitsFault::Empty, r#"{"result":{"hits":[]},"usage":{"read_units":1}}"#),
        (
            records,
            HitsFault::DropPayload,
            r#"{"result":{"hits":[{"_id":"a","_score":0.9},{"_id":"b","_score":0.1}]},"usage":{"read_units":1}}"#,
        ),
        (
            records,
            HitsFault::EqualScores,
            r#"{"result":{"hits":[{"_id":"a","_score":0.9,"fields":{"t":"x"}},{"_id":"b","_score":0.9,"fields":{}}]},"usage":{"read_units":1}}"#,
        ),
    ] {
        assert_eq!(edited(body, how, 0).as_deref(), Some(after), "{how}");
    }
}

#[test]
fn what_has_no_hits_stays() {
    for body in [
        "{}",
        "[]",
        r#"{"result":null}"#,
        r#"{"result":{"status":"acknowledged"}}"#,
        r#"{"result":[]}"#,
        r#"{"data":[{"embedding":[1]}]}"#,
        r#"{"status":{"error":"Not found"}}"#,
    ] {
        for how in HitsFault::ALL {
            assert_eq!(edited(body, *how, 0), None, "{body} {how}");
        }
    }
    assert!(edit(b"<html>", HitsFault::Empty, 0, || 0.0).is_err());
}
