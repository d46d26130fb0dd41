//! Exposed name ⇄ (server, native name): decided by configuration alone, never by who is up (design §4).
//!
//! [`Namer::name`] is a pure function of the configuration and one native name. What else a server offers,
//! in which order, and which other servers answer has no influence; so a name, once seen, keeps its target.

use std::collections::{HashMap, HashSet};

use aws_lc_rs::digest::{SHA256, digest};

use super::books::PREFIX;
use crate::config::{Discovery, Endpoint, Gateway, Server};

mod endpoint;

pub use endpoint::on_endpoint;

/// The tools of an endpoint that searches.
pub const SEARCHING: [&str; 3] = ["search_tools", "describe_tool", "call_tool"];

/// Characters a hash tail takes: `_` and eight of Base32.
const TAIL: usize = 9;

/// What is named; tools and prompts do not share a name space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// Tools.
    Tool,
    /// Prompts.
    Prompt,
}

impl NameKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }
}

/// The rules of `[gateway]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRules {
    /// `separator`
    pub separator: String,
    /// `max_name_length`, in characters.
    pub max_length: usize,
    /// `strict_names`
    pub strict: bool,
    /// Names of tools that are the gateway's own where these rules hold.
    pub reserved: &'static [&'static str],
    /// Whether names that begin as those of playbooks are theirs.
    pub playbooks: bool,
}

impl NameRules {
    /// The rules of one endpoint.
    #[must_use]
    pub fn on(&self, endpoint: &Endpoint) -> Self {
        let reserved: &[&str] = if endpoint.discovery == Discovery::Search { &SEARCHING } else { &[] };
        let playbooks = endpoint.prefix && (self.playbooks || endpoint.playbooks.is_some());
        Self { reserved, playbooks, ..self.clone() }
    }

    fn takes(&self, kind: NameKind, name: &str) -> bool {
        (kind == NameKind::Tool && self.reserved.contains(&name))
            || (self.playbooks && name.starts_with(PREFIX))
    }
}

impl From<&Gateway> for NameRules {
    fn from(gateway: &Gateway) -> Self {
        Self {
            separator: gateway.separator.clone(),
            max_length: gateway.max_name_length,
            strict: gateway.strict_names,
            reserved: &[],
            playbooks: gateway.playbooks.is_some(),
        }
    }
}

/// One server of an endpoint, whether it is up or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// `server.name`
    pub server: &'a str,
    /// `server.prefix`; may be empty.
    pub prefix: &'a str,
    /// `tools.override.NATIVE.name`: (native, name).
    pub renames: Vec<(&'a str, &'a str)>,
    /// Native names of those whose name from before that is kept (`deprecated_since`).
    pub kept: Vec<&'a str>,
}

impl<'a> Member<'a> {
    /// What `config` says of a server about names of this kind; only tools can be renamed.
    pub fn new(kind: NameKind, server: &'a Server) -> Self {
        let renamed = server.overrides.iter().filter(|_| kind == NameKind::Tool);
        let kept = renamed.clone().filter(|(_, o)| o.keeps_name()).map(|(native, _)| native.as_str());
        let kept = kept.collect();
        let renames = renamed.filter_map(|(native, o)| Some((native.as_str(), o.name.as_deref()?)));
        Self { server: &server.name, prefix: &server.prefix, renames: renames.collect(), kept }
    }
}

/// Why a name ends in a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It held characters that `strict_names` does not allow, or no character at all.
    Characters,
    /// It was longer than `max_name_length`.
    Length,
    /// It began with the prefix and separator of another server.
    Foreign,
    /// An override of the same server has that name.
    Taken,
    /// A tool of the gateway's own has that name.
    Reserved,
}

impl Reason {
    /// Whether it is a clash (`gatehouse_name_clashes`).
    pub const fn is_clash(self) -> bool {
        matches!(self, Self::Foreign | Self::Taken | Self::Reserved)
    }
}

/// One exposed item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What clients see and call.
    pub exposed: Box<str>,
    /// Which of the lists it stands in.
    pub list: usize,
    /// Its position there.
    pub item: usize,
    /// Why it has a hash tail, if it has one.
    pub changed: Option<Reason>,
    /// It is the name that the item had before `override.name`.
    pub former: bool,
}

/// One item that is not exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Which of the lists it stands in.
    pub list: usize,
    /// Its position there.
    pub item: usize,
    /// `true`: its native name stood before in the same list. `false`: another item has its exposed name,
    /// which takes intent (equal hash tails); who owns the name space of that name keeps it.
    pub duplicate: bool,
}

