//! `[[limit]]`: how often something may be asked for.

use std::time::Duration;

use super::Globs;

/// `[[limit]]`: so many requests in so much time, counted apart for each value of what `per` names (design §3, §6). Two
/// are equal if they limit the same in the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// `per`: what is counted apart; nothing of it: all that the limit is about is counted together.
    pub per: Per,
    /// `servers`: globs over names.
    pub servers: Globs,
    /// `tools`: globs over native names; `None`: all tools, and prompts, resources and completions too.
    pub tools: Option<Globs>,
    /// `rate` as it is written, for messages and the `limit` label.
    pub rate: String,
    /// The time after which one more may come, by `rate`.
    pub every: Duration,
    /// `burst`: so many may come at once, after a rest.
    pub burst: u32,
}

/// `per`: each of these has its own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Per {
    /// Each principal.
    pub subject: bool,
    /// Each OAuth client or key.
    pub client: bool,
    /// Each server.
    pub server: bool,
    /// Each tool of each server.
    pub tool: bool,
}

impl Per {
    /// The words of the file for what is counted apart.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.subject, "subject"),
            (self.client, "client"),
            (self.server, "server"),
            (self.tool, "tool"),
        ];
        all.into_iter().filter_map(|(named, word)| named.then_some(word))
    }
}

impl Limit {
    /// Whether prompts, resources and completions count too; else only calls of tools.
    pub const fn is_general(&self) -> bool {
        self.tools.is_none() && !self.per.tool
    }

    /// As metrics and messages name it: `60/min per subject, tool`.
    pub fn label(&self) -> String {
        let per: Vec<&str> = self.per.words().collect();
        if per.is_empty() { self.rate.clone() } else { format!("{} per {}", self.rate, per.join(", ")) }
    }
}
