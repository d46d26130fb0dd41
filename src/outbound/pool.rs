//! Several processes for one context: each call goes to the one with the fewest (design §7, `processes`).

use std::sync::Arc;

use super::context::Context;
use super::error::OutboundError;
use super::place::{Key, Place};
use super::server::Server;

/// A call at a place, for as long as this lives.
#[derive(Debug)]
pub(super) struct Load(Arc<Place>);

impl Load {
    /// One more call at a place that has `calls`; `None`: it has another number by now.
    fn one_more(place: &Arc<Place>, calls: usize) -> Option<Self> {
        place.enter(calls).then(|| Self(Arc::clone(place)))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Server {
    /// The place for one more call of a context: of its processes the one with the fewest calls. Those that may not
    /// be started just now, or that have as many calls as they may, come last. Processes beyond the first are started
    /// when all others are at work, and end when nobody has needed them for a while.
    pub(super) fn occupy(
        self: &Arc<Self>,
        key: &Key,
        context: Option<&Context>,
    ) -> Result<(Arc<Place>, Option<Load>), OutboundError> {
        if self.config.processes == 1 {
            return Ok((self.place(key, context)?, None));
        }
        loop {
            let rank = |lane| match self.known_place(&key.at(lane)) {
                Some(place) => {
                    let calls = place.calls();
                    (calls >= self.config.max_concurrency, place.is_held_back(), calls)
                }
                None => (false, false, 0),
            };
            let ranks: Vec<_> = (0..self.config.processes).map(|lane| (rank(lane), lane)).collect();
            let ((_, _, calls), lane) = ranks.into_iter().min().unwrap_or_default();
            let place = self.place(&key.at(lane), context)?;
            // Another call was quicker: then it may be another's turn.
            if let Some(load) = Load::one_more(&place, calls) {
                return Ok((place, Some(load)));
            }
        }
    }
}
