use serde_json::json;

use super::*;

fn matcher(spec: Value) -> Matcher {
    Matcher::compile(&serde_json::from_value(spec).unwrap()).unwrap()
}

#[test]
fn r2_32_a_client_is_matched_by_address_or_network() {
    for (condition, client, admitted) in [
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false),
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("10.9.9.9/8", "10.1.2.3", true),
        // How a listener for both families shows an IPv4 client.
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("2001:db8::/32", "2001:db8:1::1", true),
        ("2001:db8::1", "2001:db8::2", false),
    ] {
        let client = client.parse().unwrap();
        assert_eq!(matcher(json!({"client": condition})).admits(client), admitted, "{condition} {client}");
        assert!(matcher(json!({})).admits(client));
    }
}

#[test]
fn r2_32_what_is_not_an_address_is_refused_by_name() {
    for text in ["", "localhost", "10.0.0.0/33", "10.0.0", "10.0.0.1:80"] {
        let spec = Match { client: Some(text.to_owned()), ..Match::default() };
        let error = Matcher::compile(&spec).unwrap_err();
        assert_eq!(error.path, "match.client");
        assert!(error.message.contains("10.0.0.0/8"), "{text}: {error}");
    }
}

fn request(headers: &HeaderMap) -> RequestFacts<'_> {
    RequestFacts {
        method: "POST",
        host: "api.example.test:443",
        path: "/v1/chat/completions",
        headers,
        dialect: Some(Dialect::OpenAi),
        operation: Some(Operation::Chat),
        model: Some("gpt-4o-mini"),
        scene: Some("long_document"),
        test_id: Some("tests/a.py::t[b?]"),
        streaming: Some(true),
        body: None,
        unread: None,
    }
}

fn matches(matcher: &Matcher, request: &RequestFacts<'_>) -> bool {
    matcher.matches(request) == MatchResult::Matches
}

#[track_caller]
fn assert_matches(spec: &Value, expected: bool) {
    let headers = HeaderMap::new();
    assert_eq!(matches(&matcher(spec.clone()), &request(&headers)), expected, "{spec}");
}

#[test]
fn every_condition_must_hold() {
    assert_matches(&json!({}), true);
    for (key, yes, no) in [
        ("method", json!("post"), json!("GET")),
        ("host", json!("*.Example.test"), json!("example.test")),
        ("path", json!("/v1/*"), json!("/v1")),
        ("dialect", json!("openai"), json!("anthropic")),
        ("operation", json!("chat"), json!("embeddings")),
        ("model", json!("gpt-4o*"), json!("gpt-4")),
        ("scene", json!("long_*"), json!("long")),
        ("test_id", json!("tests/a.py::t[b?]"), json!("tests/a.py::t[bx]")),
        ("streaming", json!(true), json!(false)),
    ] {
        assert_matches(&json!({key: yes}), true);
        assert_matches(&json!({key: no}), false);
        let mut among_others = json!({"method": "POST", "path": "*", "streaming": true});
        among_others[key] = no;
        assert_matches(&among_others, false);
    }
}

#[test]
fn what_a_request_does_not_have_matches_nothing() {
    let headers = HeaderMap::new();
    let bare = RequestFacts {
        dialect: None,
        operation: None,
        model: None,
        scene: None,
        test_id: None,
        ..request(&headers)
    };
    for spec in
        [json!({"model": "*"}), json!({"scene": "*"}), json!({"test_id": "*"}), json!({"dialect": "openai"})]
    {
        assert!(!matches(&matcher(spec.clone()), &bare), "{spec}");
    }
}

#[test]
fn http_21_paths_are_compared_decoded() {
    let headers = HeaderMap::new();
    let at = |path| RequestFacts { path, ..request(&headers) };
    let points = at("/collections/a%2Fb/points/%E4%B8%AD?x=%2520+%20&y");
    for pattern in ["/collections/a/b/points/中", "/collections/a%2Fb/points/*", "*/%E4%B8%AD"] {
        assert!(matches(&matcher(json!({"path": pattern})), &points), "{pattern}");
    }
    assert!(!matches(&matcher(json!({"path": "*x=*"})), &points));
    assert!(matches(&matcher(json!({"path": "/\u{fffd}"})), &at("/%ff")));
}

