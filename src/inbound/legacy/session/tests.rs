//! One session by itself, and its id.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use tokio::time::Instant;

use super::{MOST_KEPT, MOST_RUNNING, Said, Session, Watch};
use crate::auth::Principal;
use crate::inbound::legacy::stream::Replay;
use crate::inbound::legacy::ticket::Ticket;
use crate::net::Budget;
use crate::protocol::envelope::Id;
use crate::protocol::version::Revision;
use crate::seal::Sealer;

fn session() -> Arc<Session> {
    let principal = Principal::anonymous();
    let life = Duration::from_secs(3600);
    let ticket = Ticket::new(&principal, Revision::V20250618, "{}".to_owned(), life).unwrap();
    Arc::new(Session::new(&ticket, Arc::clone(&principal.id), &Arc::new(Replay::new(1 << 20))).unwrap())
}

fn id(raw: &'static str) -> Id {
    let text = ByteString::from_static(raw);
    Id::parse(&text, &text).unwrap()
}

/// Covers: G-75, M-04: by id and type, however it is spelled; the latest of several.
#[tokio::test]
async fn g_75_a_cancel_finds_one_request() {
    let session = session();
    let cancel = |raw: &'static str| session.cancel(&Bytes::from_static(raw.as_bytes()));
    let one = session.begin(&id("1")).unwrap();
    let text = session.begin(&id("\"1\"")).unwrap();
    let spelled = session.begin(&id("\"\\u0031x\"")).unwrap();
    assert!(!cancel("2") && !cancel("\"2\""));
    assert!(cancel("\"1\""));
    assert_eq!((one.token.is_cancelled(), text.token.is_cancelled()), (false, true));
    assert!(cancel("\"1x\"") && spelled.token.is_cancelled());
    let again = session.begin(&id("1")).unwrap();
    assert!(cancel("1"));
    assert_eq!((one.token.is_cancelled(), again.token.is_cancelled()), (false, true));
    drop(again);
    assert!(cancel("1") && one.token.is_cancelled());
    drop(one);
    assert!(!cancel("1"));
}

/// Covers: G-35: calls that outlive their connections are bounded; ended ones make room; an end ends them all.
#[tokio::test]
async fn g_35_requests_are_bounded() {
    let session = session();
    assert!(session.idle_since().is_some());
    let mut all: Vec<_> = (0..MOST_RUNNING).map(|_| session.begin(&id("1")).unwrap()).collect();
    assert!(session.begin(&id("2")).is_none());
    assert!(session.is_working() && session.idle_since().is_none());
    all.pop();
    assert!(session.begin(&id("2")).is_some());
    session.finish();
    assert!(all.iter().all(|running| running.token.is_cancelled()));
    assert!(session.begin(&id("3")).unwrap().token.is_cancelled(), "nothing begins after the end");
    drop(all);
    assert!(!session.is_working() && session.idle_since().is_some());
}

/// Covers: G-36: answers are kept for who comes back, so many and so long; one that still runs always.
#[tokio::test(start_paused = true)]
async fn g_36_answers_are_kept_within_bounds() {
    let session = session();
    let running = session.stream();
    session.keep(&running);
    let mut tags = Vec::new();
    for _ in 0..MOST_KEPT + 5 {
        let stream = session.stream();
        session.keep(&stream);
        stream.end(None);
        tags.push(format!("{}-1", stream.tag));
    }
    session.tidy();
    let known = |tag: &str| session.stream_of(tag).is_some();
    assert!(known(&format!("{}-0", running.tag)));
    assert!(!known(&tags[0]) && known(tags.last().unwrap()));
    for odd in ["", "-", "x-1", "x-y-z", "x-y--1"] {
        assert!(!known(odd), "{odd}");
    }
    tokio::time::advance(Duration::from_secs(3600)).await;
    session.tidy();
    assert!(known(&format!("{}-0", running.tag)) && !known(tags.last().unwrap()));
}

/// Covers: R-51, G-30: an answer is taken once, by who asked.
#[tokio::test]
async fn r_51_an_answer_is_taken_once() {
    let session = session();
    let ((one, first), (two, second)) = (session.ask(), session.ask());
    assert_ne!(one, two);
    let said = || Some(Said { text: "{}".into(), _held: Arc::new(Budget::new(0).hold()) });
    assert!(session.answered(&two, said()) && !session.answered(&two, said()));
    assert_eq!(second.await.unwrap().unwrap().text, "{}");
    session.forget(&one);
    assert!(!session.answered(&one, None) && !session.answered("none", None));
    assert!(first.await.is_err());
}

/// Covers: G-21, G-26, A-61: a session's id says all, to nobody else, as long as it is valid.
#[tokio::test]
async fn g_21_an_id_is_its_owners() {
    let (sealer, owner) = (Sealer::random(), Principal::anonymous());
    let mut other = (*owner).clone();
    other.id = "other".into();
    let ticket = |life| Ticket::new(&owner, Revision::V20250326, "{\"roots\":{}}".to_owned(), life).unwrap();
    let id = ticket(Duration::from_secs(60)).seal(&sealer, "/mcp");
    let opened = Ticket::open(&sealer, "/mcp", &id, &owner).unwrap();
    assert_eq!((opened.revision(), &*opened.capabilities), (Some(Revision::V20250326), "{\"roots\":{}}"));
    assert!(opened.rest() <= Duration::from_secs(60) && opened.rest() > Duration::from_secs(30));
    assert!(Ticket::open(&sealer, "/mcp", &id, &other).is_none());
    assert!(Ticket::open(&sealer, "/also", &id, &owner).is_none());
    assert!(Ticket::open(&Sealer::random(), "/mcp", &id, &owner).is_none());
    for at in 0..id.len() {
        let mut changed = id.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(Ticket::open(&sealer, "/mcp", &changed, &owner).is_none_or(|_| changed == id), "{at}");
    }
    assert!(Session::new(&opened, "p".into(), &Arc::new(Replay::new(1))).unwrap().expires > Instant::now());
}

/// A watch that ends late does not take with it the one that has replaced it.
#[tokio::test]
async fn a_watch_ends_itself_only() {
    let session = session();
    let (first, first_ends) = Watch::new(&session);
    let old = first.number;
    session.watch(first);
    assert!(session.is_watching() && !first_ends.is_cancelled());
    let (second, second_ends) = Watch::new(&session);
    let number = second.number;
    session.watch(second);
    assert!(first_ends.is_cancelled(), "there is one");
    session.unwatch(old);
    assert!(session.is_watching() && !second_ends.is_cancelled());
    session.unwatch(number);
    assert!(!session.is_watching() && second_ends.is_cancelled());
    let (third, third_ends) = Watch::new(&session);
    session.finish();
    assert!(third_ends.is_cancelled(), "also one that does not stand yet");
    drop(third);
}
