use bytes::Bytes;
#[derive(Debug)]
pub enum Body { X(http_body_util::Full<Bytes>) }
impl http_body::Body for Body { type Data = Bytes; type Error = super::client::ClientError;
 fn poll_frame(self: std::pin::Pin<&mut Self>, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> { unimplemented!() } }
