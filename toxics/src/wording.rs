//! What a deserializer complains about, in words for people who do not know Rust.

/// The same complaint with the names of Rust's types replaced: `expected u64` becomes `expected a whole number from 0`.
///
/// Only what follows the last `, expected ` is touched, so that a quoted value stays as it was given.
pub fn plain_words(complaint: String) -> String {
    // Queries and flags are read from text.
    match complaint.as_str() {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            return "not a whole number from 0".to_owned();
        }
        "number too large to fit in target type" => return "too large a number".to_owned(),
        _ => {}
    }
    let Some((head, expected)) = complaint.rsplit_once(", expected ") else { return complaint };
    let words = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        // An object with exactly one key is read as an enum, which could be text as well.
        "a map" | "map" | "string or map" => "an object",
        _ if expected.starts_with("struct ") => "an object",
        _ => return complaint,
    };
    format!("{head}, expected {words}")
}

#[cfg(test)]
mod tests {
    use super::plain_words;

    #[test]
    fn the_names_of_types_are_replaced_and_values_are_not() {
        for (complaint, plain) in [
            (
                "invalid type: string \"x\", expected u64",
                "invalid type: string \"x\", expected a whole number from 0",
            ),
            (
                "invalid type: integer `3`, expected string or map",
                "invalid type: integer `3`, expected an object",
            ),
            ("invalid type: map, expected a sequence", "invalid type: map, expected a list"),
            (
                "invalid type: string \"x\", expected struct Config",
                "invalid type: string \"x\", expected an object",
            ),
            (
                "invalid type: string \", expected u64\", expected f32",
                "invalid type: string \", expected u64\", expected a number",
            ),
            ("unknown field `a`, expected `b` or `c`", "unknown field `a`, expected `b` or `c`"),
            ("invalid digit found in string", "not a whole number from 0"),
            ("missing field `at`", "missing field `at`"),
        ] {
            assert_eq!(plain_words(complaint.to_owned()), plain);
        }
    }
}
