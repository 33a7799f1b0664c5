//! `POST /populate` and `/reset`.
use serde_json::{Value, json};

use crate::app::App;

const A: &str = r#"{"name":"a","listen":"127.0.0.1:1001","upstream":"x"}"#;
const B: &str = r#"{"name":"b","listen":"127.0.0.1:1002","upstream":"x"}"#;

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|proxy| proxy["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_is_missing_is_created() {
    let app = App::with_proxy().await;
    let answer = app.post("/populate", &format!("[{A},{B}] trailing")).await;
    assert_eq!(answer.status, 201);
    let json = answer.json();
    assert_eq!(names(&json["proxies"]), ["a", "b"]);
    assert_eq!(json.as_object().unwrap().len(), 1, "some clients read every key as a list of proxies");
    assert_eq!(app.get("/proxies").await.json().as_object().unwrap().len(), 3, "nothing is deleted");
}

#[tokio::test]
async fn what_is_so_already_is_left_alone() {
    let app = App::new();
    app.post("/populate", &format!("[{A}]")).await;
    app.post("/proxies/a/toxics", r#"{"type":"noop"}"#).await;
    app.post("/proxies/a", r#"{"enabled":false}"#).await;
    let before = app.get("/proxies/a").await.body;
    let same = r#"[{"name":"a","listen":"127.0.0.1:1001","upstream":"x","enabled":true,"toxics":[{"type":"latency"}]}]"#;
    assert_eq!(app.post("/populate", same).await.status, 201);
    assert_eq!(app.get("/proxies/a").await.body, before);
}

#[tokio::test]
async fn what_differs_is_replaced_with_its_toxics() {
    let app = App::new();
    app.post("/populate", &format!("[{A}]")).await;
    app.post("/proxies/a/toxics", r#"{"type":"noop"}"#).await;
    let other = r#"[{"name":"a","listen":"127.0.0.1:1009","upstream":"x","toxics":[]}]"#;
    let answer = app.post("/populate", other).await.json();
    assert_eq!(answer["proxies"][0]["listen"], "127.0.0.1:1009");
    assert_eq!(answer["proxies"][0]["toxics"], json!([]));
    let other = r#"[{"name":"a","listen":"127.0.0.1:1009","upstream":"y","toxics":[{"type":"latency"}]}]"#;
    let answer = app.post("/populate", other).await.json();
    assert_eq!(answer["proxies"][0]["toxics"][0]["name"], "latency_downstream");
}

#[tokio::test]
async fn a_disabled_proxy_s_address_is_not_even_read() {
    let app = App::new();
    let body = r#"[{"name":"a","listen":"bogus","upstream":"x","enabled":false}]"#;
    let answer = app.post("/populate", body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["proxies"][0]["listen"]), (201, &json!("bogus")));
}

#[tokio::test]
async fn it_stops_at_the_first_failure_and_says_what_was_done() {
    let app = App::new();
    let clash = r#"{"name":"c","listen":"127.0.0.1:1001","upstream":"x"}"#;
    let answer = app.post("/populate", &format!("[{A},{clash},{B}]")).await;
    assert_eq!(
        answer.body,
        concat!(
            r#"{"error":"listen tcp 127.0.0.1:1001: bind: address already in use","status":500,"proxies":["#,
            r#"{"name":"a","listen":"127.0.0.1:1001","upstream":"x","enabled":true,"toxics":[]}]}"#
        )
    );
    assert_eq!(answer.status, 500);
    assert_eq!(app.get("/proxies/b").await.status, 404);
}

#[tokio::test]
async fn nothing_is_touched_before_all_is_read() {
    let app = App::new();
    for bad in [
        r#"{"name":"b"}"#,
        "{}",
        "null",
        r#"{"name":7}"#,
        r#"{"name":"b","upstream":"x","toxics":[{"type":"nope"}]}"#,
    ] {
        let answer = app.post("/populate", &format!("[{A},{bad}]")).await;
        assert_eq!(answer.status, 400, "{bad}");
        assert_eq!(answer.json()["proxies"], Value::Null);
        assert_eq!(app.get("/proxies").await.body, "{}");
    }
}

#[tokio::test]
async fn of_duplicates_the_later_stays_and_both_are_answered() {
    let app = App::new();
    let other = r#"{"name":"a","listen":"127.0.0.1:1009","upstream":"x"}"#;
    let answer = app.post("/populate", &format!("[{A},{other}]")).await.json();
    assert_eq!(names(&answer["proxies"]), ["a", "a"]);
    assert_eq!(app.get("/proxies/a").await.json()["listen"], "127.0.0.1:1009");
}

#[tokio::test]
async fn nothing_to_do_is_an_empty_list() {
    for body in ["[]", "null"] {
        assert_eq!(App::new().post("/populate", body).await.body, r#"{"proxies":[]}"#);
    }
}

#[tokio::test]
async fn reset_enables_all_and_removes_every_toxic() {
    let app = App::new();
    app.post("/populate", &format!("[{A},{B}]")).await;
    app.post("/proxies/a/toxics", r#"{"type":"noop"}"#).await;
    app.post("/proxies/b", r#"{"enabled":false}"#).await;
    assert_eq!(app.post("/reset", "").await.status, 204);
    let all = app.get("/proxies").await.json();
    assert_eq!((&all["a"]["toxics"], &all["b"]["enabled"]), (&json!([]), &json!(true)));
}

#[tokio::test]
async fn reset_goes_on_past_a_failure() {
    let app = App::new();
    app.post("/populate", &format!("[{A},{B}]")).await;
    app.post("/proxies/a", r#"{"enabled":false,"listen":"127.0.0.1:1002"}"#).await;
    app.post("/proxies/b/toxics", r#"{"type":"noop"}"#).await;
    let (status, message) = app.post("/reset", "").await.error();
    assert_eq!((status, message.as_str()), (500, "listen tcp 127.0.0.1:1002: bind: address already in use"));
    assert_eq!(app.get("/proxies/b").await.json()["toxics"], json!([]));
}
