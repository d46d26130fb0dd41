//! HTTP+SSE of 2024-11-05: one GET stream for all that the server says, messages POSTed to the endpoint that the
//! stream names first. The session is the stream (G-70..G-72).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Uri};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::backoff::Backoff;
use super::connection::Put;
use super::error::LinkError;
use super::http::{Answer, HttpLink, path_of};
use super::mux::{Mux, Unclaimed, lock};
use crate::outbound::credentials::OnBehalf;
use crate::outbound::error::Failure;
use crate::protocol::edit::Parts;
use crate::tasks::Tasks;

/// How long the stream may take to name its endpoint (G-70).
const ENDPOINT: Duration = Duration::from_secs(10);
/// How long a stream that is in doubt may take to show that it lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// How long the rest of an answer to a POST is read, so that its connection can be used again.
const DRAIN: Duration = Duration::from_secs(5);

/// One stream and its endpoint. Clones are the same stream; it ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Stream(Arc<Shared>);

/// How the streams of one context ended: when the next one may be opened (F-080).
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<Backoff>>);

/// A stream that others keep open.
#[derive(Debug)]
pub struct WeakStream(std::sync::Weak<Shared>);

#[derive(Debug)]
struct Shared {
    http: Arc<HttpLink>,
    endpoint: Arc<Uri>,
    /// Who is presented: a stream is one context's.
    caller: Option<Arc<OnBehalf>>,
    tasks: Tasks,
    life: Arc<Life>,
    /// Whether it is being asked for a sign of life.
    doubted: AtomicBool,
}

/// What the reader of a stream shares with those who use it; not the stream itself, which ends with its users.
#[derive(Debug)]
struct Life {
    mux: Arc<Mux>,
    /// To be closed as soon as nobody waits for an answer.
    retired: CancellationToken,
    /// To be closed now.
    ended: CancellationToken,
    record: Record,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.life.ended.cancel();
    }
}

impl Stream {
    /// Opens a stream and waits for its endpoint, which must be of the same origin: credentials go there.
    ///
    /// # Errors
    ///
    /// [`Failure::Status`], [`Failure::Credentials`] and [`Failure::Malformed`]: what is there is no such stream.
    /// Others: it could not be reached, or is held back after short lives.
    pub async fn open(
        http: &Arc<HttpLink>,
        caller: Option<Arc<OnBehalf>>,
        record: &Record,
        tasks: &Tasks,
    ) -> Result<Self, Failure> {
        if let Some(retry_after) = lock(&record.0).wait(Instant::now()) {
            return Err(Failure::Unavailable(LinkError::BackedOff { retry_after }.to_string()));
        }
        let opened = timeout(ENDPOINT, opened(http, caller.as_deref())).await;
        let (answer, endpoint) = opened.unwrap_or(Err(Failure::Timeout(ENDPOINT)))?;
        let life = Arc::new(Life {
            mux: Arc::new(Mux::new(http.max_result, Some(http.budget.clone()))),
            retired: CancellationToken::new(),
            ended: CancellationToken::new(),
            record: record.clone(),
        });
        let reading = Arc::clone(&life);
        tasks.spawn("sse stream", async move { reading.read(answer).await });
        Ok(Self(Arc::new(Shared {
            http: Arc::clone(http),
            endpoint: Arc::new(endpoint),
            caller,
            tasks: tasks.clone(),
            life,
            doubted: AtomicBool::new(false),
        })))
    }

    /// Puts a request on the stream. Returns when it was accepted or refused, or when the first message for it
    /// came: some servers finish the POST last.
    pub(super) async fn request(
        &self,
        id: u64,
        extra: HeaderMap,
        message: Parts,
    ) -> Result<Put, (Failure, bool)> {
        let mut inbox = self.0.life.mux.open(id);
        if self.is_closed() {
            return Err((super::connection::failure(&self.0.life.mux.cause()), false));
        }
        let mut posted = self.post(extra, message);
        tokio::select! {
            biased;
            outcome = &mut posted => match outcome {
                Ok(Ok(None)) => Ok(Put::Sent(inbox)),
                Ok(Ok(Some(refusal))) => Ok(Put::Refused(refusal)),
                Ok(Err(failed)) => Err(failed),
                // The task was cancelled: the process stops.
                Err(_) => Err((Failure::Unavailable("stopping".to_owned()), true)),
            },
            () = inbox.ready() => {
                // The POST goes on for as long as somebody waits.
                inbox.keep(posted);
                Ok(Put::Sent(inbox))
            }
        }
    }

