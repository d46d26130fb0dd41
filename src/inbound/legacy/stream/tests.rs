//! Streams: their bounds, their readers, their ends.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use http::StatusCode;

use super::{BACKLOG, Final, MOST_BYTES, MOST_EVENTS, News, Purpose, Replay, Stream, place};
use crate::protocol::edit::Parts;

fn stream(purpose: Purpose) -> Stream {
    Stream::new("tag-1".to_owned(), purpose, &Arc::new(Replay::new(usize::MAX)))
}

fn last(text: &'static str) -> Final {
    Final { status: StatusCode::OK, message: Parts::from(text), challenge: None, retry_after: None }
}

/// The number and text of the next event; `None`: not now. An end is an error.
fn read(stream: &Stream, reader: u64) -> Result<Option<(u64, String)>, ()> {
    match stream.poll(reader, &mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Ok(None),
        Poll::Ready(None) => Err(()),
        Poll::Ready(Some(event)) => {
            let text = String::from_utf8(event.to_bytes().to_vec()).unwrap();
            let (id, rest) = text.strip_prefix("id: ").unwrap().split_once('\n').unwrap();
            let (tag, number) = place(id).unwrap();
            assert_eq!(tag, "tag-1");
            let data = rest.strip_prefix("event: message\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
            Ok(Some((number, data.to_owned())))
        }
    }
}

fn told(number: u64, text: &str) -> Result<Option<(u64, String)>, ()> {
    Ok(Some((number, text.to_owned())))
}

/// Covers: G-36: what was read is read again from behind any event; the reader before gets nothing more.
#[tokio::test]
async fn g_36_a_stream_is_taken_up_again() {
    let stream = stream(Purpose::Answer);
    for text in ["a", "b", "c"] {
        stream.push(text.into()).await;
    }
    let (first, before) = stream.attach(Some(0));
    assert_eq!(before, 0);
    assert_eq!(read(&stream, first), told(1, "a"));
    assert_eq!(read(&stream, first), told(2, "b"));
    let (second, before) = stream.attach(Some(1));
    assert_eq!(before, 1);
    assert_eq!(read(&stream, first), Err(()), "the old connection gets nothing more");
    assert_eq!(read(&stream, second), told(2, "b"));
    assert_eq!(read(&stream, second), told(3, "c"));
    assert_eq!(read(&stream, second), Ok(None));
    assert!(!stream.is_exhausted(3), "there may be more");
    stream.end(Some(last("end")));
    assert!(!stream.is_exhausted(3) && stream.is_exhausted(4) && stream.is_exhausted(u64::MAX));
    assert_eq!(read(&stream, second), told(4, "end"));
    assert_eq!(read(&stream, second), Err(()));
    let (third, _) = stream.attach(Some(u64::MAX));
    assert_eq!(read(&stream, third), Err(()), "behind all there is nothing");
    let (fourth, _) = stream.attach(Some(3));
    assert_eq!(read(&stream, fourth), told(4, "end"));
}

/// Covers: G-36, F-085: bounded by number and by bytes; the last word is never lost.
#[tokio::test]
async fn g_36_the_oldest_goes_first() {
    let many = stream(Purpose::Answer);
    for _ in 0..MOST_EVENTS + 10 {
        many.push("x".into()).await;
    }
    many.end(Some(last("end")));
    let (reader, before) = many.attach(Some(0));
    assert_eq!(before, 11, "eleven are gone");
    let mut count = 0;
    while let Ok(Some((_, text))) = read(&many, reader) {
        count += 1;
        assert_eq!(text == "end", count == MOST_EVENTS);
    }
    assert_eq!(count, MOST_EVENTS);

    let large = stream(Purpose::Answer);
    for _ in 0..5 {
        large.push(vec![b'x'; MOST_BYTES / 2].into()).await;
    }
    assert!(large.kept() <= MOST_BYTES + MOST_BYTES / 2, "{}", large.kept());
    large.end(Some(last("end")));
    let huge = stream(Purpose::Answer);
    huge.push(vec![b'x'; MOST_BYTES * 2].into()).await;
    assert!(huge.kept() > MOST_BYTES * 2, "the newest is kept, whatever its size");
}

/// The process keeps no more for all together: then only what was not read is kept.
#[tokio::test]
async fn replays_are_bounded_in_all() {
    let replay = Arc::new(Replay::new(0));
    let stream = Stream::new("tag-1".to_owned(), Purpose::Answer, &replay);
    let (reader, _) = stream.attach(Some(0));
    for text in ["a", "b", "c"] {
        stream.push(text.into()).await;
    }
    for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(read(&stream, reader), told(number, text), "nothing unread is lost");
    }
    let (again, before) = stream.attach(Some(0));
    assert_eq!((before, read(&stream, again)), (2, told(3, "c")), "what was read is gone");
    drop(stream);
    assert!(!replay.is_full(), "what a stream kept is given back");
}

