//! What the nearest grant lacked.

use super::super::explain::{Lack, Question, Target};
use super::*;

const GRANTS: &str = r#"
[[grant]]
to = { groups = ["platform", "sre-*"], "realm.level" = 3 }
servers = ["git"]
tools = ["push"]
scopes = ["git:write"]
[[grant]]
servers = ["wiki"]
tools = ["*"]
[[grant]]
to = { groups = "ops" }
servers = ["git"]
tools = ["drop"]
scopes = ["git:admin"]
hide_without_scopes = true
valid_until = 2020-01-01T00:00:00Z
endpoints = ["/ops"]
"#;

fn told(claims: &Value, scopes: &[&str], target: (&str, &str)) -> (Decision, Option<usize>, Vec<String>) {
    let person = Person::new(claims, scopes);
    let target = Some(Target { server: target.0, kind: Kind::Tools, native: target.1 });
    let question = Question { caller: person.caller(), now: at(NOW), endpoint: "/mcp", target };
    let found = policy(GRANTS).explain(question);
    let (grant, lacks) = found.nearest.map_or((None, Vec::new()), |(grant, lacks)| (Some(grant), lacks));
    (found.decision, grant, lacks.iter().map(Lack::to_string).collect())
}

#[test]
fn who_may_is_told_by_which_grant() {
    let (decision, nearest, _) = told(&json!({}), &[], ("wiki", "x"));
    assert_eq!((decision, nearest), (Decision::Allowed { grant: Some(1) }, None));
}

#[test]
fn claims_that_differ_are_named_by_path_and_wanted_value_only() {
    let claims = json!({ "groups": ["s3cr3t-group"], "realm": { "level": 2 } });
    let (decision, grant, lacks) = told(&claims, &["git:write"], ("git", "push"));
    assert_eq!((decision, grant), (Decision::Hidden, Some(0)));
    assert_eq!(
        lacks,
        [
            "the claim `groups` must be one of \"platform\", \"sre-*\", and is not",
            "the claim `realm.level` must be 3, and is not"
        ]
    );
}

#[test]
fn scopes_that_are_missing() {
    let claims = json!({ "groups": "platform", "realm": { "level": 3 } });
    let (decision, grant, lacks) = told(&claims, &[], ("git", "push"));
    assert_eq!((decision, grant), (Decision::NeedsScopes { grant: 0 }, Some(0)));
    assert_eq!(lacks, ["the scope git:write is not held; clients are told to ask for it"]);
}

#[test]
fn everything_that_is_wrong_is_told() {
    let (decision, grant, lacks) = told(&json!({}), &[], ("git", "drop"));
    assert_eq!((decision, grant), (Decision::Hidden, Some(2)));
    assert_eq!(
        lacks,
        [
            "it is for other endpoints",
            "its `valid_until` is over",
            "the claim `groups` must be \"ops\", and is not",
            "the scope git:admin is not held; without, it is hidden"
        ]
    );
}

#[test]
fn a_grant_of_the_same_server_is_nearer_than_one_of_another() {
    let (_, grant, lacks) = told(&json!({}), &[], ("git", "unheard_of"));
    assert_eq!(grant, Some(0));
    assert!(lacks.contains(&"its `tools` do not name it".to_owned()), "{lacks:?}");
    let (_, _, lacks) = told(&json!({}), &[], ("crm", "push"));
    assert!(lacks.contains(&"its `servers` do not name the server".to_owned()), "{lacks:?}");
}

#[test]
fn whether_there_is_anything_at_all() {
    let ops = policy(
        "[[grant]]\nto = { groups = \"ops\" }\nservers = [\"git\"]\ntools = [\"drop\"]\nscopes = [\"a\", \"b\"]\n",
    );
    let told = |claims: Value, scopes: &[&str]| {
        let person = Person::new(&claims, scopes);
        let question = Question { caller: person.caller(), now: at(NOW), endpoint: "/mcp", target: None };
        let found = ops.explain(question);
        let lacks = found.nearest.map_or(Vec::new(), |(_, lacks)| lacks);
        (found.decision, lacks.iter().map(Lack::to_string).collect::<Vec<_>>())
    };
    let lacking = "the scopes a b are not held; clients are told to ask for it".to_owned();
    assert_eq!(told(json!({ "groups": "ops" }), &["a", "b"]).0, Decision::Allowed { grant: Some(0) });
    assert_eq!(told(json!({ "groups": "ops" }), &[]), (Decision::NeedsScopes { grant: 0 }, vec![lacking]));
    assert_eq!(told(json!({}), &["a", "b"]).0, Decision::Hidden);
}
