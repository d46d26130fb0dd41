//! What of a client's request goes along to a server beside its message: chosen headers, and who asks.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};

use super::Call;
use crate::config::Server as ServerConfig;
use crate::outbound::OnBehalf;

/// The client's headers that the operator lets through; values a header cannot have do not come in.
pub(super) fn forwarded(call: &Call, server: &ServerConfig) -> Vec<(HeaderName, HeaderValue)> {
    let mut found = Vec::new();
    for name in &server.forward_headers {
        found.extend(call.headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
    }
    found
}

/// Who is presented to a server that sees each caller as himself. Also without a token: then there is no call, and
/// never one in the gateway's own name.
pub(super) fn on_behalf(call: &Call) -> OnBehalf {
    OnBehalf {
        principal: Arc::clone(&call.principal.id),
        issuer: Arc::clone(&call.principal.issuer),
        expires: call.principal.expires,
        token: call.token.clone(),
    }
}
