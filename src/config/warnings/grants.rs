//! Doubts about grants: what gives nothing, and what gives to everybody.

use std::time::SystemTime;

use super::super::{Config, Globs, Grant};
use super::{Warning, warning};

impl Config {
    /// Doubts about `[[grant]]`, as far as the file alone can tell.
    pub(super) fn grant_doubts(&self, now: SystemTime, found: &mut Vec<Warning>) {
        if self.auth.is_some() && self.grants.is_empty() {
            let message = "there is none: every caller who gets in may use everything";
            found.push(warning("grant", message, "say with [[grant]] who may use what"));
        }
        for (index, grant) in self.grants.iter().enumerate() {
            let mut doubt = |key: &str, message: String, help: &str| {
                let message = format!("{message} ({})", grant.place);
                found.push(warning(format!("grant[{index}].{key}"), message, help));
            };
            let servers = || self.servers.iter().map(|server| server.name.as_str());
            let paths = || self.endpoints.iter().map(|endpoint| &*endpoint.path);
            for pattern in idle(&grant.servers, servers) {
                doubt("servers", format!("{pattern:?} matches no enabled server"), "");
            }
            for pattern in idle(&grant.endpoints, paths) {
                doubt("endpoints", format!("{pattern:?} matches no endpoint"), "");
            }
            if !grant.servers.patterns().is_empty() && !self.meets(grant) {
                let message = "none of these servers is shown by an endpoint of this grant".to_owned();
                doubt("servers", message, "");
            }
            if grant.hide_without_scopes && grant.scopes.is_empty() {
                doubt("hide_without_scopes", "has no effect without `scopes`".to_owned(), "");
            }
            if grant.valid_until.is_some_and(|until| until <= now) {
                doubt("valid_until", "is over: this grant gives nothing".to_owned(), "remove the grant");
            }
            if self.is_ambiguous(grant) {
                let message = "another issuer may give the same `sub` to someone else".to_owned();
                doubt("to", message, "name the issuer too: `iss`");
            }
        }
        self.open_servers(found);
    }

    /// Servers that everyone who gets in may use, whatever they are.
    fn open_servers(&self, found: &mut Vec<Warning>) {
        for server in &self.servers {
            let open = |grant: &Grant, globs: &Globs| {
                let all = globs.patterns().iter().any(|pattern| pattern == "*");
                all && grant.to.is_none() && grant.scopes.is_empty() && grant.servers.is_match(&server.name)
            };
            for (index, grant) in self.grants.iter().enumerate() {
                let kinds =
                    [("tools", &grant.tools), ("prompts", &grant.prompts), ("resources", &grant.resources)];
                let all: Vec<&str> =
                    kinds.iter().filter(|(_, globs)| open(grant, globs)).map(|(kind, _)| *kind).collect();
                if !all.is_empty() {
                    let message = format!(
                        "every caller who gets in may use all its {}, by grant[{index}] ({})",
                        all.join(" and "),
                        grant.place
                    );
                    found.push(warning(format!("server {:?}", server.name), message, ""));
                }
            }
        }
    }

    /// Whether a server of the grant is on an endpoint of the grant.
    fn meets(&self, grant: &Grant) -> bool {
        let mine = |name: &str| grant.servers.is_match(name);
        self.endpoints.iter().filter(|endpoint| grant.endpoints.is_match(&endpoint.path)).any(|endpoint| {
            self.servers.iter().any(|server| mine(&server.name) && endpoint.servers.is_match(&server.name))
        })
    }

    /// A subject means a person only together with its issuer.
    fn is_ambiguous(&self, grant: &Grant) -> bool {
        let names = |path: &str| grant.to.iter().flatten().any(|rule| rule.path == path);
        self.auth.as_ref().is_some_and(|auth| auth.issuers.len() > 1) && names("sub") && !names("iss")
    }
}

/// Patterns that match none of these names; `*` may.
pub(super) fn idle<'a, N: Iterator<Item = &'a str>>(globs: &Globs, names: impl Fn() -> N) -> Vec<String> {
    let matches_none = |pattern: &&String| {
        Globs::new(vec![(*pattern).clone()]).is_ok_and(|glob| !names().any(|name| glob.is_match(name)))
    };
    globs.patterns().iter().filter(|pattern| *pattern != "*").filter(matches_none).cloned().collect()
}
