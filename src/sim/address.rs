//! Reading `sim://PROVIDER?option=value`.
use std::{fmt, time::Duration};

use aconite_toxics::Millis;

use super::provider::{PROVIDERS, Provider, names};

/// The URL names no simulated provider, or names one wrongly.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The URL does not begin with `sim://`.
    #[error("`{url}` is not a simulated provider: it should look like sim://openai")]
    NotSim {
        /// The URL as given.
        url: String,
    },
    /// There is no such provider.
    #[error(
        "there is no simulated provider `{name}`; the nearest is `{nearest}`, and there are {}",
        list(&names())
    )]
    UnknownProvider {
        /// The name as given.
        name: String,
        /// The known name that looks most like it.
        nearest: &'static str,
    },
    /// The URL goes on after the provider's name with something other than options.
    #[error("`{path}` cannot follow sim://{provider}: only options can, as in sim://openai?tps=20")]
    Path {
        /// The provider.
        provider: &'static str,
        /// What follows its name.
        path: String,
    },
    /// There is no such option.
    #[error(
        "sim://{provider} has no option `{option}`; the nearest is `{nearest}`, and there are {}",
        list(OPTIONS)
    )]
    UnknownOption {
        /// The provider.
        provider: &'static str,
        /// The option as given.
        option: String,
        /// The known option that looks most like it.
        nearest: &'static str,
    },
    /// The option says how a model answers, and this provider is not a model.
    #[error("sim://{provider} takes no options: `{option}` is about how a model's answer is paced")]
    NoOptions {
        /// The provider.
        provider: &'static str,
        /// The option as given.
        option: String,
    },
    /// The option is given twice.
    #[error("`{option}` is given twice")]
    Twice {
        /// The option.
        option: &'static str,
    },
    /// The option's value cannot be used.
    #[error("`{option}={value}` is not possible: {expected}")]
    Value {
        /// The option.
        option: &'static str,
        /// The value as given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// The provider of that name, in any case.
fn provider(name: &str) -> Result<&'static Provider, SimError> {
    let known = PROVIDERS.iter().find(|provider| provider.name.eq_ignore_ascii_case(name));
    known
        .copied()
        .ok_or_else(|| SimError::UnknownProvider { name: name.to_owned(), nearest: nearest(name, &names()) })
}

/// How a model's answer comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// From the whole request to the first token.
    pub(super) ttft: Duration,
    /// From one token to the next.
    pub(super) gap: Duration,
    /// Length of a text answer, if it is not the canonical one.
    pub(super) tokens: Option<usize>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { ttft: Duration::from_millis(20), gap: Duration::from_millis(20), tokens: None }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) provider: &'static Provider,
    pub(super) pace: Pace,
}

const OPTIONS: &[&str] = &["tps", "ttft", "tokens"];

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, SimError> {
        let rest = url
            .get(..6)
            .filter(|scheme| scheme.eq_ignore_ascii_case("sim://"))
            .and_then(|_| url.get(6..))
            .ok_or_else(|| SimError::NotSim { url: url.to_owned() })?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, path) = place.split_at(place.find(['/', '#']).unwrap_or(place.len()));
        let provider = provider(name)?;
        if !matches!(path, "" | "/") {
            return Err(SimError::Path { provider: provider.name, path: path.to_owned() });
        }
        let mut pace = Pace::default();
        let mut seen = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (option, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !provider.is_model {
                return Err(SimError::NoOptions { provider: provider.name, option: option.to_owned() });
            }
            let option = pace.set(provider, option, value)?;
            if seen.contains(&option) {
                return Err(SimError::Twice { option });
            }
            seen.push(option);
        }
        Ok(Self { provider, pace })
    }
}

impl Pace {
    fn set(&mut self, provider: &Provider, option: &str, value: &str) -> Result<&'static str, SimError> {
        let refuse = |option, expected| SimError::Value { option, value: value.to_owned(), expected };
        match option {
            "tps" => {
                let expected = "tokens per second are a number from 0.01 to 1000000";
                let tps = value.parse().ok().filter(|tps: &f64| (0.01..=1e6).contains(tps));
                let tps = tps.ok_or_else(|| refuse("tps", expected))?;
                self.gap = Duration::from_secs_f64(1.0 / tps);
                Ok("tps")
            }
            "ttft" => {
                let expected = "the time to the first token lies between 0ms and 1h, as in 200ms or 2s";
                let ttft = Millis::parse(value).ok().filter(|ttft| *ttft <= Millis(3_600_000));
                self.ttft = ttft.ok_or_else(|| refuse("ttft", expected))?.into();
                Ok("ttft")
            }
            "tokens" => {
                let expected = "an answer's length is a whole number of tokens from 1 to 100000";
                let tokens = value.parse().ok().filter(|tokens| (1..=100_000).contains(tokens));
                self.tokens = Some(tokens.ok_or_else(|| refuse("tokens", expected))?);
                Ok("tokens")
            }
            _ => Err(SimError::UnknownOption {
                provider: provider.name,
                option: option.to_owned(),
                nearest: nearest(option, OPTIONS),
            }),
        }
    }
}

/// The one of `known` (never empty) that takes the fewest edits to become `name`; the first among equals.
fn nearest(name: &str, known: &[&'static str]) -> &'static str {
    let name = name.to_ascii_lowercase();
    known.iter().copied().min_by_key(|known| strsim::damerau_levenshtein(&name, known)).unwrap_or_default()
}

fn list(names: &[&'static str]) -> impl fmt::Display {
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_with_their_units() {
        let Address { provider, pace } = Address::parse("sim://openai/?tps=0.5&ttft=200ms&tokens=7").unwrap();
        assert_eq!(provider.name, "openai");
        let expected =
            Pace { ttft: Duration::from_millis(200), gap: Duration::from_secs(2), tokens: Some(7) };
        assert_eq!(pace, expected);
        assert_eq!(Address::parse("SIM://Anthropic").unwrap().pace, Pace::default());
        assert_eq!(Address::parse("sim://openai?ttft=0s").unwrap().pace.ttft, Duration::ZERO);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, said) in [
            (
                "sim://opnai",
                "there is no simulated provider `opnai`; the nearest is `openai`, and there are openai, anthropic, gemini, ollama, qdrant",
            ),
            (
                "sim://openai?ttfb=1s",
                "sim://openai has no option `ttfb`; the nearest is `ttft`, and there are tps, ttft, tokens",
            ),
            (
                "sim://qdrant?tps=5",
                "sim://qdrant takes no options: `tps` is about how a model's answer is paced",
            ),
            ("sim://openai?tps=5&tps=5", "`tps` is given twice"),
            (
                "sim://openai/v1",
                "`/v1` cannot follow sim://openai: only options can, as in sim://openai?tps=20",
            ),
            (
                "https://api.openai.com",
                "`https://api.openai.com` is not a simulated provider: it should look like sim://openai",
            ),
        ] {
            assert_eq!(Address::parse(url).unwrap_err().to_string(), said, "{url}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for pair in [
            "tps=0",
            "tps=-1",
            "tps=NaN",
            "tps=inf",
            "tps=",
            "tps",
            "tps=1000001",
            "ttft=200",
            "ttft=1.5s",
            "ttft=61m",
            "ttft=-1ms",
            "tokens=0",
            "tokens=100001",
            "tokens=1.0",
        ] {
            let error = Address::parse(&format!("sim://anthropic?{pair}")).unwrap_err();
            assert!(matches!(error, SimError::Value { .. }), "{pair}: {error:?}");
        }
        for url in ["", "sim", "sim://", "sim:/openai", "éééé", "sim://\u{1F600}"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
