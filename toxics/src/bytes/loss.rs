use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Moment, NEVER, Percent, Schedule, Scope, StreamFilter, Toxic};

/// Simulates packet loss as an application sees it over TCP: no byte is lost, but data stalls until it is
/// retransmitted.
///
/// The stream is divided into segments of 1,460 bytes, each lost with the given probability. A lost segment arrives
/// after the retransmission timeout; if it is lost again, after twice that time, and so on (RFC 6298), with at most two
/// minutes between retries. The data behind it waits and then arrives at once. After 15 retries no more data passes, as
/// on a dead path; this is always so at 100 percent. Which segments are lost depends only on the seed and on their
/// position in the stream. A change applies to held data; removing the toxic releases it.
///
/// This is the slow case, in which only the retransmission timer detects the loss. With much data in flight a real
/// sender often recovers within one round trip.
///
/// Toxiproxy's newer `packet_loss` drops bytes out of the stream, which TCP never does.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Loss {
    /// The share of segments lost. Default 10.
    percent: Percent,
    /// The first retransmission timeout. Default 200 ms, the least that Linux uses.
    rto: Millis,
}

impl Default for Loss {
    fn default() -> Self {
        Self { percent: Percent::of(10.0), rto: Millis(200) }
    }
}

impl Toxic for Loss {
    const TYPE: &'static str = "loss";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { percent: Percent::of(5.0), rto: Millis(200) }
    }

    fn start(&self, _: &Scope, dice: Dice) -> Instance {
        Instance::Bytes(Box::new(Path { config: self.clone(), dice, left: 0 }))
    }
}

/// The payload of a full packet on Ethernet.
const SEGMENT: usize = 1_460;
/// Linux's `tcp_retries2`.
const MAX_RETRIES: u32 = 15;
/// Linux's `TCP_RTO_MAX`.
const MAX_RTO: Duration = Duration::from_secs(120);

struct Path {
    config: Loss,
    dice: Dice,
    /// How many bytes the current segment still takes.
    left: usize,
}

impl Path {
    /// How much later the next segment arrives; `None` if never.
    fn delay(&mut self) -> Option<Duration> {
        let first = Duration::from(self.config.rto);
        let (mut delay, mut rto) = (Duration::ZERO, first);
        for _ in 0..=MAX_RETRIES {
            if !self.dice.happens(self.config.percent.share()) {
                return Some(delay);
            }
            delay = delay.saturating_add(rto);
            rto = rto.saturating_mul(2).min(MAX_RTO.max(first));
        }
        None
    }
}

impl StreamFilter<Bytes> for Path {
    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let (mut at, mut taken) = (now, 0);
        while taken < item.len() {
            if self.left == 0 {
                self.left = SEGMENT;
                let arrival = self.delay().map_or(NEVER, |delay| now.saturating_add(delay));
                if arrival > at {
                    out.strike(now);
                    if taken > 0 {
                        out.send(at, item.split_to(taken));
                    }
                    (at, taken) = (arrival, 0);
                }
            }
            let step = self.left.min(item.len() - taken);
            self.left -= step;
            taken += step;
        }
        out.send(at, item);
    }

    fn only_delays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{
        super::testing::{Line, log, ms},
        *,
    };

    fn path(percent: f64, rto: u64, seed: u64) -> Path {
        let config = Loss { percent: Percent::of(percent), rto: Millis(rto) };
        Path { config, dice: Dice::new(seed, "proxy", "loss", 0), left: 0 }
    }

    #[test]
    fn at_0_percent_all_passes_at_once() {
        let mut line = Line::with("loss", &json!({"percent": 0}));
        line.push(ms(10), vec![b'x'; 10_000]);
        line.end(ms(20));
        assert_eq!(line.data().len(), 10_000);
        assert_eq!(line.sent.len(), 2);
        assert_eq!(line.struck(), None);
    }

    #[test]
    fn at_100_percent_nothing_passes_until_it_is_removed() {
        let mut line = Line::with("loss", &json!({"percent": 100}));
        line.push(ms(10), "data");
        line.end(ms(20));
        line.at(ms(100_000_000));
        assert_eq!(line.log(), []);
        line.remove();
        assert_eq!(line.log(), log([(100_000_000, "data"), (100_000_000, "<end>")]));
    }

    #[test]
    fn a_change_applies_to_what_waits() {
        let mut line = Line::with("loss", &json!({"percent": 100}));
        line.push(ms(10), "data");
        line.at(ms(1_000));
        line.change("loss", &json!({"percent": 0}));
        assert_eq!(line.log(), log([(1_000, "data")]));
    }

    #[test]
    fn each_loss_of_the_same_segment_doubles_the_wait() {
        let mut path = path(50.0, 200, 1);
        let mut seen: Vec<_> = (0..1_000).map(|_| path.delay().unwrap().as_millis()).collect();
        let lost = seen.iter().filter(|delay| **delay > 0).count();
        assert!((400..600).contains(&lost), "{lost}");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen[..5], [0, 200, 600, 1_400, 3_000]);
    }

    #[test]
    fn the_wait_grows_by_two_minutes_at_most() {
        // 15 losses in a row: 0.2 s doubled up to 102.4 s, then 120 s each.
        let doubled: f64 = (0..10).map(|n| 0.2 * f64::from(1 << n)).sum();
        let mut path = path(90.0, 200, 1);
        let longest = (0..10_000).filter_map(|_| path.delay()).max().unwrap();
        assert_eq!(longest.as_millis(), ((doubled + 5.0 * 120.0) * 1_000.0).round() as u128);
    }

    #[test]
    fn what_follows_a_lost_segment_waits_behind_it() {
        let mut path = path(20.0, 300, 1);
        let delays: Vec<_> = (0..100).map(|_| path.delay().unwrap()).collect();
        let index = delays.iter().position(|delay| !delay.is_zero()).unwrap();
        let mut line = Line::with("loss", &json!({"percent": 20, "rto": 300}));
        line.push(ms(0), vec![b'x'; index * SEGMENT + 10]);
        line.push(ms(50), "behind");
        line.at(ms(100_000));
        let sent: Vec<_> = line.sent.iter().map(|(at, _)| *at).collect();
        let before = usize::from(index > 0);
        assert_eq!(sent[before..], [delays[index], delays[index]]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_cuts_do_not_matter(
            size in 1usize..40_000,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            percent in 0.0f64..60.0,
            rto in 1u64..1_000,
        ) {
            let data: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let attributes = json!({"percent": percent, "rto": rto});
            let departures = |cuts: Vec<usize>| {
                let mut line = Line::with("loss", &attributes);
                let mut from = 0;
                for to in cuts.into_iter().chain([size]) {
                    line.push(ms(7), &data[from..to]);
                    from = to;
                }
                line.at(ms(100_000_000));
                let mut each = Vec::new();
                for (at, step) in &line.sent {
                    if let crate::Step::Item(item) = step {
                        each.extend(std::iter::repeat_n(*at, item.len()));
                    }
                }
                (line.data(), each)
            };
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(size)).collect();
            cuts.sort_unstable();
            let (whole, cut) = (departures(Vec::new()), departures(cuts));
            prop_assert_eq!(&whole.0, &data);
            prop_assert_eq!(whole, cut);
        }
    }
}
