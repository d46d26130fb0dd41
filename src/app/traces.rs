//! The exporter of spans: OTLP over HTTP by our own client, a few tries each, and all of it bounded.

use std::pin::Pin;
use std::time::Duration;

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::time::{Instant, sleep, timeout_at};
use url::Url;

use crate::config::Telemetry;
use crate::net::{Client, ClientOptions};
use crate::protocol::edit::Parts;
use crate::tasks::Tasks;

/// For one batch, all tries together.
const PATIENCE: Duration = Duration::from_secs(10);
/// For one try.
const TRY: Duration = Duration::from_secs(5);
/// The pause before the second try; each one after it is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
const TRIES: u32 = 4;
/// What a collector answers is small.
const MOST: usize = 64 * 1024;
/// Where collectors take traces (OTLP over HTTP).
const PATH: &str = "/v1/traces";

/// What sends spans to the collector of the configuration, if it names one.
pub(super) fn exporter(config: &Telemetry, tasks: &Tasks) -> anyhow::Result<Option<SpanExporter>> {
    let Some(base) = &config.otlp else { return Ok(None) };
    let options = ClientOptions { max_connections: 4, ..ClientOptions::new(base.clone()) };
    let client = Client::new(options, tasks.clone()).context("telemetry.otlp")?;
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(address(base))
        .with_timeout(PATIENCE)
        // Its own pauses would hold up a thread of the runtime.
        .with_retry_policy(RetryPolicy::disabled())
        .with_http_client(Courier { client });
    let mut exporter = exporter.build().context("telemetry.otlp")?;
    exporter.set_resource(&resource(&config.service_name));
    Ok(Some(exporter))
}

/// The address of traces at a collector, where the base alone is given.
fn address(base: &Url) -> String {
    let mut url = base.clone();
    let path = url.path().trim_end_matches('/');
    if !path.ends_with(PATH) {
        let path = format!("{path}{PATH}");
        url.set_path(&path);
    }
    url.into()
}

/// Who we are: what the file says wins over the environment (`OTEL_RESOURCE_ATTRIBUTES`).
fn resource(name: &str) -> Resource {
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    Resource::builder().with_attribute(version).with_service_name(name.to_owned()).build()
}

/// Our client, as the exporter calls it.
#[derive(Debug)]
struct Courier {
    client: Client,
}

impl HttpClient for Courier {
    fn send_bytes<'own, 'sent>(
        &'own self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'sent>>
    where
        'own: 'sent,
        Self: 'sent,
    {
        Box::pin(self.deliver(request))
    }
}

impl Courier {
    /// Some tries within the time there is; what is refused for good is tried once.
    async fn deliver(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let until = Instant::now() + PATIENCE;
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let limit = until.min(Instant::now() + TRY);
            let answer = timeout_at(limit, self.once(request.clone())).await.unwrap_or_else(|_| Err(slow()));
            let wait = match &answer {
                Ok(answer) if !is_passing(answer.status()) => return Ok(answer.clone()),
                Ok(answer) => asked(answer).unwrap_or(pause),
                Err(_) => pause,
            };
            if tries == TRIES || Instant::now() + wait >= until {
                return answer;
            }
            tries += 1;
            pause *= 2;
            sleep(wait).await;
        }
    }

    async fn once(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, mut body) = self.client.send(request.map(Parts::from)).await?.into_parts();
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if read.len() + data.len() > MOST {
                return Err(Box::new(ResponseBodyTooLarge::new()));
            }
            read.extend_from_slice(&data);
        }
        Ok(Response::from_parts(head, read.freeze()))
    }
}

fn slow() -> HttpError {
    "no answer in time".into()
}

/// What OTLP says is worth another try.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// The pause a collector asks for.
fn asked<T>(answer: &Response<T>) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn traces_go_where_collectors_take_them() {
        for (given, full) in [
            ("http://c:4318", "http://c:4318/v1/traces"),
            ("http://c:4318/", "http://c:4318/v1/traces"),
            ("https://c/otlp/", "https://c/otlp/v1/traces"),
            ("https://c/otlp/v1/traces", "https://c/otlp/v1/traces"),
        ] {
            assert_eq!(address(&given.parse().unwrap()), full);
        }
    }
}
