//! Immutable view of one configuration: its endpoints, their servers, and the views built of them.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use moka::sync::Cache;

use super::books::Books;
use super::limits::Limits;
use super::names::NameRules;
use super::sheet::Sheets;
use super::view::Views;
use crate::auth::{Authenticator, Principal};
use crate::catalogue::{Member, Shelf};
use crate::config::{Audit, AuditArguments, Config, Discovery, Endpoint as EndpointConfig};
use crate::outbound::Context;
use crate::policy::{Caller, Decision, GrantSet, Policy, Rights};
use crate::protocol::items::json_string;
use crate::protocol::method::Kind;
use crate::telemetry::audit::{Keep, Path};

/// Callers whose rights an endpoint remembers, and for how long if they do not come back.
const MOST_CALLERS: u64 = 20_000;
const IDLE: Duration = Duration::from_secs(10 * 60);

/// Everything a request needs to know about the configuration; taken once per request.
#[derive(Debug)]
pub struct Snapshot {
    /// The configuration.
    pub config: Arc<Config>,
    /// Its endpoints.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Our `serverInfo`, as JSON text.
    pub server_info: ByteString,
    /// Naming rules of `[gateway]`.
    pub rules: NameRules,
    /// Who may use what.
    pub policy: Policy,
    /// How often; [`super::Gateway::swap`] lets those of the snapshot before go on.
    pub limits: Limits,
    /// Who is let in; without one everybody is, as `anonymous`. Here, so that nobody let in by one configuration
    /// is ever judged by the grants of another.
    pub auth: Option<Arc<Authenticator>>,
    /// What the audit log keeps of arguments; `None`: nothing.
    pub(super) kept: Option<Arc<Keep>>,
}

/// One MCP server towards clients.
#[derive(Debug)]
pub struct Endpoint {
    /// Its configuration.
    pub config: EndpointConfig,
    /// Its servers, in file order.
    pub members: Vec<Arc<Member>>,
    /// What the gateway itself is shown of each of them: where no server shows each caller his own, what all are.
    service: Arc<[Arc<Shelf>]>,
    /// The views built of them.
    pub(super) views: Views,
    /// Its playbooks, if it has any.
    pub(super) books: Option<Books>,
    /// What of them callers with grants see.
    pub(super) sheets: Sheets,
    /// What callers may do here, by the place of their principals in memory.
    rights: Cache<usize, (Weak<Principal>, Rights)>,
    /// By member and kind: the grants that give somebody something of it.
    givers: Vec<[GrantSet; Kind::ALL.len()]>,
}

impl Snapshot {
    /// A snapshot over the catalogue of the same configuration.
    pub fn new(config: Arc<Config>, catalogue: &[Arc<Member>]) -> Self {
        let policy = Policy::new(&config.grants);
        let givers =
            |member: &Arc<Member>| Kind::ALL.map(|kind| policy.givers_of_any(&member.server.name, kind));
        let endpoints = config.endpoints.iter().map(|endpoint| {
            let chosen = |member: &&Arc<Member>| endpoint.servers.is_match(&member.server.name);
            let members: Vec<Arc<Member>> = catalogue.iter().filter(chosen).map(Arc::clone).collect();
            Arc::new(Endpoint {
                config: endpoint.clone(),
                books: Books::of(&config, endpoint, &policy),
                givers: members.iter().map(givers).collect(),
                service: members.iter().map(|member| Arc::clone(&member.service)).collect(),
                views: Views::new(members.iter().any(|member| member.is_per_user())),
                members,
                sheets: Sheets::default(),
                rights: Cache::builder().max_capacity(MOST_CALLERS).time_to_idle(IDLE).build(),
            })
        });
        let endpoints = endpoints.collect();
        Self {
            endpoints,
            server_info: server_info(&config),
            rules: NameRules::from(&config.gateway),
            limits: Limits::new(&config.limits, &Limits::default()),
            kept: kept(&config.audit),
            policy,
            config,
            auth: None,
        }
    }

    /// The same, for callers who are asked who they are.
    #[must_use]
    pub fn with_auth(self, auth: Option<Arc<Authenticator>>) -> Self {
        Self { auth, ..self }
    }

    /// Takes over what is remembered of the same endpoints in the snapshot before it.
    #[must_use]
    pub fn after(self, before: &Self) -> Self {
        for endpoint in &self.endpoints {
            let old = before.endpoint(&endpoint.config.path).and_then(|old| old.books.as_ref());
            if let (Some(books), Some(old)) = (&endpoint.books, old) {
                books.take_over(old);
            }
        }
        self
    }

