//! A session's id: a sealed ticket with all it takes to serve lists and calls, so that any replica with the keys can,
//! also after a restart (G-20, G-21, G-26).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::auth::Principal;
use crate::cluster::Replica;
use crate::protocol::version::Revision;
use crate::seal::{Purpose, Sealer};

/// Longer texts are no ids of ours.
const LONGEST: usize = 16 * 1024;

/// What is in it. Only for whom it is makes it valid: it authenticates nobody.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::inbound) struct Ticket {
    /// Random, hexadecimal: the session's name among servers and in logs.
    pub(in crate::inbound) name: String,
    /// The principal's id.
    principal: String,
    /// The negotiated revision.
    revision: String,
    /// The capabilities declared, a JSON object.
    pub(super) capabilities: String,
    /// Seconds since 1970.
    issued: u64,
    expires: u64,
    /// The replica that began it, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::inbound) owner: Option<Replica>,
}

impl Ticket {
    /// A new one; it expires after `life`.
    pub(super) fn new(
        principal: &Principal,
        revision: Revision,
        capabilities: String,
        life: Duration,
    ) -> Option<Self> {
        let mut bytes = [0u8; 16];
        rand::fill(&mut bytes).ok()?;
        let issued = now();
        Some(Self {
            name: HEXLOWER.encode(&bytes),
            principal: principal.id.to_string(),
            revision: revision.as_str().to_owned(),
            capabilities,
            issued,
            expires: issued.saturating_add(life.as_secs().max(1)),
            owner: None,
        })
    }

    /// The same, begun by this replica.
    pub(super) fn of(self, owner: Option<&Replica>) -> Self {
        Self { owner: owner.cloned(), ..self }
    }

    /// The session id (visible ASCII).
    pub(super) fn seal(&self, sealer: &Sealer, path: &str) -> String {
        // Plain data of our own: it can always be written.
        sealer.seal(Purpose::Session, path, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads one that is valid now, here, for this caller.
    pub(super) fn open(sealer: &Sealer, path: &str, id: &str, principal: &Principal) -> Option<Self> {
        if id.len() > LONGEST {
            return None;
        }
        let plain = sealer.open(Purpose::Session, path, id)?;
        let ticket: Self = serde_json::from_slice(&plain).ok()?;
        (ticket.principal == *principal.id && now() < ticket.expires).then_some(ticket)
    }

    pub(super) fn revision(&self) -> Option<Revision> {
        Revision::legacy(&self.revision)
    }

    /// How long it is still valid.
    pub(in crate::inbound) fn rest(&self) -> Duration {
        Duration::from_secs(self.expires.saturating_sub(now()))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
