//! So many of something for each principal, and no more: streams, calls that wait for answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many each principal has.
#[derive(Debug, Default)]
pub struct Quota {
    // A std mutex: held to count.
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

/// One of them, given back when dropped.
#[derive(Debug)]
pub struct Taken {
    quota: Arc<Quota>,
    principal: Arc<str>,
}

impl Quota {
    /// One more for this principal; `None` if it has `most` already.
    pub fn take(self: &Arc<Self>, principal: &Arc<str>, most: usize) -> Option<Taken> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(Arc::clone(principal)).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Taken { quota: Arc::clone(self), principal: Arc::clone(principal) })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = self.quota.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Quota;

    #[test]
    fn r_36_each_principal_has_so_many_places_and_gets_them_back() {
        let (quota, alice, bob) = (Arc::new(Quota::default()), Arc::from("alice"), Arc::from("bob"));
        let first = quota.take(&alice, 2).unwrap();
        let second = quota.take(&alice, 2).unwrap();
        assert!(quota.take(&alice, 2).is_none());
        let other = quota.take(&bob, 2).unwrap();
        drop(first);
        let third = quota.take(&alice, 2).unwrap();
        assert!(quota.take(&alice, 2).is_none());
        drop((second, third, other));
        assert!(quota.taken.lock().unwrap().is_empty());
    }
}
