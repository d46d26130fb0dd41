//! `[auth]`: defaults, rules, and what it means for the listener (design §3, A-22, A-50, A-64).

use std::time::Duration;

use super::super::auth::{Algorithm, scope_words};
use super::{config, problems, refuses};

const DIGEST: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

fn issuer(more: &str) -> String {
    format!("[auth]\n[[auth.issuer]]\nissuer = \"https://id.example/\"\n{more}\n")
}

fn key(more: &str) -> String {
    format!("[auth]\n[[auth.key]]\nname = \"ci\"\nsha256 = \"{DIGEST}\"\n{more}\n")
}

#[test]
fn defaults() {
    assert_eq!(config("").auth, None);
    let auth = config(&issuer("")).auth.unwrap();
    assert!(auth.required_scopes.is_empty() && auth.scopes_supported.is_empty() && auth.keys.is_empty());
    assert_eq!((auth.skew, auth.allow_insecure_http), (Duration::from_secs(30), false));
    let [one] = &auth.issuers[..] else { panic!("{auth:?}") };
    assert_eq!(one.issuer, "https://id.example/");
    assert!(one.require_at_jwt && one.jwks_url.is_none() && one.introspection.is_none());
    let names: Vec<String> = one.algorithms.iter().map(Algorithm::to_string).collect();
    assert_eq!(names, ["RS256", "PS256", "ES256", "EdDSA"]);
    let auth =
        config(&issuer("").replace("[auth]", "[auth]\nrequired_scopes = [\"a\", \"b\"]")).auth.unwrap();
    assert_eq!(auth.scopes_supported, ["a", "b"]);
}

#[test]
fn an_issuer_is_kept_letter_by_letter() {
    for spelling in
        ["https://ID.example", "https://id.example/", "https://id.example:443/t", "http://127.0.0.1:9/x"]
    {
        let text = format!("[[auth.issuer]]\nissuer = \"{spelling}\"");
        assert_eq!(config(&text).auth.unwrap().issuers[0].issuer, spelling);
    }
}

#[test]
fn keys_and_their_claims() {
    let text = key(
        "claims = { scope = \"a b\", groups = [\"x\", 1, true], deep = { n = 1.5 }, who = \"${TOKEN}\" }",
    );
    let auth = config(&text).auth.unwrap();
    let expected = serde_json::json!({
        "scope": "a b", "groups": ["x", 1, true], "deep": { "n": 1.5 }, "who": "s3cr3t-t0ken"
    });
    assert_eq!(serde_json::Value::Object(auth.keys[0].claims.clone()), expected);
    assert_eq!(auth.keys[0].sha256[..3], [0x00, 0x11, 0x22]);
    assert_eq!(auth.keys[0].sha256[15], 0xff);
    refuses(&key("claims = { at = 2020-01-01 }"), 5, "auth.key \"ci\".claims.at", "not a datetime");
    refuses(&key("claims = { n = nan }"), 5, "auth.key \"ci\".claims.n", "not a number that JSON has");
    for wrong in ["", "s3cr3t", &DIGEST[1..], &DIGEST.replace('0', "+"), &DIGEST.replace("00", "é")] {
        let text = format!("[[auth.key]]\nname = \"ci\"\nsha256 = {wrong:?}");
        refuses(&text, 3, "auth.key \"ci\".sha256", "is not a SHA-256 digest");
    }
    refuses(
        &format!("[[auth.key]]\nname = \"a b\"\nsha256 = \"{DIGEST}\""),
        2,
        "auth.key[0].name",
        "key's name",
    );
}

#[test]
fn names_and_digests_are_taken_once() {
    let twice = format!("{}[[auth.key]]\nname = \"ci\"\nsha256 = \"{}\"", key(""), DIGEST.replace('0', "1"));
    refuses(&twice, 7, "auth.key \"ci\".name", "already taken");
    let same = format!("{}[[auth.key]]\nname = \"cd\"\nsha256 = \"{}\"", key(""), DIGEST.to_lowercase());
    refuses(&same, 8, "auth.key \"cd\".sha256", "the same digest");
    let twice = format!("{}[[auth.issuer]]\nissuer = \"https://id.example/\"", issuer(""));
    refuses(&twice, 6, "auth.issuer \"https://id.example/\".issuer", "already there");
    // Another spelling is another issuer.
    config(&format!("{}[[auth.issuer]]\nissuer = \"https://id.example\"", issuer("")));
}

#[test]
fn only_public_key_algorithms() {
    let all = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    assert_eq!(
        config(&issuer(&format!("algorithms = {all:?}"))).auth.unwrap().issuers[0].algorithms.len(),
        9
    );
    let key = "auth.issuer \"https://id.example/\".algorithms";
    for wrong in ["HS256", "none", "None", "HS512"] {
        refuses(&issuer(&format!("algorithms = [{wrong:?}]")), 4, &format!("{key}[0]"), "with a public key");
    }
    for wrong in ["rs256", "ES256K", ""] {
        refuses(
            &issuer(&format!("algorithms = [\"RS256\", {wrong:?}]")),
            4,
            &format!("{key}[1]"),
            "must be one of",
        );
    }
    refuses(&issuer("algorithms = []"), 4, key, "no token could be verified");
}

