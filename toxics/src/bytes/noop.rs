use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Moment, Schedule, Scope, StreamFilter, Toxic};

/// Does nothing: all data passes unchanged and without delay.
///
/// For trying out the API, or as a placeholder. It has no attributes. Compatible with Toxiproxy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Noop {}

impl Toxic for Noop {
    const TYPE: &'static str = "noop";
    const LEVEL: Level = Level::Bytes;

    fn example() -> Self {
        Self {}
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Bytes(Box::new(Pass))
    }
}

struct Pass;

impl StreamFilter<Bytes> for Pass {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        out.send(now, item);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Line, log, ms};

    #[test]
    fn all_passes_at_once() {
        let mut line = Line::with("noop", &json!({}));
        line.push(ms(10), "data");
        line.end(ms(20));
        assert_eq!(line.log(), log([(10, "data"), (20, "<end>")]));
        assert_eq!(line.struck(), None);
    }
}
