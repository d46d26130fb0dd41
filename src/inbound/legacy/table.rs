//! All sessions of this replica: found by their ids, bounded per principal, given up when idle (G-21..G-26, F-027).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::Expiry;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use prometheus::IntGauge;
use tokio::time::{Instant, sleep};

use super::session::Session;
use super::stream::Replay;
use super::ticket::Ticket;
use crate::auth::Principal;
use crate::gateway::{Gateway, Quota};
use crate::protocol::version::Revision;
use crate::seal::Sealer;
use crate::tasks::Tasks;

/// Ended sessions that are remembered; beyond, the oldest may be taken up again until they are too old.
const MOST_ENDED: u64 = 200_000;
/// Bytes that all sessions together keep for clients that come back.
const MOST_REPLAY: usize = 64 << 20;
/// How often idle sessions are looked for.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

type Table = HashMap<Arc<str>, HashMap<Arc<str>, Arc<Session>>>;

/// Every session, by principal and name.
#[derive(Debug)]
pub struct Sessions {
    // A std mutex: held to change a map, never across an await.
    table: Mutex<Table>,
    /// Names of sessions that ended before their time: their ids are still sealed by us.
    ended: Cache<Arc<str>, Duration>,
    replay: Arc<Replay>,
    /// Calls that wait for their clients.
    pub(super) waiting: Arc<Quota>,
    gauge: IntGauge,
    pub(super) gateway: Arc<Gateway>,
}

/// What `[gateway]` says of sessions.
struct Rules {
    most: usize,
    idle: Duration,
    life: Duration,
}

/// Each ended session is remembered as long as its own id is valid.
struct Remembered;

impl Expiry<Arc<str>, Duration> for Remembered {
    fn expire_after_create(&self, _: &Arc<str>, left: &Duration, _: std::time::Instant) -> Option<Duration> {
        Some(*left)
    }
}

/// Every session of a principal is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("every session of this caller is at work")]
pub(super) struct Full;

impl Sessions {
    /// No sessions yet, within the bounds of `[gateway]` as it is at each time; idle ones are ended from now on.
    pub fn start(gateway: &Arc<Gateway>, tasks: &Tasks) -> Arc<Self> {
        let ended = Cache::builder().max_capacity(MOST_ENDED).expire_after(Remembered);
        let sessions = Arc::new(Self {
            table: Mutex::default(),
            ended: ended.eviction_policy(EvictionPolicy::lru()).build(),
            replay: Arc::new(Replay::new(MOST_REPLAY)),
            waiting: Arc::default(),
            gauge: gateway.metrics.sessions().clone(),
            gateway: Arc::clone(gateway),
        });
        tasks.spawn("sessions", Arc::clone(&sessions).sweep());
        if gateway.cluster().is_some() {
            tasks.spawn("sessions elsewhere", Arc::clone(&sessions).hear());
        }
        sessions
    }

