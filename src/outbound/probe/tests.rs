//! The verdict table at the end of `legacy.md` (G-60, G-61, G-66).

use bytes::Bytes;

use super::{Failure, Received, Verdict, judge};

fn answer(json: &'static str) -> Result<Received, Failure> {
    Ok(Received::parse(Bytes::from_static(json.as_bytes())).unwrap())
}

fn is_modern(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Modern(_))
}

#[test]
fn g_60_a_discover_result_with_our_revision_is_modern() {
    let json = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
    assert!(is_modern(&judge(answer(json), Some(200))));
}

#[test]
fn g_66_only_legacy_versions_mean_the_handshake() {
    let json = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2025-11-25"],"capabilities":{}}}"#;
    assert_eq!(judge(answer(json), Some(200)), Verdict::Legacy);
    let json = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}"#;
    assert_eq!(judge(answer(json), Some(400)), Verdict::Legacy);
}

#[test]
fn g_60_no_common_version_fails_without_a_handshake() {
    let json = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2027-01-01"]}}}"#;
    assert_eq!(judge(answer(json), Some(400)), Verdict::Failed(Failure::Version));
}

#[test]
fn g_60_a_modern_error_never_leads_to_a_handshake() {
    let json = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no"}}"#;
    assert_eq!(judge(answer(json), Some(400)), Verdict::Failed(Failure::HeaderMismatch));
}

#[test]
fn g_61_every_other_error_answer_means_legacy() {
    for (json, status) in [
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#, 200),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#, 404),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"not initialized"}}"#, 400),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#, 200),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"pre-release code"}}"#, 400),
    ] {
        assert_eq!(judge(answer(json), Some(status)), Verdict::Legacy, "{json}");
    }
    for status in [400, 404, 405, 406, 415, 422] {
        assert_eq!(judge(Err(Failure::Status(status)), Some(status)), Verdict::Legacy, "{status}");
    }
    assert_eq!(judge(Err(Failure::Malformed("html")), Some(200)), Verdict::Legacy);
    assert_eq!(judge(Err(Failure::Unavailable("the answer ended early".into())), Some(202)), Verdict::Legacy);
}

#[test]
fn g_61_trouble_and_refused_credentials_are_no_verdict() {
    let json = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    for status in [302, 408, 429, 500, 503] {
        let failed = Verdict::Failed(Failure::Status(status));
        assert_eq!(judge(Err(Failure::Status(status)), Some(status)), failed);
        assert_eq!(judge(answer(json), Some(status)), failed, "whatever its body says");
    }
    for failure in [Failure::Credentials(401), Failure::Unavailable("connect".into()), Failure::TooLarge(1)] {
        assert_eq!(judge(Err(failure.clone()), None), Verdict::Failed(failure));
    }
}
