//! Connections that stop being HTTP: WebSocket and every other Upgrade.
use std::sync::Arc;

use aconite_api::model::{ExchangeEnd, How, Side};
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{
    body::{Body, Source},
    headers::{self, Hop},
    ongoing::Ongoing,
    own_answer::{self, Trouble},
    upstream::upgraded,
};

/// Passes the upstream's `101` on and joins the two connections. The client's byte toxics go on acting.
pub(crate) fn switch(
    ongoing: &Arc<Ongoing>,
    client: OnUpgrade,
    response: Response<Source>,
) -> Response<Body> {
    let (head, source) = response.into_parts();
    let Source::Http1(source) = source else { return not_possible(ongoing) };
    let connection = source.kept.map(|(connection, ..)| connection);
    let mut answer = Response::new(Body::Empty);
    *answer.status_mut() = head.status;
    let hop = Hop { request: false, http2: false, upgrade: true };
    *answer.headers_mut() = headers::for_next_hop(&head.headers, hop).unwrap_or_else(|| head.headers.clone());
    let mut upstream = Response::from_parts(head, source.incoming);
    ongoing.answered(answer.status().as_u16(), false);
    ongoing.control.http_ends();
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
    ongoing.finish(ExchangeEnd { side: Side::Proxy, how: How::Error }, 0, 0, 0);
    let message = "the upstream switched protocols on a connection that cannot be handed over";
    own_answer::refusal(&Trouble::new(StatusCode::BAD_GATEWAY, "upgrade_failed", message))
}
