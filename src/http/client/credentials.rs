//! Who may use a forward proxy: the Basic scheme (RFC 7617) in `Proxy-Authorization`.
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// What the API shows in place of a password.
const MASK: &str = "***";

/// Some clients leave the padding out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A user and a password that clients have to present.
pub(crate) struct Credentials {
    utf8: Vec<u8>,
    /// The same in Latin-1, which older clients send.
    latin1: Option<Vec<u8>>,
}

impl Credentials {
    /// Reads `USER:PASSWORD`.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected USER:PASSWORD, such as `ci:s3cret`";
        match text.split_once(':') {
            _ if text.is_empty() => {
                return Err(format!("they are empty: {EXPECTED}, or leave the field out"));
            }
            None => return Err(format!("they have no colon: {EXPECTED}")),
            Some(("", "")) => return Err(format!("user and password are empty: {EXPECTED}")),
            Some((_, MASK)) => {
                return Err(format!(
                    "`{MASK}` is what the API shows in place of the password: write the password itself"
                ));
            }
            Some(_) if text.chars().any(char::is_control) => {
                return Err("they contain a control character, which RFC 7617 does not allow".to_owned());
            }
            Some(_) => {}
        }
        let latin1 = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        Ok(Self { utf8: text.as_bytes().to_vec(), latin1 })
    }

    /// Whether a value of `Proxy-Authorization` presents them. Schemes are compared without regard to case (RFC 9110,
    /// section 11.1).
    pub(crate) fn admit(&self, value: &[u8]) -> bool {
        let Some(at) = value.iter().position(|byte| matches!(byte, b' ' | b'\t')) else { return false };
        let (scheme, rest) = value.split_at(at);
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return false;
        }
        let Ok(given) = LENIENT.decode(rest.trim_ascii()) else { return false };
        let latin1 = self.latin1.as_ref().is_some_and(|latin1| same(&given, latin1));
        same(&given, &self.utf8) || latin1
    }
}

/// Compares without telling by its time where the difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn r2_07_credentials_in_every_spelling() {
        let credentials = Credentials::parse("u@x:p:w").unwrap_or_else(|error| panic!("{error}"));
        for value in [
            "Basic dUB4OnA6dw==",
            "basic dUB4OnA6dw==",
            "BASIC  dUB4OnA6dw==",
            "bAsIc \t dUB4OnA6dw== ",
            "Basic dUB4OnA6dw",
        ] {
            assert!(credentials.admit(value.as_bytes()), "{value}");
        }
        for value in [
            "",
            "Basic",
            "Basic ",
            "BasicdUB4OnA6dw==",
            "Bearer dUB4OnA6dw==",
            "Basic dUB4OnA6d",
            "Basic dUB4OnA6dw== x",
            "dUB4OnA6dw==",
        ] {
            assert!(!credentials.admit(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn r2_07_credentials_in_utf_8_and_latin_1() {
        let credentials = Credentials::parse("ünï:wörd").unwrap_or_else(|error| panic!("{error}"));
        for bytes in [&b"\xfcn\xef:w\xf6rd"[..], "ünï:wörd".as_bytes()] {
            assert!(credentials.admit(format!("Basic {}", BASE64_STANDARD.encode(bytes)).as_bytes()));
        }
        let chinese = Credentials::parse("模型:x").unwrap_or_else(|error| panic!("{error}"));
        assert!(chinese.admit(format!("basic {}", BASE64_STANDARD.encode("模型:x")).as_bytes()));
    }

    #[test]
    fn a_15_credentials_that_mean_nothing_are_refused() {
        for (text, reason) in [
            ("", "they are empty"),
            (":", "user and password are empty"),
            ("nocolon", "no colon"),
            ("user:***", "write the password itself"),
            ("user:a\nb", "control character"),
        ] {
            let said = Credentials::parse(text).map(drop).unwrap_err();
            assert!(said.contains(reason), "{text}: {said}");
        }
        for text in ["user:", ":token", "u:p:w", "user:**", "user:****"] {
            assert!(Credentials::parse(text).is_ok(), "{text}");
        }
    }
}
