//! `requestState` between modern hops: sealed, bound to caller and request, the server's own restored on
//! the retry (R-25..R-29). No memory: any replica with the keys can serve the retry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::digest::request_digest;
use super::{Call, GatewayError};
use crate::config::Server as ServerConfig;
use crate::protocol::items::json_string;
use crate::protocol::object::string;
use crate::seal::{Purpose, Sealer};

/// Largest state of a server that we carry.
const MOST: usize = 64 * 1024;
/// How long a user may take to answer.
pub(super) const LIFE: Duration = Duration::from_secs(15 * 60);

#[derive(Serialize, Deserialize)]
struct State {
    server: String,
    principal: String,
    digest: String,
    /// Seconds since 1970.
    expires: u64,
    /// The server's own state; `None`: it gave none.
    native: Option<String>,
}

/// What a call asks of which server, for binding a state to it.
pub(super) struct Bound<'a> {
    pub(super) call: &'a Call,
    pub(super) server: &'a ServerConfig,
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a str>,
}

impl Bound<'_> {
    fn digest(&self) -> String {
        STANDARD.encode(request_digest(self.call.method.as_str(), self.name, self.arguments))
    }

    /// Seals a server's state (JSON text of a string, or none) into ours, as JSON text.
    pub(super) fn seal(&self, sealer: &Sealer, native: Option<&str>) -> Result<String, GatewayError> {
        let native = match native.map(string) {
            None => None,
            Some(Some(text)) if text.len() <= MOST => Some(text.into_owned()),
            Some(Some(_)) => return Err(GatewayError::Internal("the server's requestState is too large")),
            Some(None) => return Err(GatewayError::Internal("the server's requestState is no string")),
        };
        let state = State {
            server: self.server.name.clone(),
            principal: self.call.principal.id.to_string(),
            digest: self.digest(),
            expires: now() + LIFE.as_secs(),
            native,
        };
        let plain = serde_json::to_vec(&state).map_err(|_| GatewayError::Internal("state"))?;
        Ok(json_string(&sealer.seal(Purpose::State, &self.call.endpoint.config.path, &plain)))
    }

    /// Opens a state the client brought (JSON text): the server's own, as JSON text, if it had one. Anything
    /// that does not fit caller, request and time is refused with one and the same answer.
    pub(super) fn open(&self, sealer: &Sealer, token: &str) -> Result<Option<String>, GatewayError> {
        const REFUSED: GatewayError =
            GatewayError::InvalidParams("requestState is not valid for this request");
        let token = string(token).ok_or(REFUSED)?;
        let path = &self.call.endpoint.config.path;
        let plain = sealer.open(Purpose::State, path, &token).ok_or(REFUSED)?;
        let state: State = serde_json::from_slice(&plain).map_err(|_| REFUSED)?;
        let fits = state.server == self.server.name
            && state.principal == *self.call.principal.id
            && state.digest == self.digest()
            && state.expires > now();
        if !fits {
            return Err(REFUSED);
        }
        Ok(state.native.as_deref().map(json_string))
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