#[test]
fn plain_http_only_to_literal_loopback() {
    let text = |url: &str, more: &str| format!("[auth]\n{more}\n[[auth.issuer]]\nissuer = \"{url}\"");
    for fine in ["http://127.0.0.1:9", "http://[::1]/t", "http://127.9.9.9/"] {
        config(&text(fine, ""));
    }
    for wrong in ["http://id.example", "http://localhost:9", "http://10.0.0.1/"] {
        let label = format!("auth.issuer {wrong:?}.issuer");
        refuses(&text(wrong, ""), 4, &label, "allow_insecure_http");
        config(&text(wrong, "allow_insecure_http = true"));
    }
    let label = "auth.issuer \"https://id.example/\"";
    refuses(&issuer("jwks_url = \"http://keys.example/\""), 4, &format!("{label}.jwks_url"), "could replace");
    let asked =
        "introspection = { url = \"http://a.example/\", client_id = \"a\", client_secret = \"${TOKEN}\" }";
    refuses(&issuer(asked), 4, &format!("{label}.introspection"), "could replace");
    refuses(
        &issuer("introspection = { client_id = \"a\", client_secret = \"b\" }"),
        4,
        &format!("{label}.introspection.url"),
        "is missing",
    );
    for (wrong, says) in [("https://a/?x", "query"), ("https://a/#x", "fragment"), ("a", "is not a URL")] {
        let text = format!("[[auth.issuer]]\nissuer = {wrong:?}");
        assert!(super::problem(&text).to_string().contains(says), "{wrong}");
    }
}

#[test]
fn an_opaque_token_goes_to_one_server_only() {
    let asked = "introspection = { url = \"https://a.example/\", client_id = \"a\", client_secret = \"b\" }";
    let two = format!("{}[[auth.issuer]]\nissuer = \"https://b.example\"\n{asked}", issuer(asked));
    refuses(&two, 7, "auth.issuer \"https://b.example\".introspection", "goes to no stranger");
}

#[test]
fn scopes() {
    for wrong in ["", "a b", "a\"b", "a\\\\b", "é"] {
        let text = format!("[auth]\nrequired_scopes = [{wrong:?}]\nissuer = [{{ issuer = \"https://a\" }}]");
        refuses(&text, 2, "auth.required_scopes[0]", "is not a scope");
    }
    let text = "[auth]\nscopes_supported = [\"offline_access\"]\nissuer = [{ issuer = \"https://a\" }]";
    refuses(text, 2, "auth.scopes_supported[0]", "its authorization server");
    let text = "[auth]\nskew = \"61s\"\nissuer = [{ issuer = \"https://a\" }]";
    refuses(text, 2, "auth.skew", "at most \"60s\"");
    assert_eq!(problems("[auth]").len(), 1);
}

///
#[test]
fn a_12_scopes_imply_others_however_far() {
    let auth = config(&format!(
        "[auth]\nscope_implies = {{ a = [\"b\"], b = [\"c\", \"a\"], d = [\"e\"] }}\n{}",
        &issuer("")["[auth]\n".len()..]
    ));
    let auth = auth.auth.unwrap();
    let held =
        |scopes: &[&str]| auth.closure(scopes.iter().copied()).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(held(&["a"]), "a b c");
    assert_eq!(held(&["b", "x"]), "a b c x");
    assert_eq!(held(&["c"]), "c");
    assert_eq!(held(&[]), "");
}

#[test]
fn scopes_in_every_shape_of_claim() {
    assert_eq!(scope_words(&serde_json::json!("a  b c ")), ["a", "b", "c"]);
    assert_eq!(scope_words(&serde_json::json!(["a", "", 3, "b"])), ["a", "b"]);
    assert_eq!(scope_words(&serde_json::json!({ "a": 1 })), [""; 0]);
}

///
#[test]
fn a_64_beyond_loopback_auth_or_a_word() {
    let public = "[gateway]\nlisten = \"0.0.0.0:8080\"\n";
    refuses(public, 2, "gateway.listen", "add [auth]");
    refuses(&format!("{public}{}", issuer("")), 3, "auth", "needs `gateway.public_url`");
    let config = config(&format!("{public}public_url = \"https://mcp.example\"\n{}", issuer("")));
    assert!(
        config.warnings().iter().all(|warning| ["server", "grant"].contains(&warning.key.as_str())),
        "{:?}",
        config.warnings()
    );
}

#[test]
fn doubts() {
    let text = format!("[gateway]\npublic_url = \"http://mcp.example\"\n{}", issuer(""));
    assert!(config(&text).warnings().iter().any(|w| w.key == "gateway.public_url"));
    let with = |claims: &str| {
        key(claims).replace("[auth]", "[auth]\nrequired_scopes = [\"u\"]\nscope_implies = { adm = [\"u\"] }")
    };
    let doubts = |text: &str| config(text).warnings().iter().filter(|w| w.key.starts_with("auth")).count();
    assert_eq!(doubts(&with("")), 1);
    assert_eq!(doubts(&with("claims = { scope = \"x u\" }")), 0);
    assert_eq!(doubts(&with("claims = { scp = [\"adm\"] }")), 0);
}
