//! The line reader: its bound, what it keeps, and any chunking against a plain split.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::super::lines::{Line, Lines};

const CHUNK: usize = 16 << 10;

/// Gives its bytes in pieces of at most `step` and counts them.
struct Steps {
    data: Vec<u8>,
    at: Arc<AtomicUsize>,
    step: usize,
}

impl AsyncRead for Steps {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let at = self.at.load(Ordering::Relaxed);
        let end = (at + self.step.min(buf.remaining())).min(self.data.len());
        buf.put_slice(&self.data[at..end]);
        self.at.store(end, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

fn steps(data: Vec<u8>, step: usize) -> (Steps, Arc<AtomicUsize>) {
    let at = Arc::new(AtomicUsize::new(0));
    (Steps { data, at: Arc::clone(&at), step }, at)
}

async fn all(data: &[u8], step: usize, max: usize) -> Vec<Line> {
    let mut lines = Lines::new(steps(data.to_vec(), step).0, max);
    let mut found = Vec::new();
    while let Some(line) = lines.next().await.unwrap() {
        found.push(line);
    }
    found
}

/// What a plain split says.
fn expected(data: &[u8], max: usize) -> Vec<Line> {
    let mut pieces: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    if pieces.last().is_some_and(|last| last.is_empty()) {
        pieces.pop();
    }
    let line = |piece: &[u8]| Line {
        bytes: bytes::Bytes::copy_from_slice(&piece[..piece.len().min(max)]),
        truncated: piece.len() > max,
    };
    pieces.into_iter().map(line).collect()
}

/// F-040: 64 MiB without a newline: the line is given up as soon as the bound is passed, and nothing more is kept.
#[tokio::test]
async fn f040_an_endless_line_is_bounded() {
    const MAX: usize = 1 << 20;
    let total = 64 << 20;
    let (source, at) = steps(vec![b'x'; total], usize::MAX);
    let mut lines = Lines::new(source, MAX);
    let line = lines.next().await.unwrap().unwrap();
    assert!(line.truncated);
    assert_eq!(line.bytes.len(), MAX);
    assert!(at.load(Ordering::Relaxed) <= MAX + CHUNK, "stopped reading at the bound");
    drop(line);
    assert_eq!(lines.next().await.unwrap(), None, "the rest is thrown away");
    assert_eq!(at.load(Ordering::Relaxed), total, "but read");
    assert!(lines.capacity() <= 4 * CHUNK, "{} bytes kept", lines.capacity());
}

/// F-040: the capacity of one huge line is not kept after it.
#[tokio::test]
async fn f040_capacity_is_released_after_a_huge_line() {
    let mut data = vec![b'x'; 8 << 20];
    data.extend_from_slice(b"\nshort\n");
    let mut lines = Lines::new(data.as_slice().chain(tokio::io::empty()), 16 << 20);
    let huge = lines.next().await.unwrap().unwrap();
    assert_eq!((huge.bytes.len(), huge.truncated), (8 << 20, false));
    drop(huge);
    assert_eq!(lines.next().await.unwrap().unwrap().bytes, "short");
    assert_eq!(lines.next().await.unwrap(), None);
    assert!(lines.capacity() <= 4 * CHUNK, "{} bytes kept", lines.capacity());
}

#[tokio::test]
async fn a_line_of_exactly_the_bound_is_whole() {
    for step in [1, 3, 100] {
        let found = all(b"12345678\n123456789\n\n12345678", step, 8).await;
        assert_eq!(found, expected(b"12345678\n123456789\n\n12345678", 8));
        assert_eq!(found.iter().map(|line| line.truncated).collect::<Vec<_>>(), [false, true, false, false]);
    }
}

proptest! {
    /// Any bytes, however they arrive, split as a plain split does.
    #[test]
    fn lines_equal_a_plain_split(
        pieces in prop::collection::vec((0_usize..40_000, any::<bool>()), 0..6),
        step in 1_usize..50_000,
        max in 1_usize..30_000,
    ) {
        let mut data = Vec::new();
        for (len, newline) in pieces {
            data.extend((0..len).map(|i| b'a' + (i % 26) as u8));
            if newline {
                data.push(b'\n');
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        prop_assert_eq!(runtime.block_on(all(&data, step, max)), expected(&data, max));
    }
}
