//! One request put on its way: who gets it, and what is tried again when it did not arrive (H-65).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::error::{Failure, OutboundError};
use super::exchange::Exchange;
use super::guard::{CancelGuard, Slot};
use super::legacy;
use super::place::{Place, Transport};
use super::pool::Load;
use super::replica::{Replica, Turn, is_fault, is_hint};
use super::request::Request;
use super::resume::Resume;
use super::server::{Peer, Server};
use super::wire::Wire;

/// What a request may be tried in all, besides what the connections do by themselves.
const MOST_TRIES: usize = 3;

/// The time a request has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of silence.
    pub(super) silence: Duration,
    /// The end, whatever is heard.
    pub(super) hard: Instant,
}

/// What was tried for one request.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// How often it was sent, or nearly.
    times: usize,
    /// Replicas at which it failed and that are not tried again.
    failed: Vec<Arc<Replica>>,
    /// Whether what was agreed was once found to be over, and agreed anew.
    anew: bool,
}

/// What became of one try.
enum Try {
    Sent(Wire, CancelGuard),
    /// As it was, to whoever is next.
    Again,
    /// What was agreed does not hold any more.
    Anew,
}

/// A place, what was agreed there, and a process's load.
type Agreed = (Arc<Place>, Arc<Peer>, Option<Load>);

