//! A tunnel through an HTTP proxy (CONNECT).

use std::pin::pin;

use base64::Engine as _;
use futures_util::future::{Either, select};
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Uri};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::Url;

use super::error::{ClientError, Stage, chain};

/// An `http://` proxy.
pub(super) struct Proxy {
    /// Name or address, without brackets.
    pub(super) host: String,
    /// TCP port.
    pub(super) port: u16,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Reads a proxy's URL; user and password become `Proxy-Authorization`.
    pub(super) fn new(url: &Url) -> Result<Self, ClientError> {
        if url.scheme() != "http" {
            return Err(proxy_error("a proxy's URL must begin with http://"));
        }
        let host = url.host_str().ok_or_else(|| proxy_error("the proxy's URL has no host"))?;
        let authorization = (!url.username().is_empty() || url.password().is_some()).then(|| {
            let mut pair = percent_decoded(url.username());
            pair.push(b':');
            pair.extend(percent_decoded(url.password().unwrap_or_default()));
            let text = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
            let mut value = HeaderValue::try_from(text).expect("base64 is header text");
            value.set_sensitive(true);
            value
        });
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port: url.port_or_known_default().unwrap_or(80), authorization })
    }

    /// Asks for a tunnel to `target` (`host:port`).
    pub(super) async fn tunnel(&self, tcp: TcpStream, target: &str) -> Result<TcpStream, ClientError> {
        let request = self.request(target)?;
        let broken = |error: hyper::Error| proxy_error(chain(&error));
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await.map_err(broken)?;
        let answer = async move {
            // Only the status is kept: a held body would keep a refusing proxy's connection open.
            sender.send_request(request).await.map(|answer| answer.status())
        };
        // The connection must be driven while the answer is awaited, and is taken apart after it.
        let (status, parts) = match select(pin!(answer), pin!(connection.without_shutdown())).await {
            Either::Left((Ok(status), connection)) if status.is_success() => (Ok(status), connection.await),
            Either::Left((Ok(status), _)) => {
                let refused = format!("the proxy refused the tunnel with status {}", status.as_u16());
                return Err(proxy_error(refused));
            }
            Either::Left((Err(error), _)) => return Err(broken(error)),
            Either::Right((parts, answer)) => (answer.await, parts),
        };
        let status = status.map_err(broken)?;
        if !status.is_success() {
            return Err(proxy_error(format!("the proxy refused the tunnel with status {}", status.as_u16())));
        }
        let parts = parts.map_err(broken)?;
        if !parts.read_buf.is_empty() {
            return Err(proxy_error("the proxy sent bytes of its own into the tunnel"));
        }
        Ok(parts.io.into_inner())
    }

    fn request(&self, target: &str) -> Result<Request<Empty<bytes::Bytes>>, ClientError> {
        let authority = target.parse::<http::uri::Authority>().map_err(|e| proxy_error(e.to_string()))?;
        let mut uri = http::uri::Parts::default();
        uri.authority = Some(authority);
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = Uri::from_parts(uri).map_err(|e| proxy_error(e.to_string()))?;
        let host = HeaderValue::try_from(target).map_err(|e| proxy_error(e.to_string()))?;
        request.headers_mut().insert(HOST, host);
        if let Some(value) = &self.authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value.clone());
        }
        Ok(request)
    }
}

fn proxy_error(message: impl Into<String>) -> ClientError {
    ClientError::unsent(Stage::Proxy, message)
}

/// `%41` → `A`; a `%` without two hex digits stays.
fn percent_decoded(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}
