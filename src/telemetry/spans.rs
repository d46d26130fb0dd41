//! Spans in the making, and the bounded way on which the finished ones go to the exporter; no request waits for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use prometheus::IntCounter;
use tokio::sync::{Notify, mpsc, oneshot};

use super::trace::TraceContext;

/// Finished spans that may wait for the exporter.
const QUEUE: usize = 8192;
/// Spans that are sent together.
pub(super) const BATCH: usize = 512;

/// The way to the exporter; cloned freely.
#[derive(Debug, Clone)]
pub struct Spans {
    sender: mpsc::Sender<Waiting>,
    /// Wakes the exporter before its time: single spans do not.
    hurry: Arc<Notify>,
    dropped: IntCounter,
}

/// What waits for the exporter.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A finished span.
    Span(Box<Span>),
    /// Everything before this is to be sent at once; then it is said.
    Flush(oneshot::Sender<()>),
}

impl Spans {
    /// The way, and its other end; `dropped` counts spans that are lost.
    pub(super) fn new(dropped: &IntCounter) -> (Self, mpsc::Receiver<Waiting>, Arc<Notify>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let hurry = Arc::<Notify>::default();
        (Self { sender, hurry: Arc::clone(&hurry), dropped: dropped.clone() }, receiver, hurry)
    }

    /// Hands a finished span over; never waits.
    pub fn send(&self, span: Span) {
        if self.sender.try_send(Waiting::Span(Box::new(span))).is_err() {
            self.dropped.inc();
        }
        // The first of a batch has been taken already.
        if QUEUE - self.sender.capacity() >= BATCH - 1 {
            self.hurry.notify_one();
        }
    }

    /// Returns when everything handed over before was sent, or given up.
    pub async fn flush(&self) {
        let (sender, done) = oneshot::channel();
        if self.sender.send(Waiting::Flush(sender)).await.is_ok() {
            self.hurry.notify_one();
            let _ = done.await;
        }
    }
}

/// Which end of a request a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A client asks us.
    Server,
    /// We ask a server.
    Client,
}

/// One span; it ends when it is handed over.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its place in its trace.
    pub context: TraceContext,
    parent: Option<Parent>,
    side: Side,
    name: Cow<'static, str>,
    start: SystemTime,
    end: SystemTime,
    attributes: Vec<KeyValue>,
    failed: bool,
    link: Option<TraceContext>,
}

#[derive(Debug, Clone, Copy)]
struct Parent {
    id: [u8; 8],
    remote: bool,
}

impl Span {
    /// The span of a client's request, under the client's own, where there is one.
    pub fn of_request(parent: Option<&TraceContext>, method: &'static str) -> Self {
        let context = parent.map_or_else(|| TraceContext::fresh(true), TraceContext::child);
        let parent = parent.map(|parent| Parent { id: parent.span_id, remote: true });
        Self::new(context, parent, Side::Server, method)
    }

    /// The span of the request to a server that this one leads to.
    pub fn leg(&self, method: &'static str) -> Self {
        let parent = Parent { id: self.context.span_id, remote: false };
        Self::new(self.context.child(), Some(parent), Side::Client, method)
    }

    fn new(context: TraceContext, parent: Option<Parent>, side: Side, method: &'static str) -> Self {
        let now = SystemTime::now();
        let mut attributes = Vec::with_capacity(12);
        attributes.push(KeyValue::new("mcp.method.name", method));
        let name = Cow::Borrowed(method);
        Self { context, parent, side, name, start: now, end: now, attributes, failed: false, link: None }
    }

    /// What it is about, by a name of few: it goes into the span's own name.
    pub fn about(&mut self, key: &'static str, target: Arc<str>) {
        self.name = [&*self.name, &*target].join(" ").into();
        self.set(key, target);
    }

    /// Something that is known of it.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push(KeyValue::new(key, value.into()));
    }

    /// Another trace that it has to do with.
    pub fn link(&mut self, other: TraceContext) {
        self.link = Some(other);
    }

    /// What kind of failure it was (`error.type`).
    pub fn fail(&mut self, kind: impl Into<Value>) {
        self.failed = true;
        self.set("error.type", kind);
    }

    /// It is over.
    pub fn end(&mut self) {
        self.end = SystemTime::now();
    }

    /// As the exporter takes it.
    pub(super) fn data(self, scope: &InstrumentationScope) -> SpanData {
        let mut links = SpanLinks::default();
        links.links.extend(self.link.map(|other| Link::new(context(&other, true), Vec::new(), 0)));
        SpanData {
            span_context: context(&self.context, false),
            parent_span_id: self.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.id)),
            parent_span_is_remote: self.parent.is_some_and(|parent| parent.remote),
            span_kind: match self.side {
                Side::Server => SpanKind::Server,
                Side::Client => SpanKind::Client,
            },
            name: self.name,
            start_time: self.start,
            end_time: self.end,
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            // What went wrong is said by `error.type`: messages of servers can hold anything.
            status: if self.failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: scope.clone(),
        }
    }
}

fn context(own: &TraceContext, remote: bool) -> SpanContext {
    let state = own.state.as_deref().and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    let flags = if own.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace, span) = (TraceId::from_bytes(own.trace_id), SpanId::from_bytes(own.span_id));
    SpanContext::new(trace, span, flags, remote, state)
}
