//! The published schemas accept exactly what the server accepts: valid specifications, changed in one place.
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use crate::app::App;

/// What a member may be replaced by.
fn odd_value() -> impl Strategy<Value = Value> {
    select(vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(1.5),
        json!(65536),
        json!(1e30),
        json!(""),
        json!("x"),
        json!("10"),
        json!("1.5s"),
        json!("200ms"),
        json!("-1s"),
        json!("upstream"),
        json!([]),
        json!(["x"]),
        json!([1]),
        json!({}),
        json!({"x": 1}),
        json!({"events": 3}),
        json!({"bytes": 1, "events": 1}),
    ])
}

/// The places of all members within a value, as JSON pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(place, item)| (place.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (name, child) in children {
        let place = format!("{at}/{name}");
        places(child, &place, out);
        out.push(place);
    }
}

/// A whole proxy with one toxic of each of these types, and all that toxics have in common.
fn whole(example: &Value) -> Value {
    let mut toxic = example.clone();
    toxic["name"] = json!("t");
    toxic["toxicity"] = json!(0.5);
    toxic["stream"] = json!("downstream");
    toxic["match"] = json!({
        "method": "POST", "host": "*.test", "path": "/v1/*", "header": {"x-a": "b*"}, "dialect": "openai",
        "operation": "chat", "model": "gpt-*", "scene": "s", "streaming": true,
        "body": [{"path": "$.a", "equals": 1}],
    });
    toxic["budget"] = json!({"times": 3, "skip": 1, "every": 2, "max_active": 4});
    toxic["window"] = json!({"after": "1s", "for": 500});
    json!({
        "name": "p", "protocol": "http", "listen": "127.0.0.1:0", "upstream": "http://x:1", "enabled": false,
        "exclusive": true, "max_edit_bytes": 1000, "max_connections": 10, "header_timeout": "10s",
        "idle_timeout": 1000, "capture": true, "upstream_protocol": "http2", "tls": {}, "toxics": [toxic],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_accept_what_the_server_accepts() {
    let types = App::new().get("/v1/toxics").await.json();
    let examples: Vec<_> =
        types["toxics"].as_array().unwrap().iter().map(|each| each["example"].clone()).collect();
    let byte_level: Vec<_> =
        types["toxics"].as_array().unwrap().iter().map(|each| each["level"] == "bytes").collect();
    let handle = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let cases = (0..examples.len(), any::<prop::sample::Index>(), odd_value(), 0..4_u8);
        proptest!(ProptestConfig::with_cases(1_500), |((kind, place, odd, what) in cases)| {
            let mut proxy = whole(&examples[kind]);
            if byte_level[kind] {
                proxy["toxics"][0]["match"] = json!({"client": "10.0.0.0/8"});
            }
            let mut all = Vec::new();
            places(&proxy, "", &mut all);
            let at = place.get(&all);
            match what {
                0 => {
                    let (parent, name) = at.rsplit_once('/').unwrap();
                    if let Some(members) = proxy.pointer_mut(parent).and_then(Value::as_object_mut) {
                        members.remove(&name.replace("~1", "/"));
                    }
                }
                1 => if let Some(members) = proxy.pointer_mut(at).and_then(Value::as_object_mut) {
                    members.insert("zzz".to_owned(), odd);
                },
                _ => *proxy.pointer_mut(at).unwrap() = odd,
            }
            // The call itself is held against the document.
            handle.block_on(async { App::new().post("/v1/proxies", &proxy.to_string()).await });
        });
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_scenario_is_a_type_too() {
    for name in aconite_toxics::scenarios() {
        let proxy = json!({"name": "p", "upstream": "x:1", "enabled": false, "toxics": [{"type": name}]});
        // The call itself is held against the document.
        assert_eq!(App::new().post("/v1/proxies", &proxy.to_string()).await.status, 201, "{name}");
    }
}
