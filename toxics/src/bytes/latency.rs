use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Delays all data by a fixed time, plus or minus some jitter.
///
/// The delay is pipelined: each byte takes longer, and the rate at which bytes
/// flow stays. A direction holds up to 32 MiB on its way. The end of a stream
/// is not delayed by itself but stays behind the data. It is one way: put one
/// on each stream to lengthen a round trip in both halves. Several add up.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// How long data is held back.
    #[serde(default)]
    latency: Millis,
    /// How far the delay may stray from `latency`, either way, rolled anew for each piece of data.
    #[serde(default)]
    jitter: Millis,
}

impl Toxic for Latency {
    const TYPE: &'static str = "latency";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { latency: Millis(200), jitter: Millis(50) }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        Instance::Bytes(Box::new(Delay { config: self.clone(), dice }))
    }
}

struct Delay {
    config: Latency,
    dice: Dice,
}

impl StreamFilter<Bytes> for Delay {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let Latency { latency: Millis(latency), jitter: Millis(jitter) } = self.config;
        let stray =
            if jitter == 0 { 0 } else { self.dice.around_zero(i64::try_from(jitter).unwrap_or(i64::MAX)) };
        let delay = Duration::from_millis(latency.saturating_add_signed(stray));
        out.strike(now);
        out.send(now.saturating_add(delay), item);
    }

    fn only_delays(&self) -> bool {
        true
    }

    fn capacity(&self) -> usize {
        32 * 1024 * 1024
    }
}
