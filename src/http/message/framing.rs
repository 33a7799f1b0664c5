//! How messages are framed. Each side of the proxy has its own framing: what one hop says of it is read here, and made
//! anew for the next hop (RFC 9112, section 6).
use http::{HeaderMap, HeaderValue, Method, header};

/// Where a body ends, as its sender means it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BodyEnd {
    /// Where the transport says: after its last chunk, its length, its stream, or its connection.
    ByItself,
    /// After so many bytes, although hyper reads until the connection closes.
    After(u64),
}

/// Puts a response's header section in order, so that it says in one way only where the body ends.
///
/// `Transfer-Encoding: chunked` overrides `Content-Length` (RFC 9112, section 6.3). `identity`, which RFC 2616 had and
/// nobody may send any more, is as good as no coding. A `chunked` that is repeated in a second field counts once.
///
/// # Errors
/// What is wrong, if the end of the body is in doubt or `http2` cannot carry its coding.
pub(crate) fn of_response(headers: &mut HeaderMap, http2: bool) -> Result<BodyEnd, String> {
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        one_length(headers)?;
        return Ok(BodyEnd::ByItself);
    }
    let mut lines = lines(headers)?;
    lines.dedup_by(|line, before| line == before && is_chunked(line));
    let codings: Vec<&str> =
        lines.iter().flatten().map(String::as_str).filter(|c| *c != "identity").collect();
    if codings.is_empty() {
        headers.remove(header::TRANSFER_ENCODING);
        return Ok(one_length(headers)?.map_or(BodyEnd::ByItself, BodyEnd::After));
    }
    let shown = codings.join(", ");
    chunked_once_at_the_end(&codings).map_err(|why| format!("`Transfer-Encoding: {shown}`: {why}"))?;
    if http2 && codings != ["chunked"] {
        return Err(format!(
            "`Transfer-Encoding: {shown}` cannot be forwarded to a client of HTTP/2, which has no transfer codings"
        ));
    }
    headers.remove(header::CONTENT_LENGTH);
    let is_plain = lines.len() == 1 && headers.get_all(header::TRANSFER_ENCODING).iter().count() == 1;
    if !is_plain && let Ok(value) = HeaderValue::from_str(&shown) {
        headers.insert(header::TRANSFER_ENCODING, value);
    }
    Ok(BodyEnd::ByItself)
}

/// The framing of a request to an HTTP/1.1 upstream, where hyper would leave it out: of an empty body if the method
/// expects one, and of any other if the method does not.
///
/// `length` is the body's, if known, and `over_http2` says how the request came: over HTTP/1.1 it is left as it is.
pub(crate) fn for_http1(
    headers: &mut HeaderMap,
    method: &Method,
    is_empty: bool,
    length: Option<u64>,
    over_http2: bool,
) {
    if headers.contains_key(header::TRANSFER_ENCODING) || headers.contains_key(header::CONTENT_LENGTH) {
        return;
    }
    if !is_empty && length.is_none() {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    } else if is_empty && over_http2 && [Method::POST, Method::PUT, Method::PATCH].contains(method) {
        // RFC 9110, section 8.6.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// The transfer codings in lower case, by field.
fn lines(headers: &HeaderMap) -> Result<Vec<Vec<String>>, String> {
    let fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    fields
        .map(|value| {
            let text = value.to_str().map_err(|_| "`Transfer-Encoding` is not plain text".to_owned())?;
            let codings = text.split(',').map(|coding| coding.trim().to_ascii_lowercase());
            Ok(codings.filter(|coding| !coding.is_empty()).collect())
        })
        .collect()
}

fn is_chunked(line: &[String]) -> bool {
    line == ["chunked"]
}

fn chunked_once_at_the_end(codings: &[&str]) -> Result<(), &'static str> {
    let chunked = codings.iter().filter(|coding| **coding == "chunked").count();
    if chunked > 1 {
        Err("`chunked` may be applied only once (RFC 9112, section 7.1)")
    } else if chunked == 1 && codings.last() != Some(&"chunked") {
        Err("`chunked` has to be the last coding (RFC 9112, section 6.1)")
    } else {
        Ok(())
    }
}

/// Leaves one `Content-Length` field with one number, and gives it.
fn one_length(headers: &mut HeaderMap) -> Result<Option<u64>, String> {
    let mut length = None;
    let mut fields = 0;
    let mut listed = false;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        fields += 1;
        let shown = || {
            format!(
                "`Content-Length: {}` is not a number of bytes",
                String::from_utf8_lossy(value.as_bytes())
            )
        };
        let text = value.to_str().map_err(|_| shown())?;
        listed |= text.contains(',');
        for number in text.split(',').map(str::trim) {
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = number.parse().ok().filter(|_| digits).ok_or_else(shown)?;
            if length.is_some_and(|length| length != number) {
                return Err("two `Content-Length` values contradict each other".to_owned());
            }
            length = Some(number);
        }
    }
    if let Some(length) = length.filter(|_| fields > 1 || listed) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `Transfer-Encoding` and `Content-Length` lines, sensible and not.
    fn framings() -> impl Strategy<Value = HeaderMap> {
        let coding = prop::sample::select(vec!["chunked", "Chunked", "identity", "gzip", "", "é"]);
        let codings = prop::collection::vec(coding, 1..3)
            .prop_map(|codings| (header::TRANSFER_ENCODING, codings.join(", ")));
        let length =
            prop::sample::select(vec!["5", "05", "5, 5", "7", "x", "", "-1", "99999999999999999999"]);
        let length = length.prop_map(|length| (header::CONTENT_LENGTH, length.to_owned()));
        prop::collection::vec(prop_oneof![codings, length], 0..4).prop_map(|fields| {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, HeaderValue::from_bytes(value.as_bytes()).unwrap()));
            let mut headers = HeaderMap::new();
            fields.for_each(|(name, value)| {
                headers.append(name, value);
            });
            headers
        })
    }

    proptest! {
        /// Whatever an upstream says, the client is told of at most one framing, in one field, and the encoder accepts it.
        #[test]
        fn a_response_has_one_framing_or_is_refused(mut headers in framings(), http2: bool) {
            if of_response(&mut headers, http2).is_ok() {
                let codings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
                let lengths: Vec<_> = headers.get_all(header::CONTENT_LENGTH).iter().collect();
                prop_assert!(codings.len() + lengths.len() <= 1, "{headers:?}");
                for length in lengths {
                    prop_assert!(length.to_str().unwrap().parse::<u64>().is_ok(), "{length:?}");
                }
                for codings in codings {
                    prop_assert!(codings.to_str().unwrap().matches("hunked").count() <= 1, "{codings:?}");
                }
            }
        }
    }

    #[test]
    fn a_response_that_is_framed_once_is_left_as_it_is() {
        for (name, value) in [
            ("transfer-encoding", "Chunked"),
            ("transfer-encoding", "gzip, chunked"),
            ("content-length", "5"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            let before = headers.clone();
            assert_eq!(of_response(&mut headers, false), Ok(BodyEnd::ByItself));
            assert_eq!(headers, before);
        }
    }

    #[test]
    fn a_coding_other_than_chunked_does_not_go_to_http_2() {
        let mut headers =
            HeaderMap::from_iter([(header::TRANSFER_ENCODING, HeaderValue::from_static("gzip, chunked"))]);
        let why = of_response(&mut headers, true).unwrap_err();
        assert!(why.contains("HTTP/2"), "{why}");
    }
}
