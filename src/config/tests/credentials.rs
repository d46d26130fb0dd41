//! The OAuth kinds of `[server.credentials]`, and `forward_headers`.

use super::super::auth::Algorithm;
use super::super::signing::SigningKey;
use super::super::{ClientSecret, Credentials};
use super::{config, http, problem, stdio_refuses};

/// The example key of RFC 8410.
pub(super) const ED25519: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

const ISSUER: &str = "[auth]\n[[auth.issuer]]\nissuer = \"https://id/\"\n";

fn client(more: &str) -> String {
    let fixed = "kind = \"client_credentials\"\nclient_id = \"gw\"";
    http("a", &format!("[server.credentials]\n{fixed}\n{more}"))
}

fn exchange(more: &str) -> String {
    let fixed = "kind = \"token_exchange\"\nclient_id = \"gw\"\nclient_secret = \"x\"";
    http("a", &format!("[server.credentials]\n{fixed}\n{more}"))
}

/// The only problem of a text is about this key and says so.
#[track_caller]
fn says(text: &str, key: &str, what: &str) {
    let found = problem(text);
    assert!(found.key.ends_with(key) && found.to_string().contains(what), "{found}\nin:\n{text}");
}

#[test]
fn client_credentials() {
    let right = client(
        "token_url = \"https://id/token\"\nclient_secret = \"${TOKEN}\"\nscopes = [\"a\", \"b\"]\n\
         resource = \"https://a/mcp\"",
    );
    let config = config(&right);
    let Credentials::Client(client) = &config.servers[0].credentials else { panic!("{config:?}") };
    assert_eq!(client.token_url.as_ref().unwrap().as_str(), "https://id/token");
    assert_eq!((client.issuer.as_deref(), client.client_id.as_str()), (None, "gw"));
    assert!(matches!(&client.secret, ClientSecret::Secret(secret) if secret.expose() == "s3cr3t-t0ken"));
    assert_eq!(client.scopes, ["a", "b"]);
    assert_eq!(client.resource.as_deref(), Some("https://a/mcp"));
    assert!(!format!("{config:?}").contains("s3cr3t"));
}

#[test]
fn clients_say_where_and_who() {
    let at = "token_url = \"https://id/\"\n";
    let secret = "client_secret = \"x\"\n";
    // Without an address the server says who issues its tokens.
    config(&client(secret));
    says(&client(at), "credentials", "neither `client_secret` nor `private_key`");
    let both = format!("{at}{secret}private_key = '''{ED25519}'''");
    says(&client(&both), ".private_key", "are both given");
    says(&client(&format!("{at}private_key = \"${{TOKEN}}\"")), ".private_key", "is not a private key");
    says(&client(&format!("{at}{secret}audience = \"x\"")), ".audience", "means nothing");
    says(&client(&format!("{at}{secret}token = \"x\"")), ".token", "means nothing");
    says(&client(&format!("{at}{secret}scopes = [\"a b\"]")), ".scopes[0]", "is not a scope");
    says(&client(&format!("{at}{secret}resource = \"x\"")), ".resource", "is not a URL");
    says(&http("a", "[server.credentials]\nclient_id = \"x\""), ".client_id", "client_credentials");
    let nameless = "[server.credentials]\nkind = \"client_credentials\"\nissuer = \"https://id/\"\nclient_secret = \"x\"";
    says(&http("a", nameless), ".client_id", "is missing");
}

/// Covers: A-50: what the operator writes may be private, but not in the open.
#[test]
fn a_50_secrets_do_not_go_over_plain_http() {
    let secret = "client_secret = \"x\"\n";
    says(&client(&format!("{secret}token_url = \"http://id/\"")), ".token_url", "on the way");
    says(&client(&format!("{secret}issuer = \"http://id/\"")), ".issuer", "on the way");
    config(&client(&format!("{secret}issuer = \"http://127.0.0.1:9/\"")));
    let trusting = "[auth]\nallow_insecure_http = true\n[[auth.issuer]]\nissuer = \"https://id/\"\n";
    let config = config(&format!("{trusting}{}", client(&format!("{secret}token_url = \"http://id/\""))));
    assert!(config.servers[0].credentials.client().unwrap().unguarded);
}

