//! What a limit holds, for whom, and what outlives a reload.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::Globs;
use crate::config::limit::Per;

fn rule(every: Duration, burst: u32) -> Limit {
    Limit {
        per: Per { subject: true, ..Per::default() },
        servers: Globs::any(),
        tools: None,
        rate: format!("1/{every:?}"),
        every,
        burst,
    }
}

fn who(name: &str) -> Principal {
    Principal { id: Arc::from(name), client: Some(Arc::from("app")), ..(*Principal::anonymous()).clone() }
}

fn globs(patterns: &[&str]) -> Globs {
    Globs::new(patterns.iter().map(|one| (*one).to_owned()).collect()).unwrap()
}

/// One request of a caller for a tool of a server; whether it is let through, else how long to wait.
async fn ask(limits: &Limits, who: &Principal, server: &str, tool: Option<&str>) -> Result<(), Duration> {
    let (server, json) = (Arc::from(server), Bytes::from(format!("{tool:?}")));
    let asked = Asked { principal: who, server: &server, tool: tool.map(|tool| (tool, &json)) };
    limits.admit(asked, None).await.map_err(|spent| spent.wait.0)
}

/// The promise: at 50 times the load, for five minutes, ±2 %; a caller beside it who keeps to the limit waits for nothing.
#[tokio::test(start_paused = true)]
async fn a_rate_holds_at_fifty_times_the_load() {
    let limits = Limits::new(&[rule(Duration::from_secs(1), 1)], &Limits::default());
    let (greedy, modest) = (who("greedy"), who("modest"));
    let (mut through, mut worst, mut longest) = (0_u32, Duration::ZERO, Duration::ZERO);
    for turn in 0..300 * 50_u32 {
        if let Err(wait) = ask(&limits, &greedy, "s", Some("t")).await {
            worst = worst.max(wait);
        } else {
            through += 1;
        }
        if turn % 50 == 7 {
            let began = std::time::Instant::now();
            assert_eq!(ask(&limits, &modest, "s", Some("t")).await, Ok(()), "turn {turn}");
            longest = longest.max(began.elapsed());
        }
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    assert!((294..=306).contains(&through), "{through} of 300");
    assert!(worst <= Duration::from_secs(1), "{worst:?}");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_that_is_told_is_enough_and_not_too_long() {
    let limits = Limits::new(&[rule(Duration::from_secs(10), 3)], &Limits::default());
    let one = who("one");
    for _ in 0..3 {
        assert_eq!(ask(&limits, &one, "s", None).await, Ok(()));
    }
    tokio::time::advance(Duration::from_secs(4)).await;
    let wait = ask(&limits, &one, "s", None).await.unwrap_err();
    assert_eq!(wait, Duration::from_secs(6));
    tokio::time::advance(wait - Duration::from_millis(1)).await;
    assert_eq!(ask(&limits, &one, "s", None).await, Err(Duration::from_millis(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(ask(&limits, &one, "s", None).await, Ok(()));
    // The whole burst is back after a rest.
    tokio::time::advance(Duration::from_secs(30)).await;
    for _ in 0..3 {
        assert_eq!(ask(&limits, &one, "s", None).await, Ok(()));
    }
    assert!(ask(&limits, &one, "s", None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_per_names_is_counted_apart_and_nothing_else() {
    let none = Per::default();
    let all = [
        (none, [false, false, false, false]),
        (Per { subject: true, ..none }, [true, false, false, false]),
        (Per { client: true, ..none }, [false, true, false, false]),
        (Per { server: true, ..none }, [false, false, true, false]),
        // Tools of two servers are two tools, whatever they are called.
        (Per { tool: true, ..none }, [false, false, true, true]),
    ];
    for (per, apart) in all {
        let limits = Limits::new(&[Limit { per, ..rule(Duration::from_secs(1), 1) }], &Limits::default());
        let first = who("a");
        assert_eq!(ask(&limits, &first, "s", Some("t")).await, Ok(()));
        let other = Principal { client: Some(Arc::from("other")), ..who("a") };
        let found = [
            ask(&limits, &who("b"), "s", Some("t")).await.is_ok(),
            ask(&limits, &other, "s", Some("t")).await.is_ok(),
            ask(&limits, &first, "x", Some("t")).await.is_ok(),
            ask(&limits, &first, "s", Some("u")).await.is_ok(),
        ];
        assert_eq!(found, apart, "{per:?}");
        assert!(ask(&limits, &first, "s", Some("t")).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_tools_is_for_calls_of_these_tools() {
    let second = Duration::from_secs(1);
    let of_tools = Limit { tools: Some(globs(&["get_*"])), servers: globs(&["s"]), ..rule(second, 1) };
    let limits = Limits::new(&[of_tools], &Limits::default());
    let one = who("a");
    assert_eq!(ask(&limits, &one, "s", Some("get_a")).await, Ok(()));
    assert!(ask(&limits, &one, "s", Some("get_b")).await.is_err());
    for _ in 0..3 {
        assert_eq!(ask(&limits, &one, "s", Some("put")).await, Ok(()));
        assert_eq!(ask(&limits, &one, "other", Some("get_a")).await, Ok(()));
        assert_eq!(ask(&limits, &one, "s", None).await, Ok(()), "prompts and resources");
    }
    let per_tool = Limit { per: Per { tool: true, ..Per::default() }, ..rule(second, 1) };
    let limits = Limits::new(&[per_tool], &Limits::default());
    for _ in 0..3 {
        assert_eq!(ask(&limits, &one, "s", None).await, Ok(()));
    }
    let general = Limits::new(&[rule(second, 1)], &Limits::default());
    assert_eq!(ask(&general, &one, "s", None).await, Ok(()));
    assert!(ask(&general, &one, "s", Some("t")).await.is_err());
}

/// The slowest is asked first: what it refuses was not taken from the others.
#[tokio::test(start_paused = true)]
async fn a_refusal_takes_nothing_from_wider_limits() {
    let wide = rule(Duration::from_secs(1), 10);
    let narrow = Limit { tools: Some(globs(&["slow"])), ..rule(Duration::from_secs(60), 1) };
    let limits = Limits::new(&[wide, narrow], &Limits::default());
    let one = who("a");
    assert_eq!(ask(&limits, &one, "s", Some("slow")).await, Ok(()));
    for _ in 0..50 {
        assert!(ask(&limits, &one, "s", Some("slow")).await.is_err());
    }
    for _ in 0..9 {
        assert_eq!(ask(&limits, &one, "s", Some("fast")).await, Ok(()));
    }
    assert!(ask(&limits, &one, "s", Some("fast")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn limits_that_stay_count_on_after_a_reload() {
    let (stays, goes) = (rule(Duration::from_secs(3600), 1), rule(Duration::from_secs(60), 1));
    let before = Limits::new(&[stays.clone(), goes], &Limits::default());
    let one = who("a");
    assert_eq!(ask(&before, &one, "s", None).await, Ok(()));
    let after = Limits::new(&[rule(Duration::from_secs(60), 2), stays.clone(), stays.clone()], &before);
    assert_eq!(after.all.len(), 2, "twice the same rule is one");
    assert_eq!(ask(&after, &one, "s", None).await, Err(Duration::from_secs(3600)), "that one was used up");
    let gone = Limits::new(&[rule(Duration::from_secs(60), 2)], &after);
    assert_eq!(ask(&gone, &one, "s", None).await, Ok(()));
    let back = Limits::new(&[stays], &gone);
    assert_eq!(ask(&back, &one, "s", None).await, Ok(()), "a limit that was gone begins anew");
}

/// At the bound those quiet for longest start anew; newcomers are limited from their second request all the same.
#[test]
fn memory_is_bounded_and_newcomers_are_limited() {
    let local = local::Local::bounded(Duration::from_secs(3600), 1, 100);
    let key =
        |n: u32| Key { subject: Some(Arc::from(n.to_string())), client: None, server: None, tool: None };
    for n in 0..2000 {
        assert_eq!(local.admit(key(n)), Ok(()), "{n}");
        assert!(local.admit(key(n)).is_err(), "{n}");
    }
    assert!(local.len() <= 100, "{}", local.len());
    assert_eq!(local.admit(key(0)), Ok(()), "forgotten long since");
    assert!(local.admit(key(1999)).is_err(), "not forgotten");
}

#[test]
fn a_state_is_a_free_round_once() {
    let rounds = Rounds::default();
    assert!(rounds.is_new("a") && rounds.is_new("b"));
    assert!(!rounds.is_new("a") && !rounds.is_new("b"));
}

/// A count that all replicas share, which can be away.
#[derive(Debug, Default)]
struct Elsewhere {
    away: AtomicBool,
    asked: Mutex<Vec<(String, String, Duration, u32)>>,
}

impl Shared for Elsewhere {
    fn admit<'a>(
        &'a self,
        bucket: Bucket<'a>,
    ) -> Pin<Box<dyn Future<Output = Option<Result<(), Wait>>> + Send + 'a>> {
        Box::pin(async move {
            if self.away.load(Ordering::Relaxed) {
                return None;
            }
            let seen = (bucket.limit.to_owned(), bucket.key, bucket.every, bucket.burst);
            let mut asked = self.asked.lock().unwrap();
            let first = !asked.contains(&seen);
            asked.push(seen);
            Some(if first { Ok(()) } else { Err(Wait(Duration::from_secs(7))) })
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_count_decides_while_it_is_there() {
    let limits = Limits::new(&[rule(Duration::from_secs(60), 1)], &Limits::default());
    let again = Limits::new(&[rule(Duration::from_secs(60), 1)], &Limits::default());
    let elsewhere = Elsewhere::default();
    let (one, server) = (who("someone@example.com"), Arc::from("s"));
    let asked = Asked { principal: &one, server: &server, tool: None };
    let admit =
        async |limits: &Limits| limits.admit(asked, Some(&elsewhere)).await.map_err(|spent| spent.wait.0);
    assert_eq!(admit(&limits).await, Ok(()));
    // Another replica, the same limit and caller: the same bucket.
    assert_eq!(admit(&again).await, Err(Duration::from_secs(7)));
    elsewhere.away.store(true, Ordering::Relaxed);
    assert_eq!(admit(&limits).await, Ok(()), "alone it counts for itself");
    assert_eq!(admit(&limits).await, Err(Duration::from_secs(60)));
    let asked = elsewhere.asked.lock().unwrap();
    let (limit, key, every, burst) = &asked[0];
    assert!(!key.contains("someone") && key.bytes().chain(limit.bytes()).all(|byte| byte.is_ascii_graphic()));
    assert_eq!((*every, *burst), (Duration::from_secs(60), 1));
}
