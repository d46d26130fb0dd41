//! Streamable HTTP: one POST out, one JSON object or a stream of events back (H-60, H-61).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use tokio::time::Instant;
use url::Url;

use crate::net::body::Body;
use crate::net::budget::{Budget, Held};
use crate::net::{Client, ClientError};
use crate::outbound::credentials::{Challenge, Credential, OnBehalf, Refusal, Token, Tried};
use crate::outbound::error::Failure;
use crate::protocol::edit::Parts;
use crate::protocol::sse;

mod answer;
#[cfg(test)]
mod tests;

/// Bytes of events that are looked at in one go.
const SLICE: usize = 64 * 1024;

/// Where to POST, and what goes with every request.
#[derive(Debug)]
pub struct HttpLink {
    clients: Clients,
    pub(super) url: Url,
    uri: Uri,
    headers: HeaderMap,
    /// Whether it is known to speak the transport of 2024-11-05.
    speaks_sse: AtomicBool,
    credential: Arc<Credential>,
    pub(super) budget: Budget,
    pub(super) max_result: usize,
}

/// The connections to one server.
#[derive(Debug)]
pub struct Clients {
    /// For what is asked and answered.
    pub calls: Client,
    /// For streams of what the server says by itself.
    pub streams: Client,
}

/// The answer to one POST.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The last event id seen on a stream.
    pub last_event_id: Option<String>,
    /// `retry:` of a stream: how long to wait before it is opened again.
    pub retry: Option<Duration>,
    /// When something was last received, a comment included.
    pub heard: Instant,
    body: AnswerBody,
    /// What has come of an event stream and was not looked at yet.
    unread: Bytes,
    held: Held,
    max_result: usize,
}

/// One message before it is addressed.
#[derive(Debug, Clone)]
struct Letter {
    method: Method,
    /// Where, if not to the configured URL.
    to: Option<Arc<Uri>>,
    extra: HeaderMap,
    body: Parts,
    /// Whether its answer is a stream that is open for good.
    lasting: bool,
}

impl Letter {
    const fn post(to: Option<Arc<Uri>>, extra: HeaderMap, body: Parts) -> Self {
        Self { method: Method::POST, to, extra, body, lasting: false }
    }
}

#[derive(Debug)]
enum AnswerBody {
    /// The first piece, and what came after it.
    Whole(Body, Option<Bytes>, BytesMut),
    Events(Body, Box<sse::Parser>),
    Done,
}

impl HttpLink {
    /// A link to `url` that presents `credential` with every request.
    pub fn new(
        clients: Clients,
        url: &Url,
        credential: Arc<Credential>,
        budget: Budget,
        max_result: usize,
    ) -> Result<Self, Failure> {
        let uri = path_of(url)?;
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(
            header::USER_AGENT,
            HeaderValue::from_static(concat!("gatehouse/", env!("CARGO_PKG_VERSION"))),
        );
        Ok(Self {
            clients,
            url: url.clone(),
            uri,
            headers,
            speaks_sse: AtomicBool::new(false),
            credential,
            budget,
            max_result,
        })
    }

    /// Whether the next contact begins with the 2024-11-05 transport (G-65).
    pub fn speaks_sse(&self) -> bool {
        self.speaks_sse.load(Ordering::Relaxed)
    }

    /// Remembers what was found out.
    pub fn note_sse(&self, speaks: bool) {
        self.speaks_sse.store(speaks, Ordering::Relaxed);
    }

    /// Sends one message for a caller, who matters where each is presented as himself; `None`: it is the gateway's
    /// own. The error says whether the server may have seen it.
    pub async fn post_for(
        &self,
        caller: Option<&OnBehalf>,
        extra: HeaderMap,
        body: Parts,
    ) -> Result<Answer, (Failure, bool)> {
        self.exchange(Letter::post(None, extra, body), caller).await
    }

    /// Sends one message to another path of the same server (G-71).
    pub async fn post_to(
        &self,
        to: &Arc<Uri>,
        caller: Option<&OnBehalf>,
        extra: HeaderMap,
        body: Parts,
    ) -> Result<Answer, (Failure, bool)> {
        self.exchange(Letter::post(Some(Arc::clone(to)), extra, body), caller).await
    }

    /// Opens a stream of what the server says outside of calls (G-43).
    pub async fn get_for(
        &self,
        caller: Option<&OnBehalf>,
        extra: HeaderMap,
    ) -> Result<Answer, (Failure, bool)> {
        let letter = Letter { method: Method::GET, to: None, extra, body: Parts::new(), lasting: true };
        self.exchange(letter, caller).await
    }

