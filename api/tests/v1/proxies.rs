//! Proxies and their toxics.
use serde_json::{Value, json};

use super::{PROXY, problem, with_proxy};
use crate::app::App;

#[tokio::test]
async fn a_proxy_is_created_with_its_toxics() {
    let app = App::new();
    let answer = app.post("/v1/proxies", PROXY).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, Some("/v1/proxies/p")));
    let proxy = answer.json();
    assert_eq!(proxy["toxics"][0]["name"], "corrupt_upstream");
    assert_eq!(proxy["toxics"][1]["attributes"], json!({"latency": 5000, "jitter": 0}));
    assert_eq!(proxy["exclusive"], true);
    assert!(answer.body.contains(r#""toxicity":0.1"#), "a 32-bit float is not widened: {}", answer.body);
    assert_eq!(app.get("/v1/proxies/p").await.json(), proxy);
    assert_eq!(app.get("/v1/proxies").await.json(), json!({"proxies": [proxy]}));
}

#[tokio::test]
async fn complaints_say_where_and_what_to_do() {
    let app = with_proxy().await;
    let create = "/v1/proxies";
    let add = "/v1/proxies/p/toxics";
    for (path, body, expected) in [
        (create, r#"{"nam":"a"}"#, (400, "invalid", "nam", "did you mean `name`?")),
        (create, r#"{"upstream":"x:1"}"#, (400, "invalid", "name", "")),
        (create, r#"{"name":"a"}"#, (400, "invalid", "upstream", "")),
        (create, r#"{"name":"a","upstream":1}"#, (400, "invalid", "upstream", "")),
        (
            create,
            r#"{"name":"a","upstream":"x:1","listen":"80"}"#,
            (400, "invalid", "listen", "write host:port; port 0 picks a free one"),
        ),
        (create, r#"{"name":"p","upstream":"x:1"}"#, (409, "exists", "name", "")),
        (
            create,
            r#"{"name":"q","upstream":"x:1","listen":"127.0.0.1:1000"}"#,
            (409, "listen", "listen", "choose another address; port 0 picks a free port"),
        ),
        (
            create,
            r#"{"name":"q","upstream":"x:1","toxics":[{"type":"noop"},{"type":"latency","attributes":{"latncy":1}}]}"#,
            (400, "invalid", "toxics[1].attributes.latncy", "did you mean `latency`?"),
        ),
        (
            create,
            r#"{"name":"q","upstream":"x:1","toxics":[{"type":"noop"},{"type":"noop"}]}"#,
            (400, "invalid", "toxics[1].name", ""),
        ),
        (add, r#"{"type":"latency","toxicity":1.5}"#, (400, "invalid", "toxicity", "")),
        (
            add,
            r#"{"type":"latency","attributes":{"latency":-1}}"#,
            (400, "invalid", "attributes.latency", ""),
        ),
        (
            add,
            r#"{"type":"latency","strem":"upstream"}"#,
            (400, "invalid", "strem", "did you mean `stream`?"),
        ),
        (add, r#"{"type":"latency","stream":"up"}"#, (400, "invalid", "stream", "did you mean `upstream`?")),
        (
            add,
            r#"{"type":"latency","match":{"pth":"/v1"}}"#,
            (400, "invalid", "match.pth", "did you mean `path`?"),
        ),
        (add, r#"{"type":"latency"}"#, (409, "exists", "name", "")),
        ("/v1/proxies/z/toxics", "{}", (404, "not_found", "", "")),
        ("/v1/chaos/enable", r#"{"why":"x"}"#, (400, "invalid", "why", "")),
    ] {
        let answer = app.post(path, body).await;
        let (status, code, at, hint) = problem(&answer);
        let found = (status, code.as_str(), at.as_str(), hint.as_str());
        if expected.3.is_empty() {
            assert_eq!(
                (found.0, found.1, found.2),
                (expected.0, expected.1, expected.2),
                "{body}: {answer:?}"
            );
        } else {
            assert_eq!(found, expected, "{body}: {answer:?}");
        }
    }
    let (status, code, at, hint) = problem(&app.post(add, r#"{"type":"latncy"}"#).await);
    assert_eq!((status, code.as_str(), at.as_str()), (400, "unknown_type", "type"));
    assert!(hint.contains("`latency`"), "{hint}");
    assert!(app.get("/v1/proxies/q").await.status == 404, "nothing is half created");
    let unclear = app.get("/v1/exchanges?statu=1").await;
    assert_eq!(problem(&unclear).3, "did you mean `status`?");
}

#[tokio::test]
async fn patch_merges_and_put_replaces() {
    let app = with_proxy().await;
    let patched = app.call("PATCH", "/v1/proxies/p", r#"{"enabled":false,"exclusive":null}"#).await.json();
    assert_eq!((&patched["enabled"], &patched["exclusive"]), (&json!(false), &Value::Null));
    assert_eq!(patched["toxics"].as_array().unwrap().len(), 2, "what is not named stays");
    assert_eq!(patched["toxics"][0]["toxicity"], 0.1);

    let put =
        app.call("PUT", "/v1/proxies/p", r#"{"upstream":"x:1","listen":"127.0.0.1:1005"}"#).await.json();
    assert_eq!((&put["name"], &put["enabled"], &put["toxics"]), (&json!("p"), &json!(true), &json!([])));
    for method in ["PATCH", "PUT"] {
        let answer = app.call(method, "/v1/proxies/p", r#"{"name":"q","upstream":"x:1"}"#).await;
        assert_eq!((problem(&answer).0, problem(&answer).2.as_str()), (400, "name"));
        assert_eq!(app.call(method, "/v1/proxies/q", "{bad").await.status, 404, "who is asked before what");
    }
    let answer = app.call("PATCH", "/v1/proxies/p", r#"{"enbled":true}"#).await;
    assert_eq!(problem(&answer).3, "did you mean `enabled`?");
    assert_eq!(app.call("DELETE", "/v1/proxies/p", "").await.status, 204);
    assert_eq!(app.call("DELETE", "/v1/proxies/p", "").await.status, 404);
}

#[tokio::test]
async fn toxics_are_added_changed_and_removed() {
    let app = with_proxy().await;
    let body =
        r#"{"name":"a/b","type":"latency","match":{"path":"/v1/*"},"budget":{"times":3},"enabled":false}"#;
    let answer = app.post("/v1/proxies/p/toxics", body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["budget"]["times"]), (201, &json!(3)));
    let path = "/v1/proxies/p/toxics/a%2Fb";
    assert_eq!(app.get(path).await.json(), answer.json());

    let patched =
        app.call("PATCH", path, r#"{"attributes":{"latency":7},"match":null,"enabled":true}"#).await.json();
    assert_eq!(patched["attributes"], json!({"latency": 7, "jitter": 0}));
    assert_eq!(
        (&patched["match"], &patched["enabled"]),
        (&Value::Null, &Value::Null),
        "defaults are left out"
    );

    let put = app.call("PUT", path, r#"{"attributes":{"jitter":1}}"#).await.json();
    assert_eq!((&put["attributes"], &put["budget"]), (&json!({"latency": 0, "jitter": 1}), &Value::Null));
    for (body, field) in
        [(r#"{"name":"c"}"#, "name"), (r#"{"type":"noop"}"#, "type"), (r#"{"stream":"upstream"}"#, "stream")]
    {
        for method in ["PATCH", "PUT"] {
            assert_eq!(problem(&app.call(method, path, body).await).2, field, "{method} {body}");
        }
    }
    assert_eq!(app.call("DELETE", path, "").await.status, 204);
    assert_eq!(app.get(path).await.status, 404);
    assert_eq!(app.call("DELETE", "/v1/proxies/p/toxics", "").await.status, 204);
    assert_eq!(app.get("/v1/proxies/p/toxics").await.json(), json!({"toxics": []}));
}

#[tokio::test]
async fn tests_share_a_proxy_by_their_ids() {
    let app = with_proxy().await;
    let add = async |query: &str, name: &str| {
        let body = json!({"name": name, "type": "delay", "attributes": {"delay": 5}}).to_string();
        app.post(&format!("/v1/proxies/p/toxics{query}"), &body).await
    };
    assert_eq!(add("?test_id=t1", "one").await.json()["match"]["test_id"], "t1");
    assert_eq!(add("?test_id=t2", "two").await.status, 201);
    let names = async |path: &str, key: Option<usize>| {
        let json = app.get(path).await.json();
        let toxics =
            key.map_or_else(|| json["toxics"].clone(), |index| json["proxies"][index]["toxics"].clone());
        let toxics = toxics.as_array().unwrap().clone();
        toxics.iter().map(|toxic| toxic["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("/v1/proxies/p/toxics?test_id=t1", None).await, ["one"]);
    assert_eq!(names("/v1/proxies/p?test_id=t2", None).await, ["two"]);
    assert_eq!(names("/v1/proxies?test_id=t2", Some(0)).await, ["two"]);
    assert_eq!(app.call("DELETE", "/v1/proxies/p/toxics?test_id=t1", "").await.status, 204);
    let left = names("/v1/proxies/p/toxics", None).await;
    assert_eq!(left, ["corrupt_upstream", "latency_downstream", "two"]);
    assert_eq!(problem(&app.get("/v1/proxies?testid=t2").await).3, "did you mean `test_id`?");
}

#[tokio::test]
async fn apply_is_all_or_nothing() {
    let app = with_proxy().await;
    let body = r#"{"proxies":[{"name":"a","upstream":"x:1"},{"name":"b","upstream":"x:1","toxics":[{"type":"nop"}]}]}"#;
    let answer = app.post("/v1/apply", body).await;
    assert_eq!((problem(&answer).0, problem(&answer).2.as_str()), (400, "proxies[1].toxics[0].type"));
    let body = r#"{"proxies":[{"name":"a","upstream":"x:1","toxics":[{"type":"noop","toxicity":2}]}]}"#;
    assert_eq!(problem(&app.post("/v1/apply", body).await).2, "proxies[0].toxics[0].toxicity");
    let body = r#"{"proxies":[{"name":"a","upstream":"x:1"}],"prune":true,"dry_run":true}"#;
    let changes =
        json!({"changes": [{"action": "create", "proxy": "a"}, {"action": "delete", "proxy": "p"}]});
    assert_eq!(app.post("/v1/apply", body).await.json(), changes);
    assert_eq!(app.get("/v1/proxies/a").await.status, 404);
    assert_eq!(app.post("/v1/apply", &body.replace(r#","dry_run":true"#, "")).await.json(), changes);
    assert_eq!(app.get("/v1/proxies/a").await.status, 200);
    assert_eq!(app.get("/v1/proxies/p").await.status, 404);
}

#[tokio::test]
async fn passwords_are_not_shown_and_survive_being_sent_back() {
    let app = App::new();
    let body = r#"{"name":"f","protocol":"forward","listen":"127.0.0.1:1","credentials":"ann:s3cret"}"#;
    let answer = app.post("/v1/proxies", body).await;
    assert_eq!(answer.json()["credentials"], "ann:***");
    let shown = app.get("/v1/proxies/f").await.body;
    let put = app.call("PUT", "/v1/proxies/f", &shown).await;
    let patched = app.call("PATCH", "/v1/proxies/f", r#"{"in_band":true}"#).await;
    for answer in [&answer, &put, &patched, &app.get("/v1/proxies").await, &app.get("/proxies").await] {
        assert!(answer.status.is_success() && !answer.body.contains("s3cret"), "{answer:?}");
    }
    assert_eq!(app.control.whole("f").credentials.as_deref(), Some("ann:s3cret"));
}

#[tokio::test]
async fn a_missing_name_is_answered_with_the_one_that_was_probably_meant() {
    let app = App::new();
    let proxy = json!({"name": "openai", "upstream": "x:1", "toxics": [{"type": "latency", "name": "slow"}]});
    assert_eq!(app.post("/v1/proxies", &proxy.to_string()).await.status, 201);
    for (path, hint) in [
        ("/v1/proxies/opneai", "did you mean `openai`?"),
        ("/v1/proxies/open", "did you mean `openai`?"),
        ("/v1/proxies/openai/toxics/solw", "did you mean `slow`?"),
        ("/v1/proxies/redis", ""),
        ("/v1/proxies/openai/toxics/cut", ""),
    ] {
        for method in ["GET", "DELETE"] {
            let (status, _, _, said) = problem(&app.call(method, path, "").await);
            assert_eq!((status, said.as_str()), (404, hint), "{method} {path}");
        }
    }
}
