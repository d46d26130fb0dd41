//! Who is calling: a credential in, a [`Principal`] or a [`Rejection`] out. The token itself stays here,
//! except as a [`CallerToken`] on its way back to its own issuer.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderMap;
use moka::future::Cache;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

mod bearer;
mod certificate;
mod claims;
mod introspect;
mod jwk;
mod jwt;
mod keys;
#[cfg(test)]
#[path = "../../tests/it/support/id_server.rs"]
#[allow(dead_code, clippy::disallowed_methods, reason = "shared with the whole-process tests")]
mod kit;
mod principal;
mod rejection;
#[cfg(test)]
mod tests;

pub use bearer::{CallerToken, caller_token, shows_token};
pub use certificate::Certificates;
pub use principal::Principal;
pub use rejection::{Reason, Rejection, insufficient_scope};

use crate::config::auth::{Auth, Issuer};
use crate::net::oauth::AuthorizationServer;
use crate::net::{ClientError, Reach, Remote};
use crate::tasks::Tasks;
use crate::telemetry::Metrics;
use claims::{Origin, Rules};
use introspect::Introspector;
use jwt::Jwt;
use keys::{Document, Keys, Look, Source};

/// How long a verified JWT is believed without another look at its signature.
const JWT_LIFE: Duration = Duration::from_secs(300);
/// How long the answer about an opaque token holds.
const OPAQUE_LIFE: Duration = Duration::from_secs(60);
/// Keys that are tried for one token: a token without a `kid` must not cost a hundred checks.
const TRIES: usize = 8;
/// Bytes of verdicts that are kept.
const KEPT: u64 = 32 * 1024 * 1024;

/// Verifies credentials by `[auth]`.
#[derive(Debug)]
pub struct Authenticator {
    auth: Auth,
    issuers: Vec<Arc<Keys>>,
    introspector: Option<Introspector>,
    keys: Vec<([u8; 32], Arc<Principal>)>,
    /// By a digest of token and resource: no token is kept.
    verdicts: Cache<[u8; 32], Arc<Verdict>>,
    metrics: Arc<Metrics>,
}

/// What is known of a token at an endpoint.
#[derive(Debug)]
struct Verdict {
    result: Result<Arc<Principal>, Reason>,
    /// Not believed after this.
    until: Instant,
    /// The issuer and the print of the key that signed it.
    signer: Option<(usize, [u8; 32])>,
    /// About how many bytes it takes.
    weight: u32,
}

impl Authenticator {
    /// An authenticator that knows no issuer's keys yet; see [`Authenticator::warm`].
    ///
    /// # Errors
    ///
    /// An introspection address that cannot be used.
    pub fn new(auth: &Auth, tasks: &Tasks, metrics: Arc<Metrics>) -> Result<Self, ClientError> {
        Self::build(None, auth, tasks, metrics)
    }

    /// An authenticator by another `[auth]` that keeps the keys of issuers which have not changed.
    ///
    /// # Errors
    ///
    /// As [`Authenticator::new`].
    pub fn renewed(&self, auth: &Auth, tasks: &Tasks) -> Result<Self, ClientError> {
        Self::build(Some(self), auth, tasks, Arc::clone(&self.metrics))
    }

    /// Fetches the keys of every issuer in the background, so that a wrong address shows in the log at the start.
    pub fn warm(&self) {
        self.issuers.iter().for_each(|keys| keys.warm());
    }

    fn build(
        before: Option<&Self>,
        auth: &Auth,
        tasks: &Tasks,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ClientError> {
        let server = |issuer: &Issuer| {
            let same = before.and_then(|before| before.keys_of(issuer, auth.allow_insecure_http));
            same.unwrap_or_else(|| {
                let source = fetched(issuer, auth.allow_insecure_http, tasks);
                Arc::new(Keys::new(&issuer.issuer, source, tasks))
            })
        };
        let asked = auth.issuers.iter().enumerate().find_map(|(at, issuer)| {
            let asked = issuer.introspection.as_ref()?;
            Some(Introspector::new(at, issuer, asked, tasks))
        });
        let issuers = auth.issuers.iter().map(server).collect();
        Ok(Self::over(auth, issuers, asked.transpose()?, metrics))
    }

    /// The keys of an issuer that are fetched from the same place in the same way.
    fn keys_of(&self, issuer: &Issuer, unguarded: bool) -> Option<Arc<Keys>> {
        let same = |own: &Issuer| own.issuer == issuer.issuer && own.jwks_url == issuer.jwks_url;
        let at = self.auth.issuers.iter().position(same)?;
        (self.auth.allow_insecure_http == unguarded).then(|| Arc::clone(&self.issuers[at]))
    }

    fn over(
        auth: &Auth,
        issuers: Vec<Arc<Keys>>,
        introspector: Option<Introspector>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            keys: auth.keys.iter().map(|key| (key.sha256, Arc::new(Principal::of_key(key, auth)))).collect(),
            issuers,
            introspector,
            verdicts: Cache::builder()
                .max_capacity(KEPT)
                .weigher(|_, verdict: &Arc<Verdict>| verdict.weight)
                .time_to_live(JWT_LIFE)
                .build(),
            auth: auth.clone(),
            metrics,
        }
    }

