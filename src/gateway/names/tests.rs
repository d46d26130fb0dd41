//! Names: the rules of design §4 one by one, then their properties.

use super::{Dropped, List, Member, NameKind, NameRules, Named, Namer, Naming, Reason, on_endpoint};
use crate::protocol::method::Kind;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use std::collections::HashSet;

fn rules(strict: bool, max_length: usize) -> NameRules {
    NameRules { separator: "_".to_owned(), max_length, strict, reserved: &[], playbooks: false }
}

fn member<'a>(server: &'a str, prefix: &'a str) -> Member<'a> {
    Member { server, prefix, renames: Vec::new(), kept: Vec::new() }
}

fn exposed(naming: &Naming) -> Vec<&str> {
    naming.named().iter().map(|named| &*named.exposed).collect()
}

/// Names one server's tools, alone on its endpoint.
fn alone(rules: &NameRules, member: Member<'_>, natives: &[&str]) -> Naming {
    let members = [member];
    Namer::new(NameKind::Tool, rules, &members).name_all(&[List { member: 0, natives: natives.to_vec() }])
}

// The tails of this file come from Python's hashlib and base64.

#[test]
fn design4_prefix_separator_name() {
    let naming = alone(&rules(true, 64), member("github", "gh"), &["get_me", "A-b"]);
    assert_eq!(exposed(&naming), ["gh_get_me", "gh_A-b"]);
    assert_eq!(exposed(&alone(&rules(true, 64), member("github", ""), &["get_me"])), ["get_me"]);
    let dots = NameRules { separator: "__".to_owned(), ..rules(true, 64) };
    assert_eq!(exposed(&alone(&dots, member("github", "gh"), &["get_me"])), ["gh__get_me"]);
}

#[test]
fn f058_a_uri_is_never_rewritten_and_belongs_to_the_first_server_in_file_order() {
    let rules = rules(true, 9);
    let lists = |second: usize| {
        let list = |member, natives: &[&'static str]| List { member, natives: natives.to_vec() };
        [list(0, &["a://x/y", "b:é", "a://x/y"]), list(second, &["b:é", "c://a longer one"])]
    };
    let merged = on_endpoint(&rules, true, Kind::Resources, &[], &lists(2));
    assert_eq!(exposed(&merged), ["a://x/y", "b:é", "c://a longer one"]);
    let dropped = |list, item, duplicate| Dropped { list, item, duplicate };
    assert_eq!(merged.dropped(), [dropped(0, 2, true), dropped(1, 0, false)]);
    let untouched = on_endpoint(&rules, false, Kind::Templates, &[], &lists(1)[..1]);
    assert_eq!(exposed(&untouched), ["a://x/y", "b:é", "a://x/y"]);
    assert!(untouched.dropped().is_empty());
}

#[test]
fn design4_changed_characters_take_the_tail() {
    let strict = alone(&rules(true, 64), member("github", "gh"), &["search.code", "search_code"]);
    assert_eq!(exposed(&strict), ["gh_search_code_huxibmb2", "gh_search_code"]);
    assert_eq!(strict.named()[0].changed, Some(Reason::Characters));
    let lenient = alone(&rules(false, 64), member("github", "gh"), &["search.code", "日本語"]);
    assert_eq!(exposed(&lenient), ["gh_search.code", "gh_日本語"]);
    let script = alone(&rules(true, 64), member("files", "f"), &["日本語"]);
    assert_eq!(exposed(&script), ["f_____7oczfvde"]);
    let members = [member("github", "gh")];
    let rules = rules(true, 64);
    let prompt = Namer::new(NameKind::Prompt, &rules, &members).name(0, "search.code");
    assert_eq!(prompt.0, "gh_search_code_bt2uqlzc");
}

#[test]
fn design4_a_name_without_characters_gets_some() {
    let naming = alone(&rules(true, 64), member("files", ""), &[""]);
    assert_eq!(naming.named()[0].exposed.len(), 9);
    assert_eq!(exposed(&alone(&rules(true, 64), member("files", "f"), &[""])), ["f_"]);
}

#[test]
fn f025_long_names_are_cut_and_stay_apart() {
    let prefix = "p".repeat(30);
    let (a, b) = (format!("{}a", "n".repeat(79)), format!("{}b", "n".repeat(79)));
    let fits = "n".repeat(33);
    let over = "n".repeat(34);
    let naming = alone(&rules(true, 64), member("s", &prefix), &[&a, &b, &fits, &over]);
    let names = exposed(&naming);
    assert!(names.iter().all(|n| n.len() == 64), "{names:?}");
    assert_eq!(names[2], format!("{prefix}_{fits}"));
    assert_eq!(naming.named()[3].changed, Some(Reason::Length));
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), 4);
    assert_eq!(&names[0][..56], &format!("{prefix}_{}_", "n".repeat(24)));
    // Characters count, not bytes; nothing is cut inside one.
    let wide = "語".repeat(64);
    assert_eq!(exposed(&alone(&rules(false, 64), member("s", ""), &[&wide])), [wide.as_str()]);
    let wider = "語".repeat(65);
    let cut = alone(&rules(false, 64), member("s", ""), &[&wider]);
    assert!(cut.named()[0].exposed.starts_with(&"語".repeat(55)));
    assert_eq!(cut.named()[0].exposed.chars().count(), 64);
}

