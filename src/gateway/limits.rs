//! How often callers may ask: the limits of a configuration, and what counts against them (design §3, §6 step 5).
//!
//! A request counts once against every limit that fits it, after its grants and before its server's permit; what never
//! goes to a server (lists, kept reads, refusals, the gateway's own questions) counts nowhere, and neither does what ends
//! work (`tasks/cancel`). All rounds of one call are one call: a retry with a state is free the first time that state
//! comes, so a state that comes again and again is no way around a limit. Of several limits the slowest is asked first:
//! what it refuses has not been taken from the others.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::invoke::Errand;
use super::record::Record;
use super::{Call, Gateway, GatewayError};
use crate::auth::Principal;
use crate::config::Limit;
use crate::protocol::method::Method;
use crate::protocol::object::string;

mod local;
mod rounds;
#[cfg(test)]
mod tests;

use local::Local;
use rounds::Rounds;

/// The limits of a configuration, with what is counted for them.
#[derive(Debug, Default)]
pub struct Limits {
    /// The slowest first, else in file order.
    all: Vec<Arc<Counted>>,
}

#[derive(Debug)]
struct Counted {
    rule: Limit,
    /// The `limit` label.
    label: String,
    /// The same for the same rule in every process.
    id: String,
    local: Local,
}

/// Who asks for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    principal: &'a Principal,
    server: &'a Arc<str>,
    /// For calls of tools: the native name, plain and as JSON text.
    tool: Option<(&'a str, &'a Bytes)>,
}

/// What one count is for: the values of what the limit's `per` names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    subject: Option<Arc<str>>,
    client: Option<Arc<str>>,
    server: Option<Arc<str>>,
    /// A native name, as JSON text; its server stands beside it.
    tool: Option<Bytes>,
}

/// How long to wait until one more may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

/// One count, as something outside this process keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket<'a> {
    /// Which limit: the same text for the same rule in every replica.
    pub limit: &'a str,
    /// For whom and what: printable ASCII, the same in every replica; holds no name of a caller.
    pub key: String,
    /// The time after which one more may come.
    pub every: Duration,
    /// So many may come at once.
    pub burst: u32,
}

/// What a count says, once it does.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Option<Result<(), Wait>>> + Send + 'a>>;

/// What counts for several replicas together. Until it is there, and whenever it does not know, each counts for itself.
pub trait Shared: fmt::Debug + Send + Sync {
    /// Takes one from a bucket, or says how long to wait; `None`: it cannot say now. Bounded in time.
    fn admit<'a>(&'a self, bucket: Bucket<'a>) -> Verdict<'a>;
}

/// A limit that is used up.
#[derive(Debug)]
struct Spent<'a> {
    rule: &'a Counted,
    wait: Wait,
}

/// What outlives configurations: what counts for several replicas, and the states that came already.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) shared: Option<Arc<dyn Shared>>,
    rounds: Rounds,
}

impl Limits {
    /// The limits of a configuration. Those that `earlier` has already, letter by letter, go on where they are.
    pub fn new(rules: &[Limit], earlier: &Self) -> Self {
        let mut all: Vec<Arc<Counted>> = Vec::with_capacity(rules.len());
        for rule in rules {
            let is_same = |one: &&Arc<Counted>| one.rule == *rule;
            // Twice the same rule is one rule: it would count everything twice.
            if !all.iter().any(|one| is_same(&one)) {
                let known = earlier.all.iter().find(is_same);
                all.push(known.map_or_else(|| Arc::new(Counted::new(rule)), Arc::clone));
            }
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.rule.every));
        Self { all }
    }

    /// Takes one from each limit that this is about, or says which is used up.
    async fn admit(&self, asked: Asked<'_>, shared: Option<&dyn Shared>) -> Result<(), Spent<'_>> {
        let Some(shared) = shared else {
            return self.about(asked).try_for_each(|one| one.admit_here(asked));
        };
        // Apart: what every call carries along stays small.
        Box::pin(async {
            for one in self.about(asked) {
                one.admit_everywhere(asked, shared).await?;
            }
            Ok(())
        })
        .await
    }

    fn about(&self, asked: Asked<'_>) -> impl Iterator<Item = &Counted> {
        self.all.iter().map(|one| &**one).filter(move |one| one.is_about(asked))
    }
}

impl Counted {
    fn new(rule: &Limit) -> Self {
        let per: Vec<&str> = rule.per.words().collect();
        let tools = rule.tools.as_ref().map(crate::config::Globs::patterns);
        // Lists as they print, so that no two rules are one text.
        let text = format!("{per:?} {:?} {tools:?} {:?} {}", rule.servers.patterns(), rule.every, rule.burst);
        Self {
            label: rule.label(),
            id: rounds::digest(text.as_bytes()),
            local: Local::new(rule.every, rule.burst),
            rule: rule.clone(),
        }
    }

