//! Finished spans to a collector, in batches. One that cannot be reached costs spans, which are counted, and two lines
//! of the log: when it is lost, and when it is found again.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prometheus::IntCounter;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::spans::{BATCH, Spans, Waiting};

/// How long the first of them waits for others.
const LINGER: Duration = Duration::from_secs(1);

/// What sends; [`Sending::run`] it as a task.
#[derive(Debug)]
pub struct Sending {
    receiver: mpsc::Receiver<Waiting>,
    /// There is a whole batch, or somebody waits.
    hurry: Arc<Notify>,
    dropped: IntCounter,
    scope: InstrumentationScope,
    lost: bool,
}

/// The way for spans and what sends them; `dropped` counts those that are lost.
pub fn spans(dropped: &IntCounter) -> (Spans, Sending) {
    let (spans, receiver, hurry) = Spans::new(dropped);
    let scope = InstrumentationScope::builder("gatehouse").with_version(env!("CARGO_PKG_VERSION")).build();
    (spans, Sending { receiver, hurry, dropped: dropped.clone(), scope, lost: false })
}

impl Sending {
    /// Sends until nobody is left who could hand over a span.
    pub async fn run(mut self, exporter: impl SpanExporter) {
        while let Some(first) = self.receiver.recv().await {
            let (batch, flushed) = self.gather(first).await;
            if !batch.is_empty() {
                self.send(&exporter, batch).await;
            }
            if let Some(flushed) = flushed {
                let _ = flushed.send(());
            }
        }
    }

    /// This one and those that come soon.
    async fn gather(&mut self, first: Waiting) -> (Vec<SpanData>, Option<oneshot::Sender<()>>) {
        let until = Instant::now() + LINGER;
        let mut batch = Vec::new();
        let mut next = Some(first);
        let mut over = false;
        loop {
            match next {
                Some(Waiting::Span(span)) => batch.push(span.data(&self.scope)),
                Some(Waiting::Flush(flushed)) => return (batch, Some(flushed)),
                None if over => return (batch, None),
                None => {
                    let hurried = timeout_at(until, self.hurry.notified()).await;
                    // Nobody left is a reason as well.
                    over = hurried.is_err() || self.receiver.is_closed();
                }
            }
            if batch.len() == BATCH {
                return (batch, None);
            }
            next = self.receiver.try_recv().ok();
        }
    }

    async fn send(&mut self, exporter: &impl SpanExporter, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        match exporter.export(batch).await {
            Ok(()) if self.lost => {
                self.lost = false;
                tracing::info!("the collector of telemetry.otlp takes traces again");
            }
            Ok(()) => {}
            Err(error) => {
                self.dropped.inc_by(count);
                if !self.lost {
                    self.lost = true;
                    let error = match error {
                        OTelSdkError::InternalFailure(why) => why,
                        other => other.to_string(),
                    };
                    tracing::warn!(%error, "the collector of telemetry.otlp takes no traces: they are dropped");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
    use opentelemetry_sdk::trace::{SpanData, SpanExporter};
    use prometheus::IntCounter;
    use tokio::task::yield_now;
    use tokio::time::Instant;

    use super::super::spans::Span;
    use super::{BATCH, spans};

    #[derive(Debug, Default, Clone)]
    struct Collector {
        away: Arc<AtomicBool>,
        batches: Arc<Mutex<Vec<usize>>>,
    }

    impl SpanExporter for Collector {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            if self.away.load(Ordering::SeqCst) {
                return Err(OTelSdkError::InternalFailure("away".to_owned()));
            }
            self.batches.lock().unwrap().push(batch.len());
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spans_go_out_in_batches_and_what_is_lost_is_counted() {
        let dropped = IntCounter::new("dropped", "for a test").unwrap();
        let (spans, sending) = spans(&dropped);
        let collector = Collector::default();
        for _ in 0..BATCH + 3 {
            spans.send(Span::of_request(None, "tools/call"));
        }
        let script = async {
            spans.flush().await;
            assert_eq!(*collector.batches.lock().unwrap(), [BATCH, 3]);
            collector.away.store(true, Ordering::SeqCst);
            spans.send(Span::of_request(None, "tools/call"));
            spans.flush().await;
            assert_eq!(dropped.get(), 1);
            collector.away.store(false, Ordering::SeqCst);
            spans.send(Span::of_request(None, "tools/call"));
            // Without a flush it goes by itself, and the work ends with the last who could hand one over.
            drop(spans);
        };
        tokio::join!(sending.run(collector.clone()), script);
        assert_eq!(*collector.batches.lock().unwrap(), [BATCH, 3, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_batch_waits_for_nobody() {
        let dropped = IntCounter::new("dropped", "for a test").unwrap();
        let (spans, sending) = spans(&dropped);
        let collector = Collector::default();
        let began = Instant::now();
        let script = async {
            spans.send(Span::of_request(None, "tools/call"));
            // It waits for others by now.
            yield_now().await;
            (1..BATCH).for_each(|_| spans.send(Span::of_request(None, "tools/call")));
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(*collector.batches.lock().unwrap(), [BATCH]);
            assert_eq!(began.elapsed(), Duration::ZERO);
            drop(spans);
        };
        tokio::join!(sending.run(collector.clone()), script);
    }

    #[tokio::test]
    async fn what_nobody_takes_is_dropped_and_counted() {
        let dropped = IntCounter::new("dropped", "for a test").unwrap();
        let (spans, sending) = spans(&dropped);
        for _ in 0..8192 + 5 {
            spans.send(Span::of_request(None, "tools/call"));
        }
        assert_eq!(dropped.get(), 5);
        drop(sending);
        spans.send(Span::of_request(None, "tools/call"));
        assert_eq!(dropped.get(), 6);
        spans.flush().await;
    }
}
