//! What is doubtful about grants, once it is known what the servers offer.

use super::{Policy, globs};
use crate::config::{Endpoint, Globs, Grant, Warning};
use crate::protocol::method::Kind;

/// An enabled server and what it publishes.
#[derive(Debug, Clone)]
pub struct Stock<'a> {
    /// Its name.
    pub server: &'a str,
    /// Kind and native name (URI, URI template) of each item; `None`: not known.
    pub items: Option<Vec<(Kind, &'a str)>>,
}

/// Keys of a grant and what each is about.
const KEYS: [(&str, &[Kind]); 3] = [
    ("tools", &[Kind::Tools]),
    ("prompts", &[Kind::Prompts]),
    ("resources", &[Kind::Resources, Kind::Templates]),
];

/// Patterns of grants that match nothing, and tools that nobody may use. Of servers that are not known nothing is
/// said, and nothing of grants that name one.
pub fn audit_rules(policy: &Policy, endpoints: &[Endpoint], stocks: &[Stock<'_>]) -> Vec<Warning> {
    let mut found = Vec::new();
    for (index, grant) in policy.grants.iter().enumerate() {
        let named: Vec<&Stock<'_>> =
            stocks.iter().filter(|stock| grant.servers.is_match(stock.server)).collect();
        if named.is_empty() || named.iter().any(|stock| stock.items.is_none()) {
            continue;
        }
        for (key, kinds) in KEYS {
            found.extend(idle(grant, kinds, &named).map(|pattern| Warning {
                key: format!("grant[{index}].{key}"),
                message: format!("{pattern:?} matches nothing that these servers offer ({})", grant.place),
                help: None,
            }));
        }
    }
    if !policy.is_open() {
        found.extend(unusable(policy, endpoints, stocks));
    }
    found
}

/// Patterns of one key that match no item.
fn idle<'g>(
    grant: &'g Grant,
    kinds: &'static [Kind],
    named: &[&Stock<'_>],
) -> impl Iterator<Item = &'g String> {
    let items = named.iter().flat_map(|stock| stock.items.iter().flatten());
    let natives: Vec<&str> =
        items.clone().filter(|(kind, _)| kinds.contains(kind)).map(|(_, n)| *n).collect();
    // Addresses under a template are in no list.
    let endless = kinds.contains(&Kind::Templates) && items.clone().any(|(kind, _)| *kind == Kind::Templates);
    let patterns =
        globs(grant, kinds[0]).patterns().iter().filter(move |pattern| *pattern != "*" && !endless);
    let matches_none = |pattern: &&String| {
        let glob = Globs::new(vec![(*pattern).clone()]);
        glob.is_ok_and(|glob| !natives.iter().any(|native| glob.is_match(native)))
    };
    patterns.filter(matches_none).collect::<Vec<_>>().into_iter()
}

/// Tools of servers on an endpoint that no grant gives there.
fn unusable(policy: &Policy, endpoints: &[Endpoint], stocks: &[Stock<'_>]) -> Vec<Warning> {
    let mut found = Vec::new();
    for stock in stocks {
        let faces: Vec<&Endpoint> =
            endpoints.iter().filter(|endpoint| endpoint.servers.is_match(stock.server)).collect();
        let given = |native: &str| {
            let givers = policy.givers(stock.server, Kind::Tools, native);
            let mut grants = givers.iter().filter_map(|index| policy.grant(index));
            grants.any(|grant| faces.iter().any(|endpoint| grant.endpoints.is_match(&endpoint.path)))
        };
        let tools = stock.items.iter().flatten().filter(|(kind, _)| *kind == Kind::Tools);
        let unused: Vec<String> =
            tools.filter(|(_, native)| !given(native)).map(|(_, native)| format!("{native:?}")).collect();
        if !faces.is_empty() && !unused.is_empty() {
            found.push(Warning {
                key: format!("server {:?}", stock.server),
                message: format!("nobody may use these tools, no grant gives them: {}", unused.join(", ")),
                help: None,
            });
        }
    }
    found
}