    fn is_about(&self, asked: Asked<'_>) -> bool {
        let fits = match (&self.rule.tools, asked.tool) {
            (Some(tools), Some((native, _))) => tools.is_match(native),
            (None, Some(_)) => true,
            (_, None) => self.rule.is_general(),
        };
        fits && self.rule.servers.is_match(asked.server)
    }

    fn key(&self, asked: Asked<'_>) -> Key {
        let per = self.rule.per;
        let Asked { principal, server, tool } = asked;
        Key {
            subject: per.subject.then(|| Arc::clone(&principal.id)),
            client: principal.client.clone().filter(|_| per.client),
            server: (per.server || per.tool).then(|| Arc::clone(server)),
            tool: tool.map(|(_, json)| json.clone()).filter(|_| per.tool),
        }
    }

    fn admit_here(&self, asked: Asked<'_>) -> Result<(), Spent<'_>> {
        self.local.admit(self.key(asked)).map_err(|wait| Spent { rule: self, wait })
    }

    async fn admit_everywhere(&self, asked: Asked<'_>, shared: &dyn Shared) -> Result<(), Spent<'_>> {
        let (every, burst) = (self.rule.every, self.rule.burst);
        let bucket = Bucket { limit: &self.id, key: self.key(asked).text(), every, burst };
        match shared.admit(bucket).await {
            Some(verdict) => verdict.map_err(|wait| Spent { rule: self, wait }),
            None => self.admit_here(asked),
        }
    }
}

impl Key {
    /// A text that is this key's only, and tells nothing of it.
    fn text(&self) -> String {
        let text = |part: &Option<Arc<str>>| part.as_deref().map(str::to_owned);
        let tool = self.tool.as_ref().map(|json| String::from_utf8_lossy(json).into_owned());
        let parts = [text(&self.subject), text(&self.client), text(&self.server), tool];
        rounds::digest(format!("{parts:?}").as_bytes())
    }
}

impl Gateway {
    /// The same, counting limits together with other replicas.
    #[must_use]
    pub fn with_shared_limits(mut self, shared: Arc<dyn Shared>) -> Self {
        self.counting.shared = Some(shared);
        self
    }

    /// Counts a request that is about to go to a server against the limits, once however often it is sent. `tool`: the
    /// JSON text of the tool's native name, for calls of tools.
    pub(super) async fn count(
        &self,
        call: &Call,
        errand: &Errand<'_>,
        tool: Option<&Bytes>,
        record: &mut Record,
    ) -> Result<(), GatewayError> {
        let limits = &call.snapshot.limits;
        if limits.all.is_empty() || call.method == Method::TasksCancel || !record.counts() {
            return Ok(());
        }
        if state(call, errand).is_some_and(|state| self.counting.rounds.is_new(&state)) {
            return Ok(());
        }
        let server = &errand.server.name;
        let tool = tool.map(|json| (errand.native, json));
        let asked = Asked { principal: &call.principal, server, tool };
        let spent = match limits.admit(asked, self.counting.shared.as_deref()).await {
            Ok(()) => return Ok(()),
            Err(spent) => spent,
        };
        self.metrics.limited(&spent.rule.label);
        Err(GatewayError::Limited(Box::new(Limited::new(spent.rule, spent.wait, server))))
    }
}

/// The state with which a call goes on, if it is a further round of one. It was opened already, so it is ours.
fn state(call: &Call, errand: &Errand<'_>) -> Option<String> {
    let at = errand.request.retry.state_at?;
    let value = errand.request.params.members.get(at)?.value;
    string(value.of(call.envelope.text())).map(std::borrow::Cow::into_owned)
}

/// What is said to who has reached a limit.
#[derive(Debug, Clone)]
pub struct Limited {
    /// For a model or a person: which limit, of which server, and when to come again.
    pub said: String,
    /// The time until then.
    pub wait: Duration,
    /// For calls of tools: the finished result that says it.
    pub result: Option<crate::protocol::edit::Parts>,
}

impl Limited {
    fn new(rule: &Counted, Wait(wait): Wait, server: &str) -> Self {
        let one = Self { said: String::new(), wait, result: None };
        let said = format!(
            "The server \"{server}\" was not asked: the limit of {} is reached. Ask again in {} s, or do without it.",
            rule.label,
            one.seconds()
        );
        Self { said, ..one }
    }

    /// Whole seconds for `Retry-After`, never too few.
    pub fn seconds(&self) -> u64 {
        self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)
    }

    /// Whole milliseconds for `dev.gatehouse/retryAfterMs`, never too few.
    pub fn millis(&self) -> u128 {
        self.wait.as_nanos().div_ceil(1_000_000)
    }
}
