//! The gateway's own token for one server: fetched once for all who wait, renewed behind their backs (A-40, A-41, F-068).

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::pause::Pause;
use super::scopes;
use super::token::{Issued, Token, TokenError};
use crate::tasks::{Flight, Tasks};

/// Where tokens come from; they are asked for with these scopes besides.
pub(super) type Source = Box<
    dyn Fn(Vec<String>) -> Pin<Box<dyn Future<Output = Result<Issued, TokenError>> + Send>> + Send + Sync,
>;

/// A token and what keeps it valid.
pub struct ClientToken {
    source: Source,
    current: ArcSwapOption<Token>,
    flight: Flight<Result<Arc<Token>, TokenError>>,
    pause: Pause,
    refused: AtomicBool,
    // A std mutex: held to read or change two short lists.
    wider: Mutex<Wider>,
    tasks: Tasks,
}

/// Scopes that the server asked for, beyond what is asked for anyway.
#[derive(Debug, Default)]
struct Wider {
    scopes: Vec<String>,
    /// Those that are not to be had, until when.
    denied: Option<(Vec<String>, Instant)>,
}

/// How long a denial of scopes is believed.
pub(super) const DENIED: Duration = Duration::from_secs(60);

impl ClientToken {
    pub(super) fn new(source: Source, tasks: Tasks) -> Self {
        Self {
            source,
            current: ArcSwapOption::empty(),
            flight: Flight::default(),
            pause: Pause::default(),
            refused: AtomicBool::new(false),
            wider: Mutex::default(),
            tasks,
        }
    }

    /// A token that is valid now. One whose end is near is still given out while another one is fetched, and
    /// when that fails.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Arc<Token>, TokenError> {
        let now = Instant::now();
        if let Some(token) = self.current.load_full().filter(|token| now < token.dead_at) {
            if now >= token.refresh_at && self.pause.check().is_ok() {
                let own = Arc::clone(self);
                drop(self.flight.start(&self.tasks, "refresh token", || own.fetch()));
            }
            return Ok(token);
        }
        self.pause.check()?;
        let own = Arc::clone(self);
        let fetched = self.flight.join(&self.tasks, "fetch token", || own.fetch()).await;
        fetched.unwrap_or_else(|| Err(TokenError::Unavailable("stopping".to_owned())))
    }

    /// Whether there is a token that can be used.
    pub(super) fn is_there(&self) -> bool {
        self.current.load().as_ref().is_some_and(|token| Instant::now() < token.dead_at)
    }

    async fn fetch(self: Arc<Self>) -> Result<Arc<Token>, TokenError> {
        // Who looked just before another flight landed starts a second one: there is nothing left to do.
        let now = Instant::now();
        let mut wider = self.wider().scopes.clone();
        let current = self.current.load_full().filter(|token| now < token.dead_at);
        if let Some(token) = current.as_ref().filter(|token| now < token.refresh_at && token.covers(&wider)) {
            return Ok(Arc::clone(token));
        }
        let stepped = current.as_ref().is_some_and(|token| !token.covers(&wider));
        let mut issued = (self.source)(wider.clone()).await;
        if matches!(issued, Err(TokenError::Refused(..))) && !wider.is_empty() {
            // Perhaps only because of what the server wants besides.
            wider = self.narrow(current.as_deref());
            if let Some(token) = current.filter(|token| Instant::now() < token.refresh_at) {
                return Ok(token);
            }
            issued = (self.source)(wider).await;
        }
        self.pause.note(issued.as_ref().err());
        let renewal = self.refused.swap(false, Ordering::Relaxed) || stepped;
        let token = Arc::new(Token::new(issued?, renewal, None));
        self.current.store(Some(Arc::clone(&token)));
        Ok(token)
    }

    fn wider(&self) -> MutexGuard<'_, Wider> {
        self.wider.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up the scopes that the token in use has not, for a while. What is left of them.
    fn narrow(&self, current: Option<&Token>) -> Vec<String> {
        let mut wider = self.wider();
        let all = std::mem::take(&mut wider.scopes);
        let (kept, denied) = all.into_iter().partition(|scope| current.is_some_and(|token| token.has(scope)));
        wider.denied = Some((denied, Instant::now() + DENIED));
        wider.scopes = kept;
        wider.scopes.clone()
    }

    /// The server wants these scopes as well: true when there is a token with them.
    pub(super) async fn widen(self: &Arc<Self>, token: &Arc<Token>, wanted: &[String]) -> bool {
        if !token.may_widen() || token.covers(wanted) {
            return false;
        }
        {
            let mut wider = self.wider();
            let denied = wider.denied.as_ref().filter(|(_, until)| Instant::now() < *until);
            if denied.is_some_and(|(scopes, _)| wanted.iter().any(|scope| scopes.contains(scope))) {
                return false;
            }
            wider.scopes = scopes::union(&wider.scopes, wanted);
        }
        // One that was under way may have been asked for before, hence a second.
        for _ in 0..2 {
            let own = Arc::clone(self);
            let fetched = self.flight.join(&self.tasks, "widen token", || own.fetch()).await;
            match fetched {
                Some(Ok(token)) if token.covers(wanted) => return true,
                Some(Ok(_)) => {}
                _ => break,
            }
        }
        false
    }

    /// Forgets a token that was refused, if it is still in use. True when another one may be tried.
    pub(super) fn refused(&self, token: &Arc<Token>) -> bool {
        if !token.may_renew() {
            return false;
        }
        let current = self.current.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            self.refused.store(true, Ordering::Relaxed);
            self.current.compare_and_swap(&*current, None);
        }
        true
    }
}

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientToken").field("current", &self.current.load()).finish_non_exhaustive()
    }
}
