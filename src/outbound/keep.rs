//! A bounded map of shared values: what is not used for a while goes, what is in use stays.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Values by key, at most so many, each until it was idle for so long.
#[derive(Debug)]
pub struct Keep<K, V> {
    // A std mutex: held to look at the map, never across an await.
    entries: Mutex<HashMap<K, Entry<V>>>,
    most: usize,
    idle: Duration,
    in_use: fn(&Arc<V>) -> bool,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    used: Instant,
}

impl<K: Eq + Hash + Clone, V> Keep<K, V> {
    /// At most `most` values, each for `idle` after its last use; `in_use` says what may not go.
    pub fn new(most: usize, idle: Duration, in_use: fn(&Arc<V>) -> bool) -> Self {
        Self { entries: Mutex::default(), most, idle, in_use }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Entry<V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of this key, made if there is none, and what had to go for it: dropped by the caller, where nobody
    /// waits. `None`: there is no room, everything is in use.
    pub fn get(&self, key: &K, make: impl FnOnce() -> V) -> (Option<Arc<V>>, Option<Arc<V>>) {
        let mut entries = self.lock();
        let used = Instant::now();
        if let Some(entry) = entries.get_mut(key) {
            entry.used = used;
            return (Some(Arc::clone(&entry.value)), None);
        }
        let mut gone = None;
        if entries.len() >= self.most {
            let free = entries.iter().filter(|(_, entry)| !(self.in_use)(&entry.value));
            let Some(oldest) = free.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone()) else {
                return (None, None);
            };
            gone = entries.remove(&oldest).map(|entry| entry.value);
        }
        let value = Arc::new(make());
        entries.insert(key.clone(), Entry { value: Arc::clone(&value), used });
        (Some(value), gone)
    }

    /// The value of this key, if there is one; no use of it.
    pub fn peek(&self, key: &K) -> Option<Arc<V>> {
        self.lock().get(key).map(|entry| Arc::clone(&entry.value))
    }

    /// Takes out what was idle for too long.
    pub fn sweep(&self) -> Vec<Arc<V>> {
        let now = Instant::now();
        self.take(|_, entry, in_use| {
            if in_use {
                entry.used = now;
            }
            now.saturating_duration_since(entry.used) >= self.idle
        })
    }

    /// Takes out those used longest ago until all together weigh at most `most`.
    pub fn shrink(&self, weigh: impl Fn(&V) -> usize, most: usize) -> Vec<Arc<V>> {
        let mut entries = self.lock();
        let mut total: usize = entries.values().map(|entry| weigh(&entry.value)).sum();
        if total <= most {
            return Vec::new();
        }
        let free = entries.iter().filter(|(_, entry)| !(self.in_use)(&entry.value));
        let mut free: Vec<(Instant, K)> = free.map(|(key, entry)| (entry.used, key.clone())).collect();
        free.sort_unstable_by_key(|(used, _)| *used);
        let mut gone = Vec::new();
        for (_, key) in free {
            if total <= most {
                break;
            }
            if let Some(entry) = entries.remove(&key) {
                total -= weigh(&entry.value).min(total);
                gone.push(entry.value);
            }
        }
        gone
    }

    /// Takes out the values whose keys are `chosen`, in use or not.
    pub fn remove(&self, chosen: impl Fn(&K) -> bool) -> Vec<Arc<V>> {
        self.take(|key, _, _| chosen(key))
    }

    fn take(&self, mut chosen: impl FnMut(&K, &mut Entry<V>, bool) -> bool) -> Vec<Arc<V>> {
        let mut entries = self.lock();
        let taken = entries.extract_if(|key, entry| {
            let in_use = (self.in_use)(&entry.value);
            chosen(key, entry, in_use)
        });
        taken.map(|(_, entry)| entry.value).collect()
    }

    /// All values.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.lock().values().map(|entry| Arc::clone(&entry.value)).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often it is worth to sweep.
    pub fn pause(&self) -> Duration {
        (self.idle / 8).max(Duration::from_secs(1))
    }
}

/// Whether anybody but the map has it.
pub fn held<V>(value: &Arc<V>) -> bool {
    Arc::strong_count(value) > 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::advance;

    use super::{Keep, held};

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn g_25_idle_values_go_and_those_in_use_stay() {
        let keep = Keep::new(10, IDLE, held);
        let used = keep.get(&"used", || 1).0.unwrap();
        keep.get(&"idle", || 2);
        advance(IDLE / 2).await;
        keep.get(&"young", || 3);
        assert!(keep.sweep().is_empty());
        advance(IDLE / 2).await;
        assert_eq!(keep.sweep().iter().map(|v| **v).collect::<Vec<_>>(), [2]);
        assert!(Arc::ptr_eq(&used, &keep.get(&"used", || 4).0.unwrap()));
        drop(used);
        advance(IDLE - Duration::from_secs(1)).await;
        assert_eq!(
            keep.sweep().iter().map(|v| **v).collect::<Vec<_>>(),
            [3],
            "its idle time begins at its last use"
        );
        advance(Duration::from_secs(1)).await;
        assert_eq!(keep.sweep().len(), 1);
        assert!(keep.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_makes_room_and_nothing_in_use_does() {
        let keep = Keep::new(2, IDLE, held);
        let first = keep.get(&1, || 1).0;
        advance(Duration::from_secs(1)).await;
        keep.get(&2, || 2);
        let (third, gone) = keep.get(&3, || 3);
        assert_eq!((third.as_deref(), gone.as_deref()), (Some(&3), Some(&2)));
        let (fourth, gone) = keep.get(&4, || 4);
        assert_eq!((fourth, gone), (None, None), "all are in use");
        assert!(keep.shrink(|weight| *weight as usize, 4).is_empty(), "1 and 3 weigh no more");
        assert!(keep.shrink(|weight| *weight as usize, 1).is_empty(), "all are in use");
        drop(first);
        assert_eq!(keep.get(&4, || 4).1.as_deref(), Some(&1));
        assert_eq!(keep.remove(|key| *key == 3).len(), 1);
        assert_eq!(keep.len(), 1);
        advance(Duration::from_secs(1)).await;
        keep.get(&5, || 5);
        let gone: Vec<i32> = keep.shrink(|weight| *weight as usize, 5).iter().map(|v| **v).collect();
        assert_eq!(gone, [4], "the one used longest ago");
    }
}
