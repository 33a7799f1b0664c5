//! `sim://qdrant`: what is stored is found.
use serde_json::Value;

use super::*;

/// One simulated Qdrant, and a runtime to ask it from.
pub(super) struct Qdrant {
    simulator: Simulator,
    runtime: tokio::runtime::Runtime,
}

impl Qdrant {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { simulator: Simulator::new("sim://qdrant").unwrap(), runtime }
    }

    /// With a collection `c` of three cities in two dimensions.
    fn with_cities(distance: &str) -> Self {
        let qdrant = Self::new();
        qdrant.ok("PUT", "/collections/c", &json!({"vectors": {"size": 2, "distance": distance}}));
        let points = json!({"points": [
            {"id": 1, "vector": [3.0, 4.0], "payload": {"city": "Oslo", "year": 2020}},
            {"id": 2, "vector": [4.0, 3.0], "payload": {"city": "Bern", "year": 2022}},
            {"id": "936da01f-9abd-4d9d-80c7-02af85c822a8", "vector": [-3.0, 4.0], "payload": {"city": "Kyiv"}},
        ]});
        qdrant.ok("PUT", "/collections/c/points?wait=true", &points);
        qdrant
    }

    fn respond(&self, method: &str, path: &str, body: impl Into<Bytes>) -> (u16, http::HeaderMap, Bytes) {
        let request = Request::builder().method(method).uri(path).body(Full::new(body.into())).unwrap();
        self.runtime.block_on(async {
            let response = self.simulator.handle(request).await;
            (response.status().as_u16(), response.headers().clone(), bytes_of(response).await)
        })
    }

    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (status, _, answer) = self.respond(method, path, body.to_string());
        (status, serde_json::from_slice(&answer).unwrap())
    }

    /// The result of a request that succeeds.
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, mut answer) = self.send(method, path, body);
        assert_eq!((status, &answer["status"]), (200, &json!("ok")), "{method} {path} {body}: {answer}");
        assert!(answer["time"].is_f64());
        answer["result"].take()
    }

    /// The text of the error that a request gets.
    fn error(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let (status, answer) = self.send(method, path, body);
        let text =
            answer["status"]["error"].as_str().unwrap_or_else(|| panic!("{method} {path} {body}: {answer}"));
        (status, text.to_owned())
    }

    /// Ids and scores of what a query finds.
    fn found(&self, query: &Value) -> Vec<(Value, f64)> {
        let result = self.ok("POST", "/collections/c/points/query", query);
        let points = result["points"].as_array().unwrap();
        points.iter().map(|point| (point["id"].clone(), point["score"].as_f64().unwrap())).collect()
    }
}

const KYIV: &str = "936da01f-9abd-4d9d-80c7-02af85c822a8";

