//! One server's place in the catalogue: the shelf that all see, or one for each caller.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::guard::{self, Contracts, Guard};
use super::shelf::{Rules, Shelf};
use super::users::Users;
use super::watch::Watch;
use super::{Catalogue, shelf::Maker};
use crate::config::Guarding;
use crate::outbound::{Context, Server};

/// What there is of one server.
#[derive(Debug)]
pub struct Member {
    /// Whose it is.
    pub server: Arc<Server>,
    /// What the gateway itself is shown: what all callers see, or where each is shown his own what commands of the
    /// operator look at.
    pub service: Arc<Shelf>,
    users: Option<Arc<Users>>,
    retired: CancellationToken,
}

impl Member {
    pub(super) fn new(
        server: &Arc<Server>,
        rules: Rules,
        shared: &Catalogue,
        state_dir: Option<&Path>,
    ) -> Self {
        let guard = Guard::new(&server.config, shared.contracts().as_ref()).map(Arc::new);
        let retired = CancellationToken::new();
        let maker = Maker {
            tasks: shared.tasks.clone(),
            metrics: Arc::clone(&shared.metrics),
            guard,
            cluster: shared.cluster.clone(),
            retired: retired.clone(),
            checkers: Arc::clone(&shared.checkers),
        };
        shared.metrics.missing(&server.name).set(1);
        let per_user = server.config.credentials.is_per_user();
        let watch = || Watch::new(Arc::clone(&shared.hub));
        let service = match per_user {
            false => Shelf::of_service(&maker, (Arc::clone(server), rules), watch(), state_dir),
            true => Shelf::aside(&maker, (Arc::clone(server), rules), watch()),
        };
        let users = || Users::new(Arc::clone(server), rules, maker, Arc::clone(&shared.hub));
        let member = Self {
            server: Arc::clone(server),
            users: per_user.then(|| Arc::new(users())),
            service: Arc::new(service),
            retired,
        };
        if !per_user {
            member.service.keep();
        }
        if member.service.guard.is_some() {
            shared.tasks.spawn("contract", guard::attend(Arc::downgrade(&member.service), !per_user));
        }
        member
    }

    /// Whether it is what this asks for.
    pub(super) fn is_of(
        &self,
        server: &Arc<Server>,
        rules: Rules,
        contracts: Option<&Arc<Contracts>>,
    ) -> bool {
        let guard = self.service.guard.as_deref();
        let same = match contracts.filter(|_| server.config.contract != Guarding::Off) {
            None => guard.is_none(),
            Some(contracts) => guard.is_some_and(|guard| guard.is_by(contracts)),
        };
        Arc::ptr_eq(&self.server, server) && self.service.rules == rules && same
    }

    /// Its server left the configuration, or comes back as another: nothing of it is watched any more.
    pub(super) fn retire(&self) {
        self.retired.cancel();
    }

    /// Whether each caller is shown his own.
    pub const fn is_per_user(&self) -> bool {
        self.users.is_some()
    }

    /// What a caller is shown; `context` is asked for only where each is shown his own.
    pub fn shelf(&self, context: impl FnOnce() -> Arc<Context>) -> Arc<Shelf> {
        match &self.users {
            None => Arc::clone(&self.service),
            Some(users) => users.shelf(context()),
        }
    }
}
