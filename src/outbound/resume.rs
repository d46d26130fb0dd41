//! A stream of a legacy server that closed early is taken up after its last event (G-43, G-44).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep_until};

use super::credentials::OnBehalf;
use super::link::http::{Answer, HttpLink};

/// The pause before a stream is taken up whose server did not say any.
const PAUSE: Duration = Duration::from_secs(1);
/// Streams in a row that could not be opened or brought no new event.
const MOST: u32 = 5;
/// Which event was the last.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How to take up a stream. The caller's deadlines bound it.
#[derive(Debug)]
pub struct Resume {
    link: Arc<HttpLink>,
    headers: HeaderMap,
    caller: Option<Arc<OnBehalf>>,
    /// However soon the server wants to be asked.
    least: Duration,
    /// When the next attempt may begin: kept, so that a wait that is begun again is not a longer one.
    until: Option<Instant>,
    /// The event that the last stream was opened after.
    from: Option<String>,
    failures: u32,
}

impl Resume {
    /// `headers` are those of the session; `least` is the shortest pause.
    pub fn new(
        link: &Arc<HttpLink>,
        headers: HeaderMap,
        caller: Option<Arc<OnBehalf>>,
        least: Duration,
    ) -> Self {
        let link = Arc::clone(link);
        Self { link, headers, caller, least, until: None, from: None, failures: 0 }
    }

    /// The stream from behind the last event of `ended` on, after the server's `retry`. `None`: it is lost; nothing
    /// is ever asked a second time instead. Cancel-safe: the next call waits for the same moment.
    pub async fn take_up(&mut self, ended: &Answer) -> Option<Answer> {
        let last = ended.last_event_id.clone().filter(|id| !id.is_empty())?;
        let value = HeaderValue::from_bytes(last.as_bytes()).ok()?;
        if self.from.as_ref() != Some(&last) {
            self.failures = 0;
        }
        while self.failures < MOST {
            let pause = ended.retry.unwrap_or(PAUSE).max(self.least);
            sleep_until(*self.until.get_or_insert_with(|| Instant::now() + pause)).await;
            let mut headers = self.headers.clone();
            headers.insert(LAST_EVENT_ID, value.clone());
            let answered = self.link.get_for(self.caller.as_deref(), headers).await;
            self.until = None;
            self.failures += 1;
            match answered {
                Ok(mut answer) if answer.status == 200 && answer.is_stream() => {
                    answer.last_event_id = Some(last.clone());
                    answer.retry = ended.retry;
                    self.from = Some(last);
                    return Some(answer);
                }
                // "Not now" may be a yes later; everything else is a no.
                Ok(answer) if matches!(answer.status.as_u16(), 408 | 429 | 500..=599) => {}
                Ok(_) => return None,
                Err(_) => {}
            }
        }
        None
    }
}
