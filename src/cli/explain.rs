//! `gatehouse explain`: whether a caller may use a tool, prompt or resource at an endpoint, by which grant, or what the nearest one lacks.
//! Prints nothing of a token.

use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::signal::unix::{SignalKind, signal};

use super::{code, complain, serve};
use crate::app::Core;
use crate::auth::Principal;
use crate::config::{Config, Endpoint};
use crate::gateway::{Endpoint as Face, Snapshot};
use crate::policy::explain::{Question, Target};
use crate::policy::{Caller, Decision, Policy};
use crate::protocol::method::Kind;
use crate::telemetry::logs;

#[cfg(test)]
mod tests;
pub(super) mod who;

use who::Known;

/// Options of `gatehouse explain`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("caller").required(true).args(["token_file", "claims"])))]
pub struct ExplainArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "gatehouse.toml")]
    pub config: PathBuf,
    /// The path of the endpoint; may be left out when there is one only
    #[arg(long, value_name = "PATH")]
    pub endpoint: Option<String>,
    /// The tool by the name clients use, or as SERVER/NAME by its own; without it: everything the caller has
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// The prompt, likewise
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    pub prompt: Option<String>,
    /// The resource by its URI, or as SERVER/URI for one that no list has
    #[arg(long, value_name = "URI", conflicts_with_all = ["tool", "prompt"])]
    pub resource: Option<String>,
    /// A file with the caller's token, - for standard input; it is verified as a request's would be
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with claims as a JSON object, - for standard input; nothing is verified
    #[arg(long, value_name = "FILE")]
    pub claims: Option<PathBuf>,
    /// Contact no server: items are named SERVER/NAME
    #[arg(long)]
    pub offline: bool,
}

/// Prints the verdict to standard output. Exit codes: 0 allowed, 1 denied, 2 usage or configuration, 3 nothing could be
/// started, 130 interrupted.
pub async fn run(args: ExplainArgs) -> ExitCode {
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(problems) => return complain(&problems, code::CONFIG),
    };
    let Some(endpoint) = endpoint(&config, args.endpoint.as_deref()) else {
        let paths: Vec<&str> = config.endpoints.iter().map(|endpoint| &*endpoint.path).collect();
        return complain(&format!("--endpoint must be one of {}", paths.join(", ")), code::CONFIG);
    };
    let known = match who::find_out(&args, &config, endpoint).await {
        Ok(known) => known,
        Err(problem) => return complain(&problem, code::CONFIG),
    };
    let answer = match known {
        Known::Refused(why) => Answer::no(format!("denied at the door of {}: {why}", endpoint.path)),
        Known::Anybody => ask(&args, &config, endpoint, None).await,
        Known::Caller(principal) => ask(&args, &config, endpoint, Some(&principal)).await,
    };
    // When nobody reads, the exit code still tells.
    let _ = stdout().write_all(answer.text.as_bytes()).and_then(|()| stdout().flush());
    ExitCode::from(answer.exit)
}

/// What is printed, and the exit code.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    text: String,
    exit: u8,
}

impl Answer {
    fn no(text: String) -> Self {
        Self { text: text + "\n", exit: code::FINDINGS }
    }
}

fn endpoint<'c>(config: &'c Config, path: Option<&str>) -> Option<&'c Endpoint> {
    match (path, &config.endpoints[..]) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(path), all) => all.iter().find(|endpoint| *endpoint.path == *path),
    }
}

/// An item as it was asked for.
#[derive(Debug, Clone, Copy)]
struct Item<'a> {
    kind: Kind,
    name: &'a str,
}

impl Item<'_> {
    fn noun(self) -> &'static str {
        noun(self.kind)
    }
}

impl ExplainArgs {
    fn item(&self) -> Option<Item<'_>> {
        let all =
            [(Kind::Tools, &self.tool), (Kind::Prompts, &self.prompt), (Kind::Resources, &self.resource)];
        all.into_iter().find_map(|(kind, name)| Some(Item { kind, name: name.as_deref()? }))
    }
}

/// What one of a kind is called.
const fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Tools => "tool",
        Kind::Prompts => "prompt",
        Kind::Resources => "resource",
        Kind::Templates => "template",
    }
}