    /// Sends what has no answer.
    pub(super) async fn send(&self, extra: HeaderMap, message: Parts) -> Result<(), Failure> {
        match self.post(extra, message).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(refusal))) => Err(Failure::Status(refusal.status.as_u16())),
            Ok(Err((failure, _))) => Err(failure),
            Err(_) => Err(Failure::Unavailable("stopping".to_owned())),
        }
    }

    /// POSTs in the background, given up when nobody waits for the outcome. `Some`: an answer other than 2xx (G-71).
    fn post(&self, extra: HeaderMap, message: Parts) -> Posted {
        let (mut done, outcome) = oneshot::channel();
        let shared = Arc::clone(&self.0);
        self.0.tasks.spawn("sse post", async move {
            let caller = shared.caller.as_deref();
            let posted = tokio::select! {
                posted = shared.http.post_to(&shared.endpoint, caller, extra, message) => posted,
                () = done.closed() => return,
            };
            match posted {
                Ok(mut answer) if answer.status.is_success() => {
                    // Nobody there: it was answered on the stream and is over.
                    let _ = done.send(Ok(None));
                    drop(shared);
                    if !answer.is_stream() {
                        let _ = timeout(DRAIN, answer.next()).await;
                    }
                }
                Ok(answer) => drop(done.send(Ok(Some(Box::new(answer))))),
                Err(failed) => drop(done.send(Err(failed))),
            }
        });
        outcome
    }

    /// See [`super::Connection::doubt`]. One question at a time.
    pub(super) fn doubt(&self, id: u64, extra: HeaderMap, question: Parts) {
        if self.0.doubted.swap(true, Ordering::Relaxed) {
            return;
        }
        let stream = self.clone();
        self.0.tasks.spawn("sse doubt", async move {
            let answered = async {
                let Ok(Put::Sent(mut inbox)) = stream.request(id, extra, question).await else {
                    return false;
                };
                inbox.recv().await.is_ok()
            };
            if timeout(SIGN_OF_LIFE, answered).await != Ok(true) {
                stream.end();
            }
            stream.0.doubted.store(false, Ordering::Relaxed);
        });
    }

    /// See [`super::Connection::unclaimed`].
    pub(super) fn unclaimed(&self) -> Option<Unclaimed> {
        self.0.life.mux.unclaimed()
    }

    /// See [`super::Connection::retire`].
    pub(super) fn retire(&self) {
        self.0.life.retired.cancel();
    }

    /// Closes the stream; what waits fails at once.
    pub(super) fn end(&self) {
        self.0.life.ended.cancel();
        self.0.life.mux.close(LinkError::Lost);
    }

    /// Whether no message will come any more, or no request may be put on it.
    pub(super) fn is_closed(&self) -> bool {
        self.0.life.mux.is_closed()
    }

    /// Waits for the end of the stream.
    pub(super) async fn closed(&self) {
        self.0.life.mux.closed().await;
    }

    /// Ids that somebody waits for.
    pub(super) fn pending(&self) -> usize {
        self.0.life.mux.pending()
    }

    /// See [`super::Connection::downgrade`].
    pub(super) fn downgrade(&self) -> WeakStream {
        WeakStream(Arc::downgrade(&self.0))
    }
}

impl WeakStream {
    /// The stream, while somebody uses it.
    pub(super) fn upgrade(&self) -> Option<Stream> {
        self.0.upgrade().map(Stream)
    }
}

/// How a POST ended: accepted, refused, or failed (and whether the server may have seen it).
pub(super) type Posted = oneshot::Receiver<Result<Option<Box<Answer>>, (Failure, bool)>>;

