//! Who may look at the status page: this machine, or who has the token. For others it does not exist (design §8).

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::super::{Desk, text};

pub(super) async fn check(State(desk): State<Arc<Desk>>, request: Request<Body>, next: Next) -> Response {
    // Of the configuration as it is now: a reload may bring another token.
    let config = Arc::clone(&desk.gateway.snapshot().config);
    match &config.admin.token {
        None if !desk.status.loopback => return nothing(),
        None => {}
        Some(token) => match presented(request.headers()) {
            Some(given) if is_same(&given, token.expose()) => {}
            given => {
                if given.is_some() {
                    desk.gateway.metrics.auth_rejection("status_page");
                }
                return who_are_you();
            }
        },
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n".to_owned());
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    // Browsers send a password they know with any page's requests, and reach loopback from anywhere.
    if is_of_another_site(request.headers()) {
        return text(StatusCode::FORBIDDEN, "not for pages of other sites\n".to_owned());
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

/// As for any path that there is not.
fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn who_are_you() -> Response {
    let mut response =
        text(StatusCode::UNAUTHORIZED, "admin.token, as bearer token or password\n".to_owned());
    let headers = response.headers_mut();
    let ask = HeaderValue::from_static("Basic realm=\"Gatehouse status\", charset=\"UTF-8\"");
    headers.append(header::WWW_AUTHENTICATE, ask);
    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"Gatehouse status\""));
    response
}

/// A bearer token, or the password that a browser asked for, whatever the name.
fn presented(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, given) = only.to_str().ok()?.split_once(' ')?;
    let given = given.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(given.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(given).ok()?).ok()?;
    Some(pair.split_once(':')?.1.to_owned())
}

/// Neither how much of it is right nor how long it is shows in the time this takes.
fn is_same(given: &str, token: &str) -> bool {
    let (given, token) = (digest(&SHA256, given.as_bytes()), digest(&SHA256, token.as_bytes()));
    verify_slices_are_equal(given.as_ref(), token.as_ref()).is_ok()
}

/// What browsers say of the page that asks. A link that is followed is no harm: what it opens, its page cannot read.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let told = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let followed = told("sec-fetch-mode") == Some(b"navigate") && told("sec-fetch-dest") == Some(b"document");
    matches!(told("sec-fetch-site"), Some(site) if site != b"same-origin" && site != b"none") && !followed
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::{is_of_another_site, is_same, presented};

    fn of(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        presented(&headers)
    }

    #[test]
    fn a_token_comes_as_bearer_or_as_password() {
        for good in ["Bearer a:b", "bearer a:b", "Basic YW55OmE6Yg==", "BASIC OmE6Yg=="] {
            assert_eq!(of(&[good]).as_deref(), Some("a:b"), "{good}");
        }
        let bad: [&[&str]; 7] = [
            &[],
            &["Bearer"],
            &["Digest a:b"],
            &["Basic a:b"],
            &["Basic YQ=="],
            &["Basic /w=="],
            &["Bearer a", "Bearer a"],
        ];
        for bad in bad {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_the_same_token_is_the_same() {
        assert!(is_same("0123456789abcdef", "0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeg", "0123456789ABCDEF", "0123456789abcdef "] {
            assert!(!is_same(other, "0123456789abcdef"), "{other}");
        }
    }

    #[test]
    fn pages_of_other_sites_may_link_and_no_more() {
        let asked = |site: Option<&'static str>, mode: &'static str, dest: &'static str| {
            let mut headers = HeaderMap::new();
            if let Some(site) = site {
                headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            }
            headers.insert("sec-fetch-mode", HeaderValue::from_static(mode));
            headers.insert("sec-fetch-dest", HeaderValue::from_static(dest));
            is_of_another_site(&headers)
        };
        for site in [None, Some("same-origin"), Some("none")] {
            assert!(!asked(site, "cors", "empty"));
        }
        for site in [Some("cross-site"), Some("same-site")] {
            assert!(asked(site, "cors", "empty") && asked(site, "no-cors", "image"));
            assert!(asked(site, "navigate", "iframe"));
            assert!(!asked(site, "navigate", "document"));
        }
    }
}
