//! What a gateway in front of a provider answers in the provider's stead: pages, not JSON.

use bytes::Bytes;

use super::{Cause, Failure};

pub(super) fn failure(cause: Cause) -> Option<Failure> {
    let (status, reason) = match cause {
        Cause::PayloadTooLarge => (413, "Request Entity Too Large"),
        Cause::BadGateway => (502, "Bad Gateway"),
        Cause::Unavailable => (503, "Service Temporarily Unavailable"),
        Cause::GatewayTimeout => (504, "Gateway Time-out"),
        _ => return None,
    };
    let headers = vec![("content-type", "text/html".to_owned()), ("server", "nginx".to_owned())];
    Some(Failure { status, headers, body: page(status, reason) })
}

/// nginx's own page for an error.
pub fn page(status: u16, reason: &str) -> Bytes {
    let page = format!(
        "<html>\r\n<head><title>{status} {reason}</title></head>\r\n<body>\r\n<center><h1>{status} {reason}</h1></center>\r\n\
         <hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    );
    page.into()
}
