//! Pages of lists, and items under another name.

use super::{Tree, json_text, object_text, spelled};
use crate::protocol::items::{json_string, page, with_members};
use crate::protocol::method::Kind;
use crate::protocol::object::ObjectError;
use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::sample::select;

#[test]
fn m80_items_are_the_servers_bytes() {
    for (kind, key, id) in [
        (Kind::Tools, "tools", "name"),
        (Kind::Prompts, "prompts", "name"),
        (Kind::Resources, "resources", "uri"),
        (Kind::Templates, "resourceTemplates", "uriTemplate"),
    ] {
        let first = format!("{{ \"x\" : 1.0, \"{id}\":\"n\\u00e4\" , \"z\":[ ] }}");
        let result = format!(
            r#"{{"resultType":"complete", "{key}" : [ {first} ,{{}},[],null,{{"{id}":5}},{{"{id}":"a","{id}":"b"}},
            {{"{id}":"\ud800"}},{{"{id}":""}}], "ttlMs": 1500.5 ,"cacheScope":"public"}}"#
        );
        let page = page(kind, &Bytes::from(result)).unwrap();
        assert_eq!(page.skipped, 6, "no name, no object, another type, twice, no text");
        let items: Vec<_> = page.items.iter().map(|i| (&*i.native, &i.json[..])).collect();
        assert_eq!(items[0], ("n\u{e4}", first.as_bytes()));
        assert_eq!((items.len(), items[1].0), (2, ""));
        assert_eq!((page.ttl_ms.as_deref(), page.cache_scope.as_deref()), (Some("1500.5"), Some("public")));
        assert_eq!(page.next_cursor, None);
    }
}

#[test]
fn l50_the_end_of_a_list() {
    let cursor = |member: &str| {
        page(Kind::Tools, &Bytes::from(format!("{{\"tools\":[]{member}}}"))).map(|p| p.next_cursor)
    };
    assert_eq!(cursor(""), Ok(None));
    assert_eq!(cursor(",\"nextCursor\":null"), Ok(None));
    assert_eq!(cursor(",\"nextCursor\":\"\""), Ok(Some(String::new())), "an empty cursor is one");
    assert_eq!(cursor(",\"nextCursor\":\"a\\u0062\""), Ok(Some("ab".to_owned())));
    for other in ["2", "false", "{}", "\"\\ud800\""] {
        assert_eq!(
            cursor(&format!(",\"nextCursor\":{other}")),
            Err(ObjectError::Syntax),
            "not silently the end"
        );
    }
    assert_eq!(cursor(",\"nextCursor\":\"a\",\"nextCursor\":\"b\""), Err(ObjectError::Duplicate));
}

#[test]
fn answers_that_are_no_list() {
    for (result, error) in [
        ("{}", ObjectError::NotObject),
        ("[]", ObjectError::NotObject),
        ("{\"tools\":{}}", ObjectError::Syntax),
        ("{\"tools\":null}", ObjectError::Syntax),
        ("{\"tools\":[],\"tools\":[]}", ObjectError::Duplicate),
        ("{\"tools\":[}", ObjectError::Syntax),
        ("", ObjectError::Syntax),
    ] {
        assert_eq!(page(Kind::Tools, &Bytes::from(result)).err(), Some(error), "{result}");
    }
    assert_eq!(
        page(Kind::Tools, &Bytes::from_static(b"{\"tools\":[\"\xff\"]}")).err(),
        Some(ObjectError::Syntax)
    );
}

proptest! {
    #[test]
    fn members_are_replaced_or_appended(
        text in object_text("[a-d]".prop_flat_map(spelled).boxed(), json_text()),
        keys in proptest::sample::subsequence(vec!["a", "b", "c", "d", "\"\n"], 0..=5),
        value in json_text(),
    ) {
        let mut expected = Tree::read(&text).unwrap().members();
        let mut twice = false;
        for key in &keys {
            let new = Tree::read(&value).unwrap();
            let mut hits = expected.iter_mut().filter(|(k, _)| k == key);
            match (hits.next(), hits.next()) {
                (Some(member), None) => member.1 = new,
                (None, _) => expected.push(((*key).to_owned(), new)),
                _ => twice = true,
            }
        }
        let replace: Vec<_> = keys.iter().map(|key| (*key, value.clone())).collect();
        let found = with_members(&Bytes::from(text), &replace);
        let found = found.map(|parts| Tree::read(std::str::from_utf8(&parts.to_bytes()).unwrap()));
        let expected = if twice { Err(ObjectError::Duplicate) } else { Ok(Some(Tree::Object(expected))) };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn strings_are_written_as_json(text in any::<String>()) {
        prop_assert_eq!(serde_json::from_str::<String>(&json_string(&text)).unwrap(), text);
    }

    #[test]
    fn any_answer_is_read_or_refused(text in json_text(), kind in select(Kind::ALL.to_vec())) {
        let wrapped = format!("{{\"{}\":{text},\"nextCursor\":{text},\"ttlMs\":{text}}}", kind.result_key());
        for result in [text, wrapped] {
            let _ = page(kind, &Bytes::from(result));
        }
    }
}
