//! Standard error of a child: always drained, logged line by line within a rate (G-51, F-040).

use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::counts::{Counters, add};
use super::lines::Lines;
use crate::config::Secret;

/// Longer lines are truncated.
const MAX_LINE: usize = 8 << 10;
/// Lines in one go, and then a second.
const BURST: f64 = 100.0;
const PER_SECOND: f64 = 20.0;
/// Shorter values are too likely to be ordinary words.
const MIN_SECRET: usize = 8;

/// Whose standard error it is, and what must not be seen of it.
pub(super) struct Voice {
    pub(super) server: Arc<str>,
    /// Values of `env`: a child that prints its own environment does not put them into our log.
    pub(super) secrets: Vec<Secret>,
    pub(super) counters: Arc<Counters>,
}

/// Drains to the end. What the rate keeps out of the log is counted, and said with the next line.
pub(super) async fn drain(stderr: impl AsyncRead + Unpin, voice: Voice) {
    let mut lines = Lines::new(stderr, MAX_LINE);
    let mut budget = Budget::new(Instant::now());
    let mut suppressed = 0_u64;
    while let Ok(Some(line)) = lines.next().await {
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        if !budget.allows(Instant::now()) {
            suppressed += 1;
            add(&voice.counters.suppressed, 1);
            continue;
        }
        say_suppressed(&voice, std::mem::take(&mut suppressed));
        let text = voice.clean(&line.bytes);
        tracing::info!(server = &*voice.server, line = %text, truncated = line.truncated, "stderr");
    }
    say_suppressed(&voice, suppressed);
}

fn say_suppressed(voice: &Voice, lines: u64) {
    if lines > 0 {
        tracing::info!(server = &*voice.server, lines, "stderr: too many lines, these were left out");
    }
}

impl Voice {
    /// Text without secrets and without control characters that a terminal would obey.
    fn clean(&self, line: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        for secret in self.secrets.iter().map(Secret::expose).filter(|value| value.len() >= MIN_SECRET) {
            if text.contains(secret) {
                text = text.replace(secret, "[secret]");
            }
        }
        text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
    }
}

/// A token bucket.
#[derive(Debug)]
struct Budget {
    tokens: f64,
    at: Instant,
}

impl Budget {
    const fn new(now: Instant) -> Self {
        Self { tokens: BURST, at: now }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * PER_SECOND).min(BURST);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn f040_the_log_rate_is_a_burst_and_then_twenty_a_second() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert_eq!((0..1000).filter(|_| budget.allows(start)).count(), 100);
        let later = start + Duration::from_secs(2);
        assert_eq!((0..1000).filter(|_| budget.allows(later)).count(), 40);
        let much_later = later + Duration::from_secs(3600);
        assert_eq!((0..1000).filter(|_| budget.allows(much_later)).count(), 100);
    }

    #[test]
    fn secrets_and_control_characters_do_not_reach_the_log() {
        let voice = Voice {
            server: "s".into(),
            secrets: vec![Secret::new("hunter2hunter2"), Secret::new("on")],
            counters: Arc::default(),
        };
        let text = voice.clean(b"key=hunter2hunter2 on\t\x1b[31mred\xff\r");
        assert_eq!(text, "key=[secret] on\t\u{fffd}[31mred\u{fffd}");
    }
}
