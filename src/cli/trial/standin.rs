//! Servers that stand in for the real ones: they offer what the lock file holds, take down what they are called with, and
//! answer as fixtures say.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::config::{Config, Credentials, Guarding, Protocol, SessionScope, Target};
use crate::contract::lock::{Lock, Locked};
use crate::net::{self, ListenOptions};
use crate::tasks::Tasks;

/// What tasks get to end.
const GRACE: Duration = Duration::from_secs(2);

/// All stand-ins: one listener, a path each.
#[derive(Debug)]
pub(super) struct StandIns {
    troupe: Arc<Troupe>,
    tasks: Tasks,
}

#[derive(Debug, Default)]
struct Troupe {
    /// By server and kind: definitions as they were approved.
    offers: HashMap<(String, Locked), Vec<Box<RawValue>>>,
    script: Mutex<Script>,
}

/// What comes next, and what came.
#[derive(Debug, Default)]
struct Script {
    answer: Option<Value>,
    /// The arguments of the last call.
    got: Option<Value>,
}

/// What is read of a request.
#[derive(Debug, Deserialize)]
struct Asked {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

impl StandIns {
    /// Starts them, and makes the configuration lead to them.
    pub(super) async fn start(lock: &Lock, config: &mut Config) -> io::Result<Self> {
        let mut offers: HashMap<(String, Locked), Vec<Box<RawValue>>> = HashMap::new();
        for (key, entry) in lock.iter() {
            // Canonical text was JSON before.
            if let Ok(definition) = RawValue::from_string(entry.canonical.clone()) {
                offers.entry((key.server.clone(), key.kind)).or_default().push(definition);
            }
        }
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        let troupe = Arc::new(Troupe { offers, script: Mutex::default() });
        let router = Router::new().route("/{server}", post(serve)).with_state(Arc::clone(&troupe));
        let tasks = Tasks::new();
        // Ends with the command.
        let (handler, options, end) =
            (net::routed(router), ListenOptions::default(), CancellationToken::new());
        tasks.spawn("stand-ins", net::serve(listener, handler, options, tasks.clone(), end));
        for server in &mut config.servers {
            let Ok(url) = Url::parse(&format!("http://{address}/{}", server.name)) else { continue };
            server.target = Target::Http { url, others: Vec::new(), proxy: None, ca_file: None };
            server.protocol = Protocol::Modern;
            server.session_scope = SessionScope::Auto;
            server.credentials = Credentials::None;
            server.processes = 1;
            // What they offer is what was approved.
            server.contract = Guarding::Off;
        }
        Ok(Self { troupe, tasks })
    }

    /// What the next call is answered with.
    pub(super) fn prepare(&self, answer: Option<&Value>) {
        *self.troupe.script() = Script { answer: answer.cloned(), got: None };
    }

    /// What the last call brought, if one came.
    pub(super) fn got(&self) -> Option<Value> {
        self.troupe.script().got.take()
    }

    pub(super) async fn stop(self) {
        self.tasks.shutdown(GRACE).await;
    }
}

async fn serve(State(troupe): State<Arc<Troupe>>, Path(server): Path<String>, body: Bytes) -> Response {
    let Ok(asked) = serde_json::from_slice::<Asked>(&body) else {
        return answer(StatusCode::BAD_REQUEST, &json!({}));
    };
    let Some(id) = asked.id.clone() else { return answer(StatusCode::ACCEPTED, &json!({})) };
    match troupe.result(&server, &asked) {
        Some(result) => answer(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        None => {
            let error = json!({ "code": -32601, "message": "a stand-in has no such method" });
            answer(StatusCode::NOT_FOUND, &json!({ "jsonrpc": "2.0", "id": id, "error": error }))
        }
    }
}

fn answer(status: StatusCode, document: &Value) -> Response {
    let mut response = Response::new(Body::from(document.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl Troupe {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn result(&self, server: &str, asked: &Asked) -> Option<Value> {
        let list = |key: &str, kind: Locked| {
            let known = self.offers.get(&(server.to_owned(), kind)).map(Vec::as_slice).unwrap_or_default();
            let mut document =
                json!({ "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public" });
            document[key] = known.iter().map(|one| json!(one)).collect();
            document
        };
        Some(match asked.method.as_str() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": { "tools": {}, "prompts": {}, "resources": {} },
            }),
            "tools/list" => list("tools", Locked::Tool),
            "prompts/list" => list("prompts", Locked::Prompt),
            "resources/templates/list" => list("resourceTemplates", Locked::Template),
            "resources/list" => json!({ "resultType": "complete", "resources": [] }),
            "tools/call" => {
                let mut script = self.script();
                let arguments = asked.params.get("arguments").cloned();
                script.got = Some(arguments.unwrap_or_else(|| json!({})));
                script.answer.clone().unwrap_or_else(|| json!({ "content": [] }))
            }
            _ => return None,
        })
    }
}