#[test]
fn f095_another_servers_name_space_is_never_entered_also_while_it_is_down() {
    let rules = rules(true, 64);
    let members = [member("files", ""), member("github", "gh")];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    let down = namer.name_all(&[List { member: 0, natives: vec!["gh_x", "gh", "ghx", "gh.x"] }]);
    assert_eq!(exposed(&down)[..3], ["gh_x_uyy4jf3v", "gh", "ghx"]);
    assert_eq!(down.named()[0].changed, Some(Reason::Foreign));
    assert_eq!(down.named()[3].changed, Some(Reason::Characters));
    assert_eq!((down.clashes(0), down.duplicates(0)), (1, 0));
    let up = namer.name_all(&[
        List { member: 0, natives: vec!["gh_x", "gh", "ghx", "gh.x"] },
        List { member: 1, natives: vec!["x"] },
    ]);
    assert_eq!(exposed(&up)[..4], exposed(&down));
    assert_eq!(up.find("gh_x").map(|named| (named.list, named.item)), Some((1, 0)));
}

#[test]
fn f095_a_name_space_is_what_clients_see_of_it() {
    let rules = rules(true, 64);
    // Clients see `g_h_…` of the second.
    let members = [member("files", ""), member("github", "g.h")];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    let (theirs, reason) = namer.name(1, "x");
    assert_eq!(reason, Some(Reason::Characters));
    assert_eq!(namer.name(0, &theirs).1, Some(Reason::Foreign));
    // And of one with a prefix too long to be shown in full.
    let long = "p".repeat(60);
    let members = [member("files", ""), member("github", &long)];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    let (theirs, _) = namer.name(1, "a_long_name");
    assert_eq!(namer.name(0, &theirs).1, Some(Reason::Foreign));
}

#[test]
fn design4_where_prefixes_may_clash_the_first_in_file_order_wins() {
    let rules = rules(true, 64);
    for (first, second) in [("x", "x"), ("", ""), ("x", "x_y")] {
        let members = [member("a", first), member("b", second)];
        let namer = Namer::new(NameKind::Tool, &rules, &members);
        assert_eq!(namer.name(0, "y_t").1, None, "{first} before {second}");
        assert_eq!(namer.name(1, "t").1, Some(Reason::Foreign), "{first} before {second}");
    }
    let members = [member("b", "x_y"), member("a", "x")];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    assert_eq!((namer.name(0, "t").1, namer.name(1, "t").1), (None, None));
    assert_eq!(namer.name(1, "y_t").1, Some(Reason::Foreign));
}

