//! Real bug reports about JSON bodies, each turned into bytes on a socket. Named by case.
use serde_json::{Value, json};

use crate::support::{Heard, Origin, Proxied, dechunked};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// An edit of the request.
fn edit(path: &str, value: &Value) -> Value {
    json!({"type": "edit", "stream": "upstream", "attributes": {"ops": [{"path": path, "set": value}]}})
}

/// What the upstream was sent, and what became of the toxic.
async fn sent(body: &str, toxic: Option<Value>) -> (String, aconite::model::Exchange) {
    let origin = Origin::answering(OK).await;
    let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
    if let Some(toxic) = toxic {
        proxied.add(toxic).await;
    }
    let heard = proxied.raw(post("/v1/chat/completions", body)).await;
    assert_eq!((heard.status(), heard.body()), (200, b"ok".to_vec()), "{body}: {}", heard.text());
    let received = origin.received();
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body.as_bytes()) } else { body.as_bytes().to_vec() };
    let received = String::from_utf8(body).unwrap();
    (received, proxied.journal().await.remove(0))
}

#[tokio::test]
async fn json_01_03_and_05_only_the_edited_value_changes() {
    for (case, body, path, value, edited) in [
        (
            "JSON-01",
            r#"{"model": "m",  "response_format":{"json_schema":{"schema":{"properties":{"zebra":{},"apple":{},"m\u0061ngo":{}}}}}}"#,
            "$.model",
            json!("n"),
            r#"{"model": "n",  "response_format":{"json_schema":{"schema":{"properties":{"zebra":{},"apple":{},"m\u0061ngo":{}}}}}}"#,
        ),
        (
            "JSON-03",
            r#"{"vector":[-0.086097434,0.033505224,1.0,1e2,-0.0,1E400]}"#,
            "$.vector[1]",
            json!(7),
            r#"{"vector":[-0.086097434,7,1.0,1e2,-0.0,1E400]}"#,
        ),
        (
            "JSON-05",
            r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"m"}"#,
            "$.model",
            json!("n"),
            r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"n"}"#,
        ),
    ] {
        assert_eq!(sent(body, None).await.0, body, "{case}");
        let (received, exchange) = sent(body, Some(edit(path, &value))).await;
        assert_eq!(received, edited, "{case}");
        assert!(exchange.toxics[0].struck, "{case}: {:?}", exchange.toxics);
    }
}

#[tokio::test]
async fn json_04_what_is_not_strict_json_passes_and_the_journal_says_so() {
    for body in [r#"{"x":NaN,"y":-Infinity}"#, r#"{"x":1,}"#] {
        let (received, exchange) = sent(body, Some(edit("$.x", &json!(1)))).await;
        assert_eq!(received, body);
        let toxic = &exchange.toxics[0];
        assert_eq!((toxic.struck, toxic.reason.as_deref()), (false, Some("not_json")), "{body}: {toxic:?}");
    }
    let body = r#"{"vector":[1.79e308,0],"score":null}"#;
    let (received, _) = sent(body, Some(edit("$.score", &json!(1)))).await;
    assert_eq!(received, r#"{"vector":[1.79e308,0],"score":1}"#);
}

#[tokio::test]
async fn json_05_and_07_bodies_are_matched_as_clients_read_them() {
    let lone = r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"m"}"#;
    let twice = r#"{"model":"a","stream":false,"model":"b","stream":true}"#;
    for (case, body, model, matches) in [
        ("JSON-05", lone, "m", true),
        ("JSON-07, the last one counts", twice, "b", true),
        ("JSON-07, the first one does not", twice, "a", false),
    ] {
        let mark = json!({"type": "headers", "stream": "upstream", "match": {"model": model}, "attributes": {"set": {"x-met": "1"}}});
        let origin = Origin::answering(OK).await;
        let proxied = Proxied::with(json!({"upstream": origin.url(), "capture": true})).await;
        proxied.add(mark).await;
        assert_eq!(proxied.raw(post("/v1/chat/completions", body)).await.status(), 200, "{case}");
        assert_eq!(origin.received().contains("x-met: 1"), matches, "{case}: {}", origin.received());
        assert!(origin.received().ends_with(body), "{case}: {}", origin.received());
        assert_eq!(proxied.journal().await[0].request_body.as_deref(), Some(body), "{case}");
    }
}

/// An answer with a toxic at work on it, and what the journal says of that.
async fn answered(path: &str, body: &str, toxic: Value) -> (Heard, aconite::model::Strike) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let origin = Origin::answering(answer).await;
    let proxied = Proxied::http(&origin).await;
    proxied.add(toxic).await;
    let heard = proxied.raw(post(path, r#"{"model":"m"}"#)).await;
    assert_eq!(heard.status(), 200, "{body}: {}", heard.text());
    let strike = proxied.journal().await.remove(0).toxics.remove(0);
    (heard, strike)
}

fn embedding(how: &str) -> Value {
    json!({"type": "embedding", "attributes": {"how": how}})
}

/// Two vectors among numbers that are nobody's business.
const EMBEDDINGS: &str = r#"{ "object":"list","usage":{"prompt_tokens":1.0,"total_tokens":1e0},"data":[{"index":0,"embedding":[-0.086097434, 0.033505224,1.0 ,1e2,-0.0]},
  {"index":-0.0,"embedding":[0.50,1E-1,2.000]}],"model":"\u597d" }"#;