/// What is to be explained, to whom.
struct Case<'a> {
    policy: Policy,
    /// `None`: nobody is asked who they are.
    caller: Option<&'a Principal>,
    endpoint: &'a Endpoint,
}

async fn ask(args: &ExplainArgs, config: &Config, endpoint: &Endpoint, caller: Option<&Principal>) -> Answer {
    let case = Case { policy: Policy::new(&config.grants), caller, endpoint };
    if args.offline {
        return offline(&case, config, args.item());
    }
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Answer { text: String::new(), exit: code::START };
    };
    // What it takes to know the tools is `check`'s to report.
    let guard = logs::init("off", Some(false));
    let core = match Core::start(config.clone()) {
        Ok(core) => core,
        Err(error) => return Answer { text: format!("{error:#}\n"), exit: code::START },
    };
    let answer = tokio::select! {
        answer = live(&case, &core, args.item()) => answer,
        () = serve::either(&mut term, &mut int) => Answer { text: String::new(), exit: code::INTERRUPTED },
    };
    core.stop().await;
    drop(guard);
    answer
}

/// By the file alone.
fn offline(case: &Case<'_>, config: &Config, item: Option<Item<'_>>) -> Answer {
    let Some(item) = item else { return case.all(&[]) };
    let Some((server, native)) = item.name.split_once('/') else {
        let text = format!("offline, --{} is SERVER/NAME\n", item.noun());
        return Answer { text, exit: code::CONFIG };
    };
    let Some(found) = config.servers.iter().find(|found| found.name == server) else {
        return Answer::no(format!("denied: there is no server {server:?}"));
    };
    if !case.endpoint.servers.is_match(server) {
        return Answer::no(format!("denied: {} does not show server {server:?}", case.endpoint.path));
    }
    let admitted = match item.kind {
        Kind::Tools => {
            found.tools.admits(native) && found.overrides.get(native).is_none_or(|one| !one.disabled)
        }
        Kind::Prompts => found.prompts.admits(native),
        Kind::Resources | Kind::Templates => found.resources.admits(native),
    };
    if !admitted {
        return Answer::no(format!(
            "denied: the configuration of server {server:?} hides {native:?} from all"
        ));
    }
    case.one(server, item.kind, native, &format!("{} {native:?} of server {server:?}", item.noun()))
}

/// By what the servers answer.
async fn live(case: &Case<'_>, core: &Core, item: Option<Item<'_>>) -> Answer {
    let snapshot: Arc<Snapshot> = core.gateway.snapshot();
    let Some(endpoint) = snapshot.endpoint(&case.endpoint.path) else {
        return Answer::no("denied: there is no such endpoint".to_owned());
    };
    let Some(item) = item else { return everything(case, core, &snapshot, endpoint).await };
    let (view, missing) = core.gateway.everything(&snapshot, endpoint, item.kind).await;
    let own = || {
        let (server, native) = item.name.split_once('/')?;
        view.items.iter().find(|route| *route.shelf.server.name == *server && route.native() == native)
    };
    if let Some(route) = view.named(item.name).next().or_else(own) {
        let (server, native) = (&*route.shelf.server.name, route.native());
        let noun = item.noun();
        let what = format!("{noun} {:?} (server {server:?}, there {native:?})", route.exposed);
        return case.one(server, item.kind, native, &what);
    }
    // Resources need not be listed: whose they are can be said.
    let member = |name: &str| endpoint.members.iter().any(|shelf| *shelf.server.name == *name);
    match item.name.split_once('/').filter(|(server, _)| item.kind == Kind::Resources && member(server)) {
        Some(_) => offline(case, &snapshot.config, Some(item)),
        None => {
            let (path, noun, silent) = (&case.endpoint.path, item.noun(), silent(&missing));
            Answer::no(format!("denied: {path} has no {noun} {:?}{silent}", item.name))
        }
    }
}

