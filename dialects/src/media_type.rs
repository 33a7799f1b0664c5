//! Media types, as `content-type` headers name them.

/// A media type without its parameters (RFC 9110, section 8.3.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MediaType<'a>(&'a str);

impl<'a> MediaType<'a> {
    /// The media type in a header's value.
    pub fn of(value: &'a str) -> Self {
        Self(value.split(';').next().unwrap_or_default().trim())
    }

    /// Whether it is this one. Case doesn't matter, parameters and suffixes of the value's own do: `application/json`
    /// is neither `application/json-seq` nor `application/problem+json`.
    pub fn is(self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name)
    }

    /// Whether it is this one, or this one in some syntax: `application/grpc` and `application/grpc+proto`.
    pub fn is_with_any_suffix(self, name: &str) -> bool {
        self.0.rsplit_once('+').map_or(self, |(before, _)| Self(before)).is(name)
    }

    /// Whether a suffix names this syntax (RFC 6839): `application/problem+json` is written in `json`.
    pub fn has_suffix(self, syntax: &str) -> bool {
        self.0.rsplit_once('+').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case(syntax))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r2_25_a_type_is_compared_as_a_whole() {
        for (value, is) in [
            ("application/grpc", true),
            ("Application/GRPC ; x=y", true),
            ("application/grpc+proto", true),
            ("application/grpc+json;charset=utf-8", true),
            ("application/grpcx", false),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("x-application/grpc", false),
            ("", false),
        ] {
            assert_eq!(MediaType::of(value).is_with_any_suffix("application/grpc"), is, "{value}");
        }
    }
}
