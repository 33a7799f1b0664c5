//! Toxiproxy's API: routes, errors, decoding, and the faults of its own that are not copied.
use serde_json::json;

use crate::app::App;

const LATENCY: &str = r#"{"type":"latency","attributes":{"latency":100}}"#;

#[tokio::test]
async fn every_route_answers_with_toxiproxy_s_status() {
    let app = App::new();
    let create = r#"{"name":"p","upstream":"127.0.0.1:2000"}"#;
    for (method, path, body, status) in [
        ("GET", "/proxies", "", 200),
        ("POST", "/proxies", create, 201),
        ("POST", "/populate", "[]", 201),
        ("GET", "/proxies/p", "", 200),
        ("POST", "/proxies/p", "{}", 200),
        ("PATCH", "/proxies/p", "{}", 200),
        ("GET", "/proxies/p/toxics", "", 200),
        ("POST", "/proxies/p/toxics", LATENCY, 200),
        ("GET", "/proxies/p/toxics/latency_downstream", "", 200),
        ("POST", "/proxies/p/toxics/latency_downstream", "{}", 200),
        ("PATCH", "/proxies/p/toxics/latency_downstream", "{}", 200),
        ("DELETE", "/proxies/p/toxics/latency_downstream", "", 204),
        ("DELETE", "/proxies/p", "", 204),
        ("POST", "/reset", "ignored", 204),
        ("GET", "/version", "", 200),
        ("GET", "/metrics", "", 200),
        ("PURGE", "/metrics", "", 200),
        ("GET", "/proxies?pretty=1", "", 200),
    ] {
        let answer = app.call(method, path, body).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.body);
        assert_eq!(answer.header("x-toxiproxy-request-id").map(str::len), Some(20), "{method} {path}");
    }
}

#[tokio::test]
async fn misses_are_json_and_carry_no_request_id() {
    let app = App::with_proxy().await;
    for (method, path, status) in [
        ("GET", "/nope", 404),
        ("GET", "/proxies/", 404),
        ("GET", "/proxies/p/", 404),
        ("GET", "/proxies/p/toxics/t/x", 404),
        ("PUT", "/proxies/p", 405),
        ("DELETE", "/proxies", 405),
        ("OPTIONS", "/proxies", 405),
        ("GET", "/reset", 405),
        ("GET", "/populate", 405),
    ] {
        let answer = app.call(method, path, "").await;
        assert_eq!(answer.json()["status"], status, "{method} {path}");
        assert_eq!(answer.error().0, status, "{method} {path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-toxiproxy-request-id"), None);
    }
    for path in ["/proxies", "/proxies/p", "/proxies/p/toxics", "/version"] {
        assert_eq!(app.call("HEAD", path, "").await.status, 405, "{path}");
        // What is refused is not listed.
        for method in ["HEAD", "PUT"] {
            let refused = app.call(method, path, "").await;
            let allow = refused.header("allow").unwrap_or_default();
            assert!(allow.starts_with("GET") && !allow.contains("HEAD"), "{method} {path}: {allow}");
        }
    }
}

#[tokio::test]
async fn unclean_paths_are_redirected() {
    let app = App::with_proxy().await;
    for (path, clean) in
        [("/proxies//p", "/proxies/p"), ("/./proxies", "/proxies"), ("/x/../proxies/p?a=1", "/proxies/p?a=1")]
    {
        let answer = app.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (301, Some(clean)), "{path}");
    }
}