#[test]
fn a_hit_is_byte_for_byte_qdrants() {
    let qdrant = Qdrant::with_cities("Cosine");
    let query = json!({"query": [3, 4], "limit": 1, "with_payload": ["city"], "with_vector": true});
    let (status, headers, body) = qdrant.respond("POST", "/collections/c/points/query", query.to_string());
    assert_eq!((status, headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
    assert_eq!(
        std::str::from_utf8(&body).unwrap(),
        r#"{"result":{"points":[{"id":1,"version":1,"score":1.0,"payload":{"city":"Oslo"},"vector":[0.6,0.8]}]},"status":"ok","time":0.000125}"#
    );
}

#[test]
fn the_nearest_come_first_by_every_distance() {
    for (distance, expected) in [
        ("Cosine", [(json!(1), 1.0), (json!(2), 0.96), (json!(KYIV), 0.28)]),
        ("Dot", [(json!(1), 25.0), (json!(2), 24.0), (json!(KYIV), 7.0)]),
        ("Euclid", [(json!(1), 0.0), (json!(2), 2.0_f64.sqrt()), (json!(KYIV), 6.0)]),
        ("Manhattan", [(json!(1), 0.0), (json!(2), 2.0), (json!(KYIV), 6.0)]),
    ] {
        let found = Qdrant::with_cities(distance).found(&json!({"query": [3, 4]}));
        assert_eq!(found.len(), 3);
        for ((id, score), (expected_id, expected_score)) in found.iter().zip(&expected) {
            assert_eq!(id, expected_id, "{distance}");
            assert!((score - expected_score).abs() < 1e-6, "{distance}: {score}");
        }
    }
}

#[test]
fn filters_thresholds_offsets_and_ids_narrow_a_query() {
    let qdrant = Qdrant::with_cities("Cosine");
    let ids = |query: Value| qdrant.found(&query).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    let with = |more: Value| {
        let mut query = json!({"query": [3, 4]});
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        query
    };
    assert_eq!(ids(with(json!({"score_threshold": 0.9}))), [1, 2]);
    assert_eq!(ids(with(json!({"limit": 1, "offset": 1}))), [2]);
    let year = json!({"must": [{"key": "year", "range": {"gt": 2020}}]});
    assert_eq!(ids(with(json!({"filter": year}))), [2]);
    let city = json!({"must_not": [{"key": "city", "match": {"value": "Oslo"}}]});
    assert_eq!(ids(with(json!({"filter": city}))), [json!(2), json!(KYIV)]);
    assert_eq!(ids(json!({"query": 1})), [json!(2), json!(KYIV)], "the point itself is not found");
    assert_eq!(ids(json!({"query": {"nearest": [3, 4]}, "limit": 1})), [1]);
    assert_eq!(ids(json!({"limit": 2})), [1, 2], "without a query, in the order of ids");

    let search = json!({"vector": [3, 4], "limit": 1});
    let hits = qdrant.ok("POST", "/collections/c/points/search", &search);
    assert_eq!(hits, json!([{"id": 1, "version": 1, "score": 1.0}]));
    let batch =
        qdrant.ok("POST", "/collections/c/points/search/batch", &json!({"searches": [search, search]}));
    assert_eq!(batch, json!([hits, hits]));
}

#[test]
fn scrolling_sees_every_point_once() {
    let qdrant = Qdrant::with_cities("Dot");
    let page = qdrant.ok("POST", "/collections/c/points/scroll", &json!({"limit": 2, "with_payload": false}));
    assert_eq!(page, json!({"points": [{"id": 1}, {"id": 2}], "next_page_offset": KYIV}));
    let page = qdrant.ok(
        "POST",
        "/collections/c/points/scroll",
        &json!({"limit": 2, "offset": KYIV, "with_vector": true}),
    );
    let kyiv = json!({"id": KYIV, "payload": {"city": "Kyiv"}, "vector": [-3.0, 4.0]});
    assert_eq!(page, json!({"points": [kyiv], "next_page_offset": null}));
    assert_eq!(qdrant.ok("GET", &format!("/collections/c/points/{KYIV}"), &json!(null)), kyiv);
    let some = qdrant.ok("POST", "/collections/c/points", &json!({"ids": [9, 1], "with_payload": false}));
    assert_eq!(some, json!([{"id": 1}]));
}

#[test]
fn writes_replace_delete_and_say_whether_they_are_done() {
    let qdrant = Qdrant::with_cities("Dot");
    let count = || qdrant.ok("POST", "/collections/c/points/count", &json!({"exact": true}))["count"].clone();
    let batch = json!({"batch": {"ids": [1, 5], "vectors": [[1, 0], [0, 1]], "payloads": [{"a": 1}, null]}});
    let done = qdrant.ok("PUT", "/collections/c/points", &batch);
    assert_eq!(done, json!({"operation_id": 2, "status": "acknowledged"}));
    assert_eq!(count(), 4);
    let one = qdrant.ok("GET", "/collections/c/points/1", &json!(null));
    assert_eq!(one, json!({"id": 1, "payload": {"a": 1}, "vector": [1.0, 0.0]}));
    let done = qdrant.ok("POST", "/collections/c/points/delete?wait=true", &json!({"points": [1, 99]}));
    assert_eq!(done, json!({"operation_id": 3, "status": "completed"}));
    assert_eq!(count(), 3);
    let bern = json!({"filter": {"must": [{"key": "city", "match": {"value": "Bern"}}]}});
    qdrant.ok("POST", "/collections/c/points/delete", &bern);
    assert_eq!(count(), 2);

    let payload = || qdrant.ok("GET", "/collections/c/points/5", &json!(null))["payload"].clone();
    qdrant.ok("POST", "/collections/c/points/payload", &json!({"payload": {"a": 1, "b": 2}, "points": [5]}));
    qdrant.ok("POST", "/collections/c/points/payload/delete", &json!({"keys": ["a"], "points": [5]}));
    assert_eq!(payload(), json!({"b": 2}));
    qdrant.ok("PUT", "/collections/c/points/payload", &json!({"payload": {"c": 3}, "points": [5]}));
    assert_eq!(payload(), json!({"c": 3}));
    qdrant.ok("POST", "/collections/c/points/payload/clear", &json!({"points": [5]}));
    assert_eq!(payload(), json!({}));
}

#[test]
fn named_vectors_are_searched_by_name() {
    let qdrant = Qdrant::new();
    let vectors = json!({"text": {"size": 2, "distance": "Dot"}, "image": {"size": 1, "distance": "Euclid"}});
    qdrant.ok("PUT", "/collections/c", &json!({"vectors": vectors}));
    let points = json!({"points": [
        {"id": 1, "vector": {"text": [1, 1], "image": [5]}}, {"id": 2, "vector": {"text": [2, 2]}},
    ]});
    qdrant.ok("PUT", "/collections/c/points", &points);
    assert_eq!(qdrant.found(&json!({"query": [1, 0], "using": "text"})), [(json!(2), 2.0), (json!(1), 1.0)]);
    assert_eq!(qdrant.found(&json!({"query": [3], "using": "image"})), [(json!(1), 2.0)]);
    let search = json!({"vector": {"name": "image", "vector": [3]}, "limit": 5, "with_vector": ["text"]});
    let hits = qdrant.ok("POST", "/collections/c/points/search", &search);
    assert_eq!(hits[0]["vector"], json!({"text": [1.0, 1.0]}));
    let (status, text) = qdrant.error("POST", "/collections/c/points/query", &json!({"query": [1, 0]}));
    assert_eq!((status, text.as_str()), (400, "Wrong input: Not existing vector name error: "));
}

#[test]
fn errors_have_qdrants_texts() {
    let qdrant = Qdrant::with_cities("Cosine");
    let null = json!(null);
    for (method, path, body, status, text) in [
        (
            "POST",
            "points/query",
            json!({"query": [1]}),
            400,
            "Wrong input: Vector dimension error: expected dim: 2, got 1",
        ),
        (
            "PUT",
            "points",
            json!({"points": [{"id": 9, "vector": [1, 2, 3]}]}),
            400,
            "Wrong input: Vector dimension error: expected dim: 2, got 3",
        ),
        (
            "PUT",
            "",
            json!({"vectors": {"size": 2, "distance": "Dot"}}),
            409,
            "Wrong input: Collection `c` already exists!",
        ),
        ("GET", "points/77", null.clone(), 404, "Not found: Point with id 77 does not exists!"),
        (
            "POST",
            "points/query",
            json!({"query": [1, 2], "limit": 0}),
            422,
            "Validation error in JSON body: [limit: value 0 invalid, must be 1 or larger]",
        ),
        (
            "POST",
            "points/query",
            json!({"query": {"fusion": "rrf"}}),
            400,
            "Bad request: queries other than nearest are not supported by the simulated Qdrant",
        ),
    ] {
        let path = format!("/collections/c/{path}");
        assert_eq!(
            qdrant.error(method, path.trim_end_matches('/'), &body),
            (status, text.to_owned()),
            "{path} {body}"
        );
    }
    for path in ["/collections/none", "/collections/none/points/9"] {
        let expected = (404, "Not found: Collection `none` doesn't exist!".to_owned());
        assert_eq!(qdrant.error("GET", path, &null), expected);
    }
    let (status, text) = qdrant.error("POST", "/collections/c/points", &json!({"ids": ["x"]}));
    assert_eq!(status, 400);
    assert!(text.starts_with("Format error in JSON body: value x is not a valid point ID"), "{text}");
    let (status, headers, body) = qdrant.respond("POST", "/nothing", "");
    assert_eq!((status, headers.get("content-type"), body), (404, None, Bytes::new()));
}

#[test]
fn a_failed_upsert_writes_nothing() {
    let qdrant = Qdrant::with_cities("Dot");
    let points = json!({"points": [{"id": 8, "vector": [1, 2]}, {"id": 9, "vector": [1]}]});
    assert_eq!(qdrant.error("PUT", "/collections/c/points", &points).0, 400);
    assert_eq!(qdrant.error("GET", "/collections/c/points/8", &json!(null)).0, 404);
}

#[test]
fn collections_come_and_go() {
    let qdrant = Qdrant::with_cities("Dot");
    let null = json!(null);
    assert_eq!(qdrant.ok("GET", "/collections", &null), json!({"collections": [{"name": "c"}]}));
    assert_eq!(qdrant.ok("GET", "/collections/c/exists", &null), json!({"exists": true}));
    qdrant.ok("PUT", "/collections/c/index", &json!({"field_name": "year", "field_schema": "integer"}));
    let info = qdrant.ok("GET", "/collections/c", &null);
    assert_eq!((&info["status"], &info["points_count"]), (&json!("green"), &json!(3)));
    assert_eq!(info["config"]["params"]["vectors"], json!({"size": 2, "distance": "Dot"}));
    assert_eq!(info["payload_schema"], json!({"year": {"data_type": "integer", "points": 2}}));
    assert_eq!(qdrant.ok("DELETE", "/collections/c", &null), true);
    assert_eq!(qdrant.ok("DELETE", "/collections/c", &null), false);
    assert_eq!(qdrant.ok("GET", "/collections/c/exists", &null), json!({"exists": false}));
}

#[test]
fn clones_share_what_is_stored_and_others_do_not() {
    let first = Qdrant::with_cities("Dot");
    let clone = Qdrant { simulator: first.simulator.clone(), ..Qdrant::new() };
    assert_eq!(clone.ok("GET", "/collections/c/exists", &json!(null)), json!({"exists": true}));
    assert_eq!(Qdrant::new().ok("GET", "/collections/c/exists", &json!(null)), json!({"exists": false}));
}

#[test]
fn the_version_and_the_health_are_known() {
    let qdrant = Qdrant::new();
    let (status, index) = qdrant.send("GET", "/", &json!(null));
    assert_eq!(
        (status, &index["title"], &index["version"]),
        (200, &json!("qdrant - vector search engine"), &json!("1.19.0"))
    );
    let (status, headers, body) = qdrant.respond("GET", "/healthz", "");
    assert_eq!((status, headers["content-type"].as_bytes()), (200, &b"text/plain; charset=utf-8"[..]));
    assert_eq!(body, "healthz check passed");
}
