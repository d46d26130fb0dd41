//! Content negotiation: what the client sends, what it can read (H-06, H-07, F-074).

use http::{HeaderMap, header};

/// The forms a client accepts for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    /// `application/json`
    pub(super) json: bool,
    /// `text/event-stream`
    pub(super) events: bool,
}

/// Whether the body is declared to be JSON, parameters and case aside.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let media = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json")
}

/// What `Accept` allows; none at all allows everything.
pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    let mut found = Accepts { json: false, events: false };
    let mut any = false;
    for value in headers.get_all(header::ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',') {
            any |= !range.trim().is_empty();
            let (media, wanted) = media_range(range);
            if !wanted {
                continue;
            }
            let is = |names: [&str; 2]| names.into_iter().any(|name| media.eq_ignore_ascii_case(name));
            found.json |= is(["application/json", "application/*"]) || media == "*/*";
            found.events |= is(["text/event-stream", "text/*"]) || media == "*/*";
        }
    }
    if any { found } else { Accepts { json: true, events: true } }
}

/// The media type, and whether its weight is not zero.
fn media_range(range: &str) -> (&str, bool) {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let zero = parts.any(|p| {
        let weight = p.strip_prefix("q=").or_else(|| p.strip_prefix("Q="));
        weight.is_some_and(|w| w.trim().parse::<f32>().is_ok_and(|w| w == 0.0))
    });
    (media, !zero)
}

#[cfg(test)]
mod tests {
    use super::{Accepts, accepts, is_json};
    use http::{HeaderMap, HeaderValue};

    fn of(values: &[&str]) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("accept", HeaderValue::from_str(value).unwrap());
        }
        let Accepts { json, events } = accepts(&headers);
        (json, events)
    }

    /// Covers: H-07 policy, F-074.
    #[test]
    fn f_074_accept_is_read_leniently() {
        assert_eq!(of(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(of(&["text/event-stream,application/json"]), (true, true));
        assert_eq!(of(&["application/json"]), (true, false));
        assert_eq!(of(&["text/event-stream"]), (false, true));
        assert_eq!(of(&["*/*"]), (true, true));
        assert_eq!(of(&["application/*"]), (true, false));
        assert_eq!(of(&[]), (true, true));
        assert_eq!(of(&["application/json;q=0.9, text/event-stream;q=0.1"]), (true, true));
        assert_eq!(of(&["application/json;q=0, text/event-stream"]), (false, true));
        assert_eq!(of(&["APPLICATION/JSON"]), (true, false));
        assert_eq!(of(&["application/json", "text/event-stream"]), (true, true));
        assert_eq!(of(&["text/html"]), (false, false));
    }

    /// Covers: H-06 policy, F-074.
    #[test]
    fn h_06_content_type() {
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_str(value).unwrap());
            is_json(&headers)
        };
        for good in ["application/json", "application/json;charset=UTF-8", "Application/JSON ; charset=utf-8"]
        {
            assert!(check(good), "{good}");
        }
        for bad in ["text/plain", "application/jsonp", "application/json-rpc", ""] {
            assert!(!check(bad), "{bad}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
