//! The event parser against the format's own description, read in one piece.

use crate::protocol::sse::{CLOSE, Event, OPEN, Parser, TooLarge};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{Index, select};

/// Everything a parser says of a stream that arrives in these chunks.
fn events<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> (Vec<Event>, Option<TooLarge>) {
    let (mut parser, mut found) = (Parser::new(limit), Vec::new());
    for chunk in chunks {
        parser.push(chunk);
        loop {
            match parser.next_event() {
                Ok(Some(event)) => found.push(event),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.next_event(), Err(TooLarge), "it stays an error");
                    return (found, Some(error));
                }
            }
        }
    }
    (found, None)
}

fn all(stream: &str) -> Vec<Event> {
    let (found, error) = events([stream.as_bytes()], 1000);
    assert_eq!(error, None);
    found
}

fn data(text: &str) -> Event {
    Event { data: Bytes::copy_from_slice(text.as_bytes()), ..Event::default() }
}

#[test]
fn h66_fields_line_ends_and_comments() {
    for (stream, expected) in [
        ("data: a\n\n", vec![data("a")]),
        ("data:a\r\n\r\n", vec![data("a")]),
        ("data:  a\r\r", vec![data(" a")]),
        ("\u{feff}data: a\n\n", vec![data("a")]),
        ("\u{feff}\u{feff}data: a\n\n", vec![]),
        ("data: a\ndata: b\r\ndata\rdata:c\n\n", vec![data("a\nb\n\nc")]),
        ("data\n\n", vec![data("")]),
        ("data\ndata\n\n", vec![data("\n")]),
        (":c\n\n: c\ndata: a\n:\n\n\n\n", vec![data("a")]),
        ("event: x\n\ndata: a\n\n", vec![data("a")]),
        ("Data: a\n data: b\nother: c\n\n", vec![]),
        ("data: a\n", vec![]),
        ("data: a\n\ndata: b", vec![data("a")]),
        ("data: a:b\n\n", vec![data("a:b")]),
        ("retry: 10\n\n", vec![Event { retry: Some(10), ..Event::default() }]),
        ("retry: 10\nretry: x\nretry: +5\nretry:\n\n", vec![Event { retry: Some(10), ..Event::default() }]),
        ("id: 1\ndata:\n\n", vec![Event { id: Some("1".to_owned()), ..Event::default() }]),
        ("id: \0\n\n", vec![]),
    ] {
        assert_eq!(all(stream), expected, "{stream:?}");
    }
    let event = Event { event: "message".to_owned(), ..data("{}") };
    assert_eq!(all(&[OPEN, b"{}", CLOSE].concat().escape_ascii().to_string().replace("\\n", "\n")), [event]);
}

#[test]
fn events_are_bounded_and_comments_are_free() {
    let (exact, over) = (format!("data: {}\n\n", "x".repeat(20)), format!("data: {}\n\n", "x".repeat(21)));
    assert_eq!(events([exact.as_bytes()], 20).0.len(), 1, "a value of just the limit");
    assert_eq!(events([over.as_bytes()], 20), (vec![], Some(TooLarge)));
    assert_eq!(events(["x".repeat(29).as_bytes()], 20), (vec![], Some(TooLarge)), "a line without end");
    assert_eq!(events(["data\n".repeat(22).as_bytes()], 20), (vec![], Some(TooLarge)), "empty lines add up");
    let ids = "id: 12345678\n".repeat(3);
    assert_eq!(events([ids.as_bytes()], 20), (vec![], Some(TooLarge)));

    let quiet = [": ping\n".repeat(1000), "data: a\n\n".to_owned()].concat();
    assert_eq!(events([quiet.as_bytes()], 20), (vec![data("a")], None), "no event grows by keep-alives");
    let many = exact.repeat(50);
    assert_eq!(events([many.as_bytes()], 20).0.len(), 50);
}

/// The format as its specification tells it, over the whole stream at once.
fn by_the_book(stream: &[u8]) -> Vec<Event> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let (mut lines, mut line, mut rest) = (Vec::new(), Vec::new(), stream);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\r' | b'\n' => {
                if *byte == b'\r' {
                    rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                }
                lines.push(std::mem::take(&mut line));
            }
            other => line.push(*other),
        }
    }
    let (mut events, mut event, mut datas) = (Vec::new(), Event::default(), Vec::<Vec<u8>>::new());
    for line in lines {
        let mut halves = line.splitn(2, |b| *b == b':');
        let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => datas.push(value.to_vec()),
            b"event" => event.event = text,
            b"id" if !value.contains(&0) => event.id = Some(text),
            b"retry" if text.bytes().all(|b| b.is_ascii_digit()) => {
                event.retry = text.parse().ok().or(event.retry)
            }
            _ => {}
        }
        if line.is_empty() {
            let mut done = std::mem::take(&mut event);
            let lines = std::mem::take(&mut datas);
            done.data = lines.join(&b'\n').into();
            if !lines.is_empty() || done.id.is_some() || done.retry.is_some() {
                events.push(done);
            }
        }
    }
    events
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        6 => select(vec!["\n", "\r", "\r\n", "\n\n"]).prop_map(str::as_bytes).prop_map(<[u8]>::to_vec),
        4 => select(vec!["data", "data:", "data: ", "event:", "id: ", "retry:", ":", " ", "7", "x", "{\"a\":1}", "\u{feff}"])
            .prop_map(str::as_bytes).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

/// `stream` in pieces.
fn cut<'a>(stream: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    at.sort_unstable();
    at.push(stream.len());
    let mut from = 0;
    at.iter().map(|to| &stream[std::mem::replace(&mut from, *to)..*to]).collect()
}

proptest! {
    #[test]
    fn h66_any_stream_in_any_pieces(stream in stream(), cuts in vec(any::<Index>(), 0..12)) {
        let expected = by_the_book(&stream);
        prop_assert_eq!(&events([&stream[..]], 10_000), &(expected.clone(), None));
        prop_assert_eq!(&events(cut(&stream, &cuts), 10_000), &(expected.clone(), None));
        prop_assert_eq!(events(stream.chunks(1), 10_000), (expected, None));
    }

    #[test]
    fn the_bound_does_not_depend_on_the_pieces(stream in stream(), cuts in vec(any::<Index>(), 0..12), limit in 0_usize..12) {
        let whole = events([&stream[..]], limit);
        prop_assert_eq!(&events(cut(&stream, &cuts), limit), &whole);
        prop_assert_eq!(&events(stream.chunks(1), limit), &whole);
        prop_assert_eq!(events([&stream[..]], 10_000).0[..whole.0.len()].to_vec(), whole.0);
    }
}
