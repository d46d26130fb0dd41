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
    /// The first `data:` line, as long as it is the only one.
    data: Option<Bytes>,
    /// All of them, once there are two.
    joined: BytesMut,
    /// Bytes kept for the current event.
    size: usize,
    limit: usize,
    /// What follows a refused event must not pass for one.
    failed: bool,
}

/// Room for the name of a field in front of a value that just fits.
const FIELD: usize = 8;

impl Parser {
    /// A parser that refuses events of more than `limit` bytes of values (comments do not add up), and
    /// any line much longer.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            after_cr: false,
            at_start: true,
            current: Event::default(),
            data: None,
            joined: BytesMut::new(),
            size: 0,
            limit,
            failed: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event. Comments, and events without data, id and retry, are skipped. After an
    /// error there is nothing but that error.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLarge> {
        if self.failed {
            return Err(TooLarge);
        }
        let event = self.event();
        self.failed = event.is_err();
        event
    }

    fn event(&mut self) -> Result<Option<Event>, TooLarge> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                if let Some(event) = self.finish() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.bound(line.len(), FIELD)?;
            self.field(&line);
            self.bound(0, 0)?;
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
            return self.bound(self.searched, FIELD).map(|()| None);
        };
        let end = self.searched + found;
        self.searched = 0;
        self.after_cr = self.buffer[end] == b'\r';
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        Ok(Some(line.freeze()))
    }

    /// The same bound for a line's beginning as for the whole line: how a stream is cut changes nothing.
    const fn bound(&self, more: usize, slack: usize) -> Result<(), TooLarge> {
        if self.size + more > self.limit.saturating_add(slack) { Err(TooLarge) } else { Ok(()) }
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
        match name {
            b"data" => self.add_data(value),
            b"event" => self.current.event = self.text(&value),
            b"id" if !value.contains(&0) => self.current.id = Some(self.text(&value)),
            b"retry" => self.current.retry = millis(&value).or(self.current.retry),
            _ => {}
        }
    }

    fn text(&mut self, value: &[u8]) -> String {
        self.size += value.len();
        String::from_utf8_lossy(value).into_owned()
    }

    fn add_data(&mut self, value: Bytes) {
        self.size += value.len();
        match self.data.take() {
            None if self.joined.is_empty() => {
                self.data = Some(value);
                return;
            }
            None => {}
            Some(first) => self.joined.extend_from_slice(&first),
        }
        self.size += 1;
        self.joined.extend_from_slice(b"\n");
        self.joined.extend_from_slice(&value);
    }

    fn finish(&mut self) -> Option<Event> {
        self.size = 0;
        let mut event = std::mem::take(&mut self.current);
        let data = match self.data.take() {
            Some(only) => Some(only),
            None if self.joined.is_empty() => None,
            None => Some(std::mem::take(&mut self.joined).freeze()),
        };
        if data.is_none() && event.id.is_none() && event.retry.is_none() {
            return None;
        }
        event.data = data.unwrap_or_default();
        Some(event)
    }
}

/// Digits only; anything else is no `retry:` at all.
fn millis(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}
