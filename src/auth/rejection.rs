//! Why a caller is turned away, and how it is told: status and challenge (A-10..A-15).

use std::sync::Arc;

use http::{HeaderValue, StatusCode};

use super::principal::Principal;

/// A caller that is not let in.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// Why, for us: the caller learns its category only.
    pub reason: Reason,
    /// Who it is, if the credential is good and only not enough.
    pub principal: Option<Arc<Principal>>,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $label:literal $class:ident,)*) => {
        /// Why a credential is not taken; the `reason` label of `gatehouse_auth_rejections_total`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The label value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }

            const fn class(self) -> Class {
                match self {
                    $(Self::$name => Class::$class,)*
                }
            }
        }
    };
}

/// What a caller is told of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// 401 without `error`: there was nothing we could have looked at (RFC 6750 §3.1).
    Ask,
    /// 401 `invalid_token`.
    Invalid,
    /// 400 `invalid_request`.
    Request,
    /// 403 `insufficient_scope`.
    Scope,
    /// 503: a good token must not be thrown away because its issuer does not answer.
    Later,
}

reasons! {
    /// No `Authorization`.
    Missing "missing" Ask,
    /// Another scheme than `Bearer`.
    Scheme "scheme" Ask,
    /// Only in the query string, where it is not looked for.
    Query "query" Ask,
    /// Two of them.
    Several "several" Request,
    /// Not a token by its letters, or a JWT that is not one.
    Malformed "malformed" Invalid,
    /// Longer than any token.
    Oversized "oversized" Invalid,
    /// No JWT, no key of ours, and nobody to ask.
    Unknown "unknown" Invalid,
    /// Its issuer says no.
    Inactive "inactive" Invalid,
    /// An issuer that is not configured.
    Issuer "issuer" Invalid,
    /// `typ` of another kind of token.
    Type "type" Invalid,
    /// `crit`: something we do not understand and must.
    Critical "critical" Invalid,
    /// An algorithm that is not listed.
    Algorithm "algorithm" Invalid,
    /// No such key at the issuer.
    Key "key" Invalid,
    /// The signature is not that of the key.
    Signature "signature" Invalid,
    /// Not for this endpoint, or for others too.
    Audience "audience" Invalid,
    /// Over.
    Expired "expired" Invalid,
    /// Not yet, or from the future.
    NotYet "not_yet" Invalid,
    /// A claim that must be there is not, or is of another type.
    Claims "claims" Invalid,
    /// About a login, not for access.
    IdToken "id_token" Invalid,
    /// Bound to a key whose possession we do not check.
    Bound "bound" Invalid,
    /// A good token without the scopes everybody needs.
    Scope "scope" Scope,
    /// The issuer's keys are not to be had.
    KeysUnavailable "keys_unavailable" Later,
    /// The issuer cannot be asked.
    IntrospectionUnavailable "introspection_unavailable" Later,
}

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Self {
        Self { reason, principal: None }
    }
}

impl Rejection {
    /// The status of the answer, whose body is empty.
    pub const fn status(&self) -> StatusCode {
        match self.reason.class() {
            Class::Ask | Class::Invalid => StatusCode::UNAUTHORIZED,
            Class::Request => StatusCode::BAD_REQUEST,
            Class::Scope => StatusCode::FORBIDDEN,
            Class::Later => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// `WWW-Authenticate`, if it says anything: the scopes everybody needs, and where our metadata are.
    pub fn challenge(&self, scopes: &[String], metadata: Option<&str>) -> Option<HeaderValue> {
        let error = match self.reason.class() {
            Class::Ask => None,
            Class::Invalid => Some("invalid_token"),
            Class::Request => Some("invalid_request"),
            Class::Scope => return insufficient_scope(scopes, metadata),
            Class::Later => return None,
        };
        let scopes = scopes.join(" ");
        line(&[("error", error), ("resource_metadata", metadata), ("scope", filled(&scopes))])
    }
}

/// The challenge of a 403: all scopes the operation needs, granted ones too.
pub fn insufficient_scope(scopes: &[String], metadata: Option<&str>) -> Option<HeaderValue> {
    let scopes = scopes.join(" ");
    let error = ("error", Some("insufficient_scope"));
    line(&[error, ("scope", filled(&scopes)), ("resource_metadata", metadata)])
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// One scheme with its parameters; a scheme has at least one (RFC 6750 §3).
fn line(parameters: &[(&str, Option<&str>)]) -> Option<HeaderValue> {
    let given = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let parts: Vec<String> = given.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let all = if parts.is_empty() { "realm=\"mcp\"".to_owned() } else { parts.join(", ") };
    HeaderValue::try_from(format!("Bearer {all}")).ok()
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for letter in value.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            ' '..='~' => out.push(letter),
            // Not of this alphabet: none of what we say here is, so this is only to be safe.
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Reason, Rejection, insufficient_scope};

    const METADATA: &str = "https://gw.example/.well-known/oauth-protected-resource/mcp/crm";

    fn challenge(reason: Reason, scopes: &[&str], metadata: Option<&str>) -> Option<String> {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let value = Rejection::from(reason).challenge(&scopes, metadata)?;
        Some(value.to_str().unwrap().to_owned())
    }

    /// Covers: the samples of the specification, letter by letter.
    #[test]
    fn a_10_challenges() {
        let plain = format!("Bearer resource_metadata=\"{METADATA}\", scope=\"mcp:read\"");
        assert_eq!(challenge(Reason::Missing, &["mcp:read"], Some(METADATA)).unwrap(), plain);
        assert_eq!(challenge(Reason::Query, &["mcp:read"], Some(METADATA)).unwrap(), plain);
        let bad = format!("Bearer error=\"invalid_token\", resource_metadata=\"{METADATA}\", scope=\"a b\"");
        assert_eq!(challenge(Reason::Expired, &["a", "b"], Some(METADATA)).unwrap(), bad);
        let several = format!("Bearer error=\"invalid_request\", resource_metadata=\"{METADATA}\"");
        assert_eq!(challenge(Reason::Several, &[], Some(METADATA)).unwrap(), several);
        let scope = format!(
            "Bearer error=\"insufficient_scope\", scope=\"crm:write\", resource_metadata=\"{METADATA}\""
        );
        assert_eq!(challenge(Reason::Scope, &["crm:write"], Some(METADATA)).unwrap(), scope);
        assert_eq!(insufficient_scope(&["crm:write".to_owned()], Some(METADATA)).unwrap(), scope);
        assert_eq!(challenge(Reason::Missing, &[], None).unwrap(), "Bearer realm=\"mcp\"");
        assert_eq!(challenge(Reason::KeysUnavailable, &["a"], Some(METADATA)), None);
    }

    /// Covers: A-14: whatever failed, the caller reads one and the same word.
    #[test]
    fn a_14_reasons_stay_inside() {
        let mut labels = BTreeSet::new();
        let mut told = BTreeSet::new();
        for reason in Reason::ALL {
            assert!(labels.insert(reason.as_str()), "{reason:?} has its own label");
            told.insert((Rejection::from(*reason).status().as_u16(), challenge(*reason, &[], None)));
        }
        assert_eq!(told.len(), 5, "{told:?}");
    }

    #[test]
    fn quotes_do_not_break_out() {
        let value = challenge(Reason::Missing, &[], Some("a\"b\\c\r\né")).unwrap();
        assert_eq!(value, "Bearer resource_metadata=\"a\\\"b\\\\c???\"");
    }
}
