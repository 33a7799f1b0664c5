//! How long a response asks to wait.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};

use super::Response;

/// `retry-after-ms`, else `retry-after` in seconds (a fraction is accepted) or as a date. What cannot be read is ignored.
pub(super) fn of_headers(response: &Response<'_>) -> Option<Duration> {
    let millis = || (response.header)("retry-after-ms")?.trim().parse::<f64>().ok();
    let from_millis = millis().and_then(|millis| seconds(millis / 1_000.0));
    from_millis.or_else(|| {
        let value = (response.header)("retry-after")?.trim();
        match value.parse::<f64>() {
            Ok(value) => seconds(value),
            Err(_) => {
                let date = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
                until(date, response.now)
            }
        }
    })
}

/// The headers of limits, in pairs of what remains and when it is full again.
const LIMITS: &[(&str, &str)] = &[
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
];

/// Until the last of the limits that are used up is full again.
pub(super) fn of_limits(response: &Response<'_>) -> Option<Duration> {
    let used_up = LIMITS.iter().filter(|(remaining, _)| {
        (response.header)(remaining).is_some_and(|remaining| remaining.trim() == "0")
    });
    used_up.filter_map(|(_, reset)| of_reset((response.header)(reset)?.trim(), response.now)).max()
}

/// Numbers above this are seconds since 1970: it is some 30 years.
const EPOCH: f64 = 1e9;

/// A duration as Go prints it (`6m0s`, `120ms`), seconds, seconds since 1970, or a date of RFC 3339.
fn of_reset(value: &str, now: u64) -> Option<Duration> {
    if let Ok(number) = value.parse::<f64>() {
        return seconds(if number > EPOCH { (number - now as f64).max(0.0) } else { number });
    }
    value.parse::<Timestamp>().ok().and_then(|date| until(date, now)).or_else(|| go_duration(value))
}

fn until(date: Timestamp, now: u64) -> Option<Duration> {
    let date = u64::try_from(date.as_second()).ok()?;
    Some(Duration::from_secs(date.saturating_sub(now)))
}

fn seconds(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}

/// A duration as Go prints it. None for anything else.
pub(super) fn go_duration(mut text: &str) -> Option<Duration> {
    let mut total = 0.0;
    while !text.is_empty() {
        let end = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.')?;
        let (number, rest) = text.split_at(end);
        let unit_end = rest.find(|digit: char| digit.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit_end);
        let scale = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * scale;
        text = rest;
    }
    seconds(total).filter(|_| total > 0.0)
}

/// The texts before a wait, in lower case.
const LEADS: &[&str] = &["try again in ", "retry in ", "retry after "];

/// A wait that a message tells: `Please try again in 1.2s`, `Please retry after 6 seconds`.
pub(super) fn of_text(text: &str) -> Option<Duration> {
    let told = LEADS.iter().find_map(|lead| text.split_once(lead))?.1;
    let mut words = told.split_ascii_whitespace();
    let first = words.next()?.trim_end_matches(['.', ',', ')']);
    match first.parse::<f64>() {
        Ok(number) if words.next().is_some_and(|unit| unit.starts_with("second")) => seconds(number),
        Ok(_) => None,
        Err(_) => go_duration(first),
    }
}