impl Life {
    /// Delivers what comes until the stream ends, or is ended.
    async fn read(&self, mut answer: Answer) {
        let opened = Instant::now();
        let idle = async {
            self.retired.cancelled().await;
            self.mux.idle().await;
        };
        let lost = tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            cause = self.pump(&mut answer) => Some(cause),
            () = idle => None,
        };
        if lost.is_some() {
            lock(&self.record.0).ended(opened.elapsed(), Instant::now());
        }
        self.mux.close(lost.unwrap_or(LinkError::Lost));
    }

    async fn pump(&self, answer: &mut Answer) -> LinkError {
        loop {
            match answer.next_event().await {
                // Other kinds (a second endpoint, pings of the server's framework) mean nothing here.
                Ok(Some(event)) if !matches!(event.event.as_str(), "" | "message") => {}
                Ok(Some(event)) => {
                    let delivered = self.mux.deliver(&event.data.slice_ref(event.data.trim_ascii()));
                    tracing::trace!(?delivered, "an event");
                }
                Ok(None) => return LinkError::Lost,
                Err(Failure::TooLarge(most)) => return LinkError::Overflow(most),
                Err(_) => return LinkError::Lost,
            }
        }
    }
}

/// The stream and the path of its endpoint.
async fn opened(http: &HttpLink, caller: Option<&OnBehalf>) -> Result<(Answer, Uri), Failure> {
    let mut answer = http.get_for(caller, HeaderMap::new()).await.map_err(|(failure, _)| failure)?;
    match answer.status.as_u16() {
        200 if answer.is_stream() => {}
        200 => return Err(Failure::Malformed("it is no event stream")),
        status @ (401 | 403) => return Err(Failure::Credentials(status)),
        status => return Err(Failure::Status(status)),
    }
    while let Some(event) = answer.next_event().await? {
        if event.event == "endpoint" {
            let endpoint = endpoint(&http.url, &event.data)?;
            return Ok((answer, endpoint));
        }
    }
    Err(Failure::Malformed("the stream named no endpoint"))
}

/// The endpoint by the rules of links. Another origin would be given our credentials and the callers' data (G-70).
fn endpoint(base: &Url, data: &[u8]) -> Result<Uri, Failure> {
    let bad = Failure::Malformed("the endpoint is no URL");
    let text = std::str::from_utf8(data).map_err(|_| bad.clone())?;
    let url = base.join(text.trim()).map_err(|_| bad)?;
    if url.origin() != base.origin() {
        return Err(Failure::Malformed("the endpoint is of another origin"));
    }
    path_of(&url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G-70, F-080: every form a server may write its endpoint in, by the rules of links.
    #[test]
    fn g70_endpoints_are_resolved_and_others_refused() {
        let at = |base: &str, data: &str| {
            endpoint(&Url::parse(base).unwrap(), data.as_bytes()).map(|uri| uri.to_string())
        };
        let base = "https://h.example:8443/team/a/sse?key=1";
        for (data, path) in [
            ("/messages?s=1", "/messages?s=1"),
            ("messages?s=1", "/team/a/messages?s=1"),
            ("../messages", "/team/messages"),
            ("?s=2", "/team/a/sse?s=2"),
            ("https://h.example:8443/x/y?s=%20z#part", "/x/y?s=%20z"),
            ("HTTPS://H.EXAMPLE:8443/x", "/x"),
            ("//h.example:8443/x", "/x"),
            (" /messages/ü ", "/messages/%C3%BC"),
        ] {
            assert_eq!(at(base, data).as_deref(), Ok(path), "{data:?}");
        }
        for data in [
            "https://evil.example:8443/x",
            "https://h.example/x",
            "http://h.example:8443/x",
            "//evil.example/x",
            "https://h.example:8443@evil.example/x",
            "\\\\evil.example/x",
            "javascript:alert(1)",
            "data:,x",
            "https://",
        ] {
            assert!(matches!(at(base, data), Err(Failure::Malformed(_))), "{data:?}");
        }
        assert_eq!(at("http://h.example/sse", "http://h.example:80/m").as_deref(), Ok("/m"));
        assert!(endpoint(&Url::parse(base).unwrap(), b"/\xff").is_err());
    }
}
