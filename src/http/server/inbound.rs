//! A client connection of an `http` or `forward` proxy.
use std::sync::Arc;

use crate::{connection::ConnectionShared, http::client::proxy::HttpProxy};

/// A client connection, and the proxy that serves it.
pub(crate) struct Inbound {
    pub(crate) connection: Arc<ConnectionShared>,
    pub(crate) proxy: Arc<HttpProxy>,
}
