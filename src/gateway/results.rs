//! Results of the gateway's own.

use bytes::Bytes;

use super::limits::Limited;
use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;
use crate::protocol::meta::{RETRY_AFTER, SERVER_INFO};

/// A tool result of the gateway's own: text.
pub(super) fn tool_text(text: &str, server_info: &Bytes) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"_meta\":{{\"{SERVER_INFO}\":",
        json_string(text)
    ));
    parts.push(server_info.clone());
    parts.push(Bytes::from_static(b"}}"));
    parts
}

/// A tool result that says that a limit is reached, and for how long.
pub(super) fn limited(limited: &Limited, server_info: &Bytes) -> Parts {
    let mut parts = Parts::new();
    parts.push(format!(
        "{{\"resultType\":\"complete\",\"isError\":true,\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"_meta\":{{\"{RETRY_AFTER}\":{},\"{SERVER_INFO}\":",
        json_string(&limited.said),
        limited.millis()
    ));
    parts.push(server_info.clone());
    parts.push(Bytes::from_static(b"}}"));
    parts
}
