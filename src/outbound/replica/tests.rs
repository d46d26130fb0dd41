//! Which replica is next, and how all of them show at one gauge.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;

use super::{Replica, Replicas, Turn, Ward, is_fault, is_hint};
use crate::config;
use crate::outbound::error::Failure;

fn ward() -> (Ward, IntGauge) {
    let gauge = |name| IntGauge::new(name, "of a server").unwrap();
    let up = gauge("up");
    let rules = config::Breaker { failures: 2, open: Duration::from_secs(10) };
    (Ward::new(rules, gauge("state"), up.clone()), up)
}

/// Replicas without connections: which is next does not depend on them.
fn several(count: usize) -> (Replicas, IntGauge) {
    let (ward, up) = ward();
    let all = (0..count).map(|_| Arc::new(Replica::new(None, &ward)));
    (Replicas { all: all.collect(), next: Default::default() }, up)
}

/// Which of them it is.
fn place(replicas: &Replicas, picked: Option<Arc<Replica>>) -> Option<usize> {
    let picked = picked?;
    replicas.all().iter().position(|replica| Arc::ptr_eq(replica, &picked))
}

#[test]
fn the_one_with_the_fewest_is_next_and_equals_take_turns() {
    let (replicas, _) = several(3);
    let firsts: Vec<_> = (0..6).map(|_| place(&replicas, replicas.pick(&[])).unwrap()).collect();
    assert_eq!(firsts, [0, 1, 2, 0, 1, 2]);
    let turns: Vec<_> = (0..30).map(|_| Turn::new(replicas.pick(&[]).unwrap())).collect();
    assert!(replicas.all().iter().all(|replica| replica.breaker.running() == 10));
    let (kept, gone): (Vec<_>, Vec<_>) =
        turns.into_iter().partition(|turn| !Arc::ptr_eq(turn.replica(), &replicas.all()[1]));
    drop(gone);
    for _ in 0..10 {
        assert_eq!(place(&replicas, replicas.pick(&[])), Some(1));
    }
    drop(kept);
    assert!(replicas.all().iter().all(|replica| replica.breaker.running() == 0));
}

#[test]
fn who_failed_or_was_tried_is_not_next_and_where_all_failed_one_may_be_tried() {
    let (replicas, _) = several(2);
    let [one, two] = replicas.all() else { panic!() };
    assert_eq!(place(&replicas, replicas.pick(&[Arc::clone(one)])), Some(1));
    assert!(replicas.pick(&[Arc::clone(one), Arc::clone(two)]).is_none());
    one.breaker.failed();
    assert!(one.breaker.failed());
    for _ in 0..4 {
        assert_eq!(place(&replicas, replicas.pick(&[])), Some(1));
    }
    two.breaker.failed();
    two.breaker.failed();
    assert!(replicas.pick(&[]).is_none() && !replicas.are_open());
    assert!(replicas.pick_any(&[]).is_some());
    assert_eq!(place(&replicas, replicas.pick_any(&[Arc::clone(one)])), Some(1));
}

#[test]
fn a_server_is_up_as_long_as_one_of_its_replicas_is() {
    let (replicas, up) = several(2);
    let [one, two] = replicas.all() else { panic!() };
    assert_eq!(up.get(), 0);
    one.answered();
    one.answered();
    two.answered();
    one.contact(false);
    one.contact(false);
    assert_eq!(up.get(), 1);
    two.contact(false);
    assert_eq!(up.get(), 0);
    two.contact(true);
    assert_eq!(up.get(), 1);
    drop(replicas);
    assert_eq!(up.get(), 0);
}

#[test]
fn who_was_replaced_shows_nothing_any_more() {
    let (ward, up) = ward();
    let replica = Replica::new(None, &ward);
    replica.contact(true);
    ward.retire();
    assert!(ward.is_up() && ward.breaker() == Some("closed"));
    replica.breaker.failed();
    replica.breaker.failed();
    assert_eq!(ward.breaker(), Some("open"));
    drop(replica);
    assert_eq!(up.get(), 1, "it is another's by now");
}

#[test]
fn what_a_server_says_is_never_held_against_it() {
    for fault in [
        Failure::Unavailable("refused".into()),
        Failure::Exited,
        Failure::Malformed("no JSON"),
        Failure::Status(502),
        Failure::Status(503),
        Failure::Status(504),
    ] {
        assert!(is_fault(&fault), "{fault}");
    }
    for word in [
        Failure::Status(400),
        Failure::Status(404),
        Failure::Status(429),
        Failure::Status(500),
        Failure::Credentials(401),
        Failure::NoToken("none".into()),
        Failure::TooLarge(1),
        Failure::Overflow(1),
        Failure::Buffered,
        Failure::Busy,
        Failure::HeaderMismatch,
        Failure::Version,
    ] {
        assert!(!is_fault(&word), "{word}");
    }
}

#[test]
fn what_may_be_one_tools_only_is_no_more_than_a_hint() {
    let second = Duration::from_secs(1);
    for hint in [Failure::Timeout(second), Failure::Malformed("no JSON"), Failure::Status(504)] {
        assert!(is_hint(&hint), "{hint}");
    }
    for proof in
        [Failure::Unavailable("refused".into()), Failure::Exited, Failure::Status(502), Failure::Status(503)]
    {
        assert!(!is_hint(&proof), "{proof}");
    }
}

#[test]
fn of_many_doubts_one_asks_and_none_is_lost() {
    let (ward, _) = ward();
    let replica = Replica::new(None, &ward);
    assert_eq!([replica.doubt(), replica.doubt(), replica.doubt()], [true, false, false]);
    assert_eq!(replica.settle(), 3);
    assert!(replica.doubt(), "the next one asks anew");
    assert_eq!(replica.settle(), 1);
}
