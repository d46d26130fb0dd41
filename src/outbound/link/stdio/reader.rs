//! Standard output of a child: each line to the inbox it belongs to; garbage is skipped, never fatal (F-041).

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::connection::{Shared, Why};
use super::counts::add;
use super::lines::Lines;
use crate::outbound::link::error::LinkError;
use crate::outbound::link::mux::{Garbage, Tally};

const BOM: &[u8] = b"\xef\xbb\xbf";

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
                return shared.close(LinkError::Overflow(shared.max_line));
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
        let counters = &self.shared.counters;
        if let Ok(tally) = self.shared.mux.deliver(&line).or_else(|_| self.behind_progress_bar(&line)) {
            add(&counters.dropped, tally.dropped);
            add(&counters.late, tally.late);
            add(&counters.skipped_lines, tally.garbage);
            return;
        }
        add(&counters.skipped_lines, 1);
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                server = &*self.shared.server,
                bytes = line.len(),
                "the server writes lines that are no JSON-RPC message to its output; they are skipped"
            );
        }
    }

    /// A message written behind `\r`-separated text that was never ended by a newline.
    fn behind_progress_bar(&self, line: &Bytes) -> Result<Tally, Garbage> {
        let at = memchr::memrchr(b'\r', line).ok_or(Garbage)?;
        let rest = trimmed(&line.slice(at + 1..));
        if rest.first() == Some(&b'{') { self.shared.mux.deliver(&rest) } else { Err(Garbage) }
    }
}

fn trimmed(line: &Bytes) -> Bytes {
    let text = line.trim_ascii();
    let text = text.strip_prefix(BOM).unwrap_or(text).trim_ascii();
    line.slice_ref(text)
}