#[test]
fn prx_08_unicode_hosts_match_their_punycode() {
    let headers = HeaderMap::new();
    let host = |host| RequestFacts { host, ..request(&headers) };
    for pattern in
        ["模型.example.test", "xn--xgs754b.example.test", "模*.example.test", "xn--*", "*.EXAMPLE.test."]
    {
        for name in ["xn--xgs754b.example.test:443", "XN--XGS754B.example.test", "模型.example.test."] {
            assert!(matches(&matcher(json!({"host": pattern})), &host(name)), "{pattern} {name}");
        }
    }
    assert!(matches(&matcher(json!({"host": "::1"})), &host("[::1]:8080")));
    assert!(matches(&matcher(json!({"host": "[::1]"})), &host("::1")));
    assert!(!matches(&matcher(json!({"host": "模型.example.test"})), &host("other.example.test")));
}

#[test]
fn one_of_several_header_values_suffices() {
    let mut headers = HeaderMap::new();
    headers.append("x-tag", "blue".parse().unwrap());
    headers.append("x-tag", http::HeaderValue::from_bytes("grün\u{e9}".as_bytes()).unwrap());
    let matches = |spec| matches(&matcher(spec), &request(&headers));
    assert!(matches(json!({"header": {"X-Tag": "blu?"}})));
    assert!(matches(json!({"header": {"x-tag": "grün*"}})));
    assert!(!matches(json!({"header": {"x-tag": "red"}})));
    assert!(!matches(json!({"header": {"x-tag": "blue", "x-absent": "*"}})));
}

fn matches_body(spec: &Value, body: &str) -> bool {
    let headers = HeaderMap::new();
    let matcher = matcher(json!({"body": [spec.clone()]}));
    assert!(matcher.needs_body(&request(&headers)));
    let body = JsonBody::new(body.to_owned().into());
    matches(&matcher, &RequestFacts { body: Some(&body), ..request(&headers) })
}

#[test]
fn a_body_is_read_once_and_only_where_a_condition_asks_for_it() {
    let (headers, body) = (HeaderMap::new(), JsonBody::new("{\"n\":1}".into()));
    let request = RequestFacts { body: Some(&body), ..request(&headers) };
    assert!(matches(&matcher(json!({"model": "*"})), &request));
    let elsewhere = matcher(json!({"model": "other", "body": [{"path": "$.n"}]}));
    assert!(!matches(&elsewhere, &request));
    assert!(!body.is_read());
    assert!(matches(&matcher(json!({"body": [{"path": "$.n"}]})), &request));
    let first = body.value().unwrap();
    assert!(!matches(&matcher(json!({"body": [{"path": "$.m"}]})), &request));
    assert!(std::ptr::eq(first, body.value().unwrap()), "the same value, not another reading");
}

#[test]
fn bodies_are_matched_by_value_and_by_pattern() {
    let body = r#"{"n":1.0,"messages":[{"content":"hello"},{"content":"world"}],"tools":[]}"#;
    for (spec, expected) in [
        (json!({"path": "$.n", "equals": 1}), true),
        (json!({"path": "$.n", "equals": 2}), false),
        (json!({"path": "$.messages[*].content", "equals": "world"}), true),
        (json!({"path": "$.messages[*].content", "matches": "^wor"}), true),
        (json!({"path": "$.messages[*].content", "matches": "^or"}), false),
        (json!({"path": "$.tools"}), true),
        (json!({"path": "$.absent"}), false),
        (json!({"path": "$.n", "matches": "1"}), true),
    ] {
        assert_eq!(matches_body(&spec, body), expected, "{spec}");
    }
}

#[test]
fn json_05_lone_surrogates_do_not_hinder() {
    let body = r#"{"messages":[{"role":"user","content":"cut \ud83d here"}],"model":"m"}"#;
    assert!(matches_body(&json!({"path": "$.model", "equals": "m"}), body));
}

