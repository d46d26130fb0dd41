//! The breaker's states, by hand and against a plain model.

use std::sync::Arc;

use prometheus::IntGauge;

use super::{Board, Breaker, State};

fn board() -> (Arc<Board>, IntGauge) {
    let gauge = IntGauge::new("state", "of a breaker").unwrap();
    (Arc::new(Board::new(gauge.clone(), Arc::default())), gauge)
}

#[test]
fn it_opens_after_so_many_failures_in_a_row_and_an_answer_begins_the_row_anew() {
    let (board, gauge) = board();
    let breaker = Breaker::new(3, &board);
    for _ in 0..5 {
        assert!(!breaker.failed());
        assert!(!breaker.failed());
        breaker.succeeded();
    }
    assert_eq!((breaker.state(), gauge.get()), (State::Closed, 0));
    assert_eq!(
        [breaker.failed(), breaker.failed(), breaker.failed(), breaker.failed()],
        [false, false, true, false]
    );
    assert_eq!((breaker.state(), gauge.get()), (State::Open, 2), "told once");
}

#[test]
fn one_tries_it_and_the_outcome_decides() {
    let (board, gauge) = board();
    let breaker = Breaker::new(2, &board);
    assert!(!breaker.half_open(), "it is closed");
    breaker.failed();
    assert!(breaker.failed());
    assert!(breaker.half_open());
    assert!(!breaker.half_open(), "one trial at a time");
    assert_eq!((breaker.is_closed(), gauge.get()), (false, 1));
    breaker.tried(false);
    assert_eq!((breaker.state(), gauge.get()), (State::Open, 2));
    assert!(breaker.half_open());
    breaker.tried(true);
    assert_eq!((breaker.state(), gauge.get()), (State::Closed, 0));
    assert!(breaker.failed(), "its first answer is another failure");
    breaker.recovered();
    breaker.succeeded();
    assert!(!breaker.failed(), "after a real answer all is as before");
}

#[test]
fn with_zero_it_never_opens() {
    let (board, _) = board();
    let breaker = Breaker::new(0, &board);
    assert!((0..1000).all(|_| !breaker.failed()));
    assert!(breaker.is_closed());
}

#[test]
fn the_odd_one_out_is_left_out_and_the_last_one_is_kept() {
    let (board, gauge) = board();
    let (bad, good) = (Breaker::new(5, &board), Breaker::new(5, &board));
    // Three of four fail, never five in a row.
    let mut turns = (0..1000).map(|turn| {
        if turn % 4 == 0 {
            bad.succeeded();
            return false;
        }
        bad.failed()
    });
    assert!(turns.any(|opened| opened));
    assert_eq!((bad.state(), good.state(), gauge.get()), (State::Open, State::Closed, 0));
    drop(bad);
    for turn in 0..1000 {
        assert!(turn % 4 == 0 || !good.failed(), "nobody else is there");
        if turn % 4 == 0 {
            good.succeeded();
        }
    }
}

#[test]
fn half_of_it_failing_is_nobodys_odd_one_out() {
    let (board, _) = board();
    let (breaker, _other) = (Breaker::new(5, &board), Breaker::new(5, &board));
    for turn in 0..10_000 {
        match turn % 3 {
            0 => assert!(!breaker.failed()),
            _ => breaker.succeeded(),
        }
    }
}

#[test]
fn the_gauge_shows_the_best_and_forgets_who_is_gone() {
    let (board, gauge) = board();
    let (one, two) = (Breaker::new(1, &board), Breaker::new(1, &board));
    one.failed();
    assert_eq!(gauge.get(), 0, "one of two still answers");
    two.failed();
    assert_eq!(gauge.get(), 2);
    one.half_open();
    assert_eq!(gauge.get(), 1);
    drop(one);
    assert_eq!(gauge.get(), 2);
    drop(two);
    assert_eq!(gauge.get(), 0);
}