    fn rules(&self) -> Rules {
        let snapshot = self.gateway.snapshot();
        let gateway = &snapshot.config.gateway;
        Rules { most: gateway.max_sessions, idle: gateway.session_idle, life: gateway.session_max_age }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session and its id.
    pub(super) fn begin(
        &self,
        (sealer, path): (&Sealer, &str),
        principal: &Principal,
        revision: Revision,
        capabilities: String,
    ) -> Result<(Arc<Session>, String), Full> {
        let ticket = Ticket::new(principal, revision, capabilities, self.rules().life).ok_or(Full)?;
        let ticket = ticket.of(self.gateway.cluster().map(|cluster| cluster.me()));
        let session = self.enter(&ticket, principal)?;
        Ok((session, ticket.seal(sealer, path)))
    }

    /// The session of an id, taken up anew where another replica began it or this one was restarted (G-26). `None`:
    /// there is none, any more, for this caller, at this endpoint (G-23, A-61).
    pub(super) fn find(
        &self,
        (sealer, path): (&Sealer, &str),
        id: &str,
        principal: &Principal,
    ) -> Option<Arc<Session>> {
        let ticket = Ticket::open(sealer, path, id, principal)?;
        if self.ended.contains_key(&*ticket.name) {
            return None;
        }
        let known = self.lock().get(&principal.id).and_then(|own| own.get(&*ticket.name)).map(Arc::clone);
        match known {
            // Among several replicas another one may have had it in use meanwhile.
            Some(session) if self.gateway.cluster().is_none() && self.is_over(&session, Instant::now()) => {
                self.end(&session);
                None
            }
            Some(session) => Some(session),
            None => self.enter(&ticket, principal).ok(),
        }
    }

    fn enter(&self, ticket: &Ticket, principal: &Principal) -> Result<Arc<Session>, Full> {
        let session = Session::new(ticket, Arc::clone(&principal.id), &self.replay).ok_or(Full)?;
        let most = self.rules().most;
        let session = Arc::new(session);
        let mut table = self.lock();
        let own = table.entry(Arc::clone(&principal.id)).or_default();
        // Two requests of one session may find it unknown at once.
        if let Some(known) = own.get(&session.name) {
            return Ok(Arc::clone(known));
        }
        let gone = if own.len() < most {
            None
        } else {
            let Some(oldest) = oldest(own.values()) else {
                drop(table);
                self.gateway.metrics.limited("max_sessions");
                return Err(Full);
            };
            own.remove(&oldest.name)
        };
        own.insert(Arc::clone(&session.name), Arc::clone(&session));
        drop(table);
        self.gauge.inc();
        if let Some(gone) = gone {
            self.gateway.metrics.limited("max_sessions");
            self.gauge.dec();
            self.leave(&gone);
        }
        Ok(session)
    }

    /// Ends a session for good, if it has not ended yet.
    pub(super) fn end(&self, session: &Session) {
        if let Some(gone) = self.remove(session) {
            self.over(&gone);
        }
    }

    fn remove(&self, session: &Session) -> Option<Arc<Session>> {
        let mut table = self.lock();
        let own = table.get_mut(&session.principal)?;
        let gone = own.remove(&session.name);
        if own.is_empty() {
            table.remove(&session.principal);
        }
        drop(table);
        gone.inspect(|_| self.gauge.dec())
    }

    /// Gives up what still runs in any session. Sessions live on: at another replica, or here after a restart.
    pub fn cut(&self) {
        for session in self.lock().values().flat_map(HashMap::values) {
            session.end.cancel();
        }
    }

    /// Nobody uses it here any more, or it makes room. Among several replicas another one may have it in use: only what
    /// is here of it goes, and its client may come back here too. Where its requests are sent stays as it is.
    fn leave(&self, session: &Session) {
        if self.gateway.cluster().is_some() && Instant::now() < session.expires {
            self.finish(session);
        } else {
            self.over(session);
        }
    }

    fn over(&self, session: &Session) {
        // As long as its id could be taken for one that is alive.
        let left = session.expires.saturating_duration_since(Instant::now());
        self.ended.insert(Arc::clone(&session.name), left);
        if let Some(cluster) = self.gateway.cluster() {
            cluster.ended(&session.name, left);
        }
        self.finish(session);
    }

    /// A session has ended elsewhere: its id is good no more. How long it would have been is not known.
    pub(in crate::inbound) fn note_ended(&self, name: &str) {
        self.ended.insert(name.into(), self.rules().life);
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.lock().values().flat_map(HashMap::keys).map(Arc::clone).collect()
    }

    /// Takes a session out of the table. Of whom it is, is not known.
    pub(super) fn taken_out(&self, name: &str) -> Vec<Arc<Session>> {
        let mut table = self.lock();
        let gone: Vec<_> = table.values_mut().filter_map(|own| own.remove(name)).collect();
        table.retain(|_, own| !own.is_empty());
        drop(table);
        gone.iter().for_each(|_| self.gauge.dec());
        gone
    }

    pub(super) fn finish(&self, session: &Session) {
        session.finish();
        // What servers keep for it ends with it.
        self.gateway.servers.end_session(&session.name);
    }

    fn is_over(&self, session: &Session, now: Instant) -> bool {
        let idle = session.idle_since().is_some_and(|since| now.duration_since(since) >= self.rules().idle);
        idle || now >= session.expires
    }

    /// Gives up idle sessions, again and again.
    async fn sweep(self: Arc<Self>) {
        loop {
            sleep((self.rules().idle / 4).clamp(SWEEP.0, SWEEP.1)).await;
            let all: Vec<Arc<Session>> =
                self.lock().values().flat_map(HashMap::values).map(Arc::clone).collect();
            let now = Instant::now();
            for session in all {
                if self.is_over(&session, now) {
                    self.remove(&session).iter().for_each(|gone| self.leave(gone));
                } else {
                    session.tidy();
                }
            }
        }
    }
}

/// Who makes room: the one idle for longest; then one that only waits for news (G-25).
fn oldest<'s>(all: impl Iterator<Item = &'s Arc<Session>> + Clone) -> Option<Arc<Session>> {
    let idle = all.clone().filter_map(|session| Some((session.idle_since()?, session)));
    let idle = idle.min_by_key(|(since, _)| *since).map(|(_, session)| session);
    idle.or_else(|| all.clone().find(|session| !session.is_working())).map(Arc::clone)
}
