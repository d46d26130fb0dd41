//! Standard output of a child: each line to the inbox it belongs to; garbage is skipped, never fatal (F-041).

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::connection::{Shared, Why};
use super::counts::add;
use super::error::LinkError;
use super::lines::Lines;
use crate::protocol::message::{Received, ReceivedKind};
use crate::protocol::object::{Object, Span, array};

const BOM: &[u8] = b"\xef\xbb\xbf";
const PROGRESS: &str = "notifications/progress";

/// Reads messages until the output ends or breaks its bound; then fails all that wait.
pub(super) async fn read(stdout: impl AsyncRead + Unpin, shared: &Shared) {
    let mut lines = Lines::new(stdout, shared.max_line);
    let mut router = Router { shared, warned: false };
    loop {
        match lines.next().await {
            Ok(Some(line)) if line.truncated => {
                add(&shared.counters.overflows, 1);
                tracing::error!(
                    server = &*shared.server,
                    max_bytes = shared.max_line,
                    "the server wrote a line longer than allowed; it is stopped"
                );
                shared.begin_stop(Why::Failure);
                return shared.close(LinkError::Overflow);
            }
            Ok(Some(line)) => router.line(&line.bytes),
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(server = &*shared.server, error = %error.kind(), "its output cannot be read");
                break;
            }
        }
    }
    // An end nobody asked for is a failure: no answer can come any more.
    shared.begin_stop(Why::Failure);
    shared.close_ended();
}

/// Not a JSON-RPC message.
struct Garbage;

struct Router<'s> {
    shared: &'s Shared,
    /// One warning a child; the counter has the rest.
    warned: bool,
}

impl Router<'_> {
    fn line(&mut self, line: &Bytes) {
        let line = trimmed(line);
        if line.is_empty() {
            return;
        }
        let done = match line.first() {
            Some(b'[') => self.batch(&line),
            Some(b'{') => self.message(line.clone()),
            _ => Err(Garbage),
        };
        if done.is_ok() || self.behind_progress_bar(&line).is_ok() {
            return;
        }
        add(&self.shared.counters.skipped_lines, 1);
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                server = &*self.shared.server,
                bytes = line.len(),
                "the server writes lines that are no JSON-RPC message to its output; they are skipped"
            );
        }
    }

    /// A message written behind `\r`-separated text that was never ended by a newline.
    fn behind_progress_bar(&self, line: &Bytes) -> Result<(), Garbage> {
        let at = memchr::memrchr(b'\r', line).ok_or(Garbage)?;
        let rest = trimmed(&line.slice(at + 1..));
        if rest.first() == Some(&b'{') { self.message(rest) } else { Err(Garbage) }
    }

    /// An array of messages (2025-03-26, G-48).
    fn batch(&self, line: &Bytes) -> Result<(), Garbage> {
        let text = std::str::from_utf8(line).map_err(|_| Garbage)?;
        let elements = array(text, Span::new(0, text.len())).map_err(|_| Garbage)?;
        for element in elements {
            if self.message(line.slice(element.range())).is_err() {
                add(&self.shared.counters.skipped_lines, 1);
            }
        }
        Ok(())
    }

    fn message(&self, body: Bytes) -> Result<(), Garbage> {
        let message = match Received::parse(body.clone()) {
            Ok(message) => message,
            Err(_) => return self.malformed(&body),
        };
        let Some(id) = belongs_to(&message) else {
            if !self.shared.offer_unclaimed(message) {
                add(&self.shared.counters.dropped, 1);
            }
            return Ok(());
        };
        let progress = matches!(message.kind, ReceivedKind::Notification { .. });
        let waiter = number(&id).and_then(|id| match progress {
            true => self.shared.waiter(id),
            false => self.shared.claim(id),
        });
        match waiter {
            Some(waiter) if progress => {
                if !waiter.offer(message) {
                    add(&self.shared.counters.dropped, 1);
                }
            }
            Some(waiter) => waiter.finish(message),
            None => add(&self.shared.counters.late, 1),
        }
        Ok(())
    }

    /// An object that is no message. Where it names ids that are waited for, their wait is over.
    fn malformed(&self, body: &Bytes) -> Result<(), Garbage> {
        let text = std::str::from_utf8(body).map_err(|_| Garbage)?;
        let object = Object::parse(text, Span::new(0, text.len())).map_err(|_| Garbage)?;
        if object.members.iter().any(|member| member.name(text) == "method") {
            return Err(Garbage);
        }
        let ids = object.members.iter().filter(|member| member.name(text) == "id");
        let mut waiters =
            ids.filter_map(|id| self.shared.claim(number(id.value.of(text).as_bytes())?)).peekable();
        if waiters.peek().is_none() {
            return Err(Garbage);
        }
        waiters.for_each(|waiter| waiter.fail(LinkError::Malformed));
        Ok(())
    }
}

/// The text of the id or progress token that decides whose message this is.
fn belongs_to(message: &Received) -> Option<Bytes> {
    match &message.kind {
        ReceivedKind::Result { id, .. } | ReceivedKind::Error { id: Some(id), .. } => Some(id.clone()),
        ReceivedKind::Notification { method, params: Some(params) } if &**method == PROGRESS => {
            let token = params.get(message.text(), "progressToken").ok()??;
            Some(message.body.as_bytes().slice(token.range()))
        }
        _ => None,
    }
}

/// One of our ids. A server that keeps numbers as doubles may write `5.0`; it is the same number.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

fn trimmed(line: &Bytes) -> Bytes {
    let text = line.trim_ascii();
    let text = text.strip_prefix(BOM).unwrap_or(text).trim_ascii();
    line.slice_ref(text)
}
