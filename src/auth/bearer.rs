//! The one credential of a request, out of its head.

use http::{HeaderMap, header};
use url::form_urlencoded;

use super::rejection::Reason;
use crate::config::Secret;

/// Tokens with many groups have some kilobytes; nothing longer is looked at.
const MOST: usize = 12 * 1024;

/// The token of a request.
pub(super) fn bearer<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Result<&'h str, Reason> {
    presented(headers, query)
        .and_then(|token| if is_b64token(token) { Ok(token) } else { Err(Reason::Malformed) })
}

/// What stands after `Bearer`, whatever its letters. A query string never holds a token; with one there as well it is not
/// clear who calls.
pub(super) fn presented<'h>(headers: &'h HeaderMap, query: Option<&str>) -> Result<&'h str, Reason> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let in_query = || query.is_some_and(|query| form_urlencoded::parse(query.as_bytes()).any(is_token));
    let value = match (values.next(), values.next()) {
        (None, _) if in_query() => return Err(Reason::Query),
        (None, _) => return Err(Reason::Missing),
        (Some(_), Some(_)) => return Err(Reason::Several),
        (Some(value), None) => value.to_str().map_err(|_| Reason::Malformed)?,
    };
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Reason::Scheme);
    }
    // A proxy that joins two headers into one writes a comma, which no token has.
    if in_query() || rest.contains(',') {
        return Err(Reason::Several);
    }
    let token = rest.trim_matches(' ');
    if token.len() > MOST { Err(Reason::Oversized) } else { Ok(token) }
}

/// Whether a request tries to say by a token who calls, however badly.
pub fn shows_token(headers: &HeaderMap, query: Option<&str>) -> bool {
    bearer(headers, query) != Err(Reason::Missing)
}

/// A caller's token on its way back to its issuer. Cannot be printed.
#[derive(Debug, Clone)]
pub struct CallerToken(pub Secret);

/// The token of a request that has been let in by it.
pub fn caller_token(headers: &HeaderMap) -> Option<CallerToken> {
    bearer(headers, None).ok().map(|token| CallerToken(Secret::new(token)))
}

fn is_token((name, _): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)) -> bool {
    name == "access_token"
}

/// The letters of RFC 6750 §2.1.
pub(super) fn is_b64token(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() | matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    // Without an early end: tokens are long, and nearly all of them fit.
    !body.is_empty() && body.bytes().fold(true, |all, byte| all & fits(byte))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::super::rejection::Reason;
    use super::{MOST, bearer};

    fn of(values: &[&str], query: Option<&str>) -> Result<String, Reason> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("authorization", HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        bearer(&headers, query).map(str::to_owned)
    }

    /// Covers, F-092.
    #[test]
    fn a_20_one_bearer_in_the_header() {
        for fine in ["Bearer abc.d-e_f~+/==", "bearer abc.d-e_f~+/==", "BEARER   abc.d-e_f~+/== "] {
            assert_eq!(of(&[fine], None).unwrap(), "abc.d-e_f~+/==");
            assert_eq!(of(&[fine], Some("x=access_token")).unwrap(), "abc.d-e_f~+/==");
        }
        assert_eq!(of(&[], None), Err(Reason::Missing));
        assert_eq!(of(&[], Some("access_token=abc")), Err(Reason::Query));
        assert_eq!(of(&[], Some("a=1&access%5Ftoken=abc")), Err(Reason::Query));
        for other in ["Basic YTpi", "DPoP abc", "abc", "", "Bearerabc"] {
            assert_eq!(of(&[other], None), Err(Reason::Scheme), "{other}");
        }
        for several in ["Bearer a, Bearer b", "Bearer a,b"] {
            assert_eq!(of(&[several], None), Err(Reason::Several), "{several}");
        }
        assert_eq!(of(&["Bearer a", "Bearer a"], None), Err(Reason::Several));
        assert_eq!(of(&["Bearer a", "Basic a"], None), Err(Reason::Several));
        assert_eq!(of(&["Bearer a"], Some("access_token=a")), Err(Reason::Several));
        for odd in ["Bearer", "Bearer ", "Bearer a b", "Bearer =", "Bearer a=b", "Bearer \"a\"", "Bearer é"]
        {
            assert_eq!(of(&[odd], None), Err(Reason::Malformed), "{odd}");
        }
        assert_eq!(of(&[&format!("Bearer {}", "a".repeat(MOST + 1))], None), Err(Reason::Oversized));
        assert!(of(&[&format!("Bearer {}", "a".repeat(MOST))], None).is_ok());
    }
}