/// Covers: S-39: who reads slowly slows down who speaks; who left does not.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_waited_for() {
    let stream = Arc::new(stream(Purpose::Answer));
    let (reader, _) = stream.attach(Some(0));
    for _ in 0..BACKLOG {
        stream.push("x".into()).now_or_never().expect("there is room");
    }
    let mut waiting = Box::pin(stream.push("late".into()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(read(&stream, reader), told(1, "x"));
    assert!(waiting.as_mut().now_or_never().is_some(), "room for one");
    let mut waiting = Box::pin(stream.push("later".into()));
    assert!(waiting.as_mut().now_or_never().is_none());
    stream.detach(reader);
    assert!(waiting.as_mut().now_or_never().is_some(), "nobody reads any more");
}

/// Covers: S-50, F-030: of two readers of a session's own stream the last is told; a third ends the first.
#[test]
fn s_50_only_one_is_told() {
    let stream = stream(Purpose::Changes);
    let (first, _) = stream.attach(None);
    stream.put("k", "a".into());
    assert_eq!(read(&stream, first), told(1, "a"));
    let (second, _) = stream.attach(None);
    stream.put("k", "b".into());
    assert_eq!(read(&stream, first), Ok(None));
    assert_eq!(read(&stream, second), told(2, "b"));
    stream.detach(second);
    stream.put("k", "c".into());
    assert_eq!(read(&stream, first), told(3, "c"));
    let (_second, _) = stream.attach(None);
    let (_third, _) = stream.attach(None);
    assert_eq!(read(&stream, first), Err(()));
}

/// Covers: S-51: while nobody reads, the same thing is said once.
#[test]
fn s_51_hints_are_kept_once() {
    let stream = stream(Purpose::Changes);
    for _ in 0..5 {
        stream.put("tools", "t".into());
        stream.put("prompts", "p".into());
    }
    let (reader, _) = stream.attach(None);
    assert_eq!((read(&stream, reader), read(&stream, reader)), (told(1, "t"), told(2, "p")));
    assert_eq!(read(&stream, reader), Ok(None));
    stream.detach(reader);
    stream.put("tools", "t".into());
    let (reader, _) = stream.attach(None);
    assert_eq!(read(&stream, reader), told(3, "t"), "again, once it was read");
}

/// Covers: H-12, A-16: the end alone is a whole answer; a stream is opened only for who may have an answer.
#[tokio::test(start_paused = true)]
async fn h_12_an_end_alone_is_the_answer() {
    let forever = std::future::pending::<()>;
    let plain = stream(Purpose::Answer);
    plain.end(Some(last("end")));
    assert!(matches!(plain.news(forever()).await, News::Plain(_)));
    let spoken = stream(Purpose::Answer);
    spoken.push("a".into()).await;
    spoken.end(Some(last("end")));
    assert!(matches!(spoken.news(forever()).await, News::Events));
    let muted = stream(Purpose::Answer);
    muted.mute();
    muted.push("a".into()).await;
    muted.end(Some(last("end")));
    assert!(matches!(muted.news(forever()).await, News::Plain(_)));
    let silent = stream(Purpose::Answer);
    silent.end(None);
    assert!(matches!(silent.news(forever()).await, News::Nothing));
    silent.end(Some(last("late")));
    assert!(matches!(silent.news(forever()).await, News::Nothing), "the first end counts");

    let slow = stream(Purpose::Answer);
    let patience = || tokio::time::sleep(Duration::from_secs(1));
    assert!(
        tokio::time::timeout(Duration::from_secs(60), slow.news(patience())).await.is_err(),
        "not admitted"
    );
    slow.admit();
    assert!(matches!(slow.news(patience()).await, News::Events), "opened, for want of an end");
    slow.end(Some(last("end")));
    let (reader, _) = slow.attach(Some(0));
    assert_eq!(read(&slow, reader), told(1, "end"), "then the end is an event");
}
