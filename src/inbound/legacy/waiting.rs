//! Calls of legacy clients that wait for their answers, counted by principal: none may keep any number of bodies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many wait, by principal.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    // A std mutex: held to count.
    counts: Mutex<HashMap<Arc<str>, usize>>,
}

/// A call's place among those that wait, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'w> {
    waiting: &'w Waiting,
    principal: Arc<str>,
}

impl Waiting {
    /// A place for a call of this principal, who may have `most`.
    pub(super) fn enter(&self, principal: &Arc<str>, most: usize) -> Option<Place<'_>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(Arc::clone(principal)).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { waiting: self, principal: Arc::clone(principal) })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiting.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Waiting;

    #[test]
    fn r_36_each_principal_has_so_many_places_and_gets_them_back() {
        let (waiting, alice, bob) = (Waiting::default(), Arc::from("alice"), Arc::from("bob"));
        let first = waiting.enter(&alice, 2).unwrap();
        let second = waiting.enter(&alice, 2).unwrap();
        assert!(waiting.enter(&alice, 2).is_none());
        let other = waiting.enter(&bob, 2).unwrap();
        drop(first);
        let third = waiting.enter(&alice, 2).unwrap();
        assert!(waiting.enter(&alice, 2).is_none());
        drop((second, third, other));
        assert!(waiting.counts.lock().unwrap().is_empty());
    }
}
