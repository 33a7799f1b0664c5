use super::Dialect;

/// The hosts that providers are publicly known by, as globs: what a forward proxy intercepts by default.
pub fn known_hosts() -> impl Iterator<Item = (&'static str, Dialect)> {
    Dialect::ALL.iter().flat_map(|dialect| dialect.provider().hosts.iter().map(|host| (*host, *dialect)))
}

/// Whose host it is. A port, a dot at the end and case don't matter.
pub(super) fn owner(host: &str) -> Option<Dialect> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_end_matches('.');
    known_hosts()
        .find(|(pattern, _)| matches(pattern.as_bytes(), name.as_bytes()))
        .map(|(_, dialect)| dialect)
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if !pattern.last().zip(name.last()).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b)) {
        return false;
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return pattern.eq_ignore_ascii_case(name);
    };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    name.len() > before.len() + after.len()
        && name[name.len() - after.len()..].eq_ignore_ascii_case(after)
        && name[..before.len()].eq_ignore_ascii_case(before)
}
