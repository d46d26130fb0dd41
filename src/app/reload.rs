//! Another configuration while calls run: checked, prepared beside the one in force, swapped in at once.
//!
//! What cannot be used changes nothing. [`Reloader::renew`] is the list of what is renewed: whatever else is made of the
//! configuration when the gateway starts gets its line there, or its name in `restart`.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use tokio::signal::unix::Signal;
use tokio::sync::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::sight::{self, Sight};
use super::{admin_guard, contracts, restart, rules, terms};
use crate::admin::Readiness;
use crate::auth::Authenticator;
use crate::catalogue::Contracts;
use crate::config::{Config, Files, Guarding, Problems, Watch};
use crate::gateway::{Gateway, Snapshot};
use crate::inbound::{Door, Guard, Terms};
use crate::net::Identity;
use crate::outbound::Server;
use crate::telemetry::logs::{self, Level};

/// How often the files are looked at though nothing was told of them: not every file system tells.
const LOOK: Duration = Duration::from_secs(60);

/// What a new configuration is put into.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) door: Arc<Door>,
    /// Which hosts the admin listener knows.
    pub(super) hosts: Arc<ArcSwap<Guard>>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) sight: Arc<Sight>,
    /// The bound addresses, of the public and of the admin listener.
    pub(super) bound: (SocketAddr, SocketAddr),
    /// One after the other; held while one is at work.
    pub(super) turn: Mutex<()>,
}

/// Everything that could have failed.
struct Prepared {
    config: Arc<Config>,
    auth: Option<Arc<Authenticator>>,
    contracts: Option<Arc<Contracts>>,
    terms: Terms,
    hosts: Guard,
    servers: Vec<Arc<Server>>,
    audit: sight::Change,
}

impl Reloader {
    fn gateway(&self) -> &Gateway {
        &self.door.gateway
    }

    /// Puts another configuration in force. An error: it cannot be used, and nothing has changed.
    pub(super) async fn apply(&self, mut config: Config, level: Option<&Level>) -> anyhow::Result<()> {
        let _turn = self.turn.lock().await;
        let before = self.gateway().snapshot();
        let kept = restart::keep(&before.config, &mut config);
        let Prepared { config, auth, contracts, terms, hosts, servers, audit } =
            self.prepare(&before, config)?;
        let (audit, at_last) = audit.parted();

        // From here on nothing fails. What is new gets to know its server before anybody sees it.
        let catalogue = &self.gateway().catalogue;
        self.sight.renew(self.gateway(), audit).await;
        contracts.iter().for_each(|contracts| contracts.set_audit(self.gateway().audit()));
        catalogue.guard_by(contracts);
        let members = catalogue.plan(&servers, rules(&config), config.gateway.state_dir.as_deref());
        catalogue.settle(&members).await;
        let (wanted, planned) = (Arc::clone(&config), Arc::clone(&members));
        // Playbooks are read from files.
        let made = tokio::task::spawn_blocking(move || Snapshot::new(wanted, &planned)).await;
        let snapshot = made.context("the gateway ends")?.with_auth(auth).after(&before);

        // The one moment: whoever comes from now on is served by the new configuration.
        self.door.terms.store(Arc::new(terms));
        self.hosts.store(Arc::new(hosts));
        self.gateway().swap(snapshot);
        let gone = self.gateway().servers.adopt(servers.clone());
        catalogue.adopt(&members);

        self.sight.renew(self.gateway(), at_last).await;
        self.renew(&config, level, &servers);
        let told = say(&before.config, &config, &kept);
        self.gateway().metrics.recent.reload(true, &told);
        let left = Arc::downgrade(&before);
        self.gateway().servers.retire(gone, config.gateway.park_timeout, move || left.strong_count() == 0);
        Ok(())
    }

    /// Makes everything that may not come to be, beside what is in use.
    fn prepare(&self, before: &Snapshot, config: Config) -> anyhow::Result<Prepared> {
        logs::parse(&config.telemetry.log).map_err(anyhow::Error::msg)?;
        Ok(Prepared {
            auth: self.auth(before, &config)?,
            contracts: self.contracts(&config)?,
            terms: terms(&config, self.bound.0)?,
            hosts: admin_guard(&config, self.bound.1)?,
            servers: self.gateway().servers.plan(&config)?,
            audit: self.sight.plan(&before.config, &config)?,
            config: Arc::new(config),
        })
    }

    /// What else is made of a configuration, one a line. None of it can fail.
    fn renew(&self, config: &Config, level: Option<&Level>, servers: &[Arc<Server>]) {
        self.readiness.renew(servers, &self.door.tasks);
        self.door.budget.resize(config.gateway.max_buffered);
        self.identity.iter().for_each(|identity| super::reread(identity));
        if let Some(Err(problem)) = level.map(|level| level.set(&config.telemetry.log)) {
            tracing::warn!(problem, "the level of the log stays");
        }
    }