#[test]
fn json_07_of_duplicate_keys_the_last_counts() {
    let body = r#"{"model":"a","stream":false,"model":"b","stream":true}"#;
    assert!(matches_body(&json!({"path": "$.model", "equals": "b"}), body));
    assert!(!matches_body(&json!({"path": "$.model", "equals": "a"}), body));
}

#[test]
fn without_a_json_body_no_condition_on_it_holds() {
    for body in ["", "oops", "{\"x\":NaN}"] {
        assert!(!matches_body(&json!({"path": "$"}), body));
    }
    assert_matches(&json!({"body": [{"path": "$"}]}), false);
    let headers = HeaderMap::new();
    assert!(matcher(json!({"body": [{"path": "$"}]})).needs_body(&request(&headers)));
}

#[test]
fn r2_03_what_only_an_unread_body_tells_is_undecided() {
    let headers = HeaderMap::new();
    let unread =
        RequestFacts { model: None, streaming: None, unread: Some("request_encoded"), ..request(&headers) };
    let unknown = MatchResult::Unknown("request_encoded");
    for (spec, expected) in [
        (json!({"model": "gpt*"}), unknown),
        (json!({"streaming": false}), unknown),
        (json!({"body": [{"path": "$.n"}]}), unknown),
        (json!({"model": "gpt*", "path": "/elsewhere"}), MatchResult::Differs),
        (json!({"streaming": true, "dialect": "anthropic"}), MatchResult::Differs),
        (json!({"path": "/v1/*"}), MatchResult::Matches),
    ] {
        assert_eq!(matcher(spec.clone()).matches(&unread), expected, "{spec}");
        assert_eq!(matcher(spec.clone()).needs_body(&unread), expected == unknown, "{spec}");
    }
    let known = RequestFacts { model: Some("other"), ..unread };
    let both = matcher(json!({"model": "gpt*", "body": [{"path": "$.n"}]}));
    assert_eq!(both.matches(&known), MatchResult::Differs, "the model suffices");
    let (body, spec) = (JsonBody::new("{".into()), json!({"body": [{"path": "$.n"}]}));
    let broken = RequestFacts { body: Some(&body), unread: None, ..unread };
    assert_eq!(matcher(spec).matches(&broken), MatchResult::Unknown("request_not_json"));
}

#[test]
fn patterns_that_never_match_are_refused_with_what_to_write() {
    let refused = |spec: Value| {
        let error = Matcher::compile(&serde_json::from_value(spec).unwrap()).err().unwrap();
        error.to_string()
    };
    for (spec, hint) in [
        (serde_json::json!({"path": "^/v1/.*$"}), "write a glob"),
        (serde_json::json!({"path": "/v1/.*$"}), "write a glob"),
        (serde_json::json!({"host": r".*\.openai\.com"}), "write a glob"),
        (serde_json::json!({"model": "^gpt-4"}), "write a glob"),
        (serde_json::json!({"path": "v1/chat"}), "write `/v1/chat`"),
        (serde_json::json!({"host": "https://api.openai.com/v1"}), "write `api.openai.com`"),
    ] {
        let message = refused(spec.clone());
        assert!(message.contains(hint), "{spec}: {message}");
    }
    for spec in [
        serde_json::json!({"path": "/v1/*", "host": "*.openai.com", "model": "gpt-4.*"}),
        serde_json::json!({"path": "*"}),
        serde_json::json!({"path": "/$metadata", "model": "a$"}),
        serde_json::json!({"path": "%2Fv1"}),
    ] {
        assert!(Matcher::compile(&serde_json::from_value(spec.clone()).unwrap()).is_ok(), "{spec}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    for (spec, place) in [
        (json!({"header": {"bad name": "x"}}), "match.header"),
        (json!({"body": [{"path": "$"}, {"path": "$["}]}), "match.body[1].path"),
        (json!({"body": [{"path": "$", "matches": "("}]}), "match.body[0].matches"),
        (json!({"body": [{"path": "$", "matches": "(?:a{1000}){1000}"}]}), "match.body[0].matches"),
    ] {
        let error = Matcher::compile(&serde_json::from_value(spec).unwrap()).unwrap_err();
        assert_eq!(error.path, place, "{error}");
    }
}
