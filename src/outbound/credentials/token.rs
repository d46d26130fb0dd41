//! A token as an authorization server issued it: what is presented, and for how long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{scopes, sensitive};

/// The life of a token of which nothing sensible is said.
const UNSAID: Duration = Duration::from_secs(300);
/// Nothing is believed for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// A token is not used in its last moments: clocks and ways differ. A tenth of its life, at most this.
const SKEW: Duration = Duration::from_secs(10);
/// What took the place of a refused token is not itself replaced sooner than this, and later if it was never taken.
const PATIENT: Duration = Duration::from_secs(1);
const STUBBORN: Duration = Duration::from_secs(10);

/// Why there is no token. Texts are for the operator and hold nothing of tokens or answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The authorization server cannot be asked, or fails.
    #[error("the authorization server is unavailable: {0}")]
    Unavailable(String),
    /// It says no: its status and, if it is one of the known ones, its error code.
    #[error("the authorization server refused with status {0}, {1}")]
    Refused(u16, &'static str),
    /// It answered with something that is no bearer token.
    #[error("the authorization server's answer {0}")]
    Unusable(&'static str),
    /// The caller brought nothing that could be exchanged.
    #[error("the caller {0}")]
    Caller(&'static str),
    /// The server names another authorization server than the one our credentials are of.
    #[error("the server names another issuer now, to which our credentials do not belong")]
    Moved,
}

/// What was issued, before anybody knows when.
#[derive(Debug)]
pub(super) struct Issued {
    /// `Authorization`
    pub(super) header: HeaderValue,
    /// How long it lives.
    pub(super) life: Duration,
    /// What was asked for with it.
    pub(super) scopes: Vec<String>,
}

/// A token in use. Its value is only in a header that no log shows.
#[derive(Debug)]
pub struct Token {
    pub(super) header: HeaderValue,
    /// From here on another one is fetched in the background.
    pub(super) refresh_at: Instant,
    /// From here on it is not used.
    pub(super) dead_at: Instant,
    born: Instant,
    /// The scopes it was asked for with.
    scopes: Vec<String>,
    /// Whether it took the place of one that was refused.
    renewal: bool,
    accepted: AtomicBool,
}

impl Issued {
    /// Reads a token answer (RFC 6749 §5.1).
    pub(super) fn read(answer: &Map<String, Value>) -> Result<Self, TokenError> {
        let token = match answer.get("access_token") {
            Some(Value::String(token)) if !token.is_empty() => token,
            _ => return Err(TokenError::Unusable("has no access_token")),
        };
        // Some servers leave it out; another kind would have to be presented in another way.
        match answer.get("token_type") {
            None | Some(Value::Null) => {}
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("bearer") => {}
            Some(_) => return Err(TokenError::Unusable("is no bearer token")),
        }
        let header = Some(token).filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let header = header.and_then(|token| sensitive(&format!("Bearer {token}")));
        let header = header.ok_or(TokenError::Unusable("has a token that cannot stand in a header"))?;
        Ok(Self { header, life: life(answer.get("expires_in")), scopes: Vec::new() })
    }
}

/// `expires_in`: a number, or the text of one; missing, zero or senseless: a short while (F-068).
fn life(said: Option<&Value>) -> Duration {
    let seconds = match said {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    match seconds {
        Some(seconds) if seconds.is_finite() && seconds >= 1.0 => {
            Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()))
        }
        _ => UNSAID,
    }
}

impl Token {
    /// Begins the life of a token; `most` bounds it.
    pub(super) fn new(issued: Issued, renewal: bool, most: Option<Duration>) -> Self {
        let born = Instant::now();
        let usable = issued.life - SKEW.min(issued.life / 10);
        let usable = most.map_or(usable, |most| usable.min(most.saturating_sub(SKEW)));
        Self {
            header: issued.header,
            refresh_at: born + (issued.life * 4 / 5).min(usable),
            dead_at: born + usable,
            born,
            scopes: issued.scopes,
            renewal,
            accepted: AtomicBool::new(false),
        }
    }

    /// A server took it.
    pub fn accept(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for with all of these.
    pub(super) fn covers(&self, scopes: &[String]) -> bool {
        scopes::within(scopes, &self.scopes)
    }

    /// The same for one.
    pub(super) fn has(&self, scope: &String) -> bool {
        self.scopes.contains(scope)
    }

    /// Whether it may be replaced by one with more scopes: not when it was replaced a moment ago and no server has taken it.
    pub(super) fn may_widen(&self) -> bool {
        !self.renewal || self.accepted.load(Ordering::Relaxed) || self.born.elapsed() >= STUBBORN
    }

    /// Whether a refusal is a reason for another one: not when that one was just tried, or each call that a server
    /// refuses for reasons of its own would cost a token.
    pub(super) fn may_renew(&self) -> bool {
        let wait = if self.accepted.load(Ordering::Relaxed) { PATIENT } else { STUBBORN };
        !self.renewal || self.born.elapsed() >= wait
    }
}
