//! Letters between replicas: for one reader, once, for a short time, and unchanged; and a Redis that is not there.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::value::RawValue;

use super::letter::now;
use super::{Claimed, Cluster, Letter, Place, Refused, Replica};
use crate::config::Secret;
use crate::seal::Sealer;
use crate::tasks::Tasks;

const BODY: &[u8] = b"{\"jsonrpc\":\"2.0\"}";

fn replica(at: &str) -> std::sync::Arc<Cluster> {
    // Nobody listens there: port 1 is not given out.
    let redis = Secret::new("redis://127.0.0.1:1/");
    Cluster::start(&redis, at.to_owned(), Duration::from_secs(60), &Tasks::new()).unwrap()
}

fn letter() -> Letter {
    let mut headers = HeaderMap::new();
    headers.append("accept", HeaderValue::from_static("text/event-stream"));
    headers.append("x-odd", HeaderValue::from_bytes(b"\xff\xe4").unwrap());
    headers.append("x-odd", HeaderValue::from_static("second"));
    let principal = RawValue::from_string("{\"id\":\"alice\"}".to_owned()).unwrap();
    Letter::new((&Method::POST, "/mcp"), &headers, principal, BODY)
}

fn refused(cluster: &Cluster, sealer: &Sealer, sealed: &str, body: &[u8]) -> Refused {
    cluster.open(sealer, sealed, body).expect_err("it is taken")
}

#[tokio::test]
async fn r_32_a_letter_says_what_was_put_into_it() {
    let (sealer, cluster) = (Sealer::random(), replica("b:1"));
    let sealed = letter().seal(&sealer, cluster.me());
    assert!(sealed.bytes().all(|byte| byte.is_ascii_graphic()), "one line");
    let read = cluster.open(&sealer, &sealed, BODY).unwrap();
    assert_eq!((read.method.as_str(), read.path.as_str()), ("POST", "/mcp"));
    assert_eq!(read.principal.get(), "{\"id\":\"alice\"}");
    let headers = read.headers();
    assert_eq!(headers["accept"], "text/event-stream");
    let odd: Vec<&[u8]> = headers.get_all("x-odd").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(odd, [b"\xff\xe4".as_slice(), b"second"]);
}

#[tokio::test]
async fn a_letter_that_was_changed_is_not_taken() {
    let (sealer, cluster) = (Sealer::random(), replica("b:1"));
    let sealed = letter().seal(&sealer, cluster.me());
    for at in [2, 10, sealed.len() / 2, sealed.len() - 2] {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert_eq!(refused(&cluster, &sealer, &changed, BODY), Refused::Seal, "at {at}");
    }
    assert_eq!(refused(&cluster, &sealer, &sealed, b"{}"), Refused::Seal, "another body");
    assert_eq!(refused(&cluster, &Sealer::random(), &sealed, BODY), Refused::Seal, "other keys");
    let session = sealer.seal(crate::seal::Purpose::Session, "", b"{}");
    assert_eq!(refused(&cluster, &sealer, &session, BODY), Refused::Seal, "a handle of a client's");
    cluster.open(&sealer, &sealed, BODY).expect("what was refused did not use it up");
}

#[tokio::test]
async fn a_letter_is_taken_once() {
    let (sealer, cluster) = (Sealer::random(), replica("b:1"));
    let sealed = letter().seal(&sealer, cluster.me());
    cluster.open(&sealer, &sealed, BODY).unwrap();
    assert_eq!(refused(&cluster, &sealer, &sealed, BODY), Refused::Replayed);
    let again = letter().seal(&sealer, cluster.me());
    cluster.open(&sealer, &again, BODY).expect("the same request is another letter");
}

#[tokio::test]
async fn a_letter_is_good_for_half_a_minute() {
    let (sealer, cluster) = (Sealer::random(), replica("b:1"));
    let sealed = letter().seal(&sealer, cluster.me());
    let at = |after: i64| now().saturating_add_signed(after);
    let late = cluster.open_at(&sealer, (&sealed, BODY), at(31_000));
    assert_eq!(late.err(), Some(Refused::Time));
    let early = cluster.open_at(&sealer, (&sealed, BODY), at(-31_000));
    assert_eq!(early.err(), Some(Refused::Time), "a clock that far apart is not trusted");
    cluster.open_at(&sealer, (&sealed, BODY), at(20_000)).expect("in time");
    assert_eq!(
        cluster.open_at(&sealer, (&sealed, BODY), at(25_000)).err(),
        Some(Refused::Replayed),
        "remembered as long as it would be good"
    );
}

/// What a letter is for is in its seal: whoever gets it cannot send it on, and a process that was restarted takes none
/// of those before it.
#[tokio::test]
async fn a_second_hop_is_refused() {
    let sealer = Sealer::random();
    let (one, two) = (replica("a:1"), replica("b:1"));
    let sealed = letter().seal(&sealer, one.me());
    assert_eq!(refused(&two, &sealer, &sealed, BODY), Refused::Stranger);
    let restarted = replica("a:1");
    assert_eq!(refused(&restarted, &sealer, &sealed, BODY), Refused::Stranger);
    one.open(&sealer, &sealed, BODY).unwrap();
}

fn claimed<'s>(owner: Option<&'s Replica>) -> Claimed<'s> {
    Claimed { name: "s", owner, life: Duration::from_secs(60) }
}

/// Covers: G-21, G-26: without Redis the sealed id alone says where a session is; who is dead is not asked again.
#[tokio::test]
async fn without_redis_a_session_is_where_it_began_or_here() {
    let cluster = replica("a:1");
    let other = Replica::new("b:1".to_owned());
    assert!(!cluster.is_joined());
    assert_eq!(cluster.place(claimed(Some(cluster.me()))).await, Place::Here);
    assert_eq!(cluster.place(claimed(Some(&other))).await, Place::There(other.clone()));
    assert_eq!(cluster.lost(claimed(Some(&other)), &other, true).await, Place::Here);
    assert_eq!(cluster.place(claimed(Some(&other))).await, Place::Here, "and stays dead");
    assert_eq!(cluster.place(claimed(None)).await, Place::Here);
    let before = Replica::new("a:1".to_owned());
    assert_eq!(cluster.place(claimed(Some(&before))).await, Place::Here, "who was at our address is gone");
    assert_eq!(cluster.strayed(&["s".into()]).await, []);
}