    /// What a caller may do at an endpoint, now.
    pub fn rights(&self, endpoint: &Endpoint, principal: &Arc<Principal>) -> Rights {
        if self.policy.is_open() {
            return Rights::Open;
        }
        let now = SystemTime::now();
        // A credential has one principal for as long as it is believed, so its place in memory stands for it: the
        // weak reference keeps that from being given to another.
        let place = Arc::as_ptr(principal) as usize;
        if let Some((_, rights)) = endpoint.rights.get(&place)
            && rights.until().is_none_or(|until| now < until)
        {
            return rights;
        }
        let rights = self.find_rights(endpoint, principal, now);
        endpoint.rights.insert(place, (Arc::downgrade(principal), rights.clone()));
        rights
    }

    fn find_rights(&self, endpoint: &Endpoint, principal: &Principal, now: SystemTime) -> Rights {
        // Of somebody who was not asked nothing is known, whatever the grants say of everybody.
        let known = !principal.is_anonymous();
        let caller = known.then_some(Caller { claims: &principal.claims, scopes: &principal.scopes });
        self.policy.rights(caller, now, &endpoint.config.path)
    }

    /// The verdict on one address of a server for a caller.
    pub(super) fn decide_uri(&self, rights: &Rights, shelf: &Shelf, uri: &str) -> Decision {
        self.policy.decide(rights, &shelf.server.name, Kind::Resources, uri)
    }

    /// The endpoint at exactly this path, a trailing slash aside (F-090).
    pub fn endpoint(&self, path: &str) -> Option<&Arc<Endpoint>> {
        let path = match path.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => shorter,
            _ => path,
        };
        self.endpoints.iter().find(|endpoint| *endpoint.config.path == *path)
    }
}

impl Endpoint {
    /// What each server shows a caller, in the order of the members; `context` is asked for only where it matters.
    pub(super) fn shown(&self, context: impl FnOnce() -> Arc<Context>) -> Arc<[Arc<Shelf>]> {
        if !self.is_per_user() {
            return Arc::clone(&self.service);
        }
        let context = context();
        self.members.iter().map(|member| member.shelf(|| Arc::clone(&context))).collect()
    }

    /// Whether some server sees each caller as himself.
    pub const fn is_per_user(&self) -> bool {
        matches!(self.views, Views::Own(_))
    }

    /// What each server shows the gateway itself.
    pub(super) const fn service(&self) -> &Arc<[Arc<Shelf>]> {
        &self.service
    }

    /// Each server as it is shown to a caller, with whether it is in the caller's view by something of one of these
    /// kinds.
    pub(super) fn seen<'e>(
        &'e self,
        shelves: &'e [Arc<Shelf>],
        rights: &'e Rights,
        kinds: &'e [Kind],
    ) -> impl Iterator<Item = (&'e Arc<Shelf>, bool)> {
        shelves.iter().zip(self.sees(rights, kinds))
    }

    fn sees<'e>(&'e self, rights: &'e Rights, kinds: &'e [Kind]) -> impl Iterator<Item = bool> + 'e {
        let sees = |givers: &[GrantSet; Kind::ALL.len()]| {
            kinds.iter().any(|kind| rights.sees(&givers[*kind as usize]))
        };
        self.givers.iter().map(sees)
    }

    /// Whether a caller is shown anything of these kinds that only he is shown.
    pub(super) fn shows_own(&self, rights: &Rights, kinds: &[Kind]) -> bool {
        let own = self.members.iter().map(|member| member.is_per_user());
        own.zip(self.sees(rights, kinds)).any(|(own, sees)| own && sees)
    }

    /// Whether items of a kind are searched here instead of being listed.
    pub(super) fn searches(&self, kind: Kind) -> bool {
        kind == Kind::Tools && self.config.discovery == Discovery::Search
    }

    /// Whether a caller has anything of one of these kinds here.
    pub(super) fn gives(&self, rights: &Rights, kinds: &[Kind]) -> bool {
        rights.is_open() || self.sees(rights, kinds).any(|sees| sees)
    }
}

/// What of arguments the audit log keeps.
fn kept(audit: &Audit) -> Option<Arc<Keep>> {
    let keep = match audit.arguments {
        AuditArguments::None => return None,
        AuditArguments::Masked => Keep::Masked(audit.show.iter().map(|path| Path::new(path)).collect()),
        AuditArguments::Full => Keep::Full,
    };
    Some(Arc::new(keep))
}

fn server_info(config: &Config) -> ByteString {
    let gateway = &config.gateway;
    let title = gateway.title.as_ref().map(|t| format!(",\"title\":{}", json_string(t))).unwrap_or_default();
    let (name, version) = (json_string(&gateway.name), json_string(env!("CARGO_PKG_VERSION")));
    format!("{{\"name\":{name}{title},\"version\":{version}}}").into()
}