    /// Opens such a stream in the modern way, by a request (S-20).
    pub async fn listen_for(
        &self,
        caller: Option<&OnBehalf>,
        extra: HeaderMap,
        body: Parts,
    ) -> Result<Answer, (Failure, bool)> {
        self.exchange(Letter { lasting: true, ..Letter::post(None, extra, body) }, caller).await
    }

    /// Ends a session (G-46).
    pub async fn delete_for(
        &self,
        caller: Option<&OnBehalf>,
        extra: HeaderMap,
    ) -> Result<StatusCode, (Failure, bool)> {
        let letter = Letter { method: Method::DELETE, ..Letter::post(None, extra, Parts::new()) };
        Ok(self.exchange(letter, caller).await?.status)
    }

    async fn exchange(&self, letter: Letter, caller: Option<&OnBehalf>) -> Result<Answer, (Failure, bool)> {
        let Some(fixed) = self.credential.fixed() else {
            // Boxed: what may happen on the way to a token would make every call's future large.
            return Box::pin(self.exchange_with_token(letter, caller)).await;
        };
        let lasting = letter.lasting;
        let mut request = self.request(letter);
        for (name, value) in fixed {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        Ok(self.answer(self.send(request, lasting).await?))
    }

    /// A refusal comes before execution, so what can be cured is, and the letter sent once more.
    async fn exchange_with_token(
        &self,
        letter: Letter,
        caller: Option<&OnBehalf>,
    ) -> Result<Answer, (Failure, bool)> {
        let mut tried = Tried::default();
        loop {
            let (response, token) = self.present(letter.clone(), caller).await?;
            let status = response.status();
            if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                return Ok(self.answer(response));
            }
            let challenge = Challenge::read(response.headers());
            let refusal = Refusal { status, token: token.as_ref(), challenge };
            if !Box::pin(self.credential.remedy(caller, &refusal, &mut tried)).await {
                return Ok(self.answer(response));
            }
        }
    }

    /// Sends a letter with a token; also the token.
    async fn present(
        &self,
        letter: Letter,
        caller: Option<&OnBehalf>,
    ) -> Result<(Response<Body>, Option<Arc<Token>>), (Failure, bool)> {
        let lasting = letter.lasting;
        let mut request = self.request(letter);
        let token = Box::pin(self.credential.present(caller, request.headers_mut())).await;
        let token = token.map_err(|error| (Failure::NoToken(error.to_string()), false))?;
        let response = Box::pin(self.send(request, lasting)).await?;
        if let Some(token) = token.as_ref().filter(|_| response.status() != StatusCode::UNAUTHORIZED) {
            token.accept();
        }
        Ok((response, token))
    }

    fn request(&self, letter: Letter) -> Request<Parts> {
        let mut request = Request::new(letter.body);
        *request.method_mut() = letter.method;
        *request.uri_mut() = letter.to.map_or_else(|| self.uri.clone(), |to| (*to).clone());
        let is_post = request.method() == Method::POST;
        let headers = request.headers_mut();
        *headers = letter.extra;
        // Into those of the message: there are more of them, and nobody else holds them.
        for (name, value) in self.headers.iter().filter(|(name, _)| is_post || header::CONTENT_TYPE != **name)
        {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        if !is_post {
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        request
    }

    async fn send(&self, request: Request<Parts>, lasting: bool) -> Result<Response<Body>, (Failure, bool)> {
        // Were these counted among the calls, many of them would leave no room for any.
        let client = if lasting { &self.clients.streams } else { &self.clients.calls };
        client.send(request).await.map_err(|error| (unavailable(&error), error.sent))
    }

    fn answer(&self, response: Response<Body>) -> Answer {
        let (head, body) = response.into_parts();
        let events = is_events(&head.headers);
        let body = if events {
            AnswerBody::Events(body, Box::new(sse::Parser::new(self.max_result)))
        } else {
            AnswerBody::Whole(body, None, BytesMut::new())
        };
        Answer {
            status: head.status,
            headers: head.headers,
            last_event_id: None,
            retry: None,
            heard: Instant::now(),
            body,
            unread: Bytes::new(),
            held: self.budget.hold(),
            max_result: self.max_result,
        }
    }
}

/// The path and query of a URL, as a request names them.
pub(super) fn path_of(url: &Url) -> Result<Uri, Failure> {
    let mut path = url.path().to_owned();
    if let Some(query) = url.query() {
        path.push('?');
        path.push_str(query);
    }
    path.parse().map_err(|_| Failure::Unavailable("the url has no usable path".into()))
}

/// Whether the body is an event stream, parameters and case aside.
fn is_events(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = value.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("text/event-stream")
}

fn encoded(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn unavailable(error: &ClientError) -> Failure {
    Failure::Unavailable(error.to_string())
}
