//! Toxiproxy's routes, for a server that replaces Toxiproxy and keeps `/v1` closed.
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// An error of these routes.
#[derive(Deserialize)]
pub(super) struct RootError {
    pub(super) error: String,
}

/// Where the same is to be had at the root, if it is.
pub(super) fn path(path: &str) -> Option<&str> {
    path.strip_prefix("/v1").filter(|rest| *rest == "/proxies" || rest.starts_with("/proxies/"))
}

/// An answer from there, in the shape that `/v1` gives it: lists differ, resources do not.
pub(super) fn as_v1(body: Bytes) -> Bytes {
    let list = match serde_json::from_slice::<Value>(&body) {
        Ok(Value::Array(toxics)) => serde_json::json!({"toxics": toxics}),
        // A proxy's or toxic's name is a text, and so is not a proxy that is called `name`.
        Ok(Value::Object(mut proxies)) if !proxies.get("name").is_some_and(Value::is_string) => {
            proxies.sort_keys();
            let proxies = proxies.into_iter().map(|(_, proxy)| known(proxy));
            serde_json::json!({"proxies": proxies.collect::<Vec<_>>()})
        }
        Ok(one) if one.get("Logger").is_some() => known(one),
        _ => return body,
    };
    list.to_string().into()
}

/// A proxy without the field `Logger`, which a genuine server shows by mistake.
fn known(mut proxy: Value) -> Value {
    if let Some(fields) = proxy.as_object_mut() {
        fields.remove("Logger");
    }
    proxy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_get_the_shape_of_v1_and_resources_stay() {
        for (root, v1) in [
            (r#"[{"name":"a"}]"#, r#"{"toxics":[{"name":"a"}]}"#),
            (r#"{"b":{"name":"b"},"a":{"name":"a"}}"#, r#"{"proxies":[{"name":"a"},{"name":"b"}]}"#),
            (r#"{"name":{"name":"name"}}"#, r#"{"proxies":[{"name":"name"}]}"#),
            ("{}", r#"{"proxies":[]}"#),
            (r#"{"b":{"name":"b","Logger":{}}}"#, r#"{"proxies":[{"name":"b"}]}"#),
            (r#"{"name":"b","Logger":{}}"#, r#"{"name":"b"}"#),
            (r#"{"name":"a","listen":"x"}"#, r#"{"name":"a","listen":"x"}"#),
            ("", ""),
        ] {
            assert_eq!(as_v1(root.into()), v1);
        }
        assert_eq!(path("/v1/proxies/a/toxics"), Some("/proxies/a/toxics"));
        assert_eq!(path("/v1/proxies"), Some("/proxies"));
        assert_eq!((path("/v1/chaos"), path("/proxies")), (None, None));
    }
}
