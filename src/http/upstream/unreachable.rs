//! What it looks like when a toxic keeps an upstream from being reached.
use std::time::Duration;

use aconite_toxics::ConnectFault;
use http::StatusCode;

use crate::http::proxy_error::ProxyError;

/// What the client is told, after the time that it takes to find out: the same as of an upstream that really fails so.
///
/// `limit` is how long connecting may take.
pub(crate) async fn unreachable(fault: ConnectFault, upstream: &str, limit: Duration) -> ProxyError {
    match fault {
        ConnectFault::DnsNxdomain => {
            let text = format!("no address for `{upstream}`: no such host");
            ProxyError::new(StatusCode::BAD_GATEWAY, "upstream_dns", text)
        }
        ConnectFault::Refuse => {
            let text = format!("cannot connect to {upstream}: connection refused");
            ProxyError::new(StatusCode::BAD_GATEWAY, "upstream_connect", text)
        }
        _ => {
            tokio::time::sleep(limit).await;
            let text = format!("no connection to `{upstream}` within {} ms", limit.as_millis());
            ProxyError::new(StatusCode::GATEWAY_TIMEOUT, "upstream_connect_timeout", text)
        }
    }
}