/// The native names one server lists now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<'a> {
    /// Position of the server among the members.
    pub member: usize,
    /// Native names in the server's order.
    pub natives: Vec<&'a str>,
}

/// All exposed names of one kind: in order of the lists, and by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    named: Vec<Named>,
    dropped: Vec<Dropped>,
    /// Positions in `named`, sorted by exposed name.
    by_name: Vec<usize>,
}

impl Naming {
    /// The names of an endpoint with `prefix = false`: untouched but for those that are the gateway's own, none left out.
    pub fn untouched(kind: NameKind, rules: &NameRules, server: &str, natives: &[&str]) -> Self {
        let name = |(item, native): (usize, &&str)| {
            let reserved = rules.takes(kind, native);
            let exposed =
                if reserved { tailed(kind, rules, server, (native, native)) } else { (*native).to_owned() };
            let changed = reserved.then_some(Reason::Reserved);
            Named { exposed: exposed.into(), list: 0, item, changed, former: false }
        };
        Self::new(natives.iter().enumerate().map(name).collect(), Vec::new())
    }

    fn new(named: Vec<Named>, dropped: Vec<Dropped>) -> Self {
        let mut by_name: Vec<usize> = (0..named.len()).collect();
        by_name.sort_by(|a, b| named[*a].exposed.cmp(&named[*b].exposed));
        Self { named, dropped, by_name }
    }

    /// The item a client means; the first one where an untouched list holds a name twice.
    pub fn find(&self, exposed: &str) -> Option<&Named> {
        let at = self.by_name.partition_point(|i| &*self.named[*i].exposed < exposed);
        self.by_name.get(at).map(|i| &self.named[*i]).filter(|named| &*named.exposed == exposed)
    }

    /// What is exposed, in order.
    pub fn named(&self) -> &[Named] {
        &self.named
    }

    /// What is left out, to be warned of and counted.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// How many items of a list clash with another server's prefix, an override or another item.
    pub fn clashes(&self, list: usize) -> usize {
        let tailed = self.named.iter().filter(|n| n.list == list && n.changed.is_some_and(Reason::is_clash));
        let lost = self.dropped.iter().filter(|d| d.list == list && !d.duplicate);
        tailed.count() + lost.count()
    }

    /// How many items of a list were dropped because their native name stood there before.
    pub fn duplicates(&self, list: usize) -> usize {
        self.dropped.iter().filter(|d| d.list == list && d.duplicate).count()
    }
}

/// Gives names on one endpoint with prefixes.
#[derive(Debug, Clone)]
pub struct Namer<'a> {
    kind: NameKind,
    rules: &'a NameRules,
    members: &'a [Member<'a>],
    /// Prefix and separator of each member as they look at the front of an exposed name.
    spaces: Vec<String>,
}

