//! What a client can reach never goes beyond the configuration. Tests are named by case.
use serde_json::{Value, json};

use crate::support::{Heard, Proxied};

mod admin;
mod entrances;
mod heads;
mod leaf;
mod loops;
mod names;
mod protocols;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A forward proxy.
async fn forward(fields: Value) -> Proxied {
    let mut spec = json!({"protocol": "forward"});
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
    Proxied::with(spec).await
}

#[track_caller]
fn assert_error(heard: &Heard, status: u16, code: &str) {
    let said = (heard.status(), heard.header("x-aconite-error"));
    assert_eq!(said, (status, vec![code.to_owned()]), "{}", heard.text());
}
