//! Calls that run in one session: whose a request is that the server sent outside of every call's own stream (R-31).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use crate::protocol::input::Input;
use crate::protocol::message::{Received, ReceivedKind};
use crate::protocol::meta::RELATED_TASK;
use crate::protocol::object::Object;

/// Messages from aside that may wait for one call.
const MOST: usize = 64;

/// The calls of one session that may be asked for input.
#[derive(Debug, Default)]
pub struct Running {
    // A std mutex: held for a look-up.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u64, Call>,
    /// Calls given up, which their server may go on with all the same.
    left: Vec<Left>,
}

#[derive(Debug)]
struct Call {
    /// Whose it is, where that is known.
    owner: Option<Arc<str>>,
    waker: Option<Waker>,
    aside: VecDeque<Received>,
}

#[derive(Debug)]
struct Left {
    owner: Option<Arc<str>>,
    until: Instant,
}

impl Running {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins. Before it is sent: its server may ask at once.
    pub(super) fn enter(&self, id: u64, owner: Option<Arc<str>>) {
        self.state().calls.insert(id, Call { owner, waker: None, aside: VecDeque::new() });
    }

    /// A call has ended; `until`: it was given up, and its server may ask for it as long as that.
    pub(super) fn leave(&self, id: u64, until: Option<Instant>) {
        let mut state = self.state();
        let call = state.calls.remove(&id);
        if let (Some(call), Some(until)) = (call, until) {
            let now = Instant::now();
            state.left.retain(|left| left.until > now);
            state.left.push(Left { owner: call.owner, until });
        }
    }

    /// A request that the server sent outside of every call's own stream: told to the only call it can be for. Else its
    /// id and method, to be answered by rule (R-35).
    pub(super) fn ask(&self, message: Received) -> Option<(Bytes, Box<str>)> {
        let message = if is_for_a_call(&message) { self.give(message).err()? } else { Box::new(message) };
        match message.kind {
            ReceivedKind::Request { id, method, .. } => Some((id, method)),
            _ => None,
        }
    }

    /// Hands a message to the only call it can be meant for; back if there is none or more than one. A call that was
    /// given up counts, unless it was of the same caller: nobody is asked what is another's (F-043).
    pub(super) fn give(&self, message: Received) -> Result<(), Box<Received>> {
        let mut state = self.state();
        let State { calls, left } = &mut *state;
        let mut all = calls.values_mut();
        let (Some(call), None) = (all.next(), all.next()) else { return Err(Box::new(message)) };
        let now = Instant::now();
        let other = |left: &Left| left.until > now && (left.owner.is_none() || left.owner != call.owner);
        if call.aside.len() >= MOST || left.iter().any(other) {
            return Err(Box::new(message));
        }
        call.aside.push_back(message);
        if let Some(waker) = call.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    /// The next message handed to this call.
    pub(super) fn poll(&self, id: u64, context: &Context<'_>) -> Poll<Received> {
        let mut state = self.state();
        let Some(call) = state.calls.get_mut(&id) else { return Poll::Pending };
        if let Some(message) = call.aside.pop_front() {
            return Poll::Ready(message);
        }
        if !call.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            call.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// Whether a request can be about a call of ours. We begin no tasks, so none that names one is (R-64).
fn is_for_a_call(message: &Received) -> bool {
    let ReceivedKind::Request { method, params, .. } = &message.kind else { return false };
    let text = message.text();
    let names_task = || {
        let params = Object::parse(text, (*params)?).ok()?;
        let meta = Object::parse(text, params.get(text, "_meta").ok()??).ok()?;
        meta.get(text, RELATED_TASK).ok()?
    };
    Input::parse(method).is_some() && names_task().is_none()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{MOST, Running};
    use crate::protocol::message::Received;

    fn message(id: u32) -> Received {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#);
        Received::parse(text.into()).unwrap()
    }

    fn owner(name: &str) -> Option<Arc<str>> {
        Some(name.into())
    }

    #[tokio::test]
    async fn r_31_only_the_only_call_is_given_it() {
        let running = Running::default();
        assert!(running.give(message(1)).is_err(), "nobody runs");
        running.enter(7, owner("a"));
        running.give(message(1)).unwrap();
        let got = poll_fn(|context| running.poll(7, context)).await;
        assert_eq!(got.text(), message(1).text());
        running.enter(8, owner("a"));
        assert!(running.give(message(2)).is_err(), "of one caller too");
        running.leave(7, None);
        running.give(message(3)).unwrap();
        assert_eq!(poll_fn(|context| running.poll(8, context)).await.text(), message(3).text());
    }

    #[tokio::test]
    async fn a_waiting_call_is_woken() {
        let running = Running::default();
        running.enter(1, None);
        // The first of two is polled first: it waits already when the message comes.
        let waiting = poll_fn(|context| running.poll(1, context));
        let (got, ()) = tokio::join!(waiting, async { running.give(message(5)).unwrap() });
        assert_eq!(got.text(), message(5).text());
    }

    #[tokio::test(start_paused = true)]
    async fn f_043_a_call_given_up_may_still_be_meant() {
        let running = Running::default();
        let until = Some(Instant::now() + Duration::from_secs(60));
        running.enter(1, owner("a"));
        running.leave(1, until);
        running.enter(2, owner("a"));
        running.give(message(1)).unwrap();
        running.leave(2, None);
        running.enter(3, owner("b"));
        assert!(running.give(message(2)).is_err(), "it may be for a");
        tokio::time::advance(Duration::from_secs(61)).await;
        running.give(message(3)).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_known_is_another() {
        let running = Running::default();
        running.enter(1, None);
        running.leave(1, Some(Instant::now() + Duration::from_secs(60)));
        running.enter(2, None);
        assert!(running.give(message(1)).is_err());
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let running = Running::default();
        running.enter(1, None);
        for n in 0..MOST {
            running.give(message(n as u32)).unwrap();
        }
        assert!(running.give(message(0)).is_err());
    }
}
