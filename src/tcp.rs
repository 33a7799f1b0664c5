//! Bytes both ways between a client and an upstream, whatever they mean.
use std::sync::Arc;

use aconite_toxics::{ConnectFault, Direction, host::bracketed};
use tokio::net::TcpStream;

use crate::{
    connection::ConnectionShared,
    dial::{DialPlan, DialTarget, Dialer},
    link::{self, Lane},
};

/// Connects a client of a `tcp` proxy to its upstream. `None` if there is no connection: the client's is closed then.
pub(crate) async fn connect(
    connection: &ConnectionShared,
    client: &TcpStream,
    dialer: &Dialer,
    place: DialTarget<'_>,
) -> Option<TcpStream> {
    let place = match connection.connect_fault(|_| true, None).into() {
        DialPlan::AsAsked => place,
        DialPlan::At(address) => place.at(address),
        DialPlan::Fails(ConnectFault::StaleAddress(_)) => {
            let leaving = link::closed_by_peer(client);
            // As if it had been tried.
            let _ = tokio::time::timeout(dialer.connect_timeout, leaving).await;
            return None;
        }
        DialPlan::Fails(ConnectFault::Blackhole | ConnectFault::DnsTimeout | ConnectFault::TlsStall) => {
            link::closed_by_peer(client).await;
            return None;
        }
        DialPlan::Fails(_) => return None,
    };
    match dialer.dial(&place).await {
        Ok((stream, address)) => {
            connection.reached(address);
            connection.leads_to(&format!("{}:{}", bracketed(&place.host), place.port));
            Some(stream)
        }
        Err(error) => {
            tracing::warn!(proxy = %connection.site.name, %error, "no connection to the upstream");
            None
        }
    }
}

/// Moves bytes both ways, through the connection's byte toxics.
pub(crate) async fn relay(client: TcpStream, upstream: TcpStream, connection: &Arc<ConnectionShared>) {
    let up = Lane::new(connection.opened, connection.governor(Direction::Upstream));
    let down = Lane::new(connection.opened, connection.governor(Direction::Downstream));
    let relay = link::relay(client, upstream, up, down, &connection.counters, connection.stop.cancelled());
    let ending = relay.await;
    tracing::debug!(proxy = %connection.site.name, connection = connection.id, ?ending, "a connection ended");
}
