//! An answer's events, as they are looked at.

use futures_util::FutureExt as _;

use super::*;

/// An answer with all of this in one piece.
fn events(text: String) -> Answer {
    Answer {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        last_event_id: None,
        retry: None,
        heard: Instant::now(),
        body: AnswerBody::Events(Body::from(Bytes::from(text)), Box::new(sse::Parser::new(1 << 20))),
        unread: Bytes::new(),
        held: Budget::new(1 << 30).hold(),
        max_result: 1 << 20,
    }
}

/// A server that floods with comments takes no more than its turns.
#[tokio::test]
async fn a_flood_of_comments_lets_others_have_their_turn() {
    let mut answer = events(format!("{}data: x\n\n", ":\n\n".repeat(SLICE)));
    let mut turns = 0;
    let event = loop {
        // Given up between two turns, it goes on where it was.
        match answer.next_event().now_or_never() {
            Some(event) => break event,
            None => turns += 1,
        }
        assert!(turns < 100);
    };
    assert_eq!(event.unwrap().unwrap().data, "x");
    assert!(turns >= 3, "{turns}");
    assert!(answer.next_event().await.unwrap().is_none());
}

#[tokio::test]
async fn what_is_short_is_there_at_once() {
    let mut answer = events(format!("{}data: x\n\n", ":\n\n".repeat(SLICE / 10)));
    assert_eq!(answer.next_event().now_or_never().unwrap().unwrap().unwrap().data, "x");
}