/// Covers: A-44: only at the issuer that callers' tokens come from, spelt as there.
#[test]
fn a_44_tokens_are_exchanged_at_their_own_issuer_only() {
    let right = format!("{ISSUER}{}", exchange("issuer = \"https://id/\"\naudience = \"a\""));
    assert!(config(&right).servers[0].credentials.is_per_user());
    let message = "is no [[auth.issuer]]";
    says(&exchange("issuer = \"https://id/\""), ".issuer", message);
    for other in ["https://id", "https://other/", "https://ID/"] {
        says(&format!("{ISSUER}{}", exchange(&format!("issuer = {other:?}"))), ".issuer", message);
    }
    says(&format!("{ISSUER}{}", exchange("token_url = \"https://id/\"")), ".issuer", "is missing");
}

/// Covers: G-49: sessions are never shared across authorization contexts.
#[test]
fn g_49_callers_that_are_themselves_share_no_session() {
    let text = format!("{ISSUER}{}", exchange("issuer = \"https://id/\""));
    for scope in ["auto", "session", "principal"] {
        let line = format!("session_scope = {scope:?}\n[server.credentials]");
        config(&text.replace("[server.credentials]", &line));
    }
    let shared = text.replace("[server.credentials]", "session_scope = \"shared\"\n[server.credentials]");
    says(&shared, ".session_scope", "cannot be \"shared\"");
}

#[test]
fn keys_of_every_kind_sign() {
    let made = |algorithm| rcgen::KeyPair::generate_for(algorithm).unwrap().serialize_pem();
    let kinds = [
        (made(&rcgen::PKCS_ECDSA_P256_SHA256), Algorithm::Es256, 64),
        (made(&rcgen::PKCS_ECDSA_P384_SHA384), Algorithm::Es384, 96),
        (made(&rcgen::PKCS_RSA_SHA256), Algorithm::Rs256, 256),
        (made(&rcgen::PKCS_ED25519), Algorithm::EdDsa, 64),
        (ED25519.to_owned(), Algorithm::EdDsa, 64),
    ];
    for (pem, algorithm, length) in kinds {
        let key = SigningKey::parse(&pem).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        assert_eq!(key.sign(b"message").unwrap().len(), length, "{algorithm}");
        assert_eq!(format!("{key:?}"), format!("SigningKey({algorithm:?})"));
    }
    for wrong in ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
        assert!(SigningKey::parse(wrong).is_none(), "{wrong}");
    }
}

/// Covers: A-30: `forward_headers` takes no credential, nothing that says who calls, nothing of the hop.
#[test]
fn a_30_credentials_are_not_forwarded() {
    let right = "forward_headers = [\"Accept-Language\", \"X-Request-Id\", \"User-Agent\"]";
    let names = &config(&http("a", right)).servers[0].forward_headers;
    assert_eq!(names, &["accept-language", "x-request-id", "user-agent"]);
    let refused = |name: &str, what: &str| {
        says(&http("a", &format!("forward_headers = [{name:?}]")), ".forward_headers[0]", what);
    };
    for name in ["Authorization", "Cookie", "X-Api-Key", "X-Auth-Request-User", "X-Amz-Security-Token"] {
        refused(name, "credential of the caller's");
    }
    for name in ["X-Forwarded-User", "X-Forwarded-For", "Forwarded", "Remote-User", "X-Real-IP", "Via"] {
        refused(name, "who the caller is");
    }
    for name in ["Proxy-Authorization", "Mcp-Name", "Mcp-Session-Id", "Host", "Content-Length", "traceparent"]
    {
        refused(name, "the gateway sets");
    }
    refused("a b", "is not a header's name");
    stdio_refuses("forward_headers", "[\"x-a\"]", "is only for servers with `url`");
    let twice = "forward_headers = [\"X-A\"]\ncredentials = { kind = \"header\", headers = { x-a = \"1\" } }";
    says(&http("a", twice), ".forward_headers", "which `credentials` set");
}