impl<'a> Namer<'a> {
    /// For all servers of an endpoint in file order.
    pub fn new(kind: NameKind, rules: &'a NameRules, members: &'a [Member<'a>]) -> Self {
        let room = rules.max_length.saturating_sub(TAIL);
        // Cut as a tailed name is: a long prefix stands in front of exposed names in that form too.
        let space = |m: &Member<'_>| cut(&sanitised(rules, start(rules, m)), room).to_owned();
        Self { kind, rules, members, spaces: members.iter().map(space).collect() }
    }

    /// The exposed name of a member's item.
    pub fn name(&self, member: usize, native: &str) -> (String, Option<Reason>) {
        let renames = self.members.get(member).map(|server| &server.renames);
        let renamed = renames.into_iter().flatten().find(|(from, _)| *from == native).map(|(_, to)| *to);
        self.named(member, native, renamed.unwrap_or(native))
    }

    /// The exposed name of a member's item before it got another one, where that is kept and nobody else's.
    fn former(&self, (member, native): (usize, &str), list: usize, item: usize) -> Option<Named> {
        let kept = self.members.get(member)?.kept.contains(&native);
        let (exposed, changed) = kept.then(|| self.named(member, native, native))?;
        let own = changed != Some(Reason::Taken) && exposed != self.name(member, native).0;
        own.then(|| Named { exposed: exposed.into(), list, item, changed, former: true })
    }

    fn named(&self, member: usize, native: &str, base: &str) -> (String, Option<Reason>) {
        let Some(server) = self.members.get(member) else { return (native.to_owned(), None) };
        let wanted = start(self.rules, server) + base;
        let plain = sanitised(self.rules, wanted.clone());
        let taken = || server.renames.iter().any(|(from, to)| *to == base && *from != native);
        let reason = if plain != wanted || plain.is_empty() {
            Reason::Characters
        } else if plain.chars().count() > self.rules.max_length {
            Reason::Length
        } else if self.owner(&plain) != Some(member) {
            Reason::Foreign
        } else if taken() {
            Reason::Taken
        } else if self.rules.takes(self.kind, &plain) {
            Reason::Reserved
        } else {
            return (plain, None);
        };
        (tailed(self.kind, self.rules, server.server, (&plain, native)), Some(reason))
    }

    /// The member in whose name space an exposed name lies: a prefix goes before none, then file order
    /// decides (it only has to where `allow_clashes` lets prefixes overlap).
    pub fn owner(&self, exposed: &str) -> Option<usize> {
        let mut fitting = (0..self.spaces.len()).filter(|i| exposed.starts_with(&self.spaces[*i]));
        let first = fitting.next()?;
        if !self.spaces[first].is_empty() {
            return Some(first);
        }
        fitting.find(|i| !self.spaces[*i].is_empty()).or(Some(first))
    }

    /// Names everything that is listed. `lists` in file order of their servers.
    pub fn name_all(&self, lists: &[List<'_>]) -> Naming {
        let (mut all, mut dropped) = (Vec::new(), Vec::new());
        for (list, source) in lists.iter().enumerate() {
            let mut seen = HashSet::new();
            for (item, native) in source.natives.iter().enumerate() {
                if seen.insert(*native) {
                    let (exposed, changed) = self.name(source.member, native);
                    all.push(Named { exposed: exposed.into(), list, item, changed, former: false });
                    all.extend(self.former((source.member, native), list, item));
                } else {
                    dropped.push(Dropped { list, item, duplicate: true });
                }
            }
        }
        self.one_each(&mut all, &mut dropped, lists);
        Naming::new(all, dropped)
    }

    /// Hash tails can be made to collide on purpose. Whoever owns the name space, then whoever has the
    /// name without a tail, keeps it; order in a list has no say.
    fn one_each(&self, all: &mut Vec<Named>, dropped: &mut Vec<Dropped>, lists: &[List<'_>]) {
        let rank = |named: &Named| {
            let source = &lists[named.list];
            let stranger = self.owner(&named.exposed) != Some(source.member);
            let native = source.natives[named.item].to_owned();
            (named.former, stranger, named.changed.is_some(), named.list, native)
        };
        let mut keepers: HashMap<&str, usize> = HashMap::with_capacity(all.len());
        let mut losers = HashSet::new();
        for (at, named) in all.iter().enumerate() {
            let keeper = keepers.entry(&named.exposed).or_insert(at);
            if *keeper != at {
                let better = rank(named) < rank(&all[*keeper]);
                losers.insert(if better { std::mem::replace(keeper, at) } else { at });
            }
        }
        if losers.is_empty() {
            return;
        }
        let mut at = 0;
        all.retain(|named| {
            let lost = losers.contains(&at);
            at += 1;
            if lost {
                dropped.push(Dropped { list: named.list, item: named.item, duplicate: false });
            }
            !lost
        });
    }
}

/// A name that ends in the hash of what it stands for.
fn tailed(kind: NameKind, rules: &NameRules, server: &str, (plain, native): (&str, &str)) -> String {
    let stem = cut(plain, rules.max_length.saturating_sub(TAIL));
    let hash = digest(&SHA256, format!("{}\n{server}\n{native}", kind.as_str()).as_bytes());
    format!("{stem}_{}", base32(hash.as_ref(), TAIL - 1))
}

fn start(rules: &NameRules, member: &Member<'_>) -> String {
    if member.prefix.is_empty() { String::new() } else { format!("{}{}", member.prefix, rules.separator) }
}

fn sanitised(rules: &NameRules, name: String) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !rules.strict || name.chars().all(allowed) {
        return name;
    }
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// The first `length` characters.
fn cut(name: &str, length: usize) -> &str {
    name.char_indices().nth(length).map_or(name, |(at, _)| &name[..at])
}

/// The first `length` characters of RFC 4648 Base32 in lower case.
fn base32(bytes: &[u8], length: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
    (0..length).fold(String::with_capacity(length), |mut text, at| {
        let index = (0..5).fold(0, |index, i| index << 1 | bit(at * 5 + i));
        text.push(char::from(ALPHABET[usize::from(index)]));
        text
    })
}

#[cfg(test)]
mod tests;