    /// The same callers' verdicts and keys are kept where nothing is said of them anew.
    fn auth(&self, before: &Snapshot, config: &Config) -> anyhow::Result<Option<Arc<Authenticator>>> {
        let Some(auth) = &config.auth else { return Ok(None) };
        let renewed = match &before.auth {
            Some(known) if known.config() == auth => return Ok(Some(Arc::clone(known))),
            Some(known) => known.renewed(auth, &self.door.tasks),
            None => Authenticator::new(auth, &self.door.tasks, Arc::clone(&self.gateway().metrics)),
        };
        let renewed = renewed.context("[auth]")?;
        renewed.warm();
        Ok(Some(Arc::new(renewed)))
    }

    /// The approved definitions: the same where the file is, since that is read again by itself.
    fn contracts(&self, config: &Config) -> anyhow::Result<Option<Arc<Contracts>>> {
        let known = self.gateway().catalogue.contracts();
        let is_guarded = |server: &crate::config::Server| server.contract != Guarding::Off;
        if let Some(known) = known.filter(|known| known.is_at(&config.contract.lock)) {
            return Ok(Some(known).filter(|_| config.servers.iter().any(is_guarded)));
        }
        let Some(opened) = contracts(config, &self.gateway().metrics)? else { return Ok(None) };
        Ok(Some(Arc::new(opened)))
    }

    /// Follows the files until the gateway stops: `files` are those of the configuration in force.
    pub(super) async fn follow(
        self: Arc<Self>,
        from: (PathBuf, Files),
        mut hangup: Signal,
        level: Level,
        settled: CancellationToken,
    ) {
        let (path, mut seen) = from;
        let mut watch = Watch::new();
        watch.follow(&seen);
        let mut asked = false;
        loop {
            // Once at first as well: they may have changed before they were watched.
            let file = path.clone();
            let Ok((config, files)) = tokio::task::spawn_blocking(move || Config::read(&file)).await else {
                return;
            };
            watch.follow(&files);
            if settled.is_cancelled() {
                return;
            }
            // What has begun is all the way in before the gateway ends.
            if std::mem::replace(&mut seen, files) != seen || asked {
                self.take(config, &level).await;
            }
            asked = tokio::select! {
                hung = hangup.recv() => hung.is_some(),
                () = watch.changed() => false,
                () = sleep(LOOK) => false,
                () = settled.cancelled() => return,
            };
        }
    }

    async fn take(&self, config: Result<Config, Problems>, level: &Level) {
        let metrics = &self.gateway().metrics;
        let reloads = metrics.reloads();
        let refused = match config {
            Ok(config) => match self.apply(config, Some(level)).await {
                Ok(()) => return reloads.count(true),
                Err(error) => {
                    let problem = format!("{error:#}");
                    tracing::error!(problem, "the configuration cannot be used: nothing has changed");
                    problem
                }
            },
            Err(problems) => {
                for problem in &problems {
                    tracing::error!(%problem, "the configuration cannot be used: nothing has changed");
                }
                first(&problems)
            }
        };
        metrics.recent.reload(false, &refused);
        reloads.count(false);
    }
}

/// The first problem without its file, and how many there are besides.
fn first(problems: &Problems) -> String {
    let one = problems.iter().next().map(|one| format!("line {}: {} {}", one.line, one.key, one.message));
    match problems.len() {
        0 | 1 => one.unwrap_or_default(),
        all => format!("{} (and {} more)", one.unwrap_or_default(), all - 1),
    }
}

/// What an operator wants to see of it, in the log and, shorter, on the status page.
fn say(before: &Config, config: &Config, kept: &[&str]) -> String {
    if !kept.is_empty() {
        tracing::warn!(
            ?kept,
            "these keys have another value now, which needs a restart; the rest is in force"
        );
    }
    let known: HashSet<String> = before.warnings().iter().map(ToString::to_string).collect();
    for warning in config.warnings().iter().map(ToString::to_string).filter(|told| !known.contains(told)) {
        tracing::warn!("{warning}");
    }
    let named = |config: &Config, name: &str| config.servers.iter().find(|s| s.name == name).cloned();
    let added = config.servers.iter().filter(|server| named(before, &server.name).is_none()).count();
    let removed = before.servers.iter().filter(|server| named(config, &server.name).is_none()).count();
    let other =
        |server: &&crate::config::Server| named(before, &server.name).is_some_and(|old| old != **server);
    let changed = config.servers.iter().filter(other).count();
    tracing::info!(added, removed, changed, "another configuration is in force");
    let servers = format!("servers: {added} added, {removed} removed, {changed} changed");
    if kept.is_empty() { servers } else { format!("{servers}; after a restart: {}", kept.join(", ")) }
}