/// The texts of the numbers of both vectors, and everything else.
fn taken_apart(body: &str) -> (Vec<Vec<String>>, String) {
    let mut rest = body;
    let (mut vectors, mut around) = (Vec::new(), String::new());
    while let Some((before, after)) = rest.split_once(r#""embedding":["#) {
        let (numbers, after) = after.split_once(']').unwrap();
        vectors.push(numbers.split(',').map(|number| number.trim().to_owned()).collect());
        around.push_str(before);
        rest = after;
    }
    around.push_str(rest);
    (vectors, around)
}

#[tokio::test]
async fn json_03_a_spoilt_vector_changes_its_chosen_numbers_alone() {
    let (given, around) = taken_apart(EMBEDDINGS);
    for (how, changed) in [("noise", [5, 3]), ("nan", [1, 1]), ("zero", [5, 3]), ("wrong_dimension", [0, 0])]
    {
        let (heard, strike) = answered("/v1/embeddings", EMBEDDINGS, embedding(how)).await;
        assert!(strike.struck, "{how}: {strike:?}");
        let body = String::from_utf8(heard.body()).unwrap();
        let (spoilt, rest) = taken_apart(&body);
        assert_eq!(rest, around, "{how}");
        for (number, (vector, before)) in spoilt.iter().zip(&given).enumerate() {
            let missing = usize::from(how == "wrong_dimension");
            assert_eq!(vector.len(), before.len() - missing, "{how}: {body}");
            let differ = vector.iter().zip(before).filter(|(now, then)| now != then).count();
            // A number that is what it is to become keeps its spelling.
            assert!(differ <= changed[number] && (differ > 0 || changed[number] == 0), "{how}: {body}");
            match how {
                "nan" => assert_eq!(vector.iter().filter(|number| *number == "NaN").count(), 1, "{body}"),
                "noise" => assert!(vector.iter().all(|number| number.parse::<f64>().unwrap().is_finite())),
                "zero" => assert!(vector.iter().all(|number| number.parse::<f64>().unwrap() == 0.0)),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn json_04_answers_that_toxics_cannot_read_pass_and_the_journal_says_so() {
    let set = || json!({"type": "edit", "attributes": {"ops": [{"path": "$.x", "set": 1}]}});
    let hits = || json!({"type": "hits", "attributes": {"how": "empty"}});
    let search = "/collections/docs/points/search";
    for (path, body, toxic, reason) in [
        ("/v1/x", r#"{"x":NaN,"y":-Infinity}"#, set(), "not_json"),
        ("/v1/embeddings", r#"{"data":[{"embedding":[NaN, 1.0]}]}"#, embedding("zero"), "not_json"),
        ("/v1/embeddings", r#"{"score":null}"#, embedding("zero"), "no_vectors"),
        (search, r#"{"result":[{"id":1,"score":NaN}]}"#, hits(), "not_json"),
    ] {
        let (heard, strike) = answered(path, body, toxic).await;
        assert_eq!(String::from_utf8(heard.body()).unwrap(), body);
        assert_eq!((strike.struck, strike.reason.as_deref()), (false, Some(reason)), "{body}: {strike:?}");
    }
    // What is JSON is edited beside its odd values, which stay as they are spelt.
    for (body, edited) in [
        (r#"{"x":0,"vector":[1.79e308,0]}"#, r#"{"x":1,"vector":[1.79e308,0]}"#),
        (r#"{"x":0 ,"score":null}"#, r#"{"x":1 ,"score":null}"#),
    ] {
        let (heard, strike) = answered("/v1/x", body, set()).await;
        assert_eq!((String::from_utf8(heard.body()).unwrap().as_str(), strike.struck), (edited, true));
    }
}

#[tokio::test]
async fn json_04_scores_that_are_no_numbers_can_be_injected() {
    let body = r#"{"result":[{"id":1,"version":3,"score":0.90,"payload":{"score":0.5}},{"id":2,"version":3,"score":0.8}],"status":"ok","time":1e-3}"#;
    let toxic = json!({"type": "hits", "attributes": {"how": "nan_scores"}});
    let (heard, strike) = answered("/collections/docs/points/search", body, toxic).await;
    assert!(strike.struck, "{strike:?}");
    let spoilt = String::from_utf8(heard.body()).unwrap();
    // Only the hits' own scores change, and only to what clients have really been sent.
    let nan = body.replace("0.90", "NaN").replace("0.8", "NaN");
    let null = body.replace("0.90", "null").replace("0.8", "null");
    assert!(spoilt == nan || spoilt == null, "{spoilt}");
}
