//! One listen per server, whatever the number of clients: opened at start, opened again with growing pauses,
//! resynchronised after every gap (S-22, S-23, S-31, design §5).

use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::shelf::Shelf;
use super::watch::Heard;
use crate::cluster::news::What;
use crate::outbound::{Agreed, Filter, Listen, NoListen, Notice};
use crate::protocol::method::Kind;

/// Shortest and longest pause before a stream is opened again (S-22).
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A stream that lived this long was no failure: the next pause is the shortest again.
const GOOD_LIFE: Duration = Duration::from_secs(60);
/// New subscriptions are collected this long before the server is asked (S-31).
const COLLECT: Duration = Duration::from_millis(50);
/// A stream that another one replaced is read on for this long: it may hold notices from before the other one
/// was acknowledged.
const OVERLAP: Duration = Duration::from_millis(500);

/// How long one caller's stream is kept open after its last listener.
const LINGER: Duration = Duration::from_secs(60);

/// What must be asked for again once it is known whether there is a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// Everything, for the first time.
    First,
    /// Everything: a stream ended, and nobody told of changes since.
    Gap,
    /// Nothing: there was no stream, what is known holds for as long as its hints say (L-25).
    Nothing,
}

/// Keeps the stream of one server open for as long as its shelf is in use.
pub(super) async fn keep(shelf: Weak<Shelf>) {
    let mut pause = FIRST_PAUSE;
    let mut behind = Behind::First;
    loop {
        let Some(own) = shelf.upgrade() else { return };
        let opened_at = Instant::now();
        let mut wished = own.watch.wishes.subscribe();
        let end = attend(&own, &mut behind).await;
        // Not held while waiting: a server that left the configuration is let go.
        drop(own);
        let wait = match end {
            End::NotOffered => {
                // Nothing to open: look again when somebody wants something, or after a while.
                let _ = timeout(LONGEST_PAUSE, wished.changed()).await;
                continue;
            }
            End::Unreachable(wait) => wait,
            End::Closed(retry) => {
                pause = if opened_at.elapsed() >= GOOD_LIFE { FIRST_PAUSE } else { pause };
                let wait = jittered(pause).max(retry.unwrap_or_default());
                pause = (pause * 2).min(LONGEST_PAUSE);
                wait
            }
        };
        sleep(wait).await;
    }
}

/// The same for what only one caller is shown: from its first listener until [`LINGER`] after its last (design §5).
pub(super) async fn keep_while_heard(shelf: Weak<Shelf>) {
    loop {
        let Some(mut heard) = shelf.upgrade().map(|own| own.watch.heard.subscribe()) else { return };
        tokio::select! {
            () = keep(Weak::clone(&shelf)) => return,
            () = unheard(&mut heard) => {}
        }
        // The stream is closed. If somebody came in this very moment, it is opened again.
        if shelf.upgrade().is_none_or(|own| own.watch.close()) {
            return;
        }
    }
}

/// Comes back when nobody has listened for a while.
async fn unheard(heard: &mut watch::Receiver<Heard>) {
    loop {
        if heard.wait_for(|heard| heard.listeners == 0).await.is_err() {
            return;
        }
        if timeout(LINGER, heard.wait_for(|heard| heard.listeners > 0)).await.is_err() {
            return;
        }
    }
}

enum End {
    /// The server has no stream, or none is needed.
    NotOffered,
    /// The server cannot be reached.
    Unreachable(Duration),
    /// The stream ended; its own wish for the pause.
    Closed(Option<Duration>),
}

/// One life of the stream.
async fn attend(shelf: &Arc<Shelf>, behind: &mut Behind) -> End {
    let server = &shelf.server;
    let context = shelf.context();
    if server.peer_for(context.as_deref()).await.is_err() {
        shelf.watch.publish(&[], &Agreed::default(), *shelf.watch.wishes.borrow());
        let wait = server.retry_in_for(context.as_deref());
        return End::Unreachable(wait.max(Duration::from_millis(100)));
    }
    let (filter, wishes) = shelf.watch.filter(shelf.known_peer());
    let opened = match filter == Filter::default() {
        true => Err(NoListen::NotOffered),
        false => server.listen(context.as_deref(), &filter).await,
    };
    match opened {
        Ok(listen) => {
            shelf.watch.publish(&filter.lists, &listen.agreed, wishes);
            // Whatever was asked for before the stream was open may have changed since.
            *behind = if *behind == Behind::Nothing { Behind::Gap } else { *behind };
            resync(shelf, behind);
            let retry = follow(shelf, listen, filter, wishes).await;
            *behind = Behind::Gap;
            // What is known may be old from now on; it stays in use until something newer is.
            shelf.watch.publish(&[], &Agreed::default(), *shelf.watch.wishes.borrow());
            End::Closed(retry)
        }
        Err(NoListen::NotOffered) => {
            shelf.watch.publish(&[], &Agreed::default(), wishes);
            resync(shelf, behind);
            End::NotOffered
        }
        Err(NoListen::Failed(error)) => {
            tracing::info!(server = %server.name, reason = %error.failure, "no stream of changes");
            shelf.watch.publish(&[], &Agreed::default(), wishes);
            resync(shelf, behind);
            End::Closed(None)
        }
    }
}