/// All a caller has at an endpoint.
async fn everything(case: &Case<'_>, core: &Core, snapshot: &Snapshot, endpoint: &Face) -> Answer {
    let mut views = Vec::with_capacity(Kind::ALL.len());
    let mut missing = Vec::new();
    for kind in Kind::ALL {
        let (view, silent) = core.gateway.everything(snapshot, endpoint, kind).await;
        missing.extend(silent);
        views.push((kind, view));
    }
    missing.sort_unstable();
    missing.dedup();
    let items: Vec<Listed<'_>> = views
        .iter()
        .flat_map(|(kind, view)| view.items.iter().map(move |route| (*kind, route)))
        .map(|(kind, route)| (kind, &*route.exposed, &*route.shelf.server.name, route.native()))
        .collect();
    let mut answer = case.all(&items);
    let silent = silent(&missing);
    if !silent.is_empty() {
        answer.text += &format!("{}\n", silent.trim_start());
    }
    answer
}

fn silent(missing: &[Arc<str>]) -> String {
    match missing {
        [] => String::new(),
        some => format!(" (no answer from: {})", some.join(", ")),
    }
}

/// Kind, exposed name, server and native name of an item.
type Listed<'a> = (Kind, &'a str, &'a str, &'a str);

impl Case<'_> {
    fn question<'q>(&'q self, caller: &'q Principal, target: Option<Target<'q>>) -> Question<'q> {
        let caller = Caller { claims: &caller.claims, scopes: &caller.scopes };
        Question { caller, now: SystemTime::now(), endpoint: &self.endpoint.path, target }
    }

    /// The verdict on one item.
    fn one(&self, server: &str, kind: Kind, native: &str, what: &str) -> Answer {
        self.verdict(Some(Target { server, kind, native }), what)
    }

    fn verdict(&self, target: Option<Target<'_>>, what: &str) -> Answer {
        let path = &self.endpoint.path;
        let Some(caller) = self.caller else {
            let text = format!("allowed: {what} on {path}\nwithout [auth] nobody is asked who they are\n");
            return Answer { text, exit: 0 };
        };
        let found = self.policy.explain(self.question(caller, target));
        let why = match found.decision {
            Decision::Allowed { grant: None } => {
                "there is no [[grant]]: every caller may use everything".to_owned()
            }
            Decision::Allowed { grant: Some(grant) } => format!("by {}", self.name(grant)),
            Decision::NeedsScopes { .. } | Decision::Hidden => match found.nearest {
                None => "there is no grant".to_owned(),
                Some((grant, lacks)) => {
                    let lacks: Vec<String> = lacks.iter().map(|lack| format!("\n  - {lack}")).collect();
                    format!("the nearest is {}, but:{}", self.name(grant), lacks.concat())
                }
            },
        };
        let (verdict, exit) = match found.decision {
            Decision::Allowed { .. } => ("allowed", 0),
            Decision::NeedsScopes { .. } => ("denied, shown in lists", code::FINDINGS),
            Decision::Hidden => ("denied", code::FINDINGS),
        };
        Answer { text: format!("{verdict}: {what} on {path}\n{why}\n"), exit }
    }

    /// The verdict on there being anything, then each item the caller sees.
    fn all(&self, items: &[Listed<'_>]) -> Answer {
        let mut answer = self.verdict(None, "something");
        for (kind, exposed, server, native) in items {
            let target = Target { server, kind: *kind, native };
            let note =
                match self.caller.map(|caller| self.policy.explain(self.question(caller, Some(target)))) {
                    None => String::new(),
                    Some(found) => match found.decision {
                        Decision::Allowed { grant: None } => String::new(),
                        Decision::Allowed { grant: Some(grant) } => format!(" by {}", self.name(grant)),
                        Decision::NeedsScopes { grant } => {
                            let scopes = self.policy.scopes(grant).join(" ");
                            format!(" needs the scopes {scopes}, by {}", self.name(grant))
                        }
                        Decision::Hidden => continue,
                    },
                };
            let noun = if *kind == Kind::Tools { String::new() } else { format!("{} ", noun(*kind)) };
            answer.text += &format!("  {noun}{exposed}{note}\n");
        }
        answer
    }

    fn name(&self, grant: usize) -> String {
        let place = self.policy.grant(grant).map(|grant| grant.place.as_str()).unwrap_or_default();
        format!("grant[{grant}] ({place})")
    }
}
