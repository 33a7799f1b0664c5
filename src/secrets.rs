//! Secrets that must not be written down. They are recognised by the names of header fields, query parameters and members.
use std::borrow::Cow;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

/// What is written instead of a secret.
const REDACTED: &str = "REDACTED";
/// A name that ends in one of these, without its punctuation and in lower case, belongs to a secret.
const SUFFIXES: [&str; 16] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "signature",
    "credential",
    "credentials",
    "jwt",
    "assertion",
    "authorization",
    "cookie",
    "sessionid",
    "hmac",
];
/// These names belong to secrets as a whole only: as suffixes they are common words.
const NAMES: [&str; 10] = [
    "sig",
    "code",
    "auth",
    "pass",
    "otp",
    "authcode",
    "authorizationcode",
    "devicecode",
    "usercode",
    "codeverifier",
];
/// Secret in a query, but not in a JSON body, where providers use these names for content.
const WORDS: [&str; 4] = ["key", "token", "signature", "code"];
/// What stands between the parameters of a request target.
const SEPARATORS: [char; 4] = ['?', '&', ';', '#'];
/// How often something that is percent-encoded may be percent-encoded again.
const MAX_NESTING: u8 = 3;
/// A shorter one would hide common words.
const SHORTEST_SECRET: usize = 8;
/// So much of a secret at the end of a text is hidden, too, if the rest is missing.
const SHORTEST_PREFIX: usize = 4;