impl Server {
    pub(super) async fn dispatch(
        self: &Arc<Self>,
        request: &Request,
        silence: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Exchange, OutboundError> {
        let is_call = permit.is_some();
        let mut slot = Slot::new(permit, self.inflight());
        let limits = Limits { silence, hard: Instant::now() + self.config.max_timeout };
        let context = request.context.as_deref();
        self.allowance.earn();
        let mut tried = Tried::default();
        let mut at = self.agreed(context, is_call).await?;
        loop {
            match self.once(&at, request, limits, &mut tried).await? {
                Try::Sent(wire, guard) => {
                    slot.occupy(at.2);
                    let exchange = Exchange::new(wire, guard, slot, limits);
                    return Ok(exchange.repeatable(request));
                }
                Try::Again => {}
                Try::Anew => at = Box::pin(self.agreed(context, is_call)).await?,
            }
        }
    }

    async fn once(
        self: &Arc<Self>,
        at: &Agreed,
        request: &Request,
        limits: Limits,
        tried: &mut Tried,
    ) -> Result<Try, OutboundError> {
        let (place, peer, _) = at;
        let Some(turn) = place.turn(peer, &tried.failed) else {
            // Another replica knows nothing of this session: as after a restart of this one.
            if peer.session.is_some() && place.has_others() && !std::mem::replace(&mut tried.anew, true) {
                place.forget(peer);
                return Ok(Try::Anew);
            }
            return Err(self.left_alone());
        };
        if request.hop.log_level.is_some() {
            Box::pin(legacy::raise(self, (place, peer), request)).await;
        }
        let id = self.next_id();
        let guard = CancelGuard::new(Arc::clone(self), Arc::clone(place), Arc::clone(peer), turn, id);
        let guard = guard.running(request);
        let until = (Instant::now() + limits.silence).min(limits.hard);
        match timeout_at(until, self.transmit(&guard, request)).await {
            Ok(Ok(mut wire)) => {
                if !tried.anew && peer.session.is_some() && Box::pin(self.is_lost(at, &mut wire)).await {
                    tried.anew = true;
                    guard.disarm();
                    return Ok(Try::Anew);
                }
                Ok(Try::Sent(wire, guard))
            }
            // It ended before this request was put on it: as if it had never been agreed.
            Ok(Err((_, false))) if !tried.anew && peer.is_gone() => {
                tried.anew = true;
                guard.disarm();
                Ok(Try::Anew)
            }
            Ok(Err((failure, sent))) => self.not_sent(guard, request, (failure, sent), tried),
            Err(_) => {
                self.silent(&guard);
                Err(self.timed_out(limits.silence, until == limits.hard))
            }
        }
    }

    /// Whether a legacy server refused because it does not know the session or the dialect any more; then what was
    /// agreed is forgotten (G-42).
    async fn is_lost(self: &Arc<Self>, (place, peer, _): &Agreed, wire: &mut Wire) -> bool {
        let Some(lost) = legacy::lost(peer, wire).await else { return false };
        place.forget(peer);
        if lost == legacy::Lost::Dialect {
            self.forget_era();
        }
        true
    }

    /// A try failed on the way: what may be tried once more, and where.
    fn not_sent(
        self: &Arc<Self>,
        guard: CancelGuard,
        request: &Request,
        (failure, sent): (Failure, bool),
        tried: &mut Tried,
    ) -> Result<Try, OutboundError> {
        self.last_failure.note(&failure);
        let error = self.error(failure, sent);
        if !is_fault(&error.failure) {
            guard.settle(&error);
            return Err(error);
        }
        self.fault(&guard, &error.failure);
        tried.times += 1;
        tried.failed.push(Arc::clone(guard.turn.replica()));
        let (place, peer) = (Arc::clone(&guard.place), Arc::clone(&guard.peer));
        guard.settle(&error);
        let moves = peer.session.is_some() && place.has_others() && !tried.anew;
        let elsewhere = moves || (peer.session.is_none() && place.has_untried(&tried.failed));
        // What may have been seen is asked once more only if that changes nothing; the rest of who did not see it.
        let may = if sent { is_repeatable(request) } else { elsewhere };
        if !may || tried.times >= MOST_TRIES || !self.allowance.spend() {
            return Err(error);
        }
        tracing::debug!(server = %self.name, method = request.method.as_str(), "sent once more");
        if moves {
            tried.anew = true;
            place.forget(&peer);
            return Ok(Try::Anew);
        }
        if !elsewhere {
            // Over another connection of the same.
            tried.failed.clear();
        }
        Ok(Try::Again)
    }

    /// What was agreed with says nothing any more, or nothing that can be read.
    pub(super) fn fault(self: &Arc<Self>, guard: &CancelGuard, failure: &Failure) {
        if is_hint(failure) {
            return self.silent(guard);
        }
        guard.turn.replica().contact(false);
        self.strike(&guard.place, guard.turn.replica());
    }

    /// Nothing came in time: what was called may just be slow, and others are not to pay for that.
    pub(super) fn silent(self: &Arc<Self>, guard: &CancelGuard) {
        self.doubt(&guard.place, guard.turn.replica());
    }

    /// Puts the request on the link in the peer's dialect.
    pub(super) async fn transmit(
        self: &Arc<Self>,
        guard: &CancelGuard,
        request: &Request,
    ) -> Result<Wire, (Failure, bool)> {
        let (place, peer, id) = (&guard.place, &guard.peer, guard.id);
        let (headers, body) = self.in_dialect(peer, request, id);
        match (&peer.connection, &guard.turn.replica().link) {
            (Some(connection), _) => connection.request(id, headers, &body).await.map(Wire::put),
            (None, Some(link)) => {
                let answer = link.post_for(request.on_behalf(), headers, body).await?;
                let Some(session) = &peer.session else { return Ok(Wire::http(answer)) };
                Ok(Wire::resumable(answer, || {
                    let mut headers = legacy::headers(session);
                    headers.extend(request.forwarded.iter().cloned());
                    Resume::new(link, headers, place.on_behalf(), Duration::ZERO)
                }))
            }
            (None, None) => Err((Failure::Exited, false)),
        }
    }
}

/// Whether a request changes nothing at its server. An answer to a question may be good for one time only.
pub(super) fn is_repeatable(request: &Request) -> bool {
    let is_answer = request.retry.state_at.is_some() || request.retry.answers_at.is_some();
    request.method.repeatable() && !is_answer
}

impl Place {
    /// Who gets one more request: whoever keeps the session, else the replica with the least to do. `None`: nobody may.
    pub(super) fn turn(&self, peer: &Peer, tried: &[Arc<Replica>]) -> Option<Turn> {
        let replica = match &self.transport {
            Transport::Http(replicas) if peer.session.is_none() && replicas.are_several() => {
                replicas.pick(tried)?
            }
            _ if peer.replica.breaker.is_closed() => Arc::clone(&peer.replica),
            _ => return None,
        };
        Some(Turn::new(replica))
    }

    /// The one replica, where there is no choice.
    pub(super) fn only(&self) -> Option<&Arc<Replica>> {
        match &self.transport {
            Transport::Http(replicas) => replicas.all().first().filter(|_| !replicas.are_several()),
            Transport::Stdio(_, child) => Some(child),
        }
    }

    /// Whether there is another replica to go to.
    pub(super) fn has_others(&self) -> bool {
        matches!(&self.transport, Transport::Http(replicas) if replicas.are_several())
    }

    /// Whether one may be used that was not tried.
    fn has_untried(&self, tried: &[Arc<Replica>]) -> bool {
        matches!(&self.transport, Transport::Http(replicas) if replicas.pick(tried).is_some())
    }
}