#[test]
fn design4_an_override_is_the_base_and_the_native_name_is_hashed() {
    let renames = vec![("search.code", "code_search"), ("a", "b"), ("b", "a"), ("long", "näme")];
    let github = Member { server: "github", prefix: "gh", renames, kept: Vec::new() };
    let naming = alone(&rules(true, 64), github.clone(), &["search.code", "code_search", "a", "b"]);
    assert_eq!(exposed(&naming), ["gh_code_search", "gh_code_search_3rvtdbp3", "gh_b", "gh_a"]);
    assert_eq!(naming.named()[1].changed, Some(Reason::Taken), "the operator's word goes first");
    let without = alone(&rules(true, 64), github, &["code_search"]);
    assert_eq!(exposed(&without), ["gh_code_search_3rvtdbp3"], "also while the renamed tool is not listed");
    let same = Member {
        server: "s",
        prefix: "",
        renames: vec![("a", "n"), ("b", "n"), ("c.d", "e.f"), ("n", "m")],
        kept: Vec::new(),
    };
    let naming = alone(&rules(true, 64), same, &["a", "b", "n"]);
    assert_eq!(
        naming.named().iter().map(|n| n.changed).collect::<Vec<_>>(),
        [Some(Reason::Taken), Some(Reason::Taken), None]
    );
}

#[test]
fn design4_a_name_listed_twice_counts_once() {
    let naming = alone(&rules(true, 64), member("s", "s"), &["a", "b", "a", "a"]);
    assert_eq!(exposed(&naming), ["s_a", "s_b"]);
    assert_eq!(naming.dropped(), [2, 3].map(|item| Dropped { list: 0, item, duplicate: true }));
    assert_eq!((naming.duplicates(0), naming.clashes(0)), (2, 0));
}

#[test]
fn design4_without_prefixes_names_are_untouched() {
    let natives = ["a.b", "a", "", "日本語", "a"];
    let naming = Naming::untouched(NameKind::Tool, &rules(true, 64), "s", &natives);
    assert_eq!(exposed(&naming), natives);
    assert!(naming.dropped().is_empty());
    assert_eq!(naming.find("a").map(|named| named.item), Some(1), "the first of two");
    assert_eq!(naming.find("A"), None);
}

#[test]
fn design4_the_searchs_own_names_take_a_tail_wherever_they_come_from() {
    let rules = NameRules { reserved: &crate::gateway::names::SEARCHING, ..rules(true, 64) };
    let [bare, search] = [member("bare", ""), member("search", "search")];
    let members = [bare, search];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    for (at, native, stem) in [(0, "call_tool", "call_tool_"), (1, "tools", "search_tools_")] {
        let (name, reason) = namer.name(at, native);
        assert!(name.starts_with(stem) && name.len() == stem.len() + 8, "{name}");
        assert_eq!(reason, Some(Reason::Reserved));
    }
    assert_eq!(namer.name(0, "call_tools"), ("call_tools".to_owned(), None));
    let prompts = Namer::new(NameKind::Prompt, &rules, &members);
    assert_eq!(prompts.name(0, "call_tool"), ("call_tool".to_owned(), None), "prompts have their own names");
    let mirrored = Naming::untouched(NameKind::Tool, &rules, "bare", &["call_tool", "x"]);
    assert_eq!(*mirrored.named()[0].exposed, *namer.name(0, "call_tool").0);
    assert_eq!(exposed(&mirrored)[1], "x");
}

#[test]
fn names_made_to_look_like_anothers_hash_go_to_the_owner() {
    let rules = rules(true, 64);
    let members = [member("a", ""), member("b", "b")];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    // Within one server nothing keeps names from being equal: the untailed one stays.
    let tailed = namer.name(1, "x.y").0;
    let crafted = tailed.strip_prefix("b_").unwrap();
    for natives in [vec!["x.y", crafted], vec![crafted, "x.y"]] {
        let naming = namer.name_all(&[List { member: 1, natives: natives.clone() }]);
        let kept = naming.find(&tailed).unwrap();
        assert_eq!(natives[kept.item], crafted);
        assert_eq!((naming.named().len(), naming.clashes(0)), (1, 1));
    }
}

#[test]
fn owner_knows_whose_name_it_would_be() {
    let rules = rules(true, 64);
    let members = [member("a", ""), member("b", "b"), member("c", "c")];
    let namer = Namer::new(NameKind::Tool, &rules, &members);
    assert_eq!(["b_x", "c_", "c", "zz"].map(|name| namer.owner(name)), [Some(1), Some(2), Some(0), Some(0)]);
    let namer = Namer::new(NameKind::Tool, &rules, &members[1..]);
    assert_eq!(namer.owner("zz"), None);
}

#[test]
fn base32_is_rfc_4648() {
    for (bytes, text) in [("", ""), ("fooba", "mzxw6ytb"), ("fo", "mzxq"), ("foobar", "mzxw6ytboi")] {
        assert_eq!(super::base32(bytes.as_bytes(), text.len()), text);
    }
}