    /// `[auth]`
    pub const fn config(&self) -> &Auth {
        &self.auth
    }

    /// Whether a caller whom `before` let in would be let in here as the same. What a token holds is not known any more:
    /// where anything that it was held against is another, the answer is no.
    pub fn keeps(&self, before: &Self, principal: &Principal) -> bool {
        let rules = |auth: &Auth| (auth.required_scopes.clone(), auth.scope_implies.clone());
        if rules(&self.auth) != rules(&before.auth) {
            return false;
        }
        if principal.issuer.is_empty() {
            return self.keys.iter().any(|(_, own)| **own == *principal);
        }
        let of = |auth: &Auth| auth.issuers.iter().find(|own| *own.issuer == *principal.issuer).cloned();
        of(&self.auth).is_some_and(|issuer| of(&before.auth) == Some(issuer))
    }

    /// Who makes this request to `resource`, the address of its endpoint. Looks at nothing but the head.
    ///
    /// # Errors
    ///
    /// Why nobody is let in; counted.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        resource: &str,
    ) -> Result<Arc<Principal>, Rejection> {
        let verdict = match bearer::presented(headers, query) {
            Ok(token) => self.verify(token, resource, seconds_now()).await,
            Err(reason) => Err(reason.into()),
        };
        verdict.inspect_err(|rejection| {
            let reason = rejection.reason.as_str();
            self.metrics.auth_rejection(reason);
            tracing::debug!(reason, resource, "caller refused");
        })
    }

    /// The principal of a token, at a time in seconds since 1970.
    async fn verify(&self, token: &str, resource: &str, now: u64) -> Result<Arc<Principal>, Rejection> {
        let digest = sha256(&[token.as_bytes()]);
        let readable = || if bearer::is_b64token(token) { Ok(()) } else { Err(Reason::Malformed) };
        if let Some(principal) = self.key(&digest) {
            readable()?;
            return self.scoped(principal);
        }
        let place = sha256(&[&digest, resource.as_bytes()]);
        let verdict = match self.verdicts.get(&place).await {
            Some(known) if self.stands(&known) => known,
            known => {
                // What was verified once has the right letters.
                readable()?;
                if known.is_some() {
                    self.verdicts.invalidate(&place).await;
                }
                self.judge(token, resource, place, now).await?
            }
        };
        let principal = Arc::clone(verdict.result.as_ref().map_err(|reason| *reason)?);
        // Whatever was verified when: a token that is over is over.
        let skew = self.auth.skew.as_secs();
        if principal.expires.is_some_and(|expires| expires.saturating_add(skew) <= now) {
            return Err(Reason::Expired.into());
        }
        self.scoped(principal)
    }

    /// After everything else, so that a client with an expired token renews it and does not ask for scopes (F-092).
    fn scoped(&self, principal: Arc<Principal>) -> Result<Arc<Principal>, Rejection> {
        if principal.holds(&self.auth.required_scopes) {
            return Ok(principal);
        }
        Err(Rejection { reason: Reason::Scope, principal: Some(principal) })
    }

    /// The holder of a static key. Every key is compared, each in constant time.
    fn key(&self, digest: &[u8; 32]) -> Option<Arc<Principal>> {
        let mut found = None;
        for (own, principal) in &self.keys {
            if verify_slices_are_equal(own, digest).is_ok() {
                found = Some(Arc::clone(principal));
            }
        }
        found
    }

    /// Whether a verdict is still to be believed.
    fn stands(&self, verdict: &Verdict) -> bool {
        let signer = verdict.signer.as_ref();
        verdict.until > Instant::now()
            && signer.is_none_or(|(issuer, print)| self.issuers[*issuer].hold(print))
    }

    async fn judge(
        &self,
        token: &str,
        resource: &str,
        place: [u8; 32],
        now: u64,
    ) -> Result<Arc<Verdict>, Reason> {
        match Jwt::parse(token) {
            Some(jwt) => {
                let verdict = Arc::new(self.judge_jwt(jwt?, resource, now).await?);
                self.verdicts.insert(place, Arc::clone(&verdict)).await;
                Ok(verdict)
            }
            None => {
                // Many requests with one token ask once.
                let asked = self.verdicts.try_get_with(place, self.judge_opaque(token, resource, now));
                asked.await.map_err(|reason| *reason)
            }
        }
    }

    async fn judge_jwt(&self, jwt: Jwt<'_>, resource: &str, now: u64) -> Result<Verdict, Reason> {
        let named = jwt.issuer().ok_or(Reason::Issuer)?;
        let known = self.auth.issuers.iter().position(|issuer| issuer.issuer == named);
        let at = known.ok_or(Reason::Issuer)?;
        let issuer = &self.auth.issuers[at];
        let algorithm = jwt.check_header(issuer)?;
        let id = jwt.key_id()?;
        let look = |keys: &[Arc<jwk::Key>]| {
            let mut there = false;
            let could_be = |key: &&Arc<jwk::Key>| match id {
                Some(_) => key.id.as_deref() == id,
                None => key.fits(algorithm),
            };
            for key in keys.iter().filter(could_be).take(TRIES) {
                there = true;
                if key.verifies(algorithm, jwt.signed, jwt.signature) {
                    return Look::Found(key.print);
                }
            }
            // Without a `kid` the key may be one that is not known yet.
            if there && id.is_some() { Look::Refused(Reason::Signature) } else { Look::Unknown }
        };
        let print = self.issuers[at].find(id, look).await?;
        let origin = Origin::Jwt { at: jwt.is_at_jwt() };
        let rules = Rules { auth: &self.auth, issuer, resource, now };
        let weight = weight(&jwt.claims);
        let principal = rules.admit(jwt.claims, origin)?;
        let until = Instant::now() + JWT_LIFE;
        Ok(Verdict { result: Ok(Arc::new(principal)), until, signer: Some((at, print)), weight })
    }

    async fn judge_opaque(&self, token: &str, resource: &str, now: u64) -> Result<Arc<Verdict>, Reason> {
        let introspector = self.introspector.as_ref().ok_or(Reason::Unknown)?;
        let answer = introspector.ask(token).await;
        // A silent issuer is asked again at once; what it says of a token holds for a while, also that it is none.
        if answer == Err(Reason::IntrospectionUnavailable) {
            return Err(Reason::IntrospectionUnavailable);
        }
        let weight = answer.as_ref().map_or(0, weight);
        let issuer = &self.auth.issuers[introspector.issuer];
        let rules = Rules { auth: &self.auth, issuer, resource, now };
        let result = answer.and_then(|claims| rules.admit(claims, Origin::Introspection)).map(Arc::new);
        Ok(Arc::new(Verdict { result, until: Instant::now() + OPAQUE_LIFE, signer: None, weight }))
    }
}

