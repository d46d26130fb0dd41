//! The gateway's own token for one server: fetched once for all who wait, renewed behind their backs (A-40, A-41, F-068).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use super::pause::Pause;
use super::token::{Issued, Token, TokenError};
use crate::tasks::{Flight, Tasks};

/// Where tokens come from.
pub(super) type Source =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Issued, TokenError>> + Send>> + Send + Sync>;

/// A token and what keeps it valid.
pub struct ClientToken {
    source: Source,
    current: ArcSwapOption<Token>,
    flight: Flight<Result<Arc<Token>, TokenError>>,
    pause: Pause,
    refused: AtomicBool,
    tasks: Tasks,
}

impl ClientToken {
    pub(super) fn new(source: Source, tasks: Tasks) -> Self {
        Self {
            source,
            current: ArcSwapOption::empty(),
            flight: Flight::default(),
            pause: Pause::default(),
            refused: AtomicBool::new(false),
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

    async fn fetch(self: Arc<Self>) -> Result<Arc<Token>, TokenError> {
        // Who looked just before another flight landed starts a second one: there is nothing left to do.
        let now = Instant::now();
        if let Some(token) = self.current.load_full().filter(|token| now < token.refresh_at) {
            return Ok(token);
        }
        let issued = (self.source)().await;
        self.pause.note(issued.as_ref().err());
        let renewal = self.refused.swap(false, Ordering::Relaxed);
        let token = Arc::new(Token::new(issued?, renewal, None));
        self.current.store(Some(Arc::clone(&token)));
        Ok(token)
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
