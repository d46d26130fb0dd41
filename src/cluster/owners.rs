//! Which replica a session is at. Its sealed id says who began it; the table in Redis has only those that another one
//! took over since, or that ended: most requests ask nobody.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use moka::sync::Cache;
use redis::{AsyncCommands as _, Script};

use super::link::Away;
use super::news::{CHANNEL, Said};
use super::outbox::Outgoing;
use super::{Cluster, Replica};

/// The entry of a session that has ended.
pub(super) const ENDED: &str = "ended";
/// Sessions of others whose place is remembered.
const MOST: u64 = 100_000;
/// How long a replica that did not answer is taken for dead.
const SILENT: Duration = Duration::from_secs(5);
/// Owners of one session that may turn out dead, one after the other.
const TRIES: usize = 4;

/// Takes a session nobody has in the table, or one that is dead. Gives back who has it then.
static CLAIM: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local now = redis.call('GET', KEYS[1])
         if now == false or (ARGV[1] ~= '' and string.sub(now, 1, #ARGV[1] + 1) == ARGV[1] .. ' ') then
           redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
           redis.call('PUBLISH', ARGV[4], '0 ' .. ARGV[5])
           return ARGV[2]
         end
         return now",
    )
});

pub(super) fn key(name: &str) -> String {
    format!("gatehouse:session:{name}")
}

/// A session's place in words of the sealed id that names it.
#[derive(Debug, Clone, Copy)]
pub struct Claimed<'s> {
    /// The session's name.
    pub name: &'s str,
    /// Who began it; `None`: a replica that had no others.
    pub owner: Option<&'s Replica>,
    /// How long its id is valid.
    pub life: Duration,
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At this replica.
    Here,
    /// At another one.
    There(Replica),
    /// It has ended.
    Ended,
}

/// What this replica remembers of others'.
pub(super) struct Owners {
    /// Sessions that are not where they began: taken over by somebody. `None`: by this replica.
    moved: Cache<Arc<str>, Option<Replica>>,
    /// Processes that are known to have ended.
    dead: Cache<String, ()>,
    /// Processes that did not answer a moment ago.
    silent: Cache<String, ()>,
}

impl Owners {
    pub(super) fn new(life: Duration) -> Self {
        let cache = |life| Cache::builder().max_capacity(MOST).time_to_live(life).build();
        Self {
            moved: Cache::builder().max_capacity(MOST).time_to_live(life).build(),
            dead: cache(life),
            silent: cache(SILENT),
        }
    }

    /// Another replica says that it has a session now.
    pub(super) fn moved(&self, name: &str, to: Replica) {
        self.moved.insert(name.into(), Some(to));
    }

    pub(super) fn forget(&self, name: &str) {
        self.moved.invalidate(name);
    }
}

impl Cluster {
    /// Where a session is, as far as is known without asking its owner.
    pub async fn place(&self, session: Claimed<'_>) -> Place {
        if let Some(moved) = self.owners.moved.get(session.name) {
            match moved {
                None => return Place::Here,
                Some(replica) if !self.is_dead(&replica) => return Place::There(replica),
                Some(replica) => return self.claim(session, &replica.id).await,
            }
        }
        match session.owner {
            Some(owner) if owner.id == self.me.id => Place::Here,
            Some(owner) if !self.is_dead(owner) => Place::There(owner.clone()),
            Some(owner) => self.claim(session, &owner.id).await,
            None => self.claim(session, "").await,
        }
    }

    /// A replica did not answer, or is `gone` for good: where a session is that was there.
    pub async fn lost(&self, session: Claimed<'_>, replica: &Replica, gone: bool) -> Place {
        self.note_lost(replica, gone);
        self.place(session).await
    }

    /// A replica did not answer, or is `gone` for good.
    pub fn note_lost(&self, replica: &Replica, gone: bool) {
        let cache = if gone { &self.owners.dead } else { &self.owners.silent };
        cache.insert(replica.id.clone(), ());
    }

    /// Who was at our own address before is gone.
    fn is_dead(&self, replica: &Replica) -> bool {
        (replica.at == self.me.at && replica.id != self.me.id)
            || self.owners.dead.contains_key(&replica.id)
            || self.owners.silent.contains_key(&replica.id)
    }

    /// Takes a session over from somebody who is dead, unless another replica was faster. While Redis is away it is
    /// served here: lists and calls need no more than its id (G-21).
    async fn claim(&self, session: Claimed<'_>, dead: &str) -> Place {
        let mut dead = dead.to_owned();
        for _ in 0..TRIES {
            let Ok(owner) = self.take_over(session, &dead).await else { return Place::Here };
            if owner == ENDED {
                return Place::Ended;
            }
            let Some(owner) = read(&owner) else { return Place::Here };
            if owner.id == self.me.id {
                self.owners.moved.insert(session.name.into(), None);
                return Place::Here;
            }
            if !self.is_dead(&owner) {
                self.owners.moved.insert(session.name.into(), Some(owner.clone()));
                return Place::There(owner);
            }
            dead = owner.id;
        }
        Place::Here
    }

    async fn take_over(&self, session: Claimed<'_>, dead: &str) -> Result<String, Away> {
        let mut claim = CLAIM.prepare_invoke();
        claim.key(key(session.name)).arg(dead).arg(format!("{} {}", self.me.id, self.me.at));
        let moved = Said::Moved { name: session.name.to_owned(), to: self.me.clone() };
        claim.arg(session.life.as_secs().max(1)).arg(CHANNEL).arg(self.message(moved));
        self.link.ask(async |mut redis| claim.invoke_async::<String>(&mut redis).await).await
    }

    /// A session of this replica has ended for good; its id would have been valid for `life`.
    pub fn ended(&self, name: &str, life: Duration) {
        self.owners.forget(name);
        self.outbox.put(Outgoing::Ended(name.to_owned(), life));
    }

    /// Which of these sessions, thought to be here, the table has elsewhere or as ended. While Redis is away: none.
    pub async fn strayed(&self, names: &[Arc<str>]) -> Vec<(Arc<str>, Place)> {
        let mut strayed = Vec::new();
        for some in names.chunks(500) {
            let keys: Vec<String> = some.iter().map(|name| key(name)).collect();
            let asked =
                self.link.ask(async |mut redis| redis.mget::<_, Vec<Option<String>>>(&keys).await).await;
            let Ok(found) = asked else { break };
            for (name, entry) in some.iter().zip(found) {
                let place = entry.and_then(|entry| self.stray(&entry));
                if let Some(Place::There(owner)) = &place {
                    self.owners.moved(name, owner.clone());
                }
                strayed.extend(place.map(|place| (Arc::clone(name), place)));
            }
        }
        strayed
    }

    /// What an entry of the table says of a session that is thought to be here, if it is not.
    fn stray(&self, entry: &str) -> Option<Place> {
        if entry == ENDED {
            return Some(Place::Ended);
        }
        read(entry).filter(|owner| owner.id != self.me.id).map(Place::There)
    }
}

/// `ID HOST:PORT`
fn read(entry: &str) -> Option<Replica> {
    let (id, at) = entry.split_once(' ')?;
    Some(Replica { id: id.to_owned(), at: at.to_owned() })
}
