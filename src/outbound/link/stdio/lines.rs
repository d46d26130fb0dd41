//! Lines of a child's output, never more of one in memory than its bound (G-50, F-040).

use std::io;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes asked for in one read.
const CHUNK: usize = 16 << 10;
/// Lines up to this are copied out, so that a small kept message does not hold a whole chunk.
const COPIED: usize = 4 << 10;
/// A buffer that held a line longer than this is given up with it: its capacity does not stay.
const KEPT: usize = 64 << 10;

/// One line without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its bytes, at most the bound.
    pub(super) bytes: Bytes,
    /// It was longer than the bound: the rest was, or will be, thrown away.
    pub(super) truncated: bool,
}

/// Splits a stream at `\n`. The last line needs none.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: R,
    max: usize,
    buffer: BytesMut,
    /// Bytes of `buffer` known to hold no newline.
    scanned: usize,
    /// The rest of a truncated line is thrown away.
    discarding: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads `source` in lines of at most `max` bytes.
    pub(super) fn new(source: R, max: usize) -> Self {
        Self { source, max, buffer: BytesMut::new(), scanned: 0, discarding: false, ended: false }
    }

    /// The next line; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            let read = self.source.read_buf(&mut (&mut self.buffer).limit(CHUNK)).await?;
            if read == 0 {
                self.ended = true;
                return Ok(self.rest());
            }
        }
    }

    /// A line that is complete, or too long, in what was read.
    fn buffered(&mut self) -> Option<Line> {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            let end = self.scanned + at;
            if std::mem::take(&mut self.discarding) {
                self.skip(end + 1);
                continue;
            }
            let bytes = self.cut(end.min(self.max));
            self.skip(end - bytes.len() + 1);
            return Some(Line { truncated: end > self.max, bytes });
        }
        if self.discarding {
            self.skip(self.buffer.len());
        } else if self.buffer.len() > self.max {
            let bytes = self.cut(self.max);
            self.skip(self.buffer.len());
            self.discarding = true;
            return Some(Line { bytes, truncated: true });
        }
        self.scanned = self.buffer.len();
        None
    }

    /// What stands behind the last newline.
    fn rest(&mut self) -> Option<Line> {
        if self.buffer.is_empty() || self.discarding {
            return None;
        }
        Some(Line { bytes: self.cut(self.buffer.len()), truncated: false })
    }

    fn cut(&mut self, len: usize) -> Bytes {
        self.scanned = 0;
        if len <= COPIED {
            let bytes = Bytes::copy_from_slice(&self.buffer[..len]);
            self.buffer.advance(len);
            return bytes;
        }
        let bytes = self.buffer.split_to(len).freeze();
        if len > KEPT {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        bytes
    }

    fn skip(&mut self, len: usize) {
        self.scanned = 0;
        self.buffer.advance(len);
    }

    /// Bytes the buffer could hold without asking for more.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}
