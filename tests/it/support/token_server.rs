//! A token endpoint on loopback that does as the test says and records what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// One question: its form and the credentials it came with.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) form: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
}

impl Asked {
    /// The value of a field, empty without one.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.form.get(name).map_or("", String::as_str)
    }
}

/// Status, media type and body of an answer.
pub(crate) type Said = (u16, &'static str, String);

type Script = Box<dyn Fn(usize, &Asked) -> Said + Send + Sync>;

/// An authorization server that only issues tokens.
pub(crate) struct TokenServer {
    /// Its issuer.
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    script: Mutex<Script>,
    asked: Mutex<Vec<Asked>>,
    methods: Mutex<Vec<&'static str>>,
    /// Documents by path, instead of the usual metadata.
    documents: Mutex<Option<BTreeMap<String, Value>>>,
    fetched: Mutex<Vec<String>>,
}

/// 200 and a token that lives for an hour.
pub(crate) fn token(text: &str) -> Said {
    let body = json!({ "access_token": text, "token_type": "Bearer", "expires_in": 3600 });
    (200, "application/json", body.to_string())
}

impl TokenServer {
    /// A server that answers by the number of the question, from 1, and the question.
    pub(crate) async fn start(script: impl Fn(usize, &Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            url: url.clone(),
            script: Mutex::new(Box::new(script)),
            asked: Mutex::default(),
            methods: Mutex::new(vec!["client_secret_basic"]),
            documents: Mutex::default(),
            fetched: Mutex::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared }
    }

    /// `token_endpoint_auth_methods_supported`
    pub(crate) fn methods(&self, methods: &[&'static str]) {
        *self.shared.methods.lock().unwrap() = methods.to_vec();
    }

    /// From now on it serves these documents, by path, and nothing else.
    pub(crate) fn documents(&self, documents: &[(&str, Value)]) {
        let documents = documents.iter().map(|(path, document)| ((*path).to_owned(), document.clone()));
        *self.shared.documents.lock().unwrap() = Some(documents.collect());
    }

    /// Paths of documents that were asked for so far.
    pub(crate) fn fetched(&self) -> Vec<String> {
        self.shared.fetched.lock().unwrap().clone()
    }

    /// Every question so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let (status, kind, body) = match head.uri.path() {
        "/token" => {
            let body = to_bytes(body, 1 << 20).await.unwrap();
            let form = url::form_urlencoded::parse(&body).into_owned().collect();
            let shown = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            let asked = Asked { form, authorization: shown };
            let number = {
                let mut all = shared.asked.lock().unwrap();
                all.push(asked.clone());
                all.len()
            };
            (shared.script.lock().unwrap())(number, &asked)
        }
        path if shared.documents.lock().unwrap().is_some() => {
            shared.fetched.lock().unwrap().push(path.to_owned());
            let documents = shared.documents.lock().unwrap();
            let document = documents.as_ref().and_then(|documents| documents.get(path));
            match document {
                Some(document) => (200, "application/json", document.to_string()),
                None => (404, "text/plain", String::new()),
            }
        }
        path @ "/.well-known/oauth-authorization-server" => {
            shared.fetched.lock().unwrap().push(path.to_owned());
            let url = &shared.url;
            let methods: Value = json!(*shared.methods.lock().unwrap());
            let metadata = json!({
                "issuer": url, "token_endpoint": format!("{url}/token"),
                "token_endpoint_auth_methods_supported": methods,
            });
            (200, "application/json", metadata.to_string())
        }
        _ => (404, "text/plain", String::new()),
    };
    Response::builder().status(status).header("content-type", kind).body(Body::from(body)).unwrap()
}
