//! Verdicts by hand.

use super::*;

/// Three teams: everything of `git` for the platform; reading for all; writing with a scope.
const TEAMS: &str = r#"
[[grant]]
to = { groups = ["platform", "sre-*"] }
servers = ["git"]
tools = ["*"]
prompts = ["review"]
[[grant]]
servers = ["git", "wiki"]
tools = ["get_*"]
resources = ["wiki://*"]
[[grant]]
servers = ["wiki"]
tools = ["put_*"]
scopes = ["wiki:write", "wiki:read"]
[[grant]]
servers = ["wiki"]
tools = ["put_page"]
scopes = ["wiki:page"]
[[grant]]
servers = ["wiki"]
tools = ["drop_*"]
scopes = ["wiki:admin"]
hide_without_scopes = true
[[grant]]
to = { realm.roles = "guest" }
endpoints = ["/mcp/guests"]
servers = ["wiki"]
tools = ["list"]
valid_until = 2027-02-01T00:00:00Z
"#;

const ALLOWED: fn(usize) -> Decision = |grant| Decision::Allowed { grant: Some(grant) };
const NEEDS: fn(usize) -> Decision = |grant| Decision::NeedsScopes { grant };

#[track_caller]
fn verdict(person: &Person, path: &str, item: (&str, Kind, &str), wanted: Decision) {
    let policy = policy(TEAMS);
    let rights = policy.rights(Some(person.caller()), at(NOW), path);
    let (server, kind, native) = item;
    let got = policy.decide(&rights, server, kind, native);
    assert_eq!(got, wanted, "{person:?} {path} {item:?}");
    // The same by what is kept with an item.
    let givers = policy.givers(server, kind, native);
    assert_eq!(rights.decide(&givers), wanted);
    assert_eq!(rights.sees(&givers), wanted != Decision::Hidden);
}

fn tool<'a>(server: &'a str, name: &'a str) -> (&'a str, Kind, &'a str) {
    (server, Kind::Tools, name)
}

#[test]
fn any_grant_that_fits_gives() {
    let nobody = Person::new(&json!({}), &[]);
    verdict(&nobody, "/mcp", tool("git", "get_file"), ALLOWED(1));
    verdict(&nobody, "/mcp", tool("git", "push"), Decision::Hidden);
    verdict(&nobody, "/mcp", tool("crm", "get_file"), Decision::Hidden);
    for groups in [json!("platform"), json!(["x", "platform"]), json!(["sre-eu"])] {
        let one = Person::new(&json!({ "groups": groups }), &[]);
        verdict(&one, "/mcp", tool("git", "push"), ALLOWED(0));
        verdict(&one, "/mcp", tool("git", "get_file"), ALLOWED(0));
        verdict(&one, "/mcp", ("git", Kind::Prompts, "review"), ALLOWED(0));
        verdict(&one, "/mcp", ("git", Kind::Prompts, "Review"), Decision::Hidden);
        verdict(&one, "/mcp", ("git", Kind::Resources, "git://x"), Decision::Hidden);
        verdict(&one, "/mcp", tool("wiki", "push"), Decision::Hidden);
    }
    for groups in
        [json!("Platform"), json!("sre"), json!(["platform "]), json!({ "platform": true }), json!(1)]
    {
        let one = Person::new(&json!({ "groups": groups }), &[]);
        verdict(&one, "/mcp", tool("git", "push"), Decision::Hidden);
    }
}

#[test]
fn kinds_do_not_mix() {
    let nobody = Person::new(&json!({}), &[]);
    verdict(&nobody, "/mcp", ("wiki", Kind::Resources, "wiki://a/b"), ALLOWED(1));
    verdict(&nobody, "/mcp", ("wiki", Kind::Templates, "wiki://{page}"), ALLOWED(1));
    verdict(&nobody, "/mcp", ("wiki", Kind::Resources, "WIKI://a"), Decision::Hidden);
    verdict(&nobody, "/mcp", ("wiki", Kind::Prompts, "get_x"), Decision::Hidden);
    verdict(&nobody, "/mcp", ("wiki", Kind::Resources, "get_x"), Decision::Hidden);
}

/// Covers: A-11: all scopes of the first grant in file order that would give it.
#[test]
fn a_11_scopes_are_asked_for() {
    let of = |scopes: &[&str]| Person::new(&json!({}), scopes);
    verdict(&of(&[]), "/mcp", tool("wiki", "put_page"), NEEDS(2));
    verdict(&of(&["wiki:write"]), "/mcp", tool("wiki", "put_page"), NEEDS(2));
    verdict(&of(&["wiki:page"]), "/mcp", tool("wiki", "put_page"), ALLOWED(3));
    verdict(&of(&["wiki:read", "wiki:write"]), "/mcp", tool("wiki", "put_page"), ALLOWED(2));
    verdict(&of(&["wiki:page"]), "/mcp", tool("wiki", "put_file"), NEEDS(2));
    assert_eq!(policy(TEAMS).scopes(2), ["wiki:write", "wiki:read"]);
}

