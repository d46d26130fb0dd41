//! `[[limit]]` (design §3).

use std::time::Duration;

use super::super::limit::{Limit, Per};
use super::{config, http, problem, refuses};

/// A limit whose lines begin in line 2.
fn with(limit: &str) -> String {
    format!("[[limit]]\n{limit}")
}

fn limit(lines: &str) -> Limit {
    let mut config = config(&with(lines));
    assert_eq!(config.limits.len(), 1);
    config.limits.remove(0)
}

#[test]
fn defaults() {
    let limit = limit("rate = \"60/min\"");
    assert_eq!(limit.per, Per::default());
    assert!(limit.servers.is_match("any") && limit.tools.is_none() && limit.is_general());
    assert_eq!((limit.every, limit.burst), (Duration::from_secs(1), 60));
    assert_eq!(limit.label(), "60/min");
    assert_eq!(config("").limits, []);
}

#[test]
fn rates_are_numbers_over_units() {
    for (rate, every, burst) in [
        ("5/s", Duration::from_millis(200), 5),
        ("60/min", Duration::from_secs(1), 60),
        ("1000/h", Duration::from_millis(3600), 1000),
        ("1/d", Duration::from_secs(86_400), 1),
        ("1000000/s", Duration::from_micros(1), 1_000_000),
    ] {
        let limit = limit(&format!("rate = \"{rate}\""));
        assert_eq!((limit.every, limit.burst, limit.rate.as_str()), (every, burst, rate));
    }
    for (wrong, says) in [
        ("60", "is not a rate"),
        ("60/m", "is not a rate"),
        ("/s", "is not a rate"),
        ("-1/s", "is not a rate"),
        ("+1/s", "is not a rate"),
        ("1.5/s", "is not a rate"),
        ("60/min ", "is not a rate"),
        ("0/s", "lets nothing through"),
        ("1000001/s", "more than a million"),
        ("99999999999999999999/s", "more than a million"),
        ("${TOKEN}", "must stand in the file itself"),
    ] {
        refuses(&with(&format!("rate = \"{wrong}\"")), 2, "limit[0].rate", says);
    }
}

#[test]
fn what_is_counted_apart() {
    let limit = limit(
        "rate = \"5/s\"\nper = [\"tool\", \"subject\"]\nservers = [\"a*\"]\ntools = [\"get_*\"]\nburst = 2",
    );
    assert_eq!(limit.per, Per { subject: true, tool: true, ..Per::default() });
    assert_eq!(limit.label(), "5/s per subject, tool");
    assert_eq!(limit.burst, 2);
    assert!(limit.servers.is_match("ab") && !limit.servers.is_match("b"));
    assert!(limit.tools.as_ref().is_some_and(|tools| tools.is_match("get_x") && !tools.is_match("x")));
    assert!(!limit.is_general());
}

#[test]
fn half_a_limit_is_a_problem() {
    refuses(&with("per = [\"subject\"]"), 1, "limit[0].rate", "");
    refuses(&with("rate = \"5/s\"\nper = [\"subjects\"]"), 3, "limit[0].per[0]", "did you mean");
    refuses(&with("rate = \"5/s\"\ntools = []"), 3, "limit[0].tools", "nothing is limited");
    refuses(&with("rate = \"5/s\"\nservers = []"), 3, "limit[0].servers", "nothing is limited");
    refuses(&with("rate = \"5/s\"\nburst = 0"), 3, "limit[0].burst", "between 1 and");
    refuses(&with("rate = \"1/d\"\nburst = 1000"), 3, "limit[0].burst", "more than a year");
    let told = problem(&with("rate = \"5/s\"\ntools = [\"a[\"]"));
    assert_eq!(told.key, "limit[0].tools[0]");
}

#[test]
fn doubts() {
    let text = format!(
        "{}[[limit]]\nrate = \"5/s\"\nservers = [\"a\", \"b\"]\n[[limit]]\nrate = \"5/s\"\nservers = [\"a\", \"b\"]\n\
         [[limit]]\nrate = \"1/s\"\nper = [\"client\"]\n",
        http("a", "")
    );
    let told: Vec<String> = config(&text).warnings().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[0].starts_with("limit[0].servers: \"b\" matches no enabled server"));
    assert!(told[2].starts_with("limit[1].rate: is the same limit"), "{told:#?}");
    assert!(told[3].starts_with("limit[2].per: without [auth] all callers are one"));
}
