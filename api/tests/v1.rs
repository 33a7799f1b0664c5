//! The whole product under `/v1`.
use std::sync::{Arc, atomic::Ordering};

use aconite_api::{Security, model};
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::app::{Answer, App, HANG};

const PROXY: &str = r#"{"name":"p","listen":"127.0.0.1:1000","upstream":"http://127.0.0.1:2000","exclusive":true,
    "toxics":[{"type":"latency","attributes":{"latency":"5s"}},{"type":"corrupt","stream":"upstream","toxicity":0.1}]}"#;

async fn with_proxy() -> App {
    let app = App::new();
    assert_eq!(app.post("/v1/proxies", PROXY).await.status, 201);
    app
}

/// Status, code, path and hint of an error.
fn problem(answer: &Answer) -> (u16, String, String, String) {
    let error = &answer.json()["error"];
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    assert!(!text("message").is_empty(), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    (answer.status.as_u16(), text("code"), text("path"), text("hint"))
}

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
async fn misses_say_so() {
    let app = with_proxy().await;
    assert_eq!(problem(&app.get("/v1/nope").await).0, 404);
    assert_eq!(problem(&app.get("/v1").await).0, 404);
    for (method, path) in [("POST", "/v1/proxies/p"), ("PUT", "/v1/chaos"), ("DELETE", "/v1/apply")] {
        let answer = app.call(method, path, "").await;
        assert_eq!((problem(&answer).0, problem(&answer).1.as_str()), (405, "method_not_allowed"));
        assert!(answer.header("allow").is_some_and(|allow| !allow.is_empty()), "{method} {path}");
    }
    let allow = app.call("POST", "/v1/proxies/p", "").await;
    for method in ["GET", "PATCH", "PUT", "DELETE"] {
        assert!(allow.header("allow").unwrap().contains(method));
    }
    for path in ["/v1/exchanges/1", "/v1/exchanges/x", "/v1/ca.pem", "/v1/toxics/nope", "/v1/proxies/%ff"] {
        assert_eq!(problem(&app.get(path).await).0, 404, "{path}");
    }
    assert_eq!(problem(&app.call("DELETE", "/v1/connections/1", "").await).0, 404);
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
async fn the_catalogue_explains_every_type() {
    let app = App::new();
    let types = app.get("/v1/toxics").await.json();
    for each in types["toxics"].as_array().unwrap() {
        let kind = each["type"].as_str().unwrap();
        assert_eq!(app.get(&format!("/v1/toxics/{kind}")).await.json(), *each);
        assert!(!each["summary"].as_str().unwrap().is_empty() && each["schema"].is_object(), "{each}");
        assert!(each["command"].as_str().unwrap().starts_with(&format!("aconite toxic add PROXY {kind}")));
        let example = json!({"name": kind, "upstream": "x:1", "toxics": [each["example"]]}).to_string();
        assert_eq!(app.post("/v1/proxies", &example).await.status, 201, "{example}");
    }
    let latency = app.get("/v1/toxics/latency").await.json();
    assert_eq!(latency["level"], "bytes");
    assert_eq!(latency["command"], "aconite toxic add PROXY latency latency=200 jitter=50");
    assert!(problem(&app.get("/v1/toxics/latncy").await).3.contains("`latency`"));
}

#[tokio::test]
async fn presets_show_how_providers_word_a_cause() {
    let app = App::new();
    let all = app.get("/v1/presets").await.json();
    for preset in all["presets"].as_array().unwrap() {
        assert!(!preset["description"].as_str().unwrap().is_empty(), "{preset}");
    }
    let one = app.get("/v1/presets?cause=overloaded&dialect=anthropic").await.json();
    let preset = &one["presets"][0];
    assert_eq!(
        (&preset["cause"], &preset["renders"]["anthropic"]["status"]),
        (&json!("overloaded"), &json!(529))
    );
    assert_eq!(preset["renders"].as_object().unwrap().len(), 1);
    let alias = app.get("/v1/presets?cause=rate_limit").await.json();
    assert_eq!(alias["presets"][0]["aliases"], json!(["rate_limit"]));
    assert_eq!(problem(&app.get("/v1/presets?cause=overload").await).3, "did you mean `overloaded`?");
}

#[tokio::test]
async fn the_switch_says_who_and_why() {
    let app = with_proxy().await;
    let answer = app.post("/v1/chaos/disable", r#"{"operator":"ann","reason":"lunch"}"#).await.json();
    assert_eq!(
        (&answer["enabled"], &answer["by"], &answer["reason"]),
        (&json!(false), &json!("ann"), &json!("lunch"))
    );
    assert_eq!(answer["active_rules"], 2);
    assert_eq!(
        answer["rules"][0],
        json!({"proxy": "p", "id": "corrupt_upstream", "type": "corrupt", "probability": 0.1})
    );
    assert_eq!(app.get("/v1/chaos").await.json(), answer);
    assert_eq!(app.post("/v1/chaos/enable", "").await.json()["enabled"], true);
    app.control.is_production.store(true, Ordering::Relaxed);
    assert_eq!(problem(&app.post("/v1/chaos/enable", "{}").await).0, 403);
}

fn exchange(id: u64, status: u16) -> model::Exchange {
    model::Exchange { id, proxy: "p".to_owned(), status: Some(status), ..model::Exchange::default() }
}

#[tokio::test]
async fn the_journal_is_read_by_pages_and_filters() {
    let app = App::new();
    app.control.record(exchange(1, 200));
    app.control.record(exchange(2, 429));
    let ids = async |path: &str| {
        let json = app.get(path).await.json();
        let ids = json["exchanges"].as_array().unwrap().iter().map(|each| each["id"].as_u64().unwrap());
        (ids.collect::<Vec<_>>(), json["next"].as_u64().unwrap())
    };
    assert_eq!(ids("/v1/exchanges").await, (vec![1, 2], 2));
    assert_eq!(ids("/v1/exchanges?status=429&proxy=p").await, (vec![2], 2));
    assert_eq!(ids("/v1/exchanges?since=2").await, (vec![], 2));
    assert_eq!(app.get("/v1/exchanges/2").await.json()["status"], 429);
    assert_eq!(app.call("DELETE", "/v1/exchanges", "").await.status, 204);
    assert_eq!(ids("/v1/exchanges").await, (vec![], 0));
}

#[tokio::test]
async fn the_journal_can_be_waited_for() {
    let app = Arc::new(App::new());
    let waiting = tokio::spawn({
        let app = Arc::clone(&app);
        async move { app.get("/v1/exchanges?wait=1").await.json() }
    });
    timeout(HANG, app.control.waits.notified()).await.expect("the journal is waited for");
    assert_eq!(app.get("/v1/exchanges?wait=0").await.status, 200, "nobody else waits");
    app.control.record(exchange(1, 200));
    app.control.settled.notify_one();
    assert_eq!(waiting.await.unwrap()["exchanges"][0]["id"], 1);
}

#[tokio::test]
async fn connections_are_listed_and_reset() {
    let app = App::new();
    app.control.connect(model::Connection {
        id: 7,
        proxy: "p".to_owned(),
        peer: "127.0.0.1:5".to_owned(),
        upstream: None,
        bytes_in: 1,
        bytes_out: 2,
        age_ms: 3,
        toxics: vec!["t".to_owned()],
    });
    assert_eq!(app.get("/v1/connections").await.json()["connections"][0]["id"], 7);
    assert_eq!(app.call("DELETE", "/v1/connections/7", "").await.status, 204);
    assert_eq!(app.get("/v1/connections").await.json(), json!({"connections": []}));
}

#[tokio::test]
async fn the_feed_tells_what_happens() {
    let app = App::new();
    let request = Request::get("/v1/events").header("host", "localhost").body(Body::empty()).unwrap();
    let response = app.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut next =
        async || String::from_utf8(body.frame().await.unwrap().unwrap().into_data().unwrap().into()).unwrap();
    assert_eq!(next().await, ": live\n\n");
    app.control.happen("toxic.struck", json!({"toxic": "t"}));
    assert_eq!(
        next().await,
        concat!(
            "event: toxic.struck\n",
            r#"data: {"event":"toxic.struck","at":"2026-11-30T00:00:00Z","detail":{"toxic":"t"}}"#,
            "\n\n"
        )
    );
    for number in 0..20 {
        app.control.happen("proxy", json!(number));
    }
    assert_eq!(next().await, "event: missed\ndata: {\"missed\":4}\n\n");
    assert!(next().await.contains(r#""detail":4"#));
}

#[tokio::test]
async fn probes_need_no_token_and_tell_nothing() {
    let app = App::with(Security::token("s3cret"));
    assert_eq!(app.get("/healthz").await.body, "ok\n");
    assert_eq!(app.get("/readyz").await.status, 503);
    let page = app.get("/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(
        !page.body.contains("http://") && !page.body.contains("https://"),
        "the page fetches from elsewhere"
    );
    for path in ["/v1/proxies", "/proxies"] {
        let answer = app.get(path).await;
        assert_eq!((answer.error().0, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        let answer = app.call_with("GET", path, "", &[("authorization", "Bearer s3cret")]).await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(
        app.call_with("GET", "/proxies", "", &[]).await.header("x-toxiproxy-request-id").map(str::len),
        Some(20)
    );
}

/// The document's paths are the router's, for both are made of one table; this asks the router itself.
#[tokio::test]
async fn the_openapi_document_has_every_route_and_no_other() {
    let app = App::new();
    let document = app.get("/v1/openapi.json").await.json();
    let mut methods = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let place = path.replace(['{', '}'], "");
        for method in ["get", "post", "put", "patch", "delete"] {
            if (path, method) == (&"/v1/events".to_owned(), "get") {
                continue;
            }
            let answer = app.call(&method.to_uppercase(), &place, "").await;
            let is_routed = answer.status != 405 && !answer.body.contains("page not found");
            assert_eq!(is_routed, operations.get(method).is_some(), "{method} {path}: {answer:?}");
            methods += usize::from(is_routed);
        }
    }
    assert!(methods >= 28, "{methods}");
}

#[tokio::test]
async fn the_openapi_document_knows_every_toxic() {
    let document = App::new().get("/v1/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    let toxic = &schemas["ToxicSpec"];
    let types = App::new().get("/v1/toxics").await.json();
    assert_eq!(toxic["oneOf"].as_array().unwrap().len(), types["toxics"].as_array().unwrap().len());
    assert_eq!(schemas["Toxic_latency"]["properties"]["type"]["const"], "latency");
    assert_eq!(schemas["Toxic_latency"]["properties"]["attributes"]["properties"]["latency"]["x-unit"], "ms");
    assert_eq!(
        schemas["ProxySpec"]["properties"]["toxics"]["items"]["$ref"],
        "#/components/schemas/ToxicSpec"
    );
    let text = document.to_string();
    for reference in text.split(r##""$ref":"#/"##).skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(
            !document.pointer(&format!("/{reference}")).is_none_or(Value::is_null),
            "{reference} leads nowhere"
        );
    }
    let query = &document["paths"]["/v1/exchanges"]["get"]["parameters"];
    assert!(query.as_array().unwrap().iter().any(|parameter| parameter["name"] == "wait"));
}