#[tokio::test]
async fn errors_are_worded_as_toxiproxy_words_them() {
    let app = App::with_proxy().await;
    app.post("/proxies/p/toxics", LATENCY).await;
    let taken = r#"{"name":"q","listen":"127.0.0.1:1000","upstream":"x"}"#;
    let clash = r#"{"name":"latency_downstream","type":"latency","stream":"upstream"}"#;
    for (method, path, body, status, message) in [
        ("POST", "/proxies", "", 400, "bad request body: EOF"),
        ("POST", "/proxies", "{}", 400, "missing required field: name"),
        ("POST", "/proxies", "null", 400, "missing required field: name"),
        ("POST", "/proxies", r#"{"name":"q"}"#, 400, "missing required field: upstream"),
        ("POST", "/proxies", r#"{"name":"p","upstream":"x"}"#, 409, "proxy already exists"),
        ("POST", "/proxies", taken, 500, "listen tcp 127.0.0.1:1000: bind: address already in use"),
        ("GET", "/proxies/q", "", 404, "proxy not found"),
        ("POST", "/proxies/q", "{bad", 404, "proxy not found"),
        ("DELETE", "/proxies/q", "", 404, "proxy not found"),
        ("GET", "/proxies/q/toxics", "", 404, "proxy not found"),
        ("POST", "/proxies/q/toxics", "{bad", 404, "proxy not found"),
        ("POST", "/proxies/q/toxics/t", "{bad", 404, "proxy not found"),
        ("DELETE", "/proxies/q/toxics/t", "", 404, "proxy not found"),
        ("GET", "/proxies/p/toxics/t", "", 404, "toxic not found"),
        ("POST", "/proxies/p/toxics/t", "{bad", 404, "toxic not found"),
        ("DELETE", "/proxies/p/toxics/t", "", 404, "toxic not found"),
        ("POST", "/proxies/p/toxics", "{}", 400, "invalid toxic type"),
        ("POST", "/proxies/p/toxics", r#"{"type":"down"}"#, 400, "invalid toxic type"),
        ("POST", "/proxies/p/toxics", LATENCY, 409, "toxic already exists"),
        ("POST", "/proxies/p/toxics", clash, 409, "toxic already exists"),
        (
            "POST",
            "/populate",
            r#"[{"name":"a","upstream":"x"},{"upstream":"x"}]"#,
            400,
            "missing required field: name at proxy 2",
        ),
        ("POST", "/populate", r#"[{"name":"a"}]"#, 400, "missing required field: upstream at proxy 1"),
        ("GET", "/proxies/%ff", "", 404, "nothing has this name"),
    ] {
        let answer = app.call(method, path, body).await;
        assert_eq!(answer.error(), (status, message.to_owned()), "{method} {path} {body}");
        assert_eq!(answer.json()["status"], status);
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    for (path, body) in [
        ("/proxies", "{bad json"),
        ("/proxies", r#"{"name":1}"#),
        ("/proxies", "[]"),
        ("/proxies", "\u{feff}{}"),
        ("/proxies/p", r#"{"enabled":"yes"}"#),
        ("/proxies/p/toxics", r#"{"type":"latency","name":"x","attributes":[]}"#),
        ("/proxies/p/toxics", r#"{"type":"latency","name":"x","attributes":{"latency":"100"}}"#),
        ("/proxies/p/toxics", r#"{"type":"latency","name":"x","attributes":{"latency":1.5}}"#),
        ("/proxies/p/toxics", r#"{"type":"latency","name":"x","attributes":{"latency":100.0}}"#),
        ("/proxies/p/toxics", r#"{"type":"latency","name":"x","attributes":{"latency":1e3}}"#),
        ("/populate", "{}"),
        ("/populate", r#"["a"]"#),
    ] {
        let (status, message) = app.post(path, body).await.error();
        assert!(status == 400 && message.starts_with("bad request body: "), "{path} {body}: {message}");
        assert_eq!(message.matches("bad request body").count(), 1);
    }
}

#[tokio::test]
async fn a_toxic_is_checked_in_toxiproxy_s_order() {
    let app = App::with_proxy().await;
    app.post("/proxies/p/toxics", LATENCY).await;
    let message = async |body| app.post("/proxies/p/toxics", body).await.error().1;
    assert_eq!(
        message(r#"{"stream":"","type":"nope"}"#).await,
        "stream was invalid, can be either upstream or downstream"
    );
    let all_wrong = r#"{"type":"latency","attributes":{"latency":"x"}}"#;
    assert_eq!(message(all_wrong).await, "toxic already exists");
}

/// .NET sends capitals, Ruby and PHP `null`, everybody more than is known; noxious says `direction`.
#[tokio::test]
async fn bodies_are_read_as_go_reads_them() {
    let app = App::new();
    let body =
        r#"{"Name":"p","LISTEN":null,"Upstream":"x","Enabled":null,"Bogus":{"a":1},"name":"q"} trailing"#;
    let answer =
        app.call_with("POST", "/proxies", body, &[("content-type", "application/x-www-form-urlencoded")]);
    let answer = answer.await;
    assert_eq!((answer.status.as_u16(), &answer.json()["name"]), (201, &json!("q")));
    assert_eq!(answer.json()["enabled"], true);

    let body = r#"{"Type":"latency","Stream":"UpStream","Toxicity":80,"Attributes":{"Latency":5,"JITTER":null,"zzz":"x"}}"#;
    let answer = app.post("/proxies/q/toxics", body).await;
    assert_eq!(
        answer.body,
        r#"{"attributes":{"latency":5,"jitter":0},"name":"latency_UpStream","type":"latency","stream":"upstream","toxicity":80}"#
    );
    let answer =
        app.post("/proxies/q/toxics", r#"{"type":"latency","direction":"upstream","name":"n"}"#).await;
    assert_eq!(answer.json()["stream"], "upstream");
}

#[tokio::test]
async fn tox_19_loose_input_is_taken() {
    let app = App::with_proxy().await;
    let body = r#"{"type":"latency","stream":"UPSTREAM","toxicity":2,"attributes":{"latency":-5,"zzz":1}}"#;
    let answer = app.post("/proxies/p/toxics", body).await;
    assert_eq!(
        answer.body,
        r#"{"attributes":{"latency":0,"jitter":0},"name":"latency_UPSTREAM","type":"latency","stream":"upstream","toxicity":2}"#
    );
    let body = r#"{"type":"slicer","attributes":{"average_size":1000,"size_variation":1000}}"#;
    assert_eq!(app.post("/proxies/p/toxics", body).await.status, 200);
    let body = r#"{"type":"bandwidth","toxicity":0.3333333333,"attributes":{"rate":-1}}"#;
    assert!(app.post("/proxies/p/toxics", body).await.body.ends_with(r#""toxicity":0.33333334}"#));
}

#[tokio::test]
async fn tox_19_any_name_can_be_addressed() {
    let app = App::new();
    for (name, path) in [
        ("a/b", "/proxies/a%2Fb"),
        ("..", "/proxies/%2E%2E"),
        ("redis:6379", "/proxies/redis:6379"),
        ("a b", "/proxies/a%20b"),
        ("%", "/proxies/%25"),
        ("a+b", "/proxies/a+b"),
        ("?#", "/proxies/%3F%23"),
        ("猫", "/proxies/%E7%8C%AB"),
    ] {
        let body = json!({"name": name, "upstream": "x"}).to_string();
        assert_eq!(app.post("/proxies", &body).await.status, 201);
        assert_eq!(app.get(path).await.json()["name"], name, "{path}");
        assert_eq!(app.post(&format!("{path}/toxics"), LATENCY).await.status, 200, "{path}");
        assert_eq!(app.call("DELETE", path, "").await.status, 204);
    }
}

#[tokio::test]
async fn proxies_are_listed_by_name_and_escaped() {
    let app = App::new();
    for name in ["b", "a", "B", "a<b>&c"] {
        app.post("/proxies", &json!({"name": name, "upstream": "x", "enabled": false}).to_string()).await;
    }
    let answer = app.get("/proxies").await;
    let view =
        |name| format!(r#"{{"name":"{name}","listen":"","upstream":"x","enabled":false,"toxics":[]}}"#);
    let escaped = r"a\u003cb\u003e\u0026c";
    assert_eq!(
        answer.body,
        format!(r#"{{"B":{},"a":{},"{escaped}":{},"b":{}}}"#, view("B"), view("a"), view(escaped), view("b"))
    );
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name() {
    let app = App::with_proxy().await;
    app.post("/proxies/p/toxics", LATENCY).await;
    let before = app.get("/proxies/p").await.body;
    for body in
        ["{}", "null", r#"{"name":"z","listen":null,"upstream":null,"enabled":null}"#, r#"{"toxics":[]}"#]
    {
        assert_eq!(app.post("/proxies/p", body).await.body, before, "{body}");
    }
    let answer = app.call("PATCH", "/proxies/p", r#"{"enabled":false}"#).await.json();
    assert_eq!((&answer["enabled"], &answer["listen"]), (&json!(false), &json!("127.0.0.1:1000")));
    let answer = app.post("/proxies/p", r#"{"listen":"localhost:55555"}"#).await;
    assert_eq!(answer.json()["listen"], "localhost:55555", "never started, never resolved");
}

/// The Go client's `Save` sends back the toxics that it once read.
#[tokio::test]
async fn toxics_in_a_change_do_not_bring_removed_ones_back() {
    let app = App::with_proxy().await;
    let stale =
        r#"{"name":"p","listen":"127.0.0.1:1000","upstream":"127.0.0.1:2000","toxics":[{"type":"latency"}]}"#;
    assert_eq!(app.post("/proxies/p", stale).await.json()["toxics"], json!([]));
    let fresh =
        r#"{"name":"q","upstream":"x","toxics":[{"type":"latency","stream":"upstream"},{"type":"noop"}]}"#;
    let answer = app.post("/proxies", fresh).await.json();
    assert_eq!(answer["toxics"][0]["name"], "latency_upstream", "D14: a proxy is created with its toxics");
    assert_eq!(answer["toxics"][1]["name"], "noop_downstream");
    for none in ["null", "[]"] {
        let body = format!(r#"{{"name":"r{none}","upstream":"x","toxics":{none}}}"#);
        assert_eq!(app.post("/proxies", &body).await.json()["toxics"], json!([]));
    }
}

#[tokio::test]
async fn toxics_change_but_for_name_type_and_stream() {
    let app = App::with_proxy().await;
    app.post("/proxies/p/toxics", r#"{"type":"latency","attributes":{"latency":100,"jitter":7}}"#).await;
    let path = "/proxies/p/toxics/latency_downstream";
    let body = r#"{"name":"q","type":"noop","stream":"upstream","toxicity":null,"attributes":{"latency":5}}"#;
    assert_eq!(
        app.post(path, body).await.body,
        r#"{"attributes":{"latency":5,"jitter":7},"name":"latency_downstream","type":"latency","stream":"downstream","toxicity":1}"#
    );
    assert_eq!(app.post(path, r#"{"toxicity":0.1}"#).await.json()["toxicity"], 0.1);
}

#[tokio::test]
async fn d11_a_refused_change_changes_nothing() {
    let app = App::with_proxy().await;
    app.post("/proxies/p/toxics", LATENCY).await;
    let path = "/proxies/p/toxics/latency_downstream";
    let before = app.get(path).await.body;
    let body = r#"{"toxicity":0.5,"attributes":{"latency":9,"jitter":"x"}}"#;
    assert_eq!(app.post(path, body).await.status, 400);
    assert_eq!(app.get(path).await.body, before);

    app.post("/proxies", r#"{"name":"q","listen":"127.0.0.1:1001","upstream":"x"}"#).await;
    let before = app.get("/proxies/p").await.body;
    assert_eq!(app.post("/proxies/p", r#"{"listen":"127.0.0.1:1001","enabled":false}"#).await.status, 200);
    app.post("/proxies/p", r#"{"listen":"127.0.0.1:1000","enabled":true}"#).await;
    assert_eq!(app.post("/proxies/p", r#"{"listen":"127.0.0.1:1001","upstream":"y"}"#).await.status, 500);
    assert_eq!(app.get("/proxies/p").await.body, before);
}

#[tokio::test]
async fn tox_11_a_taken_name_costs_no_port() {
    let app = App::with_proxy().await;
    let body = r#"{"name":"p","listen":"127.0.0.1:1002","upstream":"x"}"#;
    assert_eq!(
        app.post("/proxies", body).await.body,
        "{\"error\":\"proxy already exists\",\"status\":409}\n"
    );
    assert!(!app.control.listens("127.0.0.1:1002"));
}

/// Scenario names are types too, with parameters of their own.
#[tokio::test]
async fn scenarios_can_be_added_by_generic_clients() {
    let app = App::with_proxy().await;
    let body = r#"{"type":"DELAY","toxicity":0.2,"attributes":{"delay_ms":8000}}"#;
    let answer = app.post("/proxies/p/toxics", body).await.json();
    assert_eq!((&answer["name"], &answer["type"]), (&json!("delay_downstream"), &json!("delay")));
    assert_eq!(answer["attributes"]["delay"], 8000);
}

/// Typed clients throw on types and attributes that Toxiproxy has not.
#[tokio::test]
async fn newer_toxics_are_there_by_name_only() {
    let app = App::with_proxy().await;
    let body = r#"{"name":"c","type":"corrupt","attributes":{"Rate":0.5,"bogus":1}}"#;
    let answer = app.post("/proxies/p/toxics", body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["attributes"]["rate"]), (200, &json!(0.5)));
    app.post("/proxies/p/toxics", LATENCY).await;
    assert_eq!(app.get("/proxies/p/toxics/c").await.json()["type"], "corrupt");
    assert_eq!(app.post("/proxies/p/toxics/c", r#"{"toxicity":0.5}"#).await.json()["toxicity"], 0.5);
    let names = |toxics: &serde_json::Value| {
        let toxics = toxics.as_array().unwrap().iter();
        toxics.map(|toxic| toxic["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&app.get("/proxies/p/toxics").await.json()), ["latency_downstream"]);
    assert_eq!(names(&app.get("/proxies/p").await.json()["toxics"]), ["latency_downstream"]);
    assert_eq!(names(&app.get("/proxies").await.json()["p"]["toxics"]), ["latency_downstream"]);
    assert_eq!(app.call("DELETE", "/proxies/p/toxics/c", "").await.status, 204);
    assert_eq!(app.get("/proxies/p/toxics/c").await.status, 404);
}

#[tokio::test]
async fn upstream_toxics_are_listed_first() {
    let app = App::with_proxy().await;
    for (name, stream) in [("1", "downstream"), ("2", "upstream"), ("3", "downstream"), ("4", "upstream")] {
        let body = json!({"name": name, "type": "noop", "stream": stream}).to_string();
        app.post("/proxies/p/toxics", &body).await;
    }
    let toxics = app.get("/proxies/p/toxics").await.json();
    let names: Vec<_> = toxics.as_array().unwrap().iter().map(|toxic| &toxic["name"]).collect();
    assert_eq!(names, ["2", "4", "1", "3"]);
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let app = App::new();
    let body = format!(r#"{{"name":"{}"}}"#, "a".repeat(4 * 1024 * 1024));
    assert_eq!(app.post("/proxies", &body).await.error().0, 413);
    assert_eq!(app.post("/v1/proxies", &body).await.json()["error"]["code"], "too_large");
}

#[tokio::test]
async fn metrics_come_as_what_the_client_prefers() {
    let app = App::new();
    let (text, open) = (
        "text/plain; version=0.0.4; charset=utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    );
    for (accept, kind, ends) in [
        ("*/*", text, "} 1\n"),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", open, "# EOF\n"),
    ] {
        let answer = app.call_with("GET", "/metrics", "", &[("accept", accept)]).await;
        assert_eq!(
            (answer.header("content-type"), answer.header("vary")),
            (Some(kind), Some("accept")),
            "{accept}"
        );
        assert!(answer.body.ends_with(ends), "{}", answer.body);
    }
}
