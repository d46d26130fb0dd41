//! Results of the gateway's own tools.

use bytes::Bytes;

use crate::protocol::edit::Parts;
use crate::protocol::items::json_string;
use crate::protocol::meta::SERVER_INFO;

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
