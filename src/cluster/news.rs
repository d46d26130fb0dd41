//! What replicas tell each other by a channel of Redis, and how what was missed while it was away is made up for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::AsyncCommands as _;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::link::Away;
use super::outbox::Outgoing;
use super::{Cluster, Replica};
use crate::protocol::method::Kind;

/// Where it is told.
pub(super) const CHANNEL: &str = "gatehouse:news";
/// How often each change was told of.
pub(super) const GENERATIONS: &str = "gatehouse:generations";

/// The pause before Redis is tried again: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Redis that stayed for so long is no longer suspected of going at once.
const STEADY: Duration = Duration::from_secs(10);
/// How often a quiet Redis is asked for a sign of life.
const BEAT: Duration = Duration::from_secs(2);

/// What a replica hears of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A session has ended for good.
    Ended(Arc<str>),
    /// A session that another replica has taken over.
    Moved(Arc<str>, Replica),
    /// A server said that something of it changed.
    Changed(Change),
    /// Redis was away and is there again: what was said in between is not known.
    Back,
}

/// What of a server changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    /// The server's name.
    pub server: String,
    /// Which list (`tools`, `prompts`, `resources`), or a resource's URI.
    pub what: What,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and of their templates.
    Resources,
    /// One resource.
    Uri(String),
    /// Any resource.
    Reads,
}

impl What {
    /// All that is not about one resource only.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Reads];

    /// The list of a kind.
    pub const fn list(kind: Kind) -> Self {
        match kind {
            Kind::Tools => Self::Tools,
            Kind::Prompts => Self::Prompts,
            Kind::Resources | Kind::Templates => Self::Resources,
        }
    }

    /// The field that counts it.
    const fn field(&self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Uri(_) | Self::Reads => "reads",
        }
    }

    fn of_field(field: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|what| what.field() == field)
    }
}

impl Change {
    /// The field that counts it. Servers' names have no blanks.
    pub(super) fn field(&self) -> String {
        format!("{} {}", self.server, self.what.field())
    }

    fn of_field(field: &str) -> Option<Self> {
        let (server, what) = field.split_once(' ')?;
        Some(Self { server: server.to_owned(), what: What::of_field(what)? })
    }
}

/// A message of the channel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Message {
    /// The replica that says it.
    pub(super) from: String,
    #[serde(flatten)]
    pub(super) said: Said,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Said {
    Ended(String),
    Moved { name: String, to: Replica },
    Changed(Change),
}

/// How often each change has been told of, as far as this replica knows.
type Known = Option<HashMap<String, u64>>;

impl Cluster {
    /// Keeps Redis, for ever; one line of the log for each change of its state.
    pub(super) async fn keep(self: Arc<Self>) {
        let (mut pause, mut known, mut told) = (PAUSE.0, Known::None, None);
        loop {
            let began = Instant::now();
            // Only Redis ends this: what it returns is always the same.
            let Err(Away) = self.attend(&mut known, &mut told).await;
            if self.link.set_up(false) || told != Some(false) {
                tracing::warn!(
                    reason = %self.link.reason(),
                    "Redis is away: limits are counted by each replica alone until it is back"
                );
            }
            told = Some(false);
            // Who starts without Redis does not know what was said before.
            known.get_or_insert_default();
            if began.elapsed() > STEADY {
                pause = PAUSE.0;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// As long as Redis is there.
    async fn attend(
        &self,
        known: &mut Known,
        told: &mut Option<bool>,
    ) -> Result<std::convert::Infallible, Away> {
        // Heard before anything is compared: nothing is missed in between.
        let mut heard = self.link.hear(CHANNEL).await?;
        self.link.try_first(ping).await?;
        self.make_up(known).await?;
        self.link.set_up(true);
        tracing::info!(replica = %self.me.id, at = %self.me.at, "Redis is there");
        if told.replace(true).is_some() {
            self.tell(News::Back);
        }
        self.send_all().await?;
        let mut messages = heard.on_message();
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.hear(&message.get_payload::<String>().unwrap_or_default(), known),
                    None => {
                        self.link.lose("the connection ended".to_owned());
                        return Err(Away);
                    }
                },
                () = self.link.lost() => return Err(Away),
                () = self.outbox.filled() => self.send_all().await?,
                () = sleep(BEAT) => self.link.ask(ping).await?,
            }
        }
    }

    /// Compares what was told of with what is known; the difference was missed.
    async fn make_up(&self, known: &mut Known) -> Result<(), Away> {
        let counts = self
            .link
            .try_first(async |mut redis| redis.hgetall::<_, HashMap<String, u64>>(GENERATIONS).await)
            .await?;
        if let Some(known) = known {
            for (field, count) in &counts {
                if known.get(field) != Some(count)
                    && let Some(change) = Change::of_field(field)
                {
                    self.tell(News::Changed(change));
                }
            }
        }
        *known = Some(counts);
        Ok(())
    }

    fn hear(&self, payload: &str, known: &mut Known) {
        let read = payload.split_once(' ').and_then(|(count, message)| {
            Some((count.parse::<u64>().ok()?, serde_json::from_str::<Message>(message).ok()?))
        });
        let Some((count, Message { from, said })) = read else {
            tracing::debug!("a message of another version, or of nobody we know");
            return;
        };
        if let (Said::Changed(change), Some(known)) = (&said, known) {
            let seen = known.entry(change.field()).or_default();
            *seen = count.max(*seen);
        }
        if from == self.me.id {
            return;
        }
        match said {
            Said::Ended(name) => {
                self.owners.forget(&name);
                self.tell(News::Ended(name.into()));
            }
            Said::Moved { name, to } => {
                self.owners.moved(&name, to.clone());
                self.tell(News::Moved(name.into(), to));
            }
            Said::Changed(change) => self.tell(News::Changed(change)),
        }
    }

    fn tell(&self, news: News) {
        // Nobody may listen.
        let _ = self.news.send(news);
    }

    /// Says that a server told of a change: before those are told who may ask another replica for it.
    pub fn changed(&self, change: Change) {
        self.outbox.put(Outgoing::Changed(change));
    }

    pub(super) fn message(&self, said: Said) -> String {
        // Plain data of our own: it can always be written.
        serde_json::to_string(&Message { from: self.me.id.clone(), said }).unwrap_or_default()
    }
}

async fn ping(mut redis: redis::aio::ConnectionManager) -> redis::RedisResult<()> {
    redis::cmd("PING").query_async::<String>(&mut redis).await.map(|_| ())
}
