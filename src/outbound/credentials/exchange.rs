//! Tokens for callers: the issuer of a caller's own token exchanges it (RFC 8693; ). Never shared.

use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use moka::Expiry;
use moka::future::Cache;
use tokio::time::Instant;

use super::client::DENIED;
use super::issuer::{Grant, TokenServer};
use super::scopes;
use super::token::{Token, TokenError};
use crate::config::Secret;

/// Tokens kept for one server.
const MOST: u64 = 10_000;
/// How long it is remembered what a caller's calls need, after the last one.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// For whom a request is made, and what was brought to prove it.
#[derive(Debug, Clone)]
pub struct OnBehalf {
    /// The caller's id: tokens are kept by it.
    pub principal: Arc<str>,
    /// Whose token it is.
    pub issuer: Arc<str>,
    /// `exp` of the token, in seconds since 1970.
    pub expires: Option<u64>,
    /// The caller's token; it goes to its issuer and nowhere else.
    pub token: Option<Secret>,
}

/// The caller and a digest of the caller's token.
type Key = (Arc<str>, [u8; 32]);

/// Exchanges callers' tokens for those of one server.
#[derive(Debug)]
pub struct Exchanger {
    issuer: Arc<TokenServer>,
    audience: Option<String>,
    kept: Cache<Key, Arc<Token>>,
    /// What the server wanted besides, for each caller.
    wider: Cache<Key, Arc<[String]>>,
    /// Questions for that which run, and those that were refused a short while ago.
    steps: Cache<(Key, Vec<String>), Result<Arc<Token>, TokenError>>,
}

impl Exchanger {
    pub(super) fn new(issuer: Arc<TokenServer>, audience: Option<String>) -> Self {
        let kept = Cache::builder().max_capacity(MOST).expire_after(Life).build();
        let wider = Cache::builder().max_capacity(MOST).time_to_idle(REMEMBERED).build();
        let steps = Cache::builder().max_capacity(MOST).time_to_live(DENIED).build();
        Self { issuer, audience, kept, wider, steps }
    }

    /// The caller's token for this server: kept, or exchanged once for all the caller's requests that wait.
    pub(super) async fn get(&self, caller: &OnBehalf) -> Result<Arc<Token>, TokenError> {
        let (subject, key) = self.subject(caller)?;
        let kept =
            self.kept.try_get_with(key.clone(), self.fetch(&key, subject, caller.expires, false)).await;
        let token = kept.map_err(|error| (*error).clone())?;
        if Instant::now() < token.dead_at {
            return Ok(token);
        }
        // The cache looks at its clock a little later than we do.
        self.kept.invalidate(&key).await;
        self.fetch(&key, subject, caller.expires, false).await
    }

    /// Forgets a token that was refused and gets another one. True when that may be tried.
    pub(super) async fn refused(&self, caller: &OnBehalf, token: &Arc<Token>) -> bool {
        let Ok((subject, key)) = self.subject(caller) else { return false };
        if !token.may_renew() {
            return false;
        }
        if self.kept.get(&key).await.is_some_and(|kept| Arc::ptr_eq(&kept, token)) {
            self.kept.invalidate(&key).await;
        }
        // Here, so that it is known to be a renewal; a failure shows when the token is asked for.
        let fetched = self.fetch(&key, subject, caller.expires, true);
        self.kept.try_get_with(key.clone(), fetched).await.is_ok()
    }

    /// The server wants more scopes of this caller: true when there is a token with them. What one caller may
    /// not have is no matter of the others.
    pub(super) async fn widen(&self, caller: &OnBehalf, token: &Arc<Token>, wanted: &[String]) -> bool {
        let Ok((subject, key)) = self.subject(caller) else { return false };
        if !token.may_widen() || token.covers(wanted) {
            return false;
        }
        if self.kept.get(&key).await.is_some_and(|kept| kept.covers(wanted)) {
            return true;
        }
        let known = self.wider.get(&key).await.unwrap_or_default();
        let wider = scopes::union(&known, wanted);
        let step = self.exchange(subject, caller.expires, true, &wider);
        let place = (key.clone(), wider.clone());
        // Once for all the caller's requests that wait; a no stands for a while.
        let Ok(token) = self.steps.get_with(place.clone(), step).await else { return false };
        self.steps.invalidate(&place).await;
        self.wider.insert(key.clone(), wider.into()).await;
        self.kept.insert(key, token).await;
        true
    }

    /// A token with what this caller's calls are known to need. Where that is refused, one without.
    async fn fetch(
        &self,
        key: &Key,
        subject: &Secret,
        expires: Option<u64>,
        renewal: bool,
    ) -> Result<Arc<Token>, TokenError> {
        let wider = self.wider.get(key).await.unwrap_or_default();
        let token = self.exchange(subject, expires, renewal, &wider).await;
        if matches!(token, Err(TokenError::Refused(..))) && !wider.is_empty() {
            self.wider.invalidate(key).await;
            return self.exchange(subject, expires, renewal, &[]).await;
        }
        token
    }

    /// What is exchanged, and its place. Only tokens of this issuer: sent to another, it would be passed on.
    fn subject<'c>(&self, caller: &'c OnBehalf) -> Result<(&'c Secret, Key), TokenError> {
        let token = caller.token.as_ref().ok_or(TokenError::Caller("has no token to exchange"))?;
        if self.issuer.issuer() != Some(&*caller.issuer) {
            return Err(TokenError::Caller("has a token of another issuer"));
        }
        let mut print = [0; 32];
        print.copy_from_slice(digest(&SHA256, token.expose().as_bytes()).as_ref());
        Ok((token, (Arc::clone(&caller.principal), print)))
    }

    async fn exchange(
        &self,
        subject: &Secret,
        expires: Option<u64>,
        renewal: bool,
        wider: &[String],
    ) -> Result<Arc<Token>, TokenError> {
        let left = expires.map(left);
        if left.is_some_and(|left| left.is_zero()) {
            return Err(TokenError::Caller("has a token that has expired"));
        }
        let grant = Grant::Exchange { subject, audience: self.audience.as_deref() };
        let issued = self.issuer.ask(grant, wider).await?;
        Ok(Arc::new(Token::new(issued, renewal, left)))
    }
}

/// Until a second since 1970.
fn left(expires: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(expires).saturating_sub(now)
}

/// A token is kept until it is not used any more.
struct Life;

impl Expiry<Key, Arc<Token>> for Life {
    fn expire_after_create(&self, _: &Key, token: &Arc<Token>, _: StdInstant) -> Option<Duration> {
        Some(token.dead_at.saturating_duration_since(Instant::now()))
    }
}
