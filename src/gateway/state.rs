//! `requestState` between modern hops: sealed, bound to caller and request, the server's own restored on
//! the retry (R-25..R-29). No memory: any replica with the keys can serve the retry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::digest::request_digest;
use super::parked::Ticket;
use super::{Call, GatewayError};
use crate::config::Server as ServerConfig;
use crate::protocol::items::json_string;
use crate::protocol::object::string;
use crate::seal::{Purpose, Sealer};

/// Largest state of a server that we carry.
const MOST: usize = 64 * 1024;
/// How long a user may take to answer.
pub(super) const LIFE: Duration = Duration::from_secs(15 * 60);

/// It was this caller's for this request, and comes too late.
pub(super) const EXPIRED: GatewayError =
    GatewayError::InvalidParams("requestState has expired; repeat the request without it");

#[derive(Serialize, Deserialize)]
struct State {
    server: String,
    principal: String,
    digest: String,
    /// Seconds since 1970.
    expires: u64,
    /// The server's own state; `None`: it gave none.
    native: Option<String>,
    /// A legacy server's call that is kept open, and where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked: Option<Ticket>,
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
        self.sealed(sealer, State { native, ..self.state(now() + LIFE.as_secs()) })
    }

    /// The state of a call that is kept open `until` then, as JSON text.
    pub(super) fn seal_parked(
        &self,
        sealer: &Sealer,
        ticket: Ticket,
        until: SystemTime,
    ) -> Result<String, GatewayError> {
        self.sealed(sealer, State { parked: Some(ticket), ..self.state(seconds(until)) })
    }

    fn state(&self, expires: u64) -> State {
        State {
            server: self.server.name.clone(),
            principal: self.call.principal.id.to_string(),
            digest: self.digest(),
            expires,
            native: None,
            parked: None,
        }
    }

    fn sealed(&self, sealer: &Sealer, state: State) -> Result<String, GatewayError> {
        let plain = serde_json::to_vec(&state).map_err(|_| GatewayError::Internal("state"))?;
        Ok(json_string(&sealer.seal(Purpose::State, &self.call.endpoint.config.path, &plain)))
    }

    /// Opens a state the client brought (JSON text): the server's own, as JSON text, if it had one. Anything
    /// that does not fit caller, request and time is refused with one and the same answer.
    pub(super) fn open(&self, sealer: &Sealer, token: &str) -> Result<Option<String>, GatewayError> {
        Ok(self.opened(sealer, token)?.native.as_deref().map(json_string))
    }

    /// The call that a state tells of, if it tells of one.
    pub(super) fn ticket(&self, sealer: &Sealer, token: &str) -> Result<Option<Ticket>, GatewayError> {
        Ok(self.opened(sealer, token)?.parked)
    }

    fn opened(&self, sealer: &Sealer, token: &str) -> Result<State, GatewayError> {
        const REFUSED: GatewayError =
            GatewayError::InvalidParams("requestState is not valid for this request");
        let token = string(token).ok_or(REFUSED)?;
        let path = &self.call.endpoint.config.path;
        let plain = sealer.open(Purpose::State, path, &token).ok_or(REFUSED)?;
        let state: State = serde_json::from_slice(&plain).map_err(|_| REFUSED)?;
        let fits = state.server == self.server.name
            && state.principal == *self.call.principal.id
            && state.digest == self.digest();
        if !fits {
            return Err(REFUSED);
        }
        if state.expires <= now() {
            return Err(EXPIRED);
        }
        Ok(state)
    }
}

/// The ticket in a state of this caller, before anything else of it is checked: where the request is to be answered.
pub(super) fn ticket_of(sealer: &Sealer, call: &Call) -> Option<Ticket> {
    let span = call.envelope.param("requestState").ok()??;
    let token = string(span.of(call.envelope.text()))?;
    let plain = sealer.open(Purpose::State, &call.endpoint.config.path, &token)?;
    let state: State = serde_json::from_slice(&plain).ok()?;
    state.parked.filter(|_| state.principal == *call.principal.id)
}

pub(super) fn now() -> u64 {
    seconds(SystemTime::now())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
