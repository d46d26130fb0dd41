//! The end of something, for those who look at it at every step.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Resolves when a token fires. Asking the token at each of a task's steps would take two locks; once it knows whom to
/// wake, a look is enough.
#[derive(Debug)]
pub struct End {
    token: CancellationToken,
    wait: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whom the token wakes.
    told: Option<Waker>,
}

impl End {
    /// The end that `token` says.
    pub fn of(token: CancellationToken) -> Self {
        Self { wait: Box::pin(token.clone().cancelled_owned()), told: None, token }
    }
}

impl Future for End {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let told = self.told.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if told && !self.token.is_cancelled() {
            return Poll::Pending;
        }
        if !told {
            self.told = Some(cx.waker().clone());
        }
        self.wait.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use futures_util::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::End;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn whoever_asked_last_is_woken() {
        let token = CancellationToken::new();
        let mut end = pin!(End::of(token.clone()));
        let [first, second] = [Arc::<Counted>::default(), Arc::default()];
        for who in [&first, &first, &second, &second] {
            let waker = Waker::from(Arc::clone(who));
            assert!(end.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        }
        token.cancel();
        assert_eq!(first.0.load(Ordering::SeqCst), 0);
        assert_eq!(second.0.load(Ordering::SeqCst), 1);
        let waker = Waker::from(Arc::clone(&second));
        assert!(end.poll_unpin(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn what_is_over_is_over_at_the_first_look() {
        let token = CancellationToken::new();
        token.cancel();
        assert!(End::of(token).now_or_never().is_some());
    }
}
