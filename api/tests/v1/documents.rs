//! What the API tells of itself: the catalogue, presets, the OpenAPI document, misses, probes.
use aconite_api::Security;
use serde_json::{Value, json};

use super::{problem, with_proxy};
use crate::app::App;

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
    // One more for the names of scenarios.
    assert_eq!(toxic["oneOf"].as_array().unwrap().len(), types["toxics"].as_array().unwrap().len() + 1);
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
