//! `[[limit]]`: its keys and the rules among them.

use std::time::Duration;

use super::super::Globs;
use super::super::limit::{Limit, Per};
use super::super::tree::{Node, Table};
use super::super::units::{RATE_HELP, Rate, rate};
use super::super::values::{between, choice, each, globs};

/// No limit's full burst takes longer to come back: counters stay in range, and nobody waits that long.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The most that may come at once.
const MOST: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Word {
    Subject,
    Client,
    Server,
    Tool,
}

const WORDS: &[(&str, Word)] =
    &[("subject", Word::Subject), ("client", Word::Client), ("server", Word::Server), ("tool", Word::Tool)];

/// Reads one `[[limit]]`.
pub(super) fn limit(table: &Table<'_>) -> Option<Limit> {
    let per = table.or("per", per, Per::default());
    let servers = table.or("servers", globs, Globs::any());
    let tools = table.get("tools", globs);
    let rate = table.need("rate", |node| {
        let text = node.text()?;
        if !text.literal {
            return node.fail("must stand in the file itself: metrics show it", RATE_HELP);
        }
        node.parsed(rate).map(|rate| (text.value, rate))
    });
    let burst = table.get("burst", between(1, MOST));
    for key in ["servers", "tools"] {
        let empty = if key == "servers" { Some(&servers) } else { tools.as_ref() };
        if table.has(key) && empty.is_some_and(|globs| globs.patterns().is_empty()) {
            table.report(key, "is empty: nothing is limited", "leave it out for all of them");
        }
    }
    let (written, Rate { count, every }) = rate?;
    let burst = match burst {
        Some(burst) => u32::try_from(burst).unwrap_or(u32::MAX),
        None => count,
    };
    if every.saturating_mul(burst) > LONGEST {
        let key = if table.has("burst") { "burst" } else { "rate" };
        table.report(key, "takes more than a year to come back after it was used up", "a smaller `burst`");
    }
    // Half a limit is another limit.
    if table.has("tools") && tools.is_none() {
        return None;
    }
    Some(Limit { per, servers, tools, rate: written, every, burst })
}

fn per(node: &Node<'_>) -> Option<Per> {
    let named = each(node, "an array of words", choice(WORDS))?;
    let has = |word| named.contains(&word);
    Some(Per {
        subject: has(Word::Subject),
        client: has(Word::Client),
        server: has(Word::Server),
        tool: has(Word::Tool),
    })
}
