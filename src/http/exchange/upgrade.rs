//! Connections and HTTP/2 streams that stop being HTTP: WebSocket and every other Upgrade.
mod relay;

use std::sync::Arc;

use http::{Response, response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::http::{
    body::Body,
    client::extended_connect,
    message::headers::{self, Hop},
    ongoing::ExchangeState,
    upstream::Switching,
};
use relay::Relayed;

/// Why a toxic on a message's body does not act on what follows a `101`.
pub(crate) const UPGRADED: &str = "upgraded";

/// Forwards the upstream's `101` and joins the two connections. The client's byte toxics go on acting. A client of HTTP/2
/// has a stream for its part, and a `200`.
///
/// Over HTTP/1 the relay is a part of the client's connection: it is listed, counted, reset and closed with it.
pub(crate) fn switch(
    ongoing: &Arc<ExchangeState>,
    client: OnUpgrade,
    head: response::Parts,
    upstream: Switching,
) -> Response<Body> {
    let mut answer = Response::new(Body::Empty);
    let hop = Hop { request: false, http2: ongoing.http2, upgrade: !ongoing.http2 };
    let told = if ongoing.http2 {
        extended_connect::as_success(&head)
    } else {
        *answer.status_mut() = head.status;
        ongoing.control.http_ends();
        head.headers.clone()
    };
    *answer.headers_mut() = headers::for_next_hop(&told, hop).unwrap_or(told);
    ongoing.answered(answer.status().as_u16(), false);
    let relayed = Relayed::new(Arc::clone(ongoing));
    let joined = async move {
        match tokio::try_join!(client, upstream.upgraded(head)) {
            Ok((client, upstream)) => relayed.run(TokioIo::new(client), TokioIo::new(upstream)).await,
            Err(error) => tracing::debug!(%error, "a connection was not handed over after a 101"),
        }
    };
    if ongoing.http2 {
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends with its stream, which ends with the connection of the client"
        )]
        tokio::spawn(joined);
    } else {
        ongoing.connection.goes_on_with(joined);
    }
    answer
}
