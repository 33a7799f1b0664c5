use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Direction, Instance, Level, Millis, Moment, NEVER, Schedule, Scope, StreamFilter, Toxic};

/// Resets the connection (TCP RST) after a delay.
///
/// Client and server both get `connection reset by peer`. The delay starts when the connection opens, or when the toxic
/// is added to an open connection; a change restarts it. `timeout` is the delay before the reset, not a period during
/// which connections are reset: use the toxic's `window` for that. During the delay the data of its direction is held.
/// The reset discards it; removing the toxic releases it.
///
/// A new connection is reset 40 ms after it was accepted at the earliest, or, with the stream `upstream`, when the client
/// has sent data: an RST that arrives earlier can make the client's `connect` fail, instead of its first read or write.
///
/// Unlike Toxiproxy's, it also resets idle connections and connections that were open before it was added, and a
/// connection that its toxicity did not select closes normally.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResetPeer {
    /// How long to wait before the reset. Default 0: as soon as the client knows that it is connected.
    timeout: Millis,
}

impl Toxic for ResetPeer {
    const TYPE: &'static str = "reset_peer";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { timeout: Millis(500) }
    }

    fn start(&self, scope: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Break {
            timeout: self.timeout,
            from_client: scope.direction == Direction::Upstream,
            due: Moment::ZERO,
        }))
    }
}

/// A connection is not reset earlier after it was accepted. The client's side of the handshake is over by then, and
/// the program that waits for it has been told.
pub const EARLIEST_RESET: Moment = Moment::from_millis(40);

struct Break {
    timeout: Millis,
    /// Whether the data comes from the client.
    from_client: bool,
    /// When the timeout is over.
    due: Moment,
}

impl Break {
    fn reset(now: Moment, out: &mut Schedule<Bytes>) {
        out.strike(now);
        out.clear();
        out.reset(now);
    }
}

impl StreamFilter<Bytes> for Break {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.due = now.saturating_add(self.timeout.into());
        out.wake_at(self.due.max(EARLIEST_RESET));
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        // A client that sends knows that it is connected.
        if self.from_client && now >= self.due {
            return Self::reset(now, out);
        }
        out.strike(now);
        out.send(NEVER, item);
    }

    fn on_end(&mut self, _: Moment, out: &mut Schedule<Bytes>) {
        out.end(NEVER);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        Self::reset(now, out);
    }

    fn only_delays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Line, log, ms};
    use crate::Direction;

    #[test]
    fn r2_27_a_new_connection_is_reset_once_its_client_knows_that_it_is_connected() {
        for (timeout, reset) in [(0, 40), (10, 40), (40, 40), (41, 41)] {
            let mut line = Line::with("reset_peer", &json!({"timeout": timeout}));
            line.at(ms(39));
            assert_eq!(line.log(), log([]));
            line.at(ms(1_000));
            assert_eq!(line.log(), log([(reset, "<reset>")]), "timeout {timeout}");
        }
    }

    #[test]
    fn r2_27_a_client_that_sends_is_connected() {
        use Direction::{Downstream, Upstream};
        // What the server sends says nothing of the client.
        for (stream, timeout, reset) in
            [(Upstream, 0, 5), (Upstream, 5, 5), (Upstream, 6, 40), (Downstream, 0, 40)]
        {
            let mut line = Line::on(stream, "reset_peer", &json!({"timeout": timeout}));
            line.push(ms(5), "dropped");
            line.at(ms(1_000));
            assert_eq!(line.log(), log([(reset, "<reset>")]), "{stream:?}, timeout {timeout}");
            assert_eq!(line.struck(), Some(ms(5)));
        }
    }

    #[test]
    fn an_open_connection_is_reset_at_once() {
        let mut line = Line::with("noop", &json!({}));
        line.at(ms(1_000));
        line.add("reset_peer", &json!({}));
        assert_eq!(line.log(), log([(1_000, "<reset>")]));
    }

    #[test]
    fn an_idle_connection_is_reset_after_the_delay() {
        let mut line = Line::with("noop", &json!({}));
        line.push(ms(50), "before");
        line.at(ms(1_000));
        line.add("reset_peer", &json!({"timeout": 300}));
        line.at(ms(5_000));
        assert_eq!(line.log(), log([(50, "before"), (1_300, "<reset>")]));
    }

    #[test]
    fn data_in_between_is_held_and_dropped() {
        let mut line = Line::with("reset_peer", &json!({"timeout": 300}));
        line.push(ms(100), "dropped");
        line.end(ms(200));
        line.at(ms(5_000));
        assert_eq!(line.log(), log([(300, "<reset>")]));
        assert_eq!(line.struck(), Some(ms(100)));
        assert_eq!(line.pipeline.weight(), 0);
    }

    #[test]
    fn a_removal_lets_the_data_go_on() {
        let mut line = Line::with("reset_peer", &json!({"timeout": 300}));
        line.push(ms(100), "kept");
        line.end(ms(150));
        line.at(ms(200));
        line.remove();
        line.at(ms(5_000));
        assert_eq!(line.log(), log([(200, "kept"), (200, "<end>")]));
    }

    #[test]
    fn a_change_starts_the_delay_anew_and_keeps_holding() {
        let mut line = Line::with("reset_peer", &json!({"timeout": 300}));
        line.push(ms(100), "dropped");
        line.at(ms(200));
        line.change("reset_peer", &json!({"timeout": 500}));
        line.at(ms(5_000));
        assert_eq!(line.log(), log([(700, "<reset>")]));
    }

    #[test]
    fn a_connection_whose_direction_has_ended_is_reset_too() {
        let mut line = Line::with("noop", &json!({}));
        line.end(ms(50));
        line.at(ms(100));
        line.add("reset_peer", &json!({"timeout": 100}));
        line.at(ms(1_000));
        assert_eq!(line.log(), log([(50, "<end>"), (200, "<reset>")]));
    }
}
