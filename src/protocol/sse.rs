//! Server-sent events: written per message, and split out of arriving chunks whatever their line endings (H-66).

use bytes::{Bytes, BytesMut};

/// A keep-alive comment (H-73).
pub const KEEP_ALIVE: &[u8] = b":\n\n";
/// What stands before a message.
pub const OPEN: &[u8] = b"event: message\ndata: ";
/// What stands after it.
pub const CLOSE: &[u8] = b"\n\n";

/// One received event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// `event:`; empty means `message`.
    pub event: String,
    /// `data:` lines joined by a newline.
    pub data: Bytes,
    /// `id:`, when the event had one.
    pub id: Option<String>,
    /// `retry:` in milliseconds, when the event had one.
    pub retry: Option<u64>,
}

/// An event grew beyond its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than allowed")]
pub struct TooLarge;

/// An incremental parser: chunks in, events out; bounded.
#[derive(Debug)]
pub struct Parser {
    buffer: BytesMut,
    /// Everything before it was searched for a line end already.
    searched: usize,
    /// A CR ended the last line: one LF that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    current: Event,
    data: Vec<Bytes>,
    size: usize,
    limit: usize,
}

impl Parser {
    /// A parser that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            after_cr: false,
            at_start: true,
            current: Event::default(),
            data: Vec::new(),
            size: 0,
            limit,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event. Comments, and events without data, id and retry, are skipped.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLarge> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                if let Some(event) = self.finish() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.size += line.len();
            if self.size > self.limit {
                return Err(TooLarge);
            }
            self.field(&line);
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        if self.after_cr && !self.buffer.is_empty() {
            self.after_cr = false;
            if self.buffer[0] == b'\n' {
                self.drop_front(1);
            }
        }
        if self.at_start && !self.strip_bom() {
            return Ok(None);
        }
        let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return if self.size + self.searched > self.limit { Err(TooLarge) } else { Ok(None) };
        };
        let end = self.searched + found;
        self.searched = 0;
        self.after_cr = self.buffer[end] == b'\r';
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        Ok(Some(line.freeze()))
    }

    /// Removes a byte order mark; `false` while too little has arrived to know.
    fn strip_bom(&mut self) -> bool {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) {
            return false;
        }
        self.at_start = false;
        if self.buffer.starts_with(BOM) {
            self.drop_front(BOM.len());
        }
        true
    }

    fn drop_front(&mut self, count: usize) {
        let _ = self.buffer.split_to(count);
        self.searched = self.searched.saturating_sub(count);
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line);
        let name = &line[..colon.unwrap_or(line.len())];
        let mut value = colon.map_or_else(Bytes::new, |at| line.slice(at + 1..));
        if value.first() == Some(&b' ') {
            value = value.slice(1..);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match name {
            b"data" => self.data.push(value),
            b"event" => self.current.event = text(&value),
            b"id" if !value.contains(&0) => self.current.id = Some(text(&value)),
            b"retry" => self.current.retry = std::str::from_utf8(&value).ok().and_then(|v| v.parse().ok()),
            _ => {}
        }
    }

    fn finish(&mut self) -> Option<Event> {
        self.size = 0;
        let data = std::mem::take(&mut self.data);
        let mut event = std::mem::take(&mut self.current);
        if data.is_empty() && event.id.is_none() && event.retry.is_none() {
            return None;
        }
        event.data = match data.as_slice() {
            [one] => one.clone(),
            lines => lines.join(&b'\n').into(),
        };
        Some(event)
    }
}
