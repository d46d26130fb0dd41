//! A failed question is not asked again at once: the pause grows with every failure (F-068).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::token::TokenError;

const FIRST: Duration = Duration::from_millis(500);
const MOST: Duration = Duration::from_secs(10);

/// The last failure, and until when it is the answer.
#[derive(Debug, Default)]
pub(super) struct Pause {
    // A std mutex: held to read or write three words.
    last: Mutex<Option<(TokenError, Instant, Duration)>>,
}

impl Pause {
    /// The failure that still stands, if there is one.
    pub(super) fn check(&self) -> Result<(), TokenError> {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((error, until, _)) if Instant::now() < *until => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Notes how it went.
    pub(super) fn note(&self, failed: Option<&TokenError>) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = failed.map(|error| {
            let step = last.as_ref().map_or(FIRST, |(_, _, step)| (*step * 2).min(MOST));
            (error.clone(), Instant::now() + step, step)
        });
    }
}