/// After a gap everything that is known is asked for again; the first time it is just the first walk.
fn resync(shelf: &Arc<Shelf>, behind: &mut Behind) {
    let was = std::mem::replace(behind, Behind::Nothing);
    if was == Behind::Nothing {
        return;
    }
    for kind in Kind::ALL {
        if was == Behind::Gap {
            shelf.invalidate(kind);
        }
        shelf.refetch(kind);
    }
    if was == Behind::Gap {
        // Old before anybody is told (L-24).
        shelf.forget_all_reads();
        shelf.watch.all_updated();
    }
}

/// Reads the stream until it ends, and changes it when wishes do; gives the server's wish for the pause.
async fn follow(
    shelf: &Arc<Shelf>,
    mut listen: Listen,
    mut filter: Filter,
    mut answered: u64,
) -> Option<Duration> {
    let mut wished = shelf.watch.wishes.subscribe();
    let mut replaced: Option<(Listen, Instant)> = None;
    loop {
        let behind = *wished.borrow_and_update() > answered;
        let changed = async {
            if !behind && wished.changed().await.is_err() {
                pending::<()>().await;
            }
            sleep(COLLECT).await;
        };
        let notice = tokio::select! {
            notice = listen.notice() => notice,
            notice = late(&mut replaced) => {
                notice.into_iter().for_each(|notice| heard(shelf, notice));
                continue;
            }
            () = changed => {
                let (wanted, wishes) = shelf.watch.filter(shelf.known_peer());
                if wanted.uris != filter.uris || wanted.tasks != filter.tasks {
                    match change(shelf, &mut listen, &wanted).await {
                        Ok(None) => {}
                        Ok(Some(old)) => replaced = Some((old, Instant::now() + OVERLAP)),
                        Err(retry) => return retry,
                    }
                    filter = wanted;
                }
                answered = wishes;
                shelf.watch.publish(&filter.lists, &listen.agreed, wishes);
                continue;
            }
        };
        match notice {
            Ok(notice) => heard(shelf, notice),
            Err(error) => {
                tracing::info!(server = %shelf.server.name, reason = %error.failure, "stream of changes ended");
                return listen.retry;
            }
        }
    }
}

/// The next notice of a stream that was replaced, until its time is over or it ends.
async fn late(replaced: &mut Option<(Listen, Instant)>) -> Option<Notice> {
    let Some((listen, until)) = replaced else { return pending().await };
    if let Ok(Ok(notice)) = timeout_at(*until, listen.notice()).await {
        return Some(notice);
    }
    *replaced = None;
    None
}

/// The stream with other resources: one by one where the dialect can, else a second stream that takes over once
/// it is acknowledged; the first one is given back, since it may still tell what came before (S-31).
async fn change(
    shelf: &Arc<Shelf>,
    listen: &mut Listen,
    wanted: &Filter,
) -> Result<Option<Listen>, Option<Duration>> {
    if !listen.subscribes_singly() {
        return match shelf.server.listen(shelf.context().as_deref(), wanted).await {
            Ok(next) => Ok(Some(std::mem::replace(listen, next))),
            Err(_) => Err(listen.retry),
        };
    }
    let gone: Vec<String> =
        listen.agreed.uris.iter().filter(|uri| !wanted.uris.contains(uri)).cloned().collect();
    let new: Vec<String> =
        wanted.uris.iter().filter(|uri| !listen.agreed.uris.contains(uri)).cloned().collect();
    for uri in gone {
        listen.subscribe(&uri, false).await;
        listen.agreed.uris.retain(|kept| *kept != uri);
    }
    for uri in new {
        if listen.subscribe(&uri, true).await {
            listen.agreed.uris.push(uri);
        }
    }
    Ok(None)
}

fn heard(shelf: &Arc<Shelf>, notice: Notice) {
    match notice {
        Notice::Changed(kind) => {
            shelf.count_change(kind);
            shelf.tell_replicas(|| What::list(kind));
            // Invalid before anybody is told, so that nobody who is told reads the old list (L-24).
            renew(shelf, kind);
        }
        Notice::Updated(uri) => {
            shelf.tell_replicas(|| What::Uri(uri.clone()));
            shelf.forget_reads(&uri);
            shelf.watch.updated(&uri);
        }
        Notice::Task(id, params) => shelf.watch.task(id, params),
    }
}

fn renew(shelf: &Arc<Shelf>, kind: Kind) {
    let kinds = if kind == Kind::Resources { vec![kind, Kind::Templates] } else { vec![kind] };
    for kind in kinds {
        shelf.invalidate(kind);
        shelf.refetch(kind);
    }
}

/// Another replica was told of a change that may not have come here yet: who is told there may ask here.
pub(super) fn told_elsewhere(shelf: &Arc<Shelf>, what: &What) {
    match what {
        What::Tools => renew(shelf, Kind::Tools),
        What::Prompts => renew(shelf, Kind::Prompts),
        What::Resources => renew(shelf, Kind::Resources),
        What::Uri(uri) => shelf.forget_reads(uri),
        What::Reads => shelf.forget_all_reads(),
    }
}

/// Between three quarters and five quarters of `pause`, so that many gateways do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [128u8];
    // Without entropy the pause is just not spread.
    let _ = rand::fill(&mut byte);
    pause.mul_f64(0.75 + f64::from(byte[0]) / 510.0)
}
