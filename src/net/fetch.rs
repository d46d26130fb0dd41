//! Small JSON documents from one address: GET or a posted form, within bounds of size and time, no redirects.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::client::{Client, ClientOptions};
use super::error::{ClientError, Stage};
use super::reach::Reach;
use crate::protocol::edit::Parts;
use crate::tasks::Tasks;

/// For connecting, asking and reading together.
const PATIENCE: Duration = Duration::from_secs(10);
/// Documents of this kind have some kilobytes.
const MOST: usize = 512 * 1024;
/// Requests to one address at once.
const AT_ONCE: usize = 32;

/// One address that answers with JSON: keys, metadata, tokens.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    path: PathAndQuery,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Its status; a redirect is an answer like any other.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why there is no document. Its text is for the operator and never holds anything of an answer's body.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FetchError {
    /// No connection, or it broke.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// Too slow.
    #[error("no whole answer within {PATIENCE:?}")]
    Slow,
    /// Too large.
    #[error("the answer is larger than {MOST} bytes")]
    Large,
    /// Another status than 200.
    #[error("the answer has status {0}")]
    Status(u16),
    /// Not the JSON it should be.
    #[error("the answer is not the JSON it should be (line {0}, column {1})")]
    Json(usize, usize),
}

impl Remote {
    /// Checks the address; nothing is connected yet.
    ///
    /// # Errors
    ///
    /// See [`Client::new`].
    pub fn new(url: &Url, reach: Reach, tasks: &Tasks) -> Result<Self, ClientError> {
        Self::trusting(url, reach, None, tasks)
    }

    /// The same, trusting the certificates of `also` besides the system's roots.
    ///
    /// # Errors
    ///
    /// See [`Client::new`].
    pub fn trusting(
        url: &Url,
        reach: Reach,
        also: Option<&Path>,
        tasks: &Tasks,
    ) -> Result<Self, ClientError> {
        let text = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let path = PathAndQuery::try_from(text)
            .map_err(|_| ClientError::unsent(Stage::Connect, "the path is not one that can be asked for"))?;
        let options = ClientOptions {
            reach,
            also_ca_file: also.map(Path::to_path_buf),
            connect_timeout: PATIENCE / 2,
            idle_timeout: Duration::from_secs(15),
            max_connections: AT_ONCE,
            ..ClientOptions::new(url.clone())
        };
        Ok(Self { client: Client::new(options, tasks.clone())?, path })
    }

    /// Asks for the document.
    pub async fn get(&self) -> Result<Fetched, FetchError> {
        self.send(self.request(Method::GET), Parts::new()).await
    }

    /// The same with an `Authorization`.
    pub async fn get_as(&self, authorization: Option<HeaderValue>) -> Result<Fetched, FetchError> {
        let mut request = self.request(Method::GET);
        if let Some(authorization) = authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        self.send(request, Parts::new()).await
    }

    /// Posts a form (RFC 6749), with HTTP basic credentials if there are any: see [`basic`].
    pub async fn post_form(
        &self,
        form: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<Fetched, FetchError> {
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let mut request = self.request(Method::POST);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization);
        }
        self.send(request, Parts::from(Bytes::from(body))).await
    }

    fn request(&self, method: Method) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = self.path.clone().into();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        request
    }

    async fn send(&self, request: Request<()>, body: Parts) -> Result<Fetched, FetchError> {
        let whole = async {
            let (head, mut body) = self.client.send(request.map(|()| body)).await?.into_parts();
            let mut read = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                if read.len() + data.len() > MOST {
                    return Err(FetchError::Large);
                }
                read.extend_from_slice(&data);
            }
            Ok(Fetched { status: head.status, headers: head.headers, body: read.freeze() })
        };
        timeout(PATIENCE, whole).await.unwrap_or(Err(FetchError::Slow))
    }
}

impl Fetched {
    /// The document of an answer with status 200.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        if self.status != StatusCode::OK {
            return Err(FetchError::Status(self.status.as_u16()));
        }
        serde_json::from_slice(&self.body).map_err(|error| FetchError::Json(error.line(), error.column()))
    }

    /// How long it may be kept, if it says so.
    pub fn max_age(&self) -> Option<Duration> {
        let values = self.headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
        let mut directives =
            values.flat_map(|value| value.split(',')).map(|one| one.trim().to_ascii_lowercase());
        let age = directives.find_map(|one| one.strip_prefix("max-age=")?.trim_matches('"').parse().ok());
        age.map(Duration::from_secs)
    }
}

/// `client_secret_basic`: both halves form-encoded before they are joined (RFC 6749 §2.3.1).
pub fn basic(id: &str, secret: &str) -> Option<HeaderValue> {
    let coded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", coded(id), coded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}