/// A name without its punctuation and percent-encoding, in lower case.
fn normalised(name: &str) -> String {
    let letters = decoded(name);
    letters.chars().filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn decoded(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_NESTING {
        if !text.contains('%') {
            break;
        }
        text = Cow::Owned(percent_decode_str(&text).decode_utf8_lossy().into_owned());
    }
    text
}

/// Whether a header field or a query parameter of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = normalised(name);
    NAMES.contains(&&*name) || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// A request target, or a part of one, as it may be written down: the values of secret parameters are hidden.
pub(crate) fn redacted(target: &str) -> String {
    hide_parameters(target, MAX_NESTING)
}

fn hide_parameters(target: &str, nesting: u8) -> String {
    if !target.contains(['=', '%']) {
        return target.to_owned();
    }
    let mut shown = String::with_capacity(target.len());
    for part in target.split_inclusive(SEPARATORS) {
        let end = part.len() - usize::from(part.ends_with(SEPARATORS));
        let (parameter, separator) = part.split_at(end);
        match parameter.split_once('=') {
            Some((name, value))
                if is_secret(name.rsplit('/').next().unwrap_or(name)) || holds_secret(value, nesting) =>
            {
                shown.extend([name, "=", REDACTED]);
            }
            None if holds_secret(parameter, nesting) => shown.push_str(REDACTED),
            _ => shown.push_str(parameter),
        }
        shown.push_str(separator);
    }
    shown
}

/// Whether a value is itself a list of parameters, or a URL with some, and one of them is a secret.
fn holds_secret(value: &str, nesting: u8) -> bool {
    let Some(nesting) = nesting.checked_sub(1).filter(|_| value.contains(['=', '%'])) else { return false };
    let value = percent_decode_str(value).decode_utf8_lossy();
    value.contains('=') && hide_parameters(&value, nesting) != value
}

/// A URL as it may be written down: without user and password, and without secret parameters.
pub(crate) fn redacted_url(url: &str) -> String {
    let (scheme, rest) = url.find("://").map_or(("", url), |at| url.split_at(at + 3));
    let (authority, path) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    format!("{scheme}{}{}", without_userinfo(authority), redacted(path))
}

/// An authority without user and password, which only concern who asks (RFC 9110, section 4.2.4).
pub(crate) fn without_userinfo(authority: &str) -> &str {
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// The values of a request that must not be written down, longest first: keys, tokens, cookies.
pub(crate) fn of_request(headers: &HeaderMap, query: Option<&str>) -> Vec<String> {
    let fields = headers.iter().filter(|(name, _)| is_secret(name.as_str()));
    let values = fields.filter_map(|(_, value)| value.to_str().ok());
    // Of `Bearer TOKEN` the token, of `name=value` the value.
    let words =
        values.flat_map(|value| value.split([' ', ';', ','])).map(|word| match word.split_once('=') {
            Some((_, value)) if !value.trim_matches('=').is_empty() => value,
            _ => word,
        });
    let parameters = query.unwrap_or_default().split(SEPARATORS).filter_map(|pair| pair.split_once('='));
    let in_query =
        parameters.filter(|(name, _)| is_secret(name)).flat_map(|(_, value)| [value.into(), decoded(value)]);
    let mut secrets: Vec<_> = words.map(Cow::Borrowed).chain(in_query).map(Cow::into_owned).collect();
    secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
    // One may be the beginning of another.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

/// A body, or its beginning, as it may be written down: without these secrets, and without those that its own names tell.
pub(crate) fn redacted_body(body: &str, secrets: &[String]) -> String {
    let is_form =
        body.contains('=') && !body.contains(char::is_whitespace) && !body.starts_with(['{', '[', '"']);
    let mut body = if is_form { redacted(body) } else { hide_members(body) };
    for secret in secrets {
        if body.contains(&**secret) {
            body = body.replace(&**secret, REDACTED);
        }
    }
    // The end of the text may have cut one.
    let is_cut = |prefix: Option<&str>| prefix.is_some_and(|prefix| body.ends_with(prefix));
    let cut = secrets.iter().filter_map(|secret| {
        (SHORTEST_PREFIX..secret.len()).rev().find(|length| is_cut(secret.get(..*length)))
    });
    if let Some(length) = cut.max() {
        body.truncate(body.len() - length);
        body.push_str(REDACTED);
    }
    body
}

/// JSON, or text with JSON in it, without the strings that are values of secret members.
fn hide_members(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (before, string) = rest.split_at(start + 1);
        let (name, after) = string.split_at(string_end(string));
        shown.extend([before, name]);
        let Some(value) = member_value(after) else {
            shown.push_str(after.get(..1).unwrap_or_default());
            rest = after.get(1..).unwrap_or_default();
            continue;
        };
        if is_secret(name) && !WORDS.contains(&&*normalised(name)) {
            let (between, value) = after.split_at(after.len() - value.len());
            shown.extend([between, REDACTED]);
            rest = value.get(string_end(value)..).unwrap_or_default();
            shown.push_str(rest.get(..1).unwrap_or_default());
            rest = rest.get(1..).unwrap_or_default();
        } else {
            shown.push_str(after.get(..1).unwrap_or_default());
            rest = after.get(1..).unwrap_or_default();
        }
    }
    shown.push_str(rest);
    shown
}

/// Where a JSON string ends: at its closing quote, or with the text.
fn string_end(string: &str) -> usize {
    let mut escaped = false;
    let end = string.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(string.len())
}

/// What follows the opening quote of a member's value, if the member's name ends here and its value is a string.
fn member_value(closing_quote: &str) -> Option<&str> {
    let value = closing_quote.strip_prefix('"')?.trim_start().strip_prefix(':')?;
    value.trim_start().strip_prefix('"')
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    const FAMILIES: [&str; 22] = [
        "key",
        "api-key",
        "subscription-key",
        "X-Goog-Api-Key",
        "token",
        "access_token",
        "refresh_token",
        "id_token",
        "X-Amz-Security-Token",
        "client_secret",
        "secret",
        "password",
        "pwd",
        "passwd",
        "signature",
        "X-Amz-Signature",
        "X-Goog-Signature",
        "X-Amz-Credential",
        "jwt",
        "code",
        "sig",
        "client-assertion",
    ];

    /// A name of a secret, spelt in some way: case, separators, percent-encoding.
    fn spelt_name() -> impl Strategy<Value = String> {
        let family = prop::sample::select(FAMILIES.to_vec());
        (family, prop::collection::vec((any::<bool>(), 0..4_u8), 32)).prop_map(|(name, choices)| {
            let letters = name.chars().zip(choices).map(|(letter, (upper, how))| match (letter, how) {
                ('-' | '_', 0) => "_".to_owned(),
                ('-' | '_', 1) => "-".to_owned(),
                ('-' | '_', 2) => String::new(),
                (letter, 3) => format!("%{:02x}", u32::from(letter)),
                (letter, _) if upper => letter.to_ascii_uppercase().to_string(),
                (letter, _) => letter.to_ascii_lowercase().to_string(),
            });
            letters.collect()
        })
    }

    fn value() -> impl Strategy<Value = String> {
        "[A-Z]{4}[A-Za-z0-9_.~-]{8,40}"
    }

    proptest! {
        #[test]
        fn a_14_no_spelling_of_a_secret_parameter_shows_its_value(
            name in spelt_name(), value in value(), before in "[a-z]{0,6}", separator in prop::sample::select(vec!["?", "&", ";"]),
        ) {
            let target = format!("/v1{separator}x=1&{name}={value}&y=2");
            let shown = redacted(&target);
            prop_assert!(!shown.contains(&value), "{shown}");
            prop_assert!(shown.starts_with(&format!("/v1{separator}x=1&{name}=")) && shown.ends_with("&y=2"), "{shown}");
            let nested = format!("/v1?to={}", percent_encoding::utf8_percent_encode(&target, percent_encoding::NON_ALPHANUMERIC));
            prop_assert!(!redacted(&nested).contains(&value), "{nested}");
            let url = format!("https://{before}:{value}@host{target}");
            prop_assert!(!redacted_url(&url).contains(&value), "{url}");
            let secrets = of_request(&HeaderMap::new(), Some(target.split_once(separator).unwrap().1));
            prop_assert!(secrets.contains(&value), "{secrets:?}");
        }

        #[test]
        fn a_14_a_secret_that_the_bound_cuts_is_hidden(value in value(), kept in 4_usize..48, escapes in "[a-z\\\\\"好]{0,20}") {
            let kept = kept.min(value.len());
            let secrets = [value.clone()];
            let body = format!("{escapes} {value} {}", &value[..kept]);
            let shown = redacted_body(&body, &secrets);
            prop_assert!(!shown.contains(&value) && !shown.ends_with(&value[..kept]), "{shown}");
        }

        #[test]
        fn a_14_secret_members_of_a_body_are_hidden(name in prop::sample::select(vec!["api_key", "clientSecret", "refresh-token", "password", "id_token"]), value in value(), cut in 0_usize..40, spaces in "[ \n]{0,2}") {
            let body = format!("{{\"a\":\"b\",\"{name}\"{spaces}:{spaces}\"{value}\",\"c\":1}}");
            let shown = redacted_body(&body, &[]);
            prop_assert!(!shown.contains(&value) && shown.ends_with("\",\"c\":1}"), "{shown}");
            // The bound may cut the value.
            let start = body.find(&value).unwrap();
            let cut = &body[..start + cut.min(value.len())];
            prop_assert_eq!(redacted_body(cut, &[]), format!("{}REDACTED", &body[..start]));
            let form = format!("a=b&{name}={value}");
            prop_assert_eq!(redacted_body(&form, &[]), format!("a=b&{name}=REDACTED"));
        }

        #[test]
        fn a_body_without_secrets_stays_as_it_is(body in "([a-z{}:,\\[\\]\\\\ \n]|\\{\"token\":\"|\"max_tokens\":|\"){0,60}") {
            prop_assert_eq!(redacted_body(&body, &[]), body);
        }
    }

    #[test]
    fn r2_14_targets_are_shown_without_secrets() {
        for (target, shown) in [
            ("/v1?alt=sse&key=AIza&x=%20", "/v1?alt=sse&key=REDACTED&x=%20"),
            ("/v1", "/v1"),
            ("/v1?%6bey=k", "/v1?%6bey=REDACTED"),
            ("/v1?api%5Fkey=k", "/v1?api%5Fkey=REDACTED"),
            ("/v1?%256bey=k", "/v1?%256bey=REDACTED"),
            ("/v1?X-Amz-Date=1&X-Amz-Signature=s", "/v1?X-Amz-Date=1&X-Amz-Signature=REDACTED"),
            ("/cb?code=c&state=s", "/cb?code=REDACTED&state=s"),
            ("/cb?next=/a?token=t", "/cb?next=/a?token=REDACTED"),
            ("/cb?next=token=t", "/cb?next=REDACTED"),
            ("/a;sessionid=s?x=1", "/a;sessionid=REDACTED?x=1"),
            ("/v1?token%3Dt", "/v1?REDACTED"),
            ("/v1?max_tokens=5&zipcode=1&language_code=de", "/v1?max_tokens=5&zipcode=1&language_code=de"),
            ("/v1?a==&b", "/v1?a==&b"),
            ("/%", "/%"),
        ] {
            assert_eq!(redacted(target), shown);
        }
        assert_eq!(redacted_url("https://u:p@h:1/x?key=k"), "https://h:1/x?key=REDACTED");
        assert_eq!(redacted_url("u:p@h:1"), "h:1");
    }

    #[test]
    fn the_secrets_of_a_request_are_known_by_its_names() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer sk-secret-1"),
            ("ocp-apim-subscription-key", "secret-2"),
            ("x-amz-security-token", "secret-3"),
            ("cookie", "a=b; s=secret-4"),
            ("accept", "not-a-secret"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let secrets = of_request(&headers, Some("x=not-a-secret&code=sec%2Dret-5"));
        let lengths: Vec<_> = secrets.iter().map(String::len).collect();
        assert!(lengths.is_sorted_by(|longer, shorter| longer >= shorter), "{secrets:?}");
        let known: std::collections::BTreeSet<_> = secrets.iter().map(|secret| &**secret).collect();
        let expected = ["sk-secret-1", "sec%2Dret-5", "secret-2", "secret-3", "secret-4", "sec-ret-5"];
        assert_eq!(known, expected.into());
    }
}
