//! An HTTP/2 client: many requests in flight on one connection.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::client::Reply;
use super::request::Request;
use super::wire::Head;
use super::within;

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    sender: http2::SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

impl Session {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = within("connect", TcpStream::connect(address)).await.unwrap();
        let io = TokioIo::new(stream);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Self { sender, address }
    }

    /// Sends a request and reads the whole answer; any number at once.
    pub(crate) async fn send(&self, request: impl Into<Request>) -> Reply {
        self.send_to(&self.address.to_string(), request).await
    }

    /// The same under another `:authority`.
    pub(crate) async fn send_to(&self, authority: &str, request: impl Into<Request>) -> Reply {
        let wanted = request.into();
        let uri = format!("http://{authority}{}", wanted.target);
        let mut request = http::Request::builder().method(wanted.method.as_str()).uri(uri);
        for (name, value) in &wanted.fields {
            request = request.header(name, value.as_slice());
        }
        let request = request.body(Full::new(Bytes::from(wanted.body))).unwrap();
        let mut sender = self.sender.clone();
        within("an answer", async {
            let response = sender.send_request(request).await.unwrap();
            let first = format!("HTTP/2 {}", response.status());
            let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
                (name.to_string(), value.as_bytes().to_vec())
            };
            let fields = response.headers().iter().map(field).collect();
            let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
            Reply { head: Head { first, fields }, body }
        })
        .await
    }
}
