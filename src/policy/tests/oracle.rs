//! The verdict against an oracle that goes through the grants as they are written.

use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::sample::{select, subsequence};

use super::*;

/// A grant in plain words.
#[derive(Debug, Clone)]
struct Plain {
    groups: Option<Vec<&'static str>>,
    level: Option<i64>,
    endpoints: Vec<&'static str>,
    servers: Vec<&'static str>,
    tools: Option<Vec<&'static str>>,
    resources: Option<Vec<&'static str>>,
    scopes: Vec<&'static str>,
    hide: bool,
    until: Option<u64>,
}

const GROUPS: [&str; 4] = ["dev", "ops", "o*", "*"];
const SERVERS: [&str; 3] = ["git", "g*", "wiki"];
const TOOLS: [&str; 4] = ["get_a", "get_*", "*_a", "put_a"];
const URIS: [&str; 3] = ["x://a", "x://*", "*a"];
const SCOPES: [&str; 3] = ["r", "w", "x"];
const PATHS: [&str; 3] = ["/mcp", "/mcp/*", "/other"];

fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(words, 1..=words.len())
}

fn any_of(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(words, 0..=words.len())
}

fn plain() -> impl Strategy<Value = Plain> {
    let to = (proptest::option::of(some(&GROUPS)), proptest::option::of(0_i64..3));
    let what =
        (some(&PATHS), some(&SERVERS), proptest::option::of(some(&TOOLS)), proptest::option::of(some(&URIS)));
    let rest = (any_of(&SCOPES), any::<bool>(), proptest::option::of(select(vec![NOW - 1, NOW, NOW + 1])));
    (to, what, rest).prop_map(
        |((groups, level), (endpoints, servers, tools, resources), (scopes, hide, until))| {
            // A grant of nothing is no grant.
            let tools = if tools.is_none() && resources.is_none() { Some(vec!["get_a"]) } else { tools };
            Plain { groups, level, endpoints, servers, tools, resources, scopes, hide, until }
        },
    )
}

impl Plain {
    fn toml(&self) -> String {
        let mut text = format!("[[grant]]\nservers = {:?}\nendpoints = {:?}\n", self.servers, self.endpoints);
        let mut claims = Vec::new();
        claims.extend(self.groups.as_ref().map(|groups| format!("groups = {groups:?}")));
        claims.extend(self.level.map(|level| format!("level = {level}")));
        if !claims.is_empty() {
            text += &format!("to = {{ {} }}\n", claims.join(", "));
        }
        for (key, globs) in [("tools", &self.tools), ("resources", &self.resources)] {
            if let Some(globs) = globs {
                text += &format!("{key} = {globs:?}\n");
            }
        }
        text += &format!("scopes = {:?}\nhide_without_scopes = {}\n", self.scopes, self.hide);
        if let Some(until) = self.until {
            let until = time::OffsetDateTime::from(at(until));
            let format = time::format_description::well_known::Rfc3339;
            text += &format!("valid_until = {}\n", until.format(&format).unwrap());
        }
        text
    }
}

/// Whether a pattern with stars covers the whole text; the oracle's own.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => {
            let Some(rest) = text.strip_prefix(head) else { return false };
            (0..=rest.len()).any(|skip| rest.is_char_boundary(skip) && like(tail, &rest[skip..]))
        }
    }
}

/// A caller and what is asked.
#[derive(Debug, Clone)]
struct Question {
    groups: Vec<&'static str>,
    level: Option<i64>,
    scopes: Vec<&'static str>,
    path: &'static str,
    server: &'static str,
    kind: Kind,
    native: &'static str,
}

fn question() -> impl Strategy<Value = Question> {
    let item = select(vec![
        (Kind::Tools, "get_a"),
        (Kind::Tools, "get_b"),
        (Kind::Tools, "put_a"),
        (Kind::Tools, "x://a"),
        (Kind::Resources, "x://a"),
        (Kind::Resources, "x://b"),
        (Kind::Templates, "x://{a"),
        (Kind::Resources, "get_a"),
        (Kind::Prompts, "get_a"),
    ]);
    let who = (any_of(&["dev", "ops", "hr"]), proptest::option::of(0_i64..3), any_of(&SCOPES));
    let place = (select(vec!["/mcp", "/mcp/a", "/other"]), select(vec!["git", "gut", "wiki", "crm"]));
    (who, place, item).prop_map(|((groups, level, scopes), (path, server), (kind, native))| Question {
        groups,
        level,
        scopes,
        path,
        server,
        kind,
        native,
    })
}

/// Design §7, word by word.
fn oracle(grants: &[Plain], question: &Question) -> Decision {
    if grants.is_empty() {
        return Decision::Allowed { grant: None };
    }
    let any_like = |patterns: &[&str], text: &str| patterns.iter().any(|pattern| like(pattern, text));
    let mut first_needing = None;
    for (index, grant) in grants.iter().enumerate() {
        let of_kind = match question.kind {
            Kind::Tools => &grant.tools,
            Kind::Resources | Kind::Templates => &grant.resources,
            Kind::Prompts => &None,
        };
        let groups_fit = grant
            .groups
            .as_ref()
            .is_none_or(|wanted| question.groups.iter().any(|group| any_like(wanted, group)));
        let fits = groups_fit
            && grant.level.is_none_or(|level| question.level == Some(level))
            && any_like(&grant.endpoints, question.path)
            && any_like(&grant.servers, question.server)
            && of_kind.as_ref().is_some_and(|globs| any_like(globs, question.native))
            && grant.until.is_none_or(|until| NOW < until);
        if !fits {
            continue;
        }
        if grant.scopes.iter().all(|scope| question.scopes.contains(scope)) {
            return Decision::Allowed { grant: Some(index) };
        }
        if !grant.hide {
            first_needing = first_needing.or(Some(index));
        }
    }
    first_needing.map_or(Decision::Hidden, |grant| Decision::NeedsScopes { grant })
}

proptest! {
    #[test]
    fn decide_agrees_with_the_rules_as_written(
        grants in proptest::collection::vec(plain(), 0..6),
        questions in proptest::collection::vec(question(), 20),
    ) {
        let text: String = grants.iter().map(Plain::toml).collect();
        let policy = policy(&text);
        for question in &questions {
            let mut claims = json!({ "groups": question.groups });
            if let Some(level) = question.level {
                claims["level"] = json!(level);
            }
            let person = Person::new(&claims, &question.scopes);
            let rights = policy.rights(Some(person.caller()), at(NOW), question.path);
            let got = policy.decide(&rights, question.server, question.kind, question.native);
            let wanted = oracle(&grants, question);
            prop_assert_eq!(got, wanted, "{}\n{:?}", text, question);
            // Whoever sees something of a server has a grant that gives something of its kind.
            if wanted != Decision::Hidden {
                let any = policy.givers_of_any(question.server, question.kind);
                assert!(rights.sees(&any));
            }
        }
    }
}
