//! Connections and HTTP/2 streams that stop being HTTP: WebSocket and every other Upgrade.
use std::sync::Arc;

use aconite_api::model::{ExchangeEnd, How, Side};
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{
    body::{Body, Source},
    extended_connect,
    headers::{self, Hop},
    ongoing::Ongoing,
    own_answer::{self, Trouble},
    upstream::upgraded,
};

/// Passes the upstream's `101` on and joins the two connections. The client's byte toxics go on acting. A client of HTTP/2
/// has a stream for its part, and a `200`.
pub(crate) fn switch(
    ongoing: &Arc<Ongoing>,
    client: OnUpgrade,
    response: Response<Source>,
) -> Response<Body> {
    let (head, source) = response.into_parts();
    let Source::Http1(source) = source else { return not_possible(ongoing) };
    let connection = source.kept.map(|(connection, ..)| connection);
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
    let mut upstream = Response::from_parts(head, source.incoming);
    ongoing.answered(answer.status().as_u16(), false);
    let ongoing = Arc::clone(ongoing);
    // Ends when either side does: the copy has no other end.
    tokio::spawn(async move {
        let joined = tokio::try_join!(client, upgraded(&mut upstream, connection));
        let (mut bytes, mut how) = (0, How::Error);
        if let Ok((client, upstream)) = joined {
            let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
            match tokio::io::copy_bidirectional(&mut client, &mut upstream).await {
                Ok((up, down)) => {
                    ongoing.request_passed(up);
                    (bytes, how) = (down, How::Fin);
                }
                Err(_) => how = How::Rst,
            }
        }
        ongoing.finish(ExchangeEnd { side: Side::Upstream, how }, bytes, 0, 0);
    });
    answer
}

fn not_possible(ongoing: &Ongoing) -> Response<Body> {
    let message = "the upstream switched protocols on a connection that cannot be handed over";
    let trouble = Trouble::new(StatusCode::BAD_GATEWAY, "upgrade_failed", message);
    ongoing.answered(StatusCode::BAD_GATEWAY.as_u16(), false);
    ongoing.failed(trouble.code());
    own_answer::refusal(&trouble)
}