#[test]
fn hide_without_scopes_hides() {
    verdict(&Person::new(&json!({}), &[]), "/mcp", tool("wiki", "drop_all"), Decision::Hidden);
    verdict(&Person::new(&json!({}), &["wiki:admin"]), "/mcp", tool("wiki", "drop_all"), ALLOWED(4));
}

#[test]
fn endpoints_and_time_bound_a_grant() {
    let guest = Person::new(&json!({ "realm": { "roles": ["guest"] } }), &[]);
    verdict(&guest, "/mcp/guests", tool("wiki", "list"), ALLOWED(5));
    verdict(&guest, "/mcp", tool("wiki", "list"), Decision::Hidden);
    let policy = policy(TEAMS);
    let until = policy.grant(5).unwrap().valid_until.unwrap();
    let when = |now| {
        let rights = policy.rights(Some(guest.caller()), now, "/mcp/guests");
        (policy.decide(&rights, "wiki", Kind::Tools, "list"), rights.until())
    };
    let second = Duration::from_secs(1);
    assert_eq!(when(until - second), (ALLOWED(5), Some(until)));
    assert_eq!(when(until), (Decision::Hidden, None));
    assert_eq!(when(until + second), (Decision::Hidden, None));
}

#[test]
fn claims_are_found_by_paths_and_by_keys_with_dots() {
    let policy = policy("[[grant]]\nto = { \"a.b.c\" = \"yes\" }\nservers = [\"*\"]\ntools = [\"*\"]");
    for (claims, fits) in [
        (json!({ "a.b.c": "yes" }), true),
        (json!({ "a": { "b": { "c": "yes" } } }), true),
        (json!({ "a.b": { "c": "yes" } }), true),
        (json!({ "a": { "b.c": ["no", "yes"] } }), true),
        // The longest key counts, whatever stands under the others.
        (json!({ "a.b.c": "no", "a": { "b": { "c": "yes" } } }), false),
        (json!({ "a.b": { "c": "no" }, "a": { "b.c": "yes" } }), false),
        (json!({ "a": [{ "b": { "c": "yes" } }] }), false),
        (json!({ "a": { "b": "yes" } }), false),
        (json!({ "c": "yes" }), false),
        (json!({}), false),
    ] {
        let person = Person::new(&claims, &[]);
        let rights = policy.rights(Some(person.caller()), at(NOW), "/mcp");
        let wanted = if fits { ALLOWED(0) } else { Decision::Hidden };
        assert_eq!(policy.decide(&rights, "s", Kind::Tools, "t"), wanted, "{claims}");
    }
}

#[test]
fn every_claim_of_a_grant_must_fit() {
    let policy = policy(
        "[[grant]]\nto = { sub = \"ann\", iss = \"https://id.example\" }\nservers = [\"*\"]\ntools = [\"*\"]",
    );
    for (claims, fits) in [
        (json!({ "sub": "ann", "iss": "https://id.example" }), true),
        (json!({ "sub": "ann", "iss": "https://id.example/" }), false),
        (json!({ "sub": "ann" }), false),
        (json!({ "iss": "https://id.example" }), false),
    ] {
        let person = Person::new(&claims, &[]);
        let rights = policy.rights(Some(person.caller()), at(NOW), "/mcp");
        assert_eq!(policy.decide(&rights, "s", Kind::Tools, "t") != Decision::Hidden, fits, "{claims}");
    }
}

#[test]
fn without_grants_everything_is_allowed_and_with_grants_nobody_unknown_is() {
    let open = Policy::new(&[]);
    let rights = open.rights(None, at(NOW), "/mcp");
    assert_eq!(rights, Rights::Open);
    assert_eq!(open.decide(&rights, "s", Kind::Tools, "t"), Decision::Allowed { grant: None });
    assert!(rights.sees(&open.givers("s", Kind::Tools, "t")));
    let policy = policy(TEAMS);
    let rights = policy.rights(None, at(NOW), "/mcp");
    assert_eq!(policy.decide(&rights, "git", Kind::Tools, "get_file"), Decision::Hidden);
}

#[test]
fn the_view_is_the_same_for_the_same_grants() {
    let policy = policy(TEAMS);
    let shown = |claims: Value, scopes: &[&str]| {
        let person = Person::new(&claims, scopes);
        match policy.rights(Some(person.caller()), at(NOW), "/mcp") {
            Rights::Granted(granted) => granted.shown.clone(),
            Rights::Open => panic!("there are grants"),
        }
    };
    let (ann, bob) =
        (json!({ "sub": "ann", "groups": "platform" }), json!({ "sub": "bob", "groups": ["sre-1"] }));
    assert_eq!(shown(ann.clone(), &[]), shown(bob, &["wiki:write"]));
    assert_ne!(shown(ann.clone(), &[]), shown(json!({}), &[]));
    assert_ne!(shown(ann.clone(), &[]), shown(ann, &["wiki:admin"]));
}
