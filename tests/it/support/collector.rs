//! A small collector: takes traces by OTLP over HTTP, as the test says, and keeps them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use tokio::net::TcpListener;

use super::eventually;

/// One span as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Got {
    pub(crate) service: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty: it has none.
    pub(crate) parent: String,
    pub(crate) name: String,
    /// `server` or `client`.
    pub(crate) side: &'static str,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) failed: bool,
    /// Traces it is linked to.
    pub(crate) links: Vec<String>,
    pub(crate) nanos: u64,
}

impl Got {
    /// An attribute, empty without one.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }
}

/// A running collector.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spans: Mutex<Vec<Got>>,
    status: AtomicU16,
    asked: Mutex<Vec<HeaderMap>>,
}

impl Collector {
    /// One that takes everything.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener)
    }

    /// The same on a socket that is bound already.
    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            spans: Mutex::default(),
            status: AtomicU16::new(200),
            asked: Mutex::default(),
        });
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared }
    }

    /// What `telemetry.otlp` is to be.
    pub(crate) fn toml(&self) -> String {
        format!("[telemetry]\notlp = \"http://{}\"\n", self.address)
    }

    /// Answers with this status from now on; nothing is kept with another than 200.
    pub(crate) fn answer(&self, status: u16) {
        self.shared.status.store(status, Ordering::SeqCst);
    }

    /// Every span so far.
    pub(crate) fn spans(&self) -> Vec<Got> {
        self.shared.spans.lock().unwrap().clone()
    }

    /// Headers of every request so far.
    pub(crate) fn asked(&self) -> Vec<HeaderMap> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The spans of a trace, once there are so many.
    pub(crate) async fn trace(&self, trace: &str, count: usize) -> Vec<Got> {
        let of = || self.spans().into_iter().filter(|span| span.trace == trace).collect::<Vec<_>>();
        eventually(&format!("{count} spans of {trace}"), async || of().len() >= count).await;
        of()
    }
}

async fn take(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.asked.lock().unwrap().push(headers);
    let status = shared.status.load(Ordering::SeqCst);
    if status == 200 {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        shared.spans.lock().unwrap().extend(read(request));
    }
    Response::builder().status(status).body(Body::empty()).unwrap()
}

fn read(request: ExportTraceServiceRequest) -> Vec<Got> {
    let mut all = Vec::new();
    for resource in request.resource_spans {
        let own = attributes(&resource.resource.unwrap_or_default().attributes);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            all.push(Got {
                service: own.get("service.name").cloned().unwrap_or_default(),
                side: match span.kind() {
                    SpanKind::Server => "server",
                    SpanKind::Client => "client",
                    other => panic!("a span of kind {other:?}"),
                },
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                name: span.name,
                attributes: attributes(&span.attributes),
                failed: span.status.is_some_and(|status| status.code() == StatusCode::Error),
                links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
                nanos: span.end_time_unix_nano - span.start_time_unix_nano,
            });
        }
    }
    all
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let read: BTreeMap<String, String> = all.iter().map(|pair| (pair.key.clone(), text(pair))).collect();
    assert_eq!(read.len(), all.len(), "an attribute twice: {all:?}");
    read
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