/// Servers with prefixes as configuration admits them, and what each lists: names that try to clash.
fn endpoint() -> impl Strategy<Value = Vec<(&'static str, Vec<String>)>> {
    let prefixes = Just(vec!["", "a", "bb", "c-d"]).prop_shuffle();
    let native = select(vec!["a_", "b", "bb_", "c-d_", "_", ".", "c", "ä", "x"]);
    let natives = vec(vec(native, 0..5).prop_map(|parts| parts.concat()), 0..8);
    (prefixes, vec(natives, 4)).prop_map(|(prefixes, lists)| prefixes.into_iter().zip(lists).collect())
}

fn lists<'a>(servers: &'a [(&'a str, Vec<String>)], up: &[bool]) -> Vec<List<'a>> {
    let up = (0..servers.len()).filter(|member| up[*member]);
    up.map(|member| List { member, natives: servers[member].1.iter().map(String::as_str).collect() })
        .collect()
}

proptest! {
    #[test]
    fn f025_f095_names_fit_differ_and_never_depend_on_who_is_up(
        servers in endpoint(), up in vec(any::<bool>(), 4), strict in any::<bool>(), max_length in 12_usize..20,
    ) {
        let rules = rules(strict, max_length);
        let members: Vec<_> = servers.iter().map(|(prefix, _)| Member {
            // The prefix stands for the server's name, which is unique.
            server: prefix, prefix, renames: vec![("x", "b")], kept: Vec::new(),
        }).collect();
        let namer = Namer::new(NameKind::Tool, &rules, &members);
        let (all, some) = (lists(&servers, &[true; 4]), lists(&servers, &up));
        let (full, part) = (namer.name_all(&all), namer.name_all(&some));
        prop_assert_eq!(full.dropped().iter().filter(|d| !d.duplicate).count(), 0);

        let names: HashSet<_> = exposed(&full).into_iter().collect();
        prop_assert_eq!(names.len(), full.named().len(), "unique");
        for Named { exposed, list, item, changed, .. } in full.named() {
            prop_assert!(exposed.chars().count() <= max_length && !exposed.is_empty());
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            prop_assert!(!strict || exposed.chars().all(fits), "{}", exposed);
            let found = full.find(exposed).unwrap();
            prop_assert_eq!((found.list, found.item), (*list, *item), "leads back");
            let (prefix, native) = (servers[*list].0, all[*list].natives[*item]);
            let wanted = if prefix.is_empty() { String::new() } else { format!("{prefix}_") };
            let wanted = wanted + if native == "x" { "b" } else { native };
            prop_assert_eq!(changed.is_none(), **exposed == wanted, "{} for {}", exposed, wanted);
        }
        let target = |all: &[List<'_>], n: &Named| {
            (n.exposed.clone(), all[n.list].member, all[n.list].natives[n.item].to_owned())
        };
        let kept: HashSet<_> = full.named().iter().map(|n| target(&all, n)).collect();
        prop_assert!(part.named().iter().all(|n| kept.contains(&target(&some, n))), "same names, same targets");
        let order: Vec<_> = full.named().iter().map(|n| (n.list, n.item)).collect();
        prop_assert!(order.is_sorted(), "configuration order, then native order");
    }

    #[test]
    fn order_within_a_list_has_no_say(servers in endpoint(), turn in 0_usize..8) {
        let rules = rules(true, 14);
        let members: Vec<_> = servers.iter().map(|(prefix, _)| member(prefix, prefix)).collect();
        let namer = Namer::new(NameKind::Tool, &rules, &members);
        let straight = lists(&servers, &[true; 4]);
        let turned: Vec<_> = straight.iter().cloned().map(|mut list| {
            let by = turn % list.natives.len().max(1);
            list.natives.rotate_left(by);
            list
        }).collect();
        let set = |lists: &[List<'_>]| {
            let naming = namer.name_all(lists);
            let named = naming.named().iter();
            named.map(|n| (n.exposed.to_string(), lists[n.list].natives[n.item].to_owned())).collect::<HashSet<_>>()
        };
        prop_assert_eq!(set(&straight), set(&turned));
    }
}
