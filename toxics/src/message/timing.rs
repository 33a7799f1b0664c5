//! How long a wait is.
use std::{f64::consts::TAU, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Millis};

/// How waits are spread.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Distribution {
    /// Always the same; `jitter` is ignored.
    Fixed,
    /// Uniform between the given time minus `jitter` and the given time plus `jitter`.
    #[default]
    Uniform,
    /// A normal distribution with the given time as mean and `jitter` as standard deviation, never below 0.
    Normal,
    /// A log-normal distribution with the given time as mean and `jitter` as standard deviation. It has a tail of long
    /// delays, as most response times have.
    Lognormal,
    /// A Pareto distribution: at least the given time, on average `jitter` more, with a heavy tail: 1 in 100 delays
    /// adds nine times `jitter`, 1 in 10,000 a hundred times.
    Pareto,
}

impl Distribution {
    /// What contradicts a jitter.
    pub(crate) fn check(self, jitter: Millis) -> Result<(), String> {
        if self == Self::Fixed && jitter != Millis(0) {
            return Err("a `fixed` distribution has no `jitter`".to_owned());
        }
        Ok(())
    }

    /// A wait of a stated length.
    pub(crate) fn roll(self, length: Duration, jitter: Millis, dice: &mut Dice) -> Duration {
        if jitter == Millis(0) {
            return length;
        }
        let (length, jitter) = (length.as_secs_f64(), Duration::from(jitter).as_secs_f64());
        let seconds = match self {
            Self::Fixed => length,
            Self::Uniform => length + jitter * (2.0 * dice.unit() - 1.0),
            Self::Normal => length + jitter * bell(dice),
            Self::Lognormal if length == 0.0 => 0.0,
            Self::Lognormal => {
                let variance = (jitter / length).powi(2).ln_1p();
                (length.ln() - variance / 2.0 + variance.sqrt() * bell(dice)).exp()
            }
            // A Lomax distribution of shape 2, whose mean is its scale.
            Self::Pareto => length + jitter * ((1.0 - dice.unit()).powf(-0.5) - 1.0),
        };
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// A number of the standard normal distribution, by the method of Box and Muller.
fn bell(dice: &mut Dice) -> f64 {
    (-2.0 * (1.0 - dice.unit()).ln()).sqrt() * (TAU * dice.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolls(distribution: Distribution, length: u64, jitter: u64) -> Vec<f64> {
        let dice = Dice::new(42, "proxy", "toxic", 1);
        let mut rolls: Vec<_> = (0..10_000)
            .map(|number| {
                let length = Duration::from_millis(length);
                distribution.roll(length, Millis(jitter), &mut dice.split(number)).as_secs_f64() * 1e3
            })
            .collect();
        rolls.sort_unstable_by(f64::total_cmp);
        rolls
    }

    #[track_caller]
    fn assert_near(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not within {tolerance} of {expected}");
    }

    fn mean_and_deviation(rolls: &[f64]) -> (f64, f64) {
        let count = rolls.len() as f64;
        let mean = rolls.iter().sum::<f64>() / count;
        let variance = rolls.iter().map(|roll| (roll - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn without_jitter_all_are_the_same() {
        for distribution in [Distribution::Fixed, Distribution::Normal, Distribution::Pareto] {
            assert_eq!(rolls(distribution, 200, 0)[..], [200.0; 10_000]);
        }
    }

    #[test]
    fn uniform_stays_between_its_bounds_and_fills_them() {
        let rolls = rolls(Distribution::Uniform, 200, 50);
        assert!(rolls[0] >= 150.0 && rolls[9_999] <= 250.0);
        assert_near(rolls[0], 150.0, 1.0);
        assert_near(rolls[9_999], 250.0, 1.0);
        assert_near(rolls[5_000], 200.0, 3.0);
    }

    #[test]
    fn normal_and_lognormal_have_the_stated_mean_and_deviation() {
        for distribution in [Distribution::Normal, Distribution::Lognormal] {
            let (mean, deviation) = mean_and_deviation(&rolls(distribution, 1_000, 200));
            assert_near(mean, 1_000.0, 10.0);
            assert_near(deviation, 200.0, 10.0);
        }
        let lognormal = rolls(Distribution::Lognormal, 1_000, 800);
        assert!(lognormal[5_000] < 900.0, "it leans to the left");
    }

    #[test]
    fn nothing_is_shorter_than_nothing() {
        for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Lognormal] {
            assert_eq!(rolls(distribution, 0, 50)[0], 0.0);
        }
    }

    #[test]
    fn pareto_has_a_floor_a_mean_and_a_tail() {
        let rolls = rolls(Distribution::Pareto, 100, 100);
        assert!(rolls[0] >= 100.0);
        assert_near(rolls[5_000], 141.0, 3.0);
        assert_near(rolls[9_900], 1_000.0, 100.0);
    }
}
