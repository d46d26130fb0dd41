//! Generated configurations: nothing panics, and a line number is always one of the text.

use std::path::Path;

use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

use super::super::Config;
use super::env;

const EXAMPLE: &str = include_str!("../../../config/gatehouse.example.toml");
const PRODUCTION: &str = include_str!("../../../config/production.toml");

const HEADS: &str = "[gateway] [[server]] [server] [server.tools] [server.tools.override.x] [server.credentials] \
                     [[endpoint]] [telemetry] [auth] [[grant]] [[limit]] [audit] [admin] [cluster] [tls] [ [[server ]";
const KEYS: &str = "name url command prefix path servers tools tools.allow env rlimit listen keys kind token headers \
                    max_body timeout include \"\" 'odd\u{a0}key' resources.uris log user password to to.x servers scopes valid_until file per rate burst redis advertise";
const VALUES: &str = "1 -1 0 1.5 nan true [] {} [[]] [1,'a'] {a={b=[1]}} 1979-05-27 0xffffffffffffffffffff '*' \
                      ['*','a['] '${TOKEN}' '${' '${file:/dev/zero}' '' '/' '15s' 'http://a/' \"\\u0000\" \
                      'bearer' ['${BAD}'] '5/s' '1/d' 1000000 ['tool']";

fn words(list: &'static str) -> impl Strategy<Value = String> {
    select(list.split_ascii_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned)
}

/// Keys and values of which most belong nowhere near each other.
fn lines() -> impl Strategy<Value = String> {
    let values = prop_oneof![words(VALUES), ".{0,12}".prop_map(|text| format!("{text:?}"))];
    let setting = (words(KEYS), values).prop_map(|(key, value)| format!("{key} = {value}"));
    let line = prop_oneof![1 => words(HEADS), 4 => setting, 1 => ".{0,20}"];
    proptest::collection::vec(line, 0..24).prop_map(|lines| lines.join("\n"))
}

/// A right file with one stretch of it replaced.
fn mutations() -> impl Strategy<Value = String> {
    (select(vec![EXAMPLE, PRODUCTION]), any::<usize>(), 0_usize..40, ".{0,8}").prop_map(
        |(text, at, length, new)| {
            let uncommented = text.replace("\n#", "\n");
            let chars: Vec<char> = uncommented.chars().collect();
            let at = at % chars.len();
            let end = (at + length).min(chars.len());
            chars[..at].iter().copied().chain(new.chars()).chain(chars[end..].iter().copied()).collect()
        },
    )
}

fn survives(text: &str) {
    let lines = text.matches('\n').count() + 1;
    match Config::parse(text, Path::new("/nowhere"), &env) {
        Ok(config) => assert!(!format!("{config:?}{:?}", config.warnings()).is_empty()),
        Err(problems) => {
            let report = problems.to_string();
            assert!(problems.len() > 0 && !report.contains("s3cr3t"), "{report}");
            assert_eq!(report.lines().count(), problems.len(), "{report}");
            assert!(problems.iter().all(|problem| problem.line <= lines), "{report}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn any_keys_and_values_are_survived(text in lines()) {
        survives(&text);
    }

    #[test]
    fn any_mutation_of_a_right_file_is_survived(text in mutations()) {
        survives(&text);
    }
}
