//! Reads a request body within its bounds of size, time and memory (H-06).

use bytes::{Bytes, BytesMut};
use http::StatusCode;

use super::Door;
use super::layers::unread::Payload;
use crate::net::budget::Held;

/// The body, and the memory it occupies until the request is done.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) bytes: Bytes,
    pub(super) held: Held,
}

/// Reads all of it; the error is the status of an answer with an empty body.
pub(super) async fn read(door: &Door, body: &mut Payload) -> Result<Read, StatusCode> {
    read_up_to(door, body, door.bounds().max_body).await
}

/// The same with a size of its own.
pub(super) async fn read_up_to(door: &Door, body: &mut Payload, most: usize) -> Result<Read, StatusCode> {
    match tokio::time::timeout(door.bounds().body_timeout, collect(door, body, most)).await {
        Ok(read) => read,
        Err(_) => {
            door.metrics.limited("body_timeout");
            Err(StatusCode::REQUEST_TIMEOUT)
        }
    }
}

async fn collect(door: &Door, body: &mut Payload, most: usize) -> Result<Read, StatusCode> {
    let mut held = door.budget.hold();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else { continue };
        if first.len().max(rest.len()) + data.len() > most {
            door.metrics.limited("max_body");
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if !held.grow(data.len()) {
            door.metrics.limited("max_buffered");
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    let bytes = if rest.is_empty() { first } else { rest.freeze() };
    Ok(Read { bytes, held })
}
