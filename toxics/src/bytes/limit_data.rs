use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Closes the connection after a number of bytes.
///
/// Exactly this many bytes pass, then the connection is closed on both sides. Each connection is counted separately,
/// from the moment at which the toxic starts to act on it. A change of the limit keeps the count; a limit below the
/// count closes the connection on the next data.
///
/// As Toxiproxy's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitData {
    /// How many bytes pass. 0, the default, closes the connection on the first data.
    #[schemars(extend("x-unit" = "bytes"))]
    bytes: u64,
}

impl Toxic for LimitData {
    const TYPE: &'static str = "limit_data";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self { bytes: 4_096 }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Quota { limit: self.bytes, passed: 0 }))
    }
}

struct Quota {
    limit: u64,
    passed: u64,
}

impl StreamFilter<Bytes> for Quota {
    fn on_item(&mut self, mut item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        let left = self.limit.saturating_sub(self.passed);
        item.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.passed += item.len() as u64;
        if !item.is_empty() {
            out.send(now, item);
        }
        if self.passed >= self.limit {
            out.strike(now);
            out.close(now);
        }
    }

    fn tally(&self) -> u64 {
        self.passed
    }

    fn resume(&mut self, tally: u64) {
        self.passed = tally;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    #[test]
    fn exactly_so_many_bytes_pass() {
        let mut line = Line::with("limit_data", &json!({"bytes": 6}));
        line.push(ms(10), "abcd");
        line.push(ms(20), "efgh");
        line.push(ms(30), "more");
        line.end(ms(40));
        assert_eq!(line.log(), log([(10, "abcd"), (20, "ef"), (20, "<close>")]));
        assert_eq!(line.struck(), Some(ms(20)));
    }

    #[test]
    fn reaching_the_limit_closes_at_once() {
        let mut line = Line::with("limit_data", &json!({"bytes": 4}));
        line.push(ms(10), "abcd");
        assert_eq!(line.log(), log([(10, "abcd"), (10, "<close>")]));
    }

    #[test]
    fn a_limit_of_0_waits_for_the_first_data() {
        let mut line = Line::with("limit_data", &json!({}));
        line.at(ms(1_000));
        assert_eq!(line.log(), []);
        line.push(ms(2_000), "abcd");
        assert_eq!(line.log(), log([(2_000, "<close>")]));
    }

    #[test]
    fn under_the_limit_it_does_nothing() {
        let mut line = Line::with("limit_data", &json!({"bytes": 300}));
        line.push(ms(10), "abcd");
        line.end(ms(20));
        assert_eq!(line.log(), log([(10, "abcd"), (20, "<end>")]));
        assert_eq!(line.struck(), None);
    }

    #[test]
    fn a_change_goes_on_counting() {
        let mut line = Line::with("limit_data", &json!({"bytes": 100}));
        line.push(ms(10), "abcd");
        line.change("limit_data", &json!({"bytes": 6}));
        line.push(ms(20), "efgh");
        assert_eq!(line.log(), log([(10, "abcd"), (20, "ef"), (20, "<close>")]));
    }

    #[test]
    fn a_limit_below_what_passed_closes_on_the_next_data() {
        let mut line = Line::with("limit_data", &json!({"bytes": 100}));
        line.push(ms(10), "abcd");
        line.change("limit_data", &json!({"bytes": 2}));
        line.at(ms(100));
        assert_eq!(line.log(), log([(10, "abcd")]));
        line.push(ms(200), "efgh");
        assert_eq!(line.log(), log([(10, "abcd"), (200, "<close>")]));
    }

    #[test]
    fn what_another_toxic_lets_go_as_both_are_removed_is_not_counted() {
        let mut line = Line::with("latency", &json!({"latency": 1_000}));
        line.add("limit_data", &json!({"bytes": 2}));
        line.push(ms(10), "abcd");
        line.remove();
        assert_eq!(line.log(), log([(10, "abcd")]));
    }

    proptest! {
        #[test]
        fn the_cut_does_not_depend_on_how_the_data_comes(
            limit in 0u64..200,
            sizes in prop::collection::vec(1usize..50, 1..20),
        ) {
            let mut line = Line::with("limit_data", &json!({"bytes": limit}));
            let all: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|n| n as u8).collect();
            let mut rest = &all[..];
            for size in sizes {
                let (piece, later) = rest.split_at(size);
                line.push(ms(1), piece);
                rest = later;
            }
            let expected = &all[..all.len().min(limit as usize)];
            prop_assert_eq!(line.data(), expected);
            prop_assert_eq!(line.log().iter().any(|(_, what)| what == "<close>"), all.len() as u64 >= limit);
        }
    }
}
