//! Names that are like a mistyped one.

/// The three names that are most like a mistyped one, the most similar first.
pub(crate) fn nearest<'n>(mistyped: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mistyped = mistyped.to_lowercase();
    let distance = |name: &'n str| {
        let is_start = !mistyped.is_empty() && name.to_lowercase().starts_with(&mistyped);
        (!is_start, strsim::damerau_levenshtein(&mistyped, &name.to_lowercase()), name)
    };
    let mut scored: Vec<_> = names.into_iter().map(distance).collect();
    scored.sort_unstable();
    scored.into_iter().take(3).map(|(_, _, name)| name).collect()
}

/// The name that was probably meant by a mistyped one: it begins so, or at least half of it is the same.
pub fn meant<'n>(mistyped: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let nearest = nearest(mistyped, names).into_iter().next()?;
    let (mistyped, name) = (mistyped.to_lowercase(), nearest.to_lowercase());
    let edits = strsim::damerau_levenshtein(&mistyped, &name);
    let is_start = !mistyped.is_empty() && name.starts_with(&mistyped);
    (is_start || edits * 2 <= mistyped.chars().count()).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_if_at_least_half_of_it_is_there() {
        let names = ["openai", "anthropic", "Qdrant", "db"];
        for (mistyped, name) in [
            ("opneai", Some("openai")),
            ("OPENAI", Some("openai")),
            ("anth", Some("anthropic")),
            ("qdrnt", Some("Qdrant")),
            ("bd", Some("db")),
            ("redis", None),
            ("", None),
        ] {
            assert_eq!(meant(mistyped, names), name, "{mistyped}");
        }
        assert_eq!(meant("x", []), None);
    }
}