/// The keys of an issuer as its server gives them.
fn fetched(issuer: &Issuer, unguarded: bool, tasks: &Tasks) -> Source {
    let server = AuthorizationServer::written(&issuer.issuer, unguarded);
    let (configured, tasks) = (issuer.jwks_url.clone(), tasks.clone());
    Box::new(move || Box::pin(fetch_keys(server.clone(), configured.clone(), tasks.clone())))
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

async fn fetch_keys(
    server: AuthorizationServer,
    configured: Option<Url>,
    tasks: Tasks,
) -> Result<Document, String> {
    let remote = match configured {
        Some(url) => Remote::new(&url, Reach::Any, &tasks).map_err(|error| error.to_string())?,
        None => {
            let metadata = server.metadata(&tasks).await.map_err(|error| error.to_string())?;
            let address = metadata.jwks_uri.ok_or("its metadata have no jwks_uri; set `jwks_url`")?;
            server.remote("jwks_uri", &address, &tasks).map_err(|error| error.to_string())?
        }
    };
    let answer = remote.get().await.map_err(|error| error.to_string())?;
    let set: KeySet = answer.json().map_err(|error| error.to_string())?;
    // One odd member is no reason to take none.
    let objects = set.keys.into_iter().filter_map(|key| match key {
        Value::Object(key) => Some(key),
        _ => None,
    });
    Ok(Document { keys: objects.collect(), max_age: answer.max_age() })
}

/// About what a principal with these claims takes in memory.
fn weight(claims: &Map<String, Value>) -> u32 {
    let text = serde_json::to_string(claims).map_or(0, |text| text.len());
    u32::try_from(1024 + 4 * text).unwrap_or(u32::MAX)
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
